"""HTML: what a reader came for, with its structure; navigation and banners left out; exact and linear."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_app.documents.html import read_html
from sage_app.documents.reader import read_document
from sage_core.errors import InputError
from sage_core.text.headings import find_headings
from tests.app.documents.pages import PAGES, Page
from tests.fakes.growth import assert_linear


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_of_many_kinds_keep_their_content_and_nothing_else(page: Page) -> None:
    text = read_html(page.markup).text
    assert [part for part in page.keep if part not in text + "\n"] == []
    assert [part for part in page.drop if part in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_headings_stand_where_they_say(page: Page) -> None:
    read = read_html(page.markup)
    assert read.headings or page.name in ("fragment-without-a-body",)
    for heading in read.headings:
        assert read.text[heading.start : heading.end] == f"{'#' * min(heading.level, 6)} {heading.text}"
    # A segmenter that sees the text alone finds the same ones.
    assert [(h.start, h.text) for h in find_headings(read.text, "markdown")] == [
        (h.start, h.text) for h in read.headings
    ]


def test_html_reads_as_a_person_sees_it() -> None:
    text, title, headings, _ = read_html(
        """<!DOCTYPE html><html><head><title> The
        ferry </title><style>p {color: red}</style></head><body><nav>Menu</nav><h1>Sailings</h1>
        <p>One <b>bold</b>
           word.<br>Next line &amp; more</p><script>var x = "no";</script><p hidden>unseen</p><!-- note -->
        <ul><li>a<ol start=3><li>c<li>d</ol></li><li> b </li></ul><table><tr><th>from</th><th>to</th></tr><tr><td>1</td><td>a|b</td></tr></table>
        <blockquote><p>Come in.</p><p>Sit down.</p></blockquote>
        <pre>
def f():
    return "```"

