"""Headings of hostile documents: what opens a section, what only looks like it, and the path above any place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.text.headings import (
    MAX_HEADING_CHARS,
    find_headings,
    find_title,
    heading_path,
    heading_paths,
)
from tests.fakes.growth import assert_linear

PROSE = (
    "The pilot boat goes out at six in the morning and comes back before the tide turns. Two men row it, and "
    "a third keeps the lamp."
)
LONG = " ".join(f"word{i}" for i in range(500))

# name, markup, text, levels and texts of its headings
HOSTILE: list[tuple[str, str, str, list[tuple[int, str]]]] = [
    ("nothing", "auto", "", []),
    ("prose without a heading", "auto", f"{PROSE}\n\n{PROSE}\n", []),
    (
        "comments in fenced code",
        "markdown",
        f"# Boats\n\n```sh\n# install\n## twice\n```\n\n{PROSE}\n\n## Oars\n",
        [(1, "Boats"), (2, "Oars")],
    ),
    (
        "a longer fence holds a shorter one",
        "markdown",
        "# A\n\n````md\n```\n# no\n```\n# no\n````\n\n~~~\n```\n# no\n~~~\n\n# B\n",
        [(1, "A"), (1, "B")],
    ),
    (
        "a fence that is never closed runs to the end",
        "markdown",
        f"# A\n\n```python\n# no\n\n{PROSE}\n\n# no\n",
        [(1, "A")],
    ),
    (
        "a fence in a list ends with the list item",
        "markdown",
        "# A\n\n- step\n\n  ```sh\n  # no\n\nText.\n\n# B\n",
        [(1, "A"), (1, "B")],
    ),
    (
        "backticks in a line are no fence",
        "markdown",
        "# A\n\n``` x ``` is code.\n\n# B\n",
        [(1, "A"), (1, "B")],
    ),
    ("indented code", "markdown", "# A\n\n    # no\n\n\t# no\n\n   # B\n", [(1, "A"), (1, "B")]),
    (
        "setext in two lines",
        "markdown",
        f"The harbour\nof Skerrin\n=====\n\n{PROSE}\n\nDues\n-\n\n{PROSE}\n",
        [(1, "The harbour of Skerrin"), (2, "Dues")],
    ),
    (
        "a rule under a paragraph, a list or a table is no underline",
        "markdown",
        f"# A\n\n{PROSE}\n{PROSE}\n---\n\n- item\n---\n\n> quoted\n---\n\n| a |\n---\n\n***\n---\n",
        [(1, "A")],
    ),
    (
        "an underline after lazy lines of a list",
        "markdown",
        "# A\n\n- item\nstill the item\n---\n\nText.\n",
        [(1, "A")],
    ),
    ("skipped levels", "markdown", "# A\n\n#### D\n\n## B\n", [(1, "A"), (4, "D"), (2, "B")]),
    (
        "duplicate headings",
        "markdown",
        "# Dues\n\n## Dues\n\n# Dues\n\n## Dues\n",
        [(1, "Dues"), (2, "Dues"), (1, "Dues"), (2, "Dues")],
    ),
    (
        "closing marks, escapes and the language C#",
        "markdown",
        "# A #\n\n## B ##   \n\n### C#\n\n#### \\#D \\#\n\n# #\n\n##\n\n#hashtag\n\n####### seven\n",
        [(1, "A"), (2, "B"), (3, "C#"), (4, "#D #")],
    ),
    (
        "headings within lists and quotations",
        "markdown",
        "# A\n\n- # no\n\n  ## no\n\n1. one\n\n   # no\n\n> # no\n> text\n\n# B\n",
        [(1, "A"), (1, "B")],
    ),
    (
        "headings within tables",
        "markdown",
        "# A\n\n| # | name |\n|---|------|\n| ## | b |\n\n# | Name\n--|-----\n1 | Ann\n\n# B\n",
        [(1, "A"), (1, "B")],
    ),
    (
        "yaml front matter",
        "markdown",
        "---\ntitle: Harbour rules\n# a comment\ntags: a\n---\n\n# Dues\n\nText.\n\n---\n\n# End\n",
        [(1, "Dues"), (1, "End")],
    ),
    ("toml front matter", "markdown", '+++\ntitle = "Rules"\n# no\n+++\n# Dues\n', [(1, "Dues")]),
    (
        "two rules are no front matter",
        "markdown",
        f"---\n\n{PROSE}\n\n# Dues\n\n---\n\n# End\n",
        [(1, "Dues"), (1, "End")],
    ),
    (
        "comments and raw blocks of html",
        "markdown",
        "<!--\n# no\n-->\n\n<pre>\n# no\n</pre>\n\n<!-- one line -->\n# A\n\n<script>\n# no\n\n# no\n</script>\n",
        [(1, "A")],
    ),
    (
        "html headings in a readme",
        "markdown",
        '<h1 align="center">The <b>Ferry</b></h1>\n\n## Use\n',
        [(1, "The Ferry"), (2, "Use")],
    ),
    (
        "emphasis, code, links and attributes",
        "markdown",
        "# The **bold** `code` [ferry](a.md) {#id}\n\n## ![logo](x.png) snake_case_name *now*\n",
        [(1, "The bold code ferry"), (2, "logo snake_case_name now")],
    ),
    ("a heading of 500 words", "markdown", f"# A\n\n## {LONG}\n\nText.\n\n## B\n", [(1, "A"), (2, "B")]),
    ("a plain line of 500 words", "auto", f"{LONG}\n\n{PROSE}\n", []),
    (
        "carriage returns and a byte order mark",
        "auto",
        "\ufeff# A\r\n\r\nText.\r\n\r\nB\r\n---\r\n\r\nText.\r\n",
        [(1, "A"), (2, "B")],
    ),
    ("comments of a script", "auto", "#!/bin/sh\n# install\n\n# run\nmake\n", []),
    (
        "comments between the lines of a settings file",
        "auto",
        "port = 1\n# the host\nhost = a\n# the path\npath = b\n",
        [],
    ),
    (
        "restructured text with overlines and its own order of marks",
        "auto",
        "=====\nGuide\n=====\n\n.. note::\n\n   Text\n   ----\n\nFirst\n~~~~~\n\nText.\n\nBelow\n=====\n\nText::\n\n"
        "    code\n    ~~~~\n\nSecond\n~~~~~~\n\n:doc:`Third <third>`\n~~~~~~~~~~~~~~~~~~~~\n\nText.\n",
        [(1, "Guide"), (2, "First"), (3, "Below"), (2, "Second"), (2, "Third")],
    ),
    (
        "tables and transitions of restructured text",
        "rst",
        "Guide\n=====\n\n====  ====\na     b\n====  ====\n1     2\n====  ====\n\n+---+\n| a |\n+---+\n\n----\n\nText.\n",
        [(1, "Guide")],
    ),
    (
        "asciidoc with listings",
        "auto",
        "= Guide\n:toc:\n\n== First\n\n----\n== no\n----\n\n====\n== no\n====\n\n////\n== no\n////\n\n=== Below ===\n\n"
        "Text.\n",
        [(1, "Guide"), (2, "First"), (3, "Below")],
    ),
    (
        "mediawiki",
        "auto",
        f"{PROSE}\n\n==Boats==\n{PROSE}\n\n===Oars===\n{PROSE}\n",
        [(2, "Boats"), (3, "Oars")],
    ),
    (
        "numbered headings in text from a pdf, without blank lines",
        "plain",
        f"1. Berths\n{PROSE}\n2. Pilots\n2.1 Scope\n{PROSE}\n2.2 Fees\n{PROSE}\n3. Dues\n{PROSE}\n",
        [(1, "1. Berths"), (1, "2. Pilots"), (2, "2.1 Scope"), (2, "2.2 Fees"), (1, "3. Dues")],
    ),
    (
        "numbered lists are no headings",
        "auto",
        f"{PROSE}\n\n1. Open the valve\n2. Fill the tank\n3. Close the valve\n\n{PROSE}\n\n"
        f"1. Take the oars\n\n2. Row\n\n3. Rest\n\n{PROSE}\n",
        [],
    ),
    (
        "a table of contents",
        "plain",
        f"Contents\n\n1. Berths ........ 2\n2. Dues ........ 7\n3. Pilots . . . . . 9\n\n1. Berths\n\n{PROSE}\n\n"
        f"2. Dues\n\n{PROSE}\n",
        [(1, "Contents"), (2, "1. Berths"), (2, "2. Dues")],
    ),
    (
        "numbers, dates and wrapped lines that begin with one",
        "plain",
        f"{PROSE}\n\nThe mast is\n3.5 Metres of it are spare.\n\n12 August 1987\n\n{PROSE}\n\nSee Section\n3 of the rules, "
        f"which says more.\n\nSection 4 describes the lamps.\n\n{PROSE}\n",
        [],
    ),
    (
        "chapters and their titles",
        "auto",
        f"THE LOG\n\nPART ONE\n\nCHAPTER I.\n\nThe Storm\n\n{PROSE}\n\nCHAPTER II\n\n{PROSE}\n\nPart Two\n\nChapter 3: Calm\n\n"
        f"{PROSE}\n",
        [
            (1, "THE LOG"),
            (2, "PART ONE"),
            (3, "CHAPTER I. The Storm"),
            (3, "CHAPTER II"),
            (2, "Part Two"),
            (3, "Chapter 3: Calm"),
        ],
    ),
    (
        "roman numbers above letters above numbers",
        "plain",
        f"I. DUES\n\nA. Boats\n\n1. Small boats\n\n{PROSE}\n\n2. Large boats\n\n{PROSE}\n\nB. Ships\n\n{PROSE}\n\n"
        f"II. PILOTS\n\n{PROSE}\n",
        [
            (1, "I. DUES"),
            (2, "A. Boats"),
            (3, "1. Small boats"),
            (3, "2. Large boats"),
            (2, "B. Ships"),
            (1, "II. PILOTS"),
        ],
    ),
    (
        "poems, addresses and short paragraphs",
        "auto",
        f"{PROSE}\n\nThe wind is up\n\nThe sail is down\n\nAnn Marsh\n12 Quay Road\nSkerrin\n\nYes.\n\nNo?\n\n{PROSE}\n",
        [],
    ),
    (
        "short lines above prose in text without blank lines",
        "auto",
        f"Introduction\n{PROSE} {PROSE}\nRelated work\n{PROSE} {PROSE}\n",
        [(1, "Introduction"), (1, "Related work")],
    ),
    (
        "chinese",
        "auto",
        "# 港口\n\n船在早上六点开。\n\n## 费用\n\n每艘船每天付费。\n",
        [(1, "港口"), (2, "费用")],
    ),
]


@pytest.mark.parametrize(
    ("markup", "text", "expected"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE]
)
def test_headings_of_hostile_documents(markup, text, expected) -> None:
    headings = find_headings(text, markup)
    assert [(h.level, h.text) for h in headings] == expected


@pytest.mark.parametrize("text", [row[2] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
@pytest.mark.parametrize("markup", ["auto", "markdown", "rst", "asciidoc", "plain"])
def test_spans_are_exact_ordered_and_disjoint(markup, text) -> None:
    end = 0
    for heading in find_headings(text, markup):
        assert end <= heading.start < heading.end
        end = heading.end
        stands = text[heading.start : heading.end]
        assert stands == stands.strip()
        for word in heading.text.split():
            assert word.strip("#\\") in stands.replace("\\", "")


def test_the_span_takes_the_marks_in() -> None:
    text = "## Dues ##\n\nText.\n\n=====\nGuide\n=====\n\nText.\n"
    (first,) = find_headings(text, "markdown")[:1]
    assert text[first.start : first.end] == "## Dues ##"
    (guide,) = find_headings(text, "rst")
    assert text[guide.start : guide.end] == "=====\nGuide\n====="


def test_an_unknown_markup_is_refused() -> None:
    with pytest.raises(InputError, match="markup"):
        find_headings("# A", "latex")  # type: ignore[arg-type]


# --- Paths ---------------------------------------------------------------------------------------------------

GUIDE = "Before.\n\n# Harbour\n\nIntro.\n\n## Dues\n\nBoats pay.\n\n#### Small boats\n\nLess.\n\n## Pilots\n\nThey row.\n"


def path_at(text: str, words: str) -> tuple[str, ...]:
    return heading_path(find_headings(text, "markdown"), text.index(words))


def test_the_path_above_a_place_is_outermost_first() -> None:
    assert path_at(GUIDE, "Before") == ()
    assert path_at(GUIDE, "Intro") == ("Harbour",)
    assert path_at(GUIDE, "Less") == ("Harbour", "Dues", "Small boats")
    assert path_at(GUIDE, "They row") == ("Harbour", "Pilots")
    assert path_at("#### Deep\n\nA.\n\n## Less deep\n\nB.\n\n# Top\n\nC.\n", "B.") == ("Less deep",)


def test_a_chunk_that_begins_with_headings_stands_below_them() -> None:
    headings = find_headings(GUIDE, "markdown")
    spans = [
        (GUIDE.index(start), GUIDE.index(stop) + len(stop))
        for start, stop in [
            ("Before.", "Before."),
            ("# Harbour", "Intro."),
            ("Intro.", "Boats pay."),  # headings further inside do not count
            ("## Dues", "Boats pay."),
            ("#### Small", "Less."),
            ("## Pilots", "## Pilots"),
            ("They", "row."),
        ]
    ]
    assert heading_paths(GUIDE, headings, spans) == [
        (),
        ("Harbour",),
        ("Harbour",),
        ("Harbour", "Dues"),
        ("Harbour", "Dues", "Small boats"),
        ("Harbour", "Pilots"),
        ("Harbour", "Pilots"),
    ]
    assert heading_paths(GUIDE, headings, spans, own=False)[1] == ()
    assert heading_paths(GUIDE, headings, spans, own=False)[4:] == [
        ("Harbour", "Dues"),
        ("Harbour",),  # not below the section that ends before it
        ("Harbour", "Pilots"),
    ]
    backwards = heading_paths(GUIDE, headings, spans[::-1])
    assert backwards[::-1] == heading_paths(GUIDE, headings, spans)
    both = GUIDE[: GUIDE.index("#### Small")] + "### Fees\n\n" + GUIDE[GUIDE.index("#### Small") :]
    start = both.index("### Fees")
    assert heading_paths(both, find_headings(both, "markdown"), [(start, len(both))]) == [
        ("Harbour", "Dues", "Fees", "Small boats")
    ]


@given(st.lists(st.sampled_from(["# A", "## B", "### C", "Text here.", "", "```"]), max_size=30))
def test_paths_of_spans_agree_with_paths_of_offsets(lines: list[str]) -> None:
    text = "\n".join(lines)
    headings = find_headings(text, "markdown")
    starts = [i for i in range(len(text)) if not text[i].isspace()]
    inside = {i for h in headings for i in range(h.start, h.end)}
    plain = [i for i in starts if i not in inside]
    assert heading_paths(text, headings, [(i, i + 1) for i in plain]) == [
        heading_path(headings, i) for i in plain
    ]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# Harbour\n\nText.\n\n## Dues\n", "Harbour"),
        ("# Harbour\n\nText.\n\n# Dues\n", None),
        ("Text.\n\n# Harbour\n", None),
        ("---\ntitle: 'The *harbour*'\n---\n# A\n\n# B\n", "The harbour"),
        ("---\nauthor: me\n---\n# A\n\n## B\n", "A"),
        ("= Guide\n\n== First\n\nText.\n", "Guide"),
        ("No heading at all.", None),
        (
            "<!DOCTYPE html>\n<html><head><title>Dues &amp;\n boats</title></head><body><h1>A</h1>",
            "Dues & boats",
        ),
        ("<html><head></head><body>\n<h1>Dues</h1>\n<p>All pay.</p>\n</body></html>", None),
        ("The tag <title>is</title> no page.", None),
    ],
)
def test_the_title_a_text_gives_itself(text, title) -> None:
    assert find_title(text, find_headings(text)) == title


# --- Cost ----------------------------------------------------------------------------------------------------

ATTACKS = [
    "# ", "#" * 7, "[", "[](", "*", "`", "<html><title", "<!doctype html", "~~~\n", "-", "- ", "- - ", " ",
    "\t", "> ", "=", "= =", "= a ", "== \n", "a\n=\n", "a\n---\n", "\n", "|-", "# |\n-|-\n", "<!--",
    "<h1>", "1.", "1. A\n", "1.1 A\n\n", "I. A\n\n", "Chapter ", "Chapter 1\n\n", "A\n\n", "---\n",
    "+++\na: b\n", ".. a::\n", "\\", "{#", ". . . ", ":a:",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_text_takes_linear_time(attack) -> None:
    def run(size: int) -> None:
        for markup in ("auto", "rst", "asciidoc", "plain"):
            find_headings((attack * size)[:size], markup)  # type: ignore[arg-type]

    assert_linear(run, size=10_000)


@given(st.text(alphabet="#=-~ \n\t`>|*_1.AaI<![](){}:+\\\r", max_size=200))
def test_any_text_gives_headings_that_are_exact(text: str) -> None:
    for markup in ("auto", "markdown", "rst", "asciidoc", "plain"):
        end = 0
        for heading in find_headings(text, markup):  # type: ignore[arg-type]
            assert end <= heading.start < heading.end <= len(text)
            assert heading.level >= 1 and 0 < len(heading.text) <= MAX_HEADING_CHARS
            end = heading.end
