"""Pages and pictures: right, well formed, and inert whatever the documents hold."""

import io
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sage_app.rendering.html import (
    answer_report,
    boundaries_html,
    fragment,
    retrieval_report,
    rounds_html,
    score_curve_svg,
    write_page,
)
from sage_app.rendering.html.markup import tag
from sage_core import Segmenter, Span, Verdict, select
from sage_core.llm.prompting import NO_ANSWER
from sage_core.segmentation import Boundary
from sage_core.text.sanitize import terminal_safe
from tests.fakes.paper_figures import FIGURE_8
from tests.fakes.results_to_show import (
    HOSTILE,
    answer,
    failed_critic,
    hostile,
    marked,
    nothing_found,
    retrieval,
    usual,
)
from tests.fakes.scores import ANY_SCORE, on_scale

VOID = {"meta", "br", "hr"}
ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "section", "article", "figure",
    "div", "span", "p", "h1", "h2", "h3", "b", "dl", "dt", "dd", "ol", "li", "details", "summary", "table",
    "thead", "tbody", "tr", "th", "td", "mark", "svg", "desc", "rect", "line", "polyline", "path", "circle", "text",
}  # fmt: skip


class Reader(HTMLParser):
    """Tags, attributes and text of a page; fails where a tag is not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[name] += 1
        self.attributes += attrs
        if name not in VOID:
            self._open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self._open.pop() == name

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.text.append(data)

    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def svg_of(markup: str) -> ElementTree.Element:
    return ElementTree.fromstring(markup)


def named(svg: ElementTree.Element, name: str, kind: str) -> list[ElementTree.Element]:
    found = svg.iter(f"{{http://www.w3.org/2000/svg}}{name}")
    return [e for e in found if kind in (e.get("class") or "").split()]


# -- text from outside ------------------------------------------------------------------------------------


def test_hostile_texts_change_no_tag_and_are_shown():
    page = answer_report(hostile())
    benign = Reader(answer_report(hostile(["benign text"] * len(HOSTILE))))
    read = Reader(page)
    # An answer is parted at its statements: as many spans and links as it has of them.
    parts = {"span", "a", "mark"}
    assert {k: n for k, n in read.tags.items() if k not in parts} == {
        k: n for k, n in benign.tags.items() if k not in parts
    }
    assert set(read.tags) <= ALLOWED | {"a"}
    assert not any(name.startswith("on") or name in ("src", "srcdoc") for name, _ in read.attributes)
    for name, value in read.attributes:
        assert name != "href" or re.fullmatch(r"#sage-[0-9a-f]{10}-\d+", value or "")
    for text in HOSTILE:
        assert " ".join(terminal_safe(text).split()) in read.words()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", page)


@given(st.text(st.characters(codec=None), max_size=80))
def test_any_text_survives_and_stays_text(text: str):
    read = Reader(tag("p", tag("b", text), title=text))
    assert dict(read.tags) == {"p": 1, "b": 1}
    assert "".join(read.text) == terminal_safe(text)
    assert read.attributes == [("title", terminal_safe(text))]


def test_a_page_asks_for_nothing_and_runs_nothing():
    page = usual().to_html()
    assert "default-src 'none'" in Reader(page).attributes[1][1] or "default-src 'none'" in str(
        Reader(page).attributes
    )
    without_names = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|url\(|@import|<script|src=|href=\"(?!#sage-)", without_names)


def test_statements_link_their_passage_or_say_that_there_is_none():
    page = marked().to_html()
    (link,) = re.findall(r'<a href="#([^"]+)" class="cite" title="“The ferry leaves at seven.”">', page)
    assert re.search(rf'<article class="panel passage" id="{link}"><header><b>1</b>', page)
    assert page.count(f'id="{link}"') == 1
    words = Reader(page).words()
    assert "Tickets cost nine crowns on Sundays. [not in the passages]" in words
    assert "1 of 3 statements supported by the passages, " in words
    source, _, rest = page.partition('<details class="fold">')
    assert "<mark>The ferry leaves at seven.</mark>" in source and "<svg" not in source
    assert "1 other passage sent" in rest and "Where the scores were cut" in rest


def test_bold_of_an_answer_is_bold_and_nothing_else_of_it_is_markup():
    said = "The ferry leaves at **seven <b>sharp</b>**, 2 ** 3 and **."
    page = answer(retrieval([0.9], ["The ferry leaves at seven."]), [said], [Verdict(9)]).to_html()
    assert "<strong>seven &lt;b&gt;sharp&lt;/b&gt;</strong>" in page
    assert page.count("<strong>") == 1 and "2 ** 3 and **." in page


def test_what_claims_nothing_has_no_grade():
    for said in (NO_ANSWER, "Closest to an answer:\n\n1. **The ferry leaves.**"):
        verdict = Verdict(2.3, source="local judge", probability=0.32, reason="P = 0.32")
        result = answer(retrieval([0.9], ["The ferry leaves."]), [said], [verdict])
        out = io.StringIO()
        Console(file=out, width=200, color_system=None).print(result)
        for shown in (result.to_html(), fragment(result), out.getvalue()):
            assert "context" in shown or "Details" in shown
            assert not re.search('likely right|grade  +|class="badge (dim|bad)', shown)


# -- what is on the page ----------------------------------------------------------------------------------


def test_an_answer_shows_its_whole_story():
    result = usual()
    words = Reader(answer_report(result)).words()
    for expected in (
        "When does the ferry leave?",
        result.text,
        "grade 9 of 10",
        "some-model",
        "complete",
        f"of {len(result.retrieval.candidates)}",
        result.feedback.selection.reason,
        "file-1.md:p. 3",
        "file-0.md:0",
        "the return trip is missing",
        "asked for more",
        "accepted",
        f"{result.feedback.usage.prompt:,}",
        "hybrid(test)",
        "sage-rag",
    ):
        assert expected in words, expected
    assert result.feedback.best_round == 3 and len(result.feedback.rounds) == 3


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (lambda: failed_critic().to_html(), "At seven.|the critic timed out|critic_failed|not graded"),
        (
            lambda: answer(retrieval([0.9, 0.2]), ["Yes."], [Verdict(None, raw="Grade: fine!")]).to_html(),
            "could not be read|Grade: fine!",
        ),
        (lambda: nothing_found().to_html(), "Nothing was found|no candidates|(no answer)"),
        (
            lambda: retrieval_report(retrieval([0.9, 0.5, 0.1]), error="<b>no server</b>"),
            "No answer: <b>no server</b>|Passage 1 about ferries",
        ),
    ],
)
def test_what_failed_is_told_beside_what_there_is(page, told):
    words = Reader(page()).words()
    assert [part for part in told.split("|") if part not in words] == []


def test_rounds_tell_the_tokens_of_their_contexts():
    result = usual()
    sizes = [c.tokens for c in result.retrieval.candidates]
    words = Reader(rounds_html(result.feedback, sizes=sizes)).words()
    for round_ in result.feedback.rounds:
        assert f"{sum(sizes[i] for i in round_.selection.indices)} tokens of context" in words


@pytest.mark.parametrize(
    "make",
    [
        usual,
        lambda: usual().retrieval,
        lambda: usual().feedback,
        lambda: Segmenter().explain("A cat sat. It slept. Trains run on rails. They are heavy."),
        lambda: Segmenter().explain(""),
    ],
)
def test_every_result_shows_itself(make, capsys):
    import rich

    result = make()
    Reader(result._repr_html_())
    read = Reader(result.to_html())
    assert read.tags["title"] >= 1 and read.tags["main"] == 1
    rich.print(result)
    assert capsys.readouterr().out.strip()


@pytest.mark.slow
def test_a_notebook_is_not_flooded():
    long = Segmenter().explain("A cat sat on the mat. " * 8000)
    assert len(long._repr_html_()) < 0.4 * len(long.to_html())
    assert "more chunks" in long._repr_html_()


def test_the_page_styles_nothing_outside_itself():
    from sage_app.rendering.html.style import piece_css

    rules = re.sub(r"@media[^{]*\{", "", piece_css())
    for selectors in re.findall(r"([^{}]+)\{", rules):
        assert all(s.strip().startswith(".sage") for s in selectors.split(",")), selectors


# -- the score curve --------------------------------------------------------------------------------------


def test_figure_8_is_cut_after_the_ninth():
    chosen = select(FIGURE_8, scale="unbounded", rule="gradient", min_k=3)
    svg = svg_of(score_curve_svg(FIGURE_8, chosen, scale="unbounded"))
    kept, dots = named(svg, "circle", "kept"), named(svg, "circle", "dot")
    assert (len(kept), len(dots)) == (9, 15)
    cut = float(named(svg, "line", "rule")[0].get("x1"))
    xs = [float(dot.get("cx")) for dot in dots]
    assert xs[8] < cut < xs[9]
    heights = [float(dot.get("cy")) for dot in dots]
    assert heights == sorted(heights)
    assert chosen.reason in " ".join(svg.itertext())


def test_the_order_of_the_scores_does_not_matter_to_what_is_kept():
    scores = [0.1, 0.9, None, 0.8, float("nan")]
    chosen = select(scores, rule="gradient", min_k=1)
    svg = svg_of(score_curve_svg(scores, chosen))
    titles = [dot[0].text for dot in named(svg, "circle", "dot")]
    assert titles[:2] == ["rank 1: 0.900, kept", "rank 2: 0.800, 0.89 of the one before, kept"]
    assert titles[3:] == ["rank 4: none, dropped", "rank 5: none, dropped"]


@given(st.lists(ANY_SCORE, max_size=30), st.sampled_from(["probability", "logit", "cosine", "unbounded"]))
def test_any_scores_give_a_picture_within_its_frame(scores, scale):
    scores = on_scale(scores, scale)
    chosen = select(scores, scale=scale, min_k=2)
    svg = svg_of(score_curve_svg(scores, chosen, scale=scale))
    _, _, right, bottom = map(float, svg.get("viewBox").split())
    for dot in named(svg, "circle", "dot"):
        assert 0 <= float(dot.get("cx")) <= right and 0 <= float(dot.get("cy")) <= bottom
    assert len(named(svg, "circle", "kept")) == chosen.cut
    assert "nan" not in ElementTree.tostring(svg, encoding="unicode").replace("none", "")


# -- boundaries -------------------------------------------------------------------------------------------


def test_boundaries_stand_where_they_were_judged():
    text = "One. Two. Three. Four."
    judged = [Boundary(5, 0.91), Boundary(10, 0.12), Boundary(17, 0.4)]
    spans = [Span(0, 9), Span(10, 22)]
    html = boundaries_html(text, judged, spans, tokens=[2, 2], threshold=0.5)
    words = Reader(html).words()
    assert "One. 0.91 Two. cut at P(same) 0.12 chunk 2 characters 10–22 2 tokens Three. 0.40 Four." in words
    assert html.count('class="join weak"') == 1 and html.count('class="snip"') == 1


def test_a_cut_within_a_sentence_is_told():
    assert "within a sentence" in boundaries_html("abcdef", [], [Span(0, 3), Span(3, 6)])


# -- files ------------------------------------------------------------------------------------------------


def test_a_page_is_written_and_replaced(tmp_path: Path):
    path = tmp_path / "report.html"
    assert usual().save_html(path) == path
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    write_page(path, "new \u2029 �")
    assert path.read_text(encoding="utf-8") == "new \u2029 �"


def test_many_passages_are_folded():
    read = Reader(usual().to_html())
    found = usual().feedback.selection.cut
    assert found > 12 and f"{found - 1} other passages sent" in read.words()
    assert read.tags["article"] == found
