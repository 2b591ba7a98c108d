"""A segmented text, for display."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from sage_core._display import Displayable
from sage_core.text.spans import Span


class Boundary(NamedTuple):
    """A place where the segmenter may cut.

    Examples:
        >>> from sage_core import Segmenter
        >>> [found] = Segmenter().boundaries("The ferry leaves at seven. It returns at noon.")
        >>> found.position, 0 <= found.probability <= 1
        (27, True)

    Attributes:
        position: Index of the first character of the later sentence.
        probability: P(same): how likely the sentences before and after belong together.
    """

    position: int
    probability: float


BoundaryReason = Literal["heading", "topic", "paragraph", "limit", "size"]
"""Why a text was cut at a place.

- ``heading``: a heading follows.
- ``topic``: P(same) is below the threshold.
- ``paragraph``: a blank line or a line break stands there, though the model would keep together.
- ``limit``: the two chunks together are above the hard limit; also every cut within a sentence.
- ``size``: none of these: the chunk was long enough for the size that is aimed at.
"""

REASONS: tuple[BoundaryReason, ...] = get_args(BoundaryReason)


@dataclass(frozen=True, slots=True)
class SegmentationView(Displayable):
    """A text, its chunks, and the places where it might have been cut.

    Made by `sage_core.Segmenter.explain`. A notebook shows it in colors; ``rich.print`` does in a terminal.

    Examples:
        >>> from sage_core import Segmenter
        >>> view = Segmenter().explain("The ferry leaves at seven. It returns at noon.")
        >>> view.chunks
        ['The ferry leaves at seven. It returns at noon.']
        >>> len(view.boundaries), sum(view.tokens)
        (1, 11)

    Attributes:
        text: The text.
        spans: Its chunks.
        tokens: Length of each.
        boundaries: Every place the model judged.
        settings: How it was segmented, by name, for display: limits, strategy, counter.
        reasons: Why the text was cut before each chunk but the first; empty where not known.
    """

    text: str
    spans: Sequence[Span]
    tokens: Sequence[int]
    boundaries: Sequence[Boundary]
    settings: dict[str, object] = field(default_factory=dict)
    reasons: Sequence[BoundaryReason] = ()

    @property
    def chunks(self) -> list[str]:
        """The chunks' texts."""
        return [span.of(self.text) for span in self.spans]

    @property
    def threshold(self) -> float | None:
        """P(same) from which the segmenter keeps two sentences together; None if not known."""
        value = self.settings.get("threshold")
        return float(value) if isinstance(value, int | float) else None

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form.

        ``reason`` of a chunk says why the text was cut before it (None for the first); ``cut`` of a boundary,
        whether it became one between chunks.
        """
        starts = {span.start for span in self.spans}
        reasons = [None, *self.reasons] if self.reasons else [None] * len(self.spans)
        return {
            "chunks": [
                {"start": s.start, "end": s.end, "tokens": n, "text": s.of(self.text), "reason": why}
                for s, n, why in zip(self.spans, self.tokens, reasons, strict=True)
            ],
            "boundaries": [
                {"position": b.position, "probability": round(b.probability, 4), "cut": b.position in starts}
                for b in self.boundaries
            ],
        }
