"""Chunks of a text in alternating colors, with P(same) at every place the model was asked."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from sage_core.rendering.sanitize import terminal_safe
from sage_core.rendering.wording import counted
from sage_core.segmentation.view import REASONS, SegmentationView
from sage_core.text.spans import Span

_STYLES = ("cyan", "magenta")


def segments_view(view: SegmentationView) -> RenderableType:
    """Chunks one below the other; ``┆0.83┆`` marks a joint that was kept, with its P(same).

    Above each chunk stands why the text was cut there (`sage_core.segmentation.view.BoundaryReason`).
    """
    asked = {b.position: b.probability for b in view.boundaries}
    lines = list(_lines(view, asked))
    total = sum(view.tokens)
    count = len(view.spans)
    mean = f", {total / count:.0f} tokens each on average" if count else ""
    cuts = f"; cuts by {_summary(view)}" if view.reasons else ""
    return Group(
        *lines, Text(f"{counted(count, 'chunk')}{mean}{cuts}; numbers are P(same topic)", style="bold")
    )


def _lines(view: SegmentationView, asked: dict[int, float]) -> Iterator[RenderableType]:
    places = sorted(asked)
    at = 0
    for i, (span, tokens) in enumerate(zip(view.spans, view.tokens, strict=True)):
        probability = asked.get(span.start)
        cut = "" if i == 0 else f"  cut: {_why(view, i, probability)}"
        head = f"── chunk {i + 1}  {span.start}–{span.end}  {tokens} tokens{cut} ──"
        yield Text(head, style="dim")
        while at < len(places) and places[at] <= span.start:
            at += 1
        first = at
        while at < len(places) and places[at] < span.end:
            at += 1
        yield _chunk(view.text, span, places[first:at], asked, _STYLES[i % 2])


def _why(view: SegmentationView, number: int, probability: float | None) -> str:
    """Why the text was cut before a chunk, and the model's word on it where it was asked."""
    said = "within a sentence" if probability is None else f"P(same) {probability:.2f}"
    return f"{view.reasons[number - 1]}, {said}" if view.reasons else said


def _summary(view: SegmentationView) -> str:
    """How many cuts each reason made."""
    counts = {reason: view.reasons.count(reason) for reason in REASONS}
    return ", ".join(f"{reason} {count}" for reason, count in counts.items() if count)


def _chunk(text: str, span: Span, places: list[int], asked: dict[int, float], style: str) -> Text:
    out = Text()
    at = span.start
    for position in places:
        out.append(terminal_safe(text[at:position]), style=style)
        out.append(f"┆{asked[position]:.2f}┆ ", style="dim")
        at = position
    return out.append(terminal_safe(text[at : span.end]), style=style)
