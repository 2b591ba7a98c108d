"""Chunks of a text in alternating colors, with P(same) at every place the model was asked."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from sage_app.rendering.rows import chunk_pieces, reason_counts
from sage_core._checks import counted
from sage_core.segmentation.view import SegmentationView
from sage_core.text.sanitize import terminal_safe

_STYLES = ("cyan", "magenta")


def segments_view(view: SegmentationView) -> RenderableType:
    """Chunks one below the other; ``┆0.83┆`` marks a joint that was kept, with its P(same).

    Above each chunk stands why the text was cut there (`sage_core.segmentation.view.BoundaryReason`).
    """
    count = len(view.spans)
    mean = f", {sum(view.tokens) / count:.0f} tokens each on average" if count else ""
    reasons = ", ".join(f"{reason} {n}" for reason, n in reason_counts(view).items())
    cuts = f"; cuts by {reasons}" if view.reasons else ""
    summary = f"{counted(count, 'chunk')}{mean}{cuts}; numbers are P(same topic)"
    return Group(*_lines(view), Text(summary, style="bold"))


def _lines(view: SegmentationView) -> Iterator[RenderableType]:
    chunks = chunk_pieces(view.text, view.boundaries, view.spans)
    rows = zip(view.spans, view.tokens, chunks, strict=True)
    for i, (span, tokens, (before, pieces)) in enumerate(rows):
        cut = f"  cut: {_why(view, i, before)}" if i else ""
        yield Text(f"── chunk {i + 1}  {span.start}–{span.end}  {tokens} tokens{cut} ──", style="dim")
        line = Text()
        for text, same in pieces:
            if same is not None:
                line.append(f"┆{same:.2f}┆ ", style="dim")
            line.append(terminal_safe(text), style=_STYLES[i % 2])
        yield line


def _why(view: SegmentationView, number: int, probability: float | None) -> str:
    """Why the text was cut before a chunk, and the model's word on it where it was asked."""
    probability_words = "within a sentence" if probability is None else f"P(same) {probability:.2f}"
    return f"{view.reasons[number - 1]}, {probability_words}" if view.reasons else probability_words
