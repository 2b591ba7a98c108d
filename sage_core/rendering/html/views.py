"""Which picture shows which result: as a piece for a notebook, and as a whole page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import singledispatch

from sage_core.feedback.types import FeedbackResult
from sage_core.pipeline.results import Answer, Retrieval
from sage_core.rendering.html.charts import boundary_curve_svg
from sage_core.rendering.html.markup import Markup, foreign, join, tag
from sage_core.rendering.html.page import made_now, page, piece, section, settings_html, tile, tiles
from sage_core.rendering.html.report import (
    answer_head,
    answer_parts,
    answer_report,
    candidates_html,
    curve_html,
    grade_badge,
    passages_html,
    retrieval_parts,
    retrieval_report,
    rounds_html,
    usage_html,
)
from sage_core.rendering.rows import plain_rows
from sage_core.segmentation.view import REASONS, Boundary, BoundaryReason, SegmentationView
from sage_core.selection.cut import Selection
from sage_core.selection.view import SelectionView
from sage_core.text.spans import Span

# A notebook keeps what it shows, in its file and in the browser.
NOTEBOOK_CHUNKS = 100
NOTEBOOK_ROWS = 50
_COLOURS = 4


@singledispatch
def fragment(result: object) -> str:
    """A result for a notebook: self-contained markup with its style.

    Raises:
        TypeError: For what has no picture.
    """
    raise TypeError(f"no picture of a {type(result).__name__}")


@singledispatch
def page_of(result: object) -> str:
    """A result as a whole page.

    Raises:
        TypeError: For what has no picture.
    """
    raise TypeError(f"no picture of a {type(result).__name__}")


@fragment.register
def _answer(result: Answer) -> str:
    return piece(*answer_head(result), *answer_parts(result, most=NOTEBOOK_ROWS))


@fragment.register
def _retrieval(result: Retrieval) -> str:
    head = tag("header", foreign(result.question, "h1"))
    return piece(head, *retrieval_parts(result, result.selection, most=NOTEBOOK_ROWS))


@fragment.register
def _selection(result: Selection) -> str:
    return piece(*_kept(result))


@page_of.register
def _selection_page(result: Selection) -> str:
    return page("A selection – sage-rag", *_kept(result))


@fragment.register
def _view(result: SelectionView) -> str:
    return piece(*_ranking(result, NOTEBOOK_ROWS))


@page_of.register
def _view_page(result: SelectionView) -> str:
    heading = tag("header", tag("p", "sage-rag", class_="eyebrow"), tag("h1", "A ranking and its cut"))
    return page("A ranking and its cut – sage-rag", heading, *_ranking(result, None))


@fragment.register
def _feedback(result: FeedbackResult) -> str:
    return piece(*_loop(result))


@page_of.register
def _feedback_page(result: FeedbackResult) -> str:
    return page("Rounds of answer and grade – sage-rag", *_loop(result))


@fragment.register
def _segmentation(result: SegmentationView) -> str:
    return piece(*_segments(result, NOTEBOOK_CHUNKS))


def segmentation_report(
    view: SegmentationView,
    *,
    name: str = "",
    settings: Mapping[str, object] | None = None,
    made: datetime | None = None,
) -> str:
    """One page for a document: its chunks in colors, P(same) along it, the settings.

    Args:
        view: What `sage_core.Segmenter.explain` returned.
        name: The document's name; shown as the heading.
        settings: Further settings to list.
        made: When it was made; now where None.
    """
    title = name or "How the text was cut"
    listed = {k: v for k, v in view.settings.items() if k != "coarse_tokens" or _windows(view)}
    return page(
        f"{title} – sage-rag",
        tag("header", tag("p", "sage-rag segment", class_="eyebrow"), foreign(title, "h1")),
        *_segments(view, None),
        section("Settings", settings_html({**listed, **(settings or {}), **made_now(made)})),
    )


page_of.register(Answer)(answer_report)
page_of.register(Retrieval)(retrieval_report)
page_of.register(SegmentationView)(segmentation_report)


def _windows(view: SegmentationView) -> bool:
    return view.settings.get("strategy") == "threshold"


def _segments(view: SegmentationView, most: int | None) -> list[Markup]:
    starts = {span.start for span in view.spans}
    cuts = sum(b.position in starts for b in view.boundaries)
    total, count = sum(view.tokens), len(view.spans)
    figures = tiles(
        tile("chunks", f"{count:,}", f"of {len(view.text):,} characters"),
        tile("tokens a chunk", f"{total / count:.0f}" if count else "0", _range(view.tokens)),
        tile("places judged", f"{len(view.boundaries):,}", f"{cuts:,} of them cut"),
        *_reason_tile(view),
    )
    curve = Markup(boundary_curve_svg(view.boundaries, view.spans, threshold=view.threshold))
    chunks = Markup(
        boundaries_html(
            view.text,
            view.boundaries,
            view.spans,
            tokens=view.tokens,
            threshold=view.threshold,
            most=most,
            reasons=view.reasons,
        )
    )
    parts = [figures]
    if view.boundaries:
        parts.append(section("P(same) along the text", tag("figure", curve, class_="curve")))
    return [*parts, section("Chunks", _legend(), chunks)]


def _reason_tile(view: SegmentationView) -> list[Markup]:
    """How many cuts each reason made."""
    counts = {reason: view.reasons.count(reason) for reason in REASONS}
    found = sorted(((n, reason) for reason, n in counts.items() if n), reverse=True)
    if not found:
        return []
    (most, reason), *others = found
    return [tile("cuts", f"{most:,} {reason}", ", ".join(f"{n:,} {why}" for n, why in others))]


def _legend() -> Markup:
    weak = tag("span", tag("span", "0.31", class_="join weak"), "kept, though below the threshold")
    kept = tag("span", tag("span", "0.83", class_="join"), "P(same), kept together")
    return tag("p", kept, weak, tag("span", "dashed line: cut", class_="bad"), class_="legend")


def _range(tokens: object) -> str:
    sizes = list(tokens) if isinstance(tokens, list | tuple) else []
    return f"{min(sizes)} to {max(sizes)}" if sizes else ""


def _kept(selection: Selection) -> list[Markup]:
    """All that a selection alone knows: the scores kept, and why."""
    rows = plain_rows(selection.scores, "unbounded")
    title = tag("h3", f"{selection.cut} of {selection.candidates} kept")
    places = f"positions {', '.join(map(str, selection.indices[:60]))}"
    more = "…" if len(selection.indices) > 60 else ""
    positions = tag("p", f"{places}{more}", class_="note num") if selection.indices else None
    ranks = Selection(tuple(range(len(rows))), selection.scores, len(rows), selection.reason)
    listing = candidates_html(rows, ranks, most=NOTEBOOK_ROWS) if rows else None
    return [title, tag("p", join((selection.reason, ".")), class_="note"), join((positions, listing))]


def _ranking(view: SelectionView, most: int | None) -> list[Markup]:
    rows = plain_rows(view.scores, view.scale, view.texts, view.sources, view.tokens)
    parts = [curve_html(view.scores, view.selection, view.scale, top_k=view.top_k)]
    if view.texts is not None and view.selection.cut and most is None:
        parts.append(section("Passages kept", passages_html(rows, view.selection)))
    return [*parts, section(f"All {len(rows)} candidates", candidates_html(rows, view.selection, most=most))]


def _loop(result: FeedbackResult) -> list[Markup]:
    answer = foreign(result.answer or "(no answer)", "p", class_="text")
    return [
        tag("section", answer, tag("p", grade_badge(result.verdict), class_="by"), class_="panel answer"),
        section("Rounds of answer and grade", Markup(rounds_html(result))),
        section("What it took", Markup(usage_html(result.usage_by_role))),
    ]


def boundaries_html(
    text: str,
    boundaries: Sequence[Boundary],
    spans: Sequence[Span],
    *,
    tokens: Sequence[int] | None = None,
    threshold: float | None = None,
    most: int | None = None,
    reasons: Sequence[BoundaryReason] = (),
) -> str:
    """Chunks one below the other in alternating colors; a number at every place the model judged.

    Args:
        text: The text.
        boundaries: Every place the model judged (`sage_core.Segmenter.boundaries`).
        spans: The chunks (`sage_core.Segmenter.segment`).
        tokens: Length of each chunk; None leaves it out.
        threshold: P(same) below which a joint that was kept all the same is drawn as weak.
        most: Most chunks to show; None for all.
        reasons: Why the text was cut before each chunk but the first; empty leaves it out.

    Returns:
        Markup for the inside of a page (`sage_core.rendering.html.fragment` adds the style).
    """
    asked = {b.position: b.probability for b in boundaries}
    shown = len(spans) if most is None else min(most, len(spans))
    if not spans:
        return tag("p", "The text is blank: it has no chunks.", class_="note")
    places = sorted(asked)
    parts: list[Markup] = []
    at = 0
    for i, span in enumerate(spans[:shown]):
        if i:
            parts.append(_boundary(asked.get(span.start), threshold, reasons[i - 1] if reasons else None))
        while at < len(places) and places[at] <= span.start:
            at += 1
        first = at
        while at < len(places) and places[at] < span.end:
            at += 1
        header = tag(
            "header",
            tag("span", f"chunk {i + 1}"),
            tag("span", f"characters {span.start}–{span.end}"),
            tag("span", f"{tokens[i]} tokens") if tokens is not None else None,
        )
        body = join(_pieces(text, span, places[first:at], asked, threshold))
        parts.append(
            tag(
                "div",
                header,
                tag("div", body, class_="text", dir="auto"),
                class_=f"chunk c{i % _COLOURS + 1}",
            )
        )
    if shown < len(spans):
        parts.append(tag("p", f"… and {len(spans) - shown} more chunks.", class_="note"))
    return tag("div", *parts, class_="chunks")


_WHY: dict[BoundaryReason, str] = {
    "heading": "a heading follows",
    "topic": "the topic changes",
    "paragraph": "a paragraph ends",
    "limit": "both together are above the limit",
    "size": "the chunk was long enough",
}


def _boundary(probability: float | None, threshold: float | None, reason: BoundaryReason | None) -> Markup:
    return tag("div", boundary_words(probability, threshold, reason), class_="snip")


def boundary_words(probability: float | None, threshold: float | None, reason: BoundaryReason | None) -> str:
    """Why a text was cut at a place.

    Args:
        probability: P(same) there; None within a sentence.
        threshold: From which sentences are kept together, where known.
        reason: Why, where known.
    """
    if probability is None:
        return "cut within a sentence, which is too long for one chunk"
    if reason is not None:
        return f"{reason}: {_WHY[reason]}, P(same) {probability:.2f}"
    if threshold is not None and probability >= threshold:
        return f"cut at P(same) {probability:.2f}, for layout or length"
    return f"cut at P(same) {probability:.2f}"


def _pieces(
    text: str, span: Span, places: Sequence[int], asked: dict[int, float], threshold: float | None
) -> Iterator[Markup]:
    """The chunk's text, with the probability before each further sentence."""
    at = span.start
    for position in places:
        yield foreign(text[at:position])
        weak = threshold is not None and asked[position] < threshold
        yield tag(
            "span",
            f"{asked[position]:.2f}",
            class_="join weak" if weak else "join",
            title=f"kept together, P(same) {asked[position]:.3f}",
        )
        at = position
    yield foreign(text[at : span.end])
