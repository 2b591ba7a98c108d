"""Which picture shows which result: as a piece for a notebook, and as a whole page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import singledispatch

from sage_app.pipeline.results import Answer, Retrieval
from sage_app.rendering.html.markup import Child, Markup, foreign, tag
from sage_app.rendering.html.page import made_now, note, page, piece, section, settings_html, tile, tiles
from sage_app.rendering.html.report import (
    answer_head,
    answer_parts,
    answer_report,
    candidates_html,
    folded,
    grade_badge,
    retrieval_parts,
    retrieval_report,
    rounds_html,
)
from sage_app.rendering.rows import Row, chunk_pieces, reason_counts
from sage_app.rendering.wording import FLAGS
from sage_core._checks import counted
from sage_core.feedback.types import FeedbackResult
from sage_core.inspecting import Inspection, Passage
from sage_core.segmentation.view import Boundary, BoundaryReason, SegmentationView
from sage_core.selection import Selection
from sage_core.text.sanitize import one_line
from sage_core.text.spans import Span

# A notebook keeps what it shows, in its file and in the browser.
NOTEBOOK_CHUNKS = 100
NOTEBOOK_ROWS = 50
_COLORS = 4


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


def segmentation_report(
    view: SegmentationView,
    *,
    name: str = "",
    settings: Mapping[str, object] | None = None,
    made: datetime | None = None,
) -> str:
    """One page for a document: its chunks in colors, the settings.

    ``name`` is the heading; ``settings`` are listed besides; ``made`` is now where None.
    """
    title = name or "How the text was cut"
    listed = {
        k: v
        for k, v in view.settings.items()
        if k != "coarse_tokens" or view.settings.get("strategy") == "threshold"
    }
    return page(
        f"{title} – sage-rag",
        tag("header", tag("p", "sage-rag segment", class_="eyebrow"), foreign(title, "h1")),
        *segmentation_parts(view, None),
        section("Settings", settings_html({**listed, **(settings or {}), **made_now(made)})),
    )


@fragment.register
def _retrieval(result: Retrieval) -> str:
    head = tag("header", foreign(result.question, "h1"))
    return piece(head, *retrieval_parts(result, result.selection, most=NOTEBOOK_ROWS))


fragment.register(Answer)(
    lambda result: piece(*answer_head(result), *answer_parts(result, most=NOTEBOOK_ROWS))
)
fragment.register(FeedbackResult)(lambda result: piece(*_loop(result)))
fragment.register(Inspection)(lambda result: piece(*inspection_parts(result)))
fragment.register(SegmentationView)(lambda result: piece(*segmentation_parts(result, NOTEBOOK_CHUNKS)))
page_of.register(Answer)(answer_report)
page_of.register(Retrieval)(retrieval_report)
page_of.register(Inspection)(lambda result: page(f"{result.question} – sage-rag", *inspection_parts(result)))
page_of.register(SegmentationView)(segmentation_report)
page_of.register(FeedbackResult)(lambda result: page("Rounds of answer and grade – sage-rag", *_loop(result)))


def inspection_parts(found: Inspection) -> list[Markup]:
    """What a retriever of a framework did: what was sent, each step, the answer with its marks."""
    parts: list[Child] = []
    for mark in found.marks:
        kind = mark.support if mark.support in FLAGS else None
        parts.append(tag("span", mark.text, class_=kind, title=mark.reason or None))
        if mark.passage is not None:
            parts.append(tag("sup", f"[{found.sent[mark.passage].number}]"))
    sections = [
        tag("header", tag("p", foreign(found.subject), class_="eyebrow"), foreign(found.question, "h1")),
        tag("section", tag("p", *(parts or [found.answer]), class_="text", dir="auto"), class_="panel answer")
        if found.answer is not None
        else Markup(""),
        section(
            f"Sent: {counted(len(found.sent), 'passage')}, {found.tokens:,} tokens", _inspected(found.sent)
        ),
    ]
    for i, step in enumerate(found.steps, start=1):
        cuts = {*step.moves} == {"new"}  # into passages: nothing comes back as it was, and nothing is lost
        lost = " ".join(f"[{n}]" for n in step.dropped if not cuts)
        left = note("Not returned: ", lost) if lost else None
        rows = _inspected(step.passages, () if cuts else step.moves)
        sections.append(folded(f"{i}. {step.title}", rows, left, unfolded=left is not None))
    sections += [folded("What the LLM was sent", foreign(prompt, "pre")) for prompt in found.prompts]
    return sections


def _inspected(passages: Sequence[Passage], moves: Sequence[str] = ()) -> Markup:
    best = max((p.score for p in passages if p.score is not None), default=0.0)
    rows = [
        Row(
            i,
            p.number,
            p.score,
            p.score / best if p.score is not None and best > 0 else 0.0,
            p.text,
            one_line(f"{moves[i] if moves else ''} {p.source}"),
            tokens=p.tokens,
        )
        for i, p in enumerate(passages)
    ]
    every = tuple(range(len(rows)))
    return candidates_html(rows, Selection(every, tuple(p.score for p in passages), len(rows), ""))


def segmentation_parts(view: SegmentationView, most: int | None) -> list[Markup]:
    """Figures and the chunks; at most so many where given."""
    starts = {span.start for span in view.spans}
    cuts = sum(b.position in starts for b in view.boundaries)
    total, count = sum(view.tokens), len(view.spans)
    figures = tiles(
        tile("chunks", f"{count:,}", f"of {len(view.text):,} characters"),
        tile(
            "tokens a chunk",
            f"{total / count:.0f}" if count else "0",
            f"{min(view.tokens)} to {max(view.tokens)}" if count else "",
        ),
        tile("places judged", f"{len(view.boundaries):,}", f"{cuts:,} of them cut"),
        *_reason_tile(view),
    )
    chunks = boundaries_html(
        view.text,
        view.boundaries,
        view.spans,
        tokens=view.tokens,
        threshold=view.threshold,
        most=most,
        reasons=view.reasons,
    )
    return [figures, section("Chunks", _legend(), Markup(chunks))]


def _reason_tile(view: SegmentationView) -> list[Markup]:
    """How many cuts each reason made."""
    counts = sorted(((n, reason) for reason, n in reason_counts(view).items()), reverse=True)
    if not counts:
        return []
    (most, reason), *others = counts
    return [tile("cuts", f"{most:,} {reason}", ", ".join(f"{n:,} {why}" for n, why in others))]


def _legend() -> Markup:
    weak = tag("span", tag("span", "0.31", class_="join weak"), "kept, though below the threshold")
    joined = tag("span", tag("span", "0.83", class_="join"), "P(same), kept together")
    return tag("p", joined, weak, tag("span", "dashed line: cut", class_="bad"), class_="legend")


def _loop(result: FeedbackResult) -> list[Markup]:
    answer = foreign(result.answer or "(no answer)", "p", class_="text")
    return [
        tag("section", answer, tag("p", grade_badge(result), class_="by"), class_="panel answer"),
        section("Rounds of answer and grade", Markup(rounds_html(result))),
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

    ``threshold``: P(same) below which a joint that was kept all the same is drawn as weak. ``reasons``: why
    the text was cut before each chunk but the first.
    """
    if not spans:
        return note("The text is blank: it has no chunks.")
    shown = len(spans) if most is None else min(most, len(spans))
    parts: list[Markup] = []
    for i, (before, pieces) in enumerate(chunk_pieces(text, boundaries, spans[:shown])):
        if i:
            words = boundary_words(before, threshold, reasons[i - 1] if reasons else None)
            parts.append(tag("div", words, class_="snip"))
        header = tag(
            "header",
            tag("span", f"chunk {i + 1}"),
            tag("span", f"characters {spans[i].start}–{spans[i].end}"),
            tag("span", f"{tokens[i]} tokens") if tokens is not None else None,
        )
        body = tag("div", *_pieces(pieces, threshold), class_="text", dir="auto")
        parts.append(tag("div", header, body, class_=f"chunk c{i % _COLORS + 1}"))
    if shown < len(spans):
        parts.append(note(f"… and {len(spans) - shown} more chunks."))
    return tag("div", *parts, class_="chunks")


_WHY: dict[BoundaryReason, str] = {
    "heading": "a heading follows",
    "topic": "the topic changes",
    "paragraph": "a paragraph ends",
    "limit": "both together are above the limit",
    "size": "the chunk was long enough",
}


def boundary_words(probability: float | None, threshold: float | None, reason: BoundaryReason | None) -> str:
    """Why a text was cut at a place; a probability of None is within a sentence."""
    if probability is None:
        return "cut within a sentence, which is too long for one chunk"
    if reason is not None:
        return f"{reason}: {_WHY[reason]}, P(same) {probability:.2f}"
    if threshold is not None and probability >= threshold:
        return f"cut at P(same) {probability:.2f}, for layout or length"
    return f"cut at P(same) {probability:.2f}"


def _pieces(pieces: Sequence[tuple[str, float | None]], threshold: float | None) -> Iterator[Markup]:
    """The chunk's text, with the probability before each further sentence."""
    for text, same in pieces:
        if same is not None:
            kind = "join weak" if threshold is not None and same < threshold else "join"
            title = f"kept together, P(same) {same:.3f}"
            yield tag("span", f"{same:.2f}", class_=kind, title=title)
        yield foreign(text)