f()
</pre>tail</body></html>"""
    )
    assert title == "The ferry"
    assert [h.text for h in headings] == ["Sailings"]
    assert text == (
        "# Sailings\n\nOne bold word.\nNext line & more\n\n- a\n  3. c\n  4. d\n- b\n\n| from | to |\n| --- | --- |\n| 1 | a\\|b |"
        '\n\n> Come in.\n>\n> Sit down.\n\n````\ndef f():\n    return "```"\n\nf()\n````\n\ntail'
    )


PROSE = "<h1>Harbor</h1><p>" + "The office opens at nine. " * 12
CASES = {
    "cells that span are in each of their rows": (
        "<table><tr><th>boat<th>day<th>fee</tr><tr><td rowspan=2>yacht<td>Mon<td>3</tr><tr><td>Tue<td>4</tr>"
        "<tr><td colspan=2>ferry<td>0</tr></table>",
        [
            "| boat | day | fee |\n| --- | --- | --- |\n| yacht | Mon | 3 |\n| yacht | Tue | 4 |\n| ferry |  | 0 |"
        ],
        [],
    ),
    "rows in the order of a page": (
        "<table><caption>Dues</caption><tfoot><tr><td>All<td>7</tfoot><tr><th>Boat<th>Fee<tr><td>a|b<td><p>3</p><p>net</p></table>",
        ["Dues\n| Boat | Fee |\n| --- | --- |\n| a\\|b | 3; net |\n| All | 7 |"],
        [],
    ),
    "short code in cells": (
        "<table><tr><th>Command<th>Use<tr><td><pre>tide</pre><td>shows it</table>",
        ["| tide | shows it |"],
        [],
    ),
    "pictures that are words": (
        "<p>Press <img alt='the red button'> twice.",
        ["Press the red button twice."],
        [],
    ),
    "a menu of dishes": (
        "<div class='menu'><p>Fish soup 5</p><p>Kale soup 4</p></div>"
        "<div class='menu'><a href=a>Home</a> <a href=b>Book</a></div>",
        ["Fish soup 5\n\nKale soup 4"],
        ["Book"],
    ),
    "a section whose id is its heading": (
        "<section id='pagination'><h2>Pagination</h2><p>The list has 80 berths</p></section>"
        "<section id='cookie-objects'><h2>Cookie objects</h2><p>A cookie is a biscuit.</p></section>",
        ["## Pagination\n\nThe list has 80 berths", "A cookie is a biscuit."],
        [],
    ),
    "furniture by name and look": (
        "<div id='pagination'><a href=1>Earlier</a> <a href=2>Later</a></div><p class='share'>Tell a friend</p>"
        "<div class='cookie'>We store crumbs in your browser for a year. <button>Accept</button></div>",
        [],
        ["Earlier", "Tell", "crumbs"],
    ),
    "links that are content": (
        "<hr><ul><li><a href=x>Home</a><li><a href=y>Rooms</a><li><a href=z>Imprint</a></ul><h2>Ports</h2>"
        "<div><p><a href=a>Tallinn</a>, <a href=b>Turku</a>, <a href=c>Visby</a></p></div>",
        ["## Ports\n\nTallinn, Turku, Visby"],
        ["Imprint"],
    ),
    "panels under the names of their tabs": (
        "<div role=tablist><button role=tab>Linux</button><button role=tab>Windows</button></div>"
        "<div role=tabpanel><p>Run it.</p></div><div role=tabpanel hidden><p>Start it.</p></div>",
        ["Linux\n\nRun it.\n\nWindows\n\nStart it."],
        [],
    ),
    "what a button opens": (
        "<button aria-controls=more>More</button><div id=more style='display: none'><p>It closes at five.</p></div>",
        ["It closes at five."],
        ["More"],
    ),
    "code whose lines are elements": (
        "<div class=fragment><div class=line>def f():</div><div class=line>    <b>return</b> 1</div></div>",
        ["```\ndef f():\n    return 1\n```"],
        [],
    ),
    "marks of lists": (
        "<ol type=a start=4><li value=7>Dogs<li>Fires</ol><p>x</p><ol type=I><li>One</ol>",
        ["g. Dogs\nh. Fires", "I. One"],
        [],
    ),
    "headings by role": ("<div role=heading aria-level=3>Fees</div><p>None.", ["### Fees"], []),
    "soft hyphens": ("<p>Harbour&shy;master", ["Harbourmaster"], []),
    "formulas": (
        "<p>Wait <span class=katex><math><mi>t</mi><annotation encoding='application/x-tex'>t^2</annotation></math>"
        "<span aria-hidden=true>tt</span></span> h and <math><mi>r</mi></math>.",
        ["Wait $t^2$ h and r."],
        [],
    ),
    "reading aids": ("<p><ruby>東京<rt>とうきょう</rt></ruby>駅", ["東京(とうきょう)駅"], []),
    "unknown elements": (
        "<p>It was <ix:nonfraction>4,215</ix:nonfraction> pounds.",
        ["It was 4,215 pounds."],
        [],
    ),
    "terms": ("<dl><dt id='http.cookies.value'>value<dd>What it holds.</dl>", ["value\nWhat it holds."], []),
    "code with blank lines": (
        "<pre><code>a ``` b\n\n\n\n  c</code></pre>",
        ["````\na ``` b\n\n\n\n  c\n````"],
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_page_with(name: str) -> None:
    body, kept, gone = CASES[name]
    text = read_html(f"<body>{PROSE}</p>{body}").text
    assert [part for part in kept if part not in text] == []
    assert [part for part in gone if part in text] == []


@pytest.mark.parametrize(
    "heading",
    [
        '<a class="toc-backref" href="#id1">Winter berths</a>',
        '<a class="toc-backref" href="#id1" role="doc-backlink">Winter berths</a><a class="headerlink" href="#w">¶</a>',
        '<a class="toc-backref" href="#id1"><span class="sectnum">2</span> Winter berths</a>',
        'Winter berths <span class="editsection">[edit]</span>',
        "<code>Winter berths</code>",
        "<button>Winter berths</button>",
    ],
)
def test_the_words_of_a_heading_are_no_furniture(heading: str) -> None:
    headings = read_html(f"{PROSE}<h2 class='toc-title'>{heading}</h2><p>A boat may stay.").headings
    assert [h.text.lstrip("2 ") for h in headings] == ["Harbor", "Winter berths"]


def test_powers_and_formulas_are_no_other_numbers() -> None:
    page = (
        "<p>10<sup>6</sup> litres of H<sub>2</sub>O, 4<sup>th</sup>: <script type='math/tex'>a^2</script></p>"
    )
    assert read_html(page).text == "10^6 litres of H2O, 4th: $a^2$"


def test_the_words_of_a_heading_are_no_markdown() -> None:
    [heading] = read_html("<h2>bind([port][, address])</h2><p>It binds.").headings
    assert heading.text == "bind([port][, address])"


def test_a_page_that_is_one_pre_is_a_text() -> None:
    assert (
        read_html("<html><body><pre>\nThe log.\n\nDay one.\n</pre></body></html>").text
        == "The log.\n\nDay one."
    )


def test_the_whole_page_can_be_had() -> None:
    assert read_html("<nav>Menu</nav><p>Text.</p>", whole=True).text == "Menu\n\nText."


def test_a_page_that_nests_too_deeply_says_so() -> None:
    assert read_html("<div>" * 1500 + "deep" + "</div>" * 1500).text == "deep"
    with pytest.raises(InputError, match="deep"):
        read_html("<div>" * 5000 + "deep" + "</div>" * 5000)


@pytest.mark.parametrize("markup", ["", " ", "<!-- only -->", "<![", "<?php ?>", "<html></html>"])
def test_a_page_without_text_is_empty(markup: str) -> None:
    assert read_html(markup).text == ""


@given(st.text(alphabet="<>/!-=\"'&;# abhp1lt[\n\x00é", max_size=200))
def test_any_text_is_some_html(markup: str) -> None:
    try:
        text, _, headings, _ = read_html(markup)
    except InputError:
        return
    text.encode()
    assert text == text.rstrip()
    for heading in headings:
        assert text[heading.start : heading.end].lstrip("#")[1:] == heading.text
    if not markup.isspace() and markup and not {"<", "&", "\x00"} & set(markup):
        assert text.split() == markup.split()  # nothing is lost where there is no markup


ATTACKS = [
    "<a/", "<a '", "<!--", "<![", "<a", "<p>", "&", "</a>", "<a b ", "<li>", "<td>", "<tr><td>", "<?",
    "\x00", "<br>", "<h1>x</h1>", "<p><code>`</code>", "<section></section>", "<ul><li>x</ul>",
    "<table><tr><td>x</table>", "<dt>a<dd>b", "<a href='#'>x</a>", "<p class='a b c d'>x",
    "<tr><td rowspan=100 colspan=100>x</tr>", "<header>x</header>", "<main>x</main>",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_markup_takes_linear_time(attack: str) -> None:
    def run(size: int) -> None:
        assert len(read_html("<table>" + (attack * size)[:size]).text) <= 10 * size

    assert_linear(run, size=4_000)


def test_a_page_declares_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(
        '<html><head><meta charset="windows-1251"></head><p>Паром уходит</p></html>'.encode("cp1251")
    )
    assert read_document(path).text == "Паром уходит"


def test_contact_lines_of_a_footer_are_kept_once() -> None:
    page = """<main><h1>The inn</h1><p>Write to desk@inn.example for a room with a view over the harbor.</p></main>
    <footer><nav><a href="/">Home</a> <a href="/c">Contact</a></nav><div class="footer-contact">Call us:<br>01632 960 123</div>
    <p>Open <b>Mon-Fri 9-17</b></p><p>desk@inn.example</p><address>4 Pier Road<br>Nordhafen</address>
    <p>Office: 12 Quay Street, Nord</p><p>Am Kai: Hafenstraße 5</p><p>Over 90 guests a year stay in the old house.</p>
    <p>© 2019-2024 The inn. All rights reserved. <a href="/p">Privacy</a></p><p hidden>+44 20 7946 0000</p></footer>"""
    text = read_html(page).text
    kept = ["Call us:", "01632 960 123", "Open Mon-Fri 9-17", "4 Pier Road", "Nordhafen"]
    kept += ["Office: 12 Quay Street, Nord", "Am Kai: Hafenstraße 5"]
    assert text.endswith("harbor.\n\n" + "\n\n".join(kept))
    assert text.count("desk@inn.example") == 1
    assert_linear(lambda size: read_html("<p>a</p>" + "<footer><p>01632 960 123</p>" * size * 60), size=3)
