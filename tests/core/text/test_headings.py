"""Headings of hostile documents: what opens a section, what only looks like it, and the path above any place."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.text.headings import MAX_HEADING_CHARS, find_headings, find_title, heading_path, heading_paths
from tests.fakes.growth import assert_linear

# name, markup, text, levels and texts of its headings
HOSTILE = json.loads((Path(__file__).parents[2] / "fixtures" / "headings.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("markup", "text", "expected"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE]
)
def test_headings_of_hostile_documents(markup, text, expected) -> None:
    headings = find_headings(text, markup)
    assert [[h.level, h.text] for h in headings] == expected


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
        ("No heading at all.", None),
        (
            "<!DOCTYPE html>\n<html><head><title>Dues &amp;\n boats</title></head><body><h1>A</h1>",
            "Dues & boats",
        ),
        ("<html><head></head><body>\n<h1>Dues</h1>\n<p>All pay.</p>\n</body></html>", None),
        ("The tag <title>is</title> no page.", None),
        (
            "SERVICE AGREEMENT\n\nbetween A and B\n\n1. Scope\n\nThe lamps.\n\n2. Fees\n\nFour.\n",
            "SERVICE AGREEMENT",
        ),
        (
            "LEASE FOR\nSHOP PREMISES\nbetween A and B\n\n1. Scope\n\nAll.\n\n2. Fees\n\nFour.\n",
            "LEASE FOR SHOP PREMISES",
        ),
        ("MIETVERTRAG ÜBER GERÄTE\r\n\r\nzwischen A und B\r\n", "MIETVERTRAG ÜBER GERÄTE"),
        ("ALL IS IN\nCAPITALS, EVEN\nTHIS LINE,\nAND THIS.\n", None),
        ("NATO met today.\n\nIt was short.\n", None),
        ("A;B;C\nD;E;F\n", None),
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
        for markup in ("auto", "rst", "plain"):
            find_headings((attack * size)[:size], markup)  # type: ignore[arg-type]

    assert_linear(run, size=4_000)


@given(st.text(alphabet="#=-~ \n\t`>|*_1.AaI<![](){}:+\\\r", max_size=200))
def test_any_text_gives_headings_that_are_exact(text: str) -> None:
    for markup in ("auto", "markdown", "rst", "plain"):
        end = 0
        for heading in find_headings(text, markup):  # type: ignore[arg-type]
            assert end <= heading.start < heading.end <= len(text)
            assert heading.level >= 1 and 0 < len(heading.text) <= MAX_HEADING_CHARS
            end = heading.end
