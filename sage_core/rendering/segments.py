"""Chunks of a text in alternating colours, with P(same) at every place the model was asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from sage_core.segmentation import Boundary
from sage_core.spans import Span

_STYLES = ("cyan", "magenta")


@dataclass(frozen=True, slots=True)
class SegmentedText:
    """A text, its chunks, and the places where it might have been cut.

    Attributes:
        text: The text.
        chunks: Spans of its chunks.
        tokens: Length of each.
        boundaries: Every place the model judged.
    """

    text: str
    chunks: Sequence[Span]
    tokens: Sequence[int]
    boundaries: Sequence[Boundary]

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form; ``cut`` tells where a boundary of the model became one between chunks."""
        starts = {span.start for span in self.chunks}
        return {
            "chunks": [
                {"start": s.start, "end": s.end, "tokens": n, "text": s.of(self.text)}
                for s, n in zip(self.chunks, self.tokens, strict=True)
            ],
            "boundaries": [
                {"position": b.position, "probability": round(b.probability, 4), "cut": b.position in starts}
                for b in self.boundaries
            ],
        }


def segments_view(segmented: SegmentedText) -> RenderableType:
    """Chunks one below the other; ``┆0.83┆`` marks a joint that was kept, with its P(same)."""
    asked = {b.position: b.probability for b in segmented.boundaries}
    lines = list(_lines(segmented, asked))
    total = sum(segmented.tokens)
    count = len(segmented.chunks)
    mean = f", {total / count:.0f} tokens each on average" if count else ""
    return Group(*lines, Text(f"{count} chunks{mean}; numbers are P(same topic)", style="bold"))


def _lines(segmented: SegmentedText, asked: dict[int, float]) -> Iterator[RenderableType]:
    for i, (span, tokens) in enumerate(zip(segmented.chunks, segmented.tokens, strict=True)):
        probability = asked.get(span.start)
        cut = "" if i == 0 else "  forced" if probability is None else f"  P(same) {probability:.2f}"
        head = f"── chunk {i + 1}  {span.start}–{span.end}  {tokens} tokens{cut} ──"
        yield Text(head, style="dim")
        yield _chunk(segmented.text, span, asked, _STYLES[i % 2])


def _chunk(text: str, span: Span, asked: dict[int, float], style: str) -> Text:
    out = Text()
    at = span.start
    for position in sorted(p for p in asked if span.start < p < span.end):
        out.append(text[at:position], style=style)
        out.append(f"┆{asked[position]:.2f}┆ ", style="dim")
        at = position
    return out.append(text[at : span.end], style=style)
