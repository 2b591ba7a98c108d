"""A text as it was segmented, for people to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sage_core._display import Shown
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


@dataclass(frozen=True, slots=True)
class SegmentationView(Shown):
    """A text, its chunks, and the places where it might have been cut.

    Made by `sage_core.Segmenter.explain`. A notebook shows it in colours; ``rich.print`` does in a terminal.

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
        settings: How it was segmented, by name, for people: limits, strategy, counter.
    """

    text: str
    spans: Sequence[Span]
    tokens: Sequence[int]
    boundaries: Sequence[Boundary]
    settings: dict[str, object] = field(default_factory=dict)

    @property
    def chunks(self) -> list[str]:
        """The chunks' texts."""
        return [span.of(self.text) for span in self.spans]

    @property
    def threshold(self) -> float | None:
        """P(same) from which the segmenter keeps two sentences together; None where not known."""
        value = self.settings.get("threshold")
        return float(value) if isinstance(value, int | float) else None

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form; ``cut`` tells where a boundary of the model became one between chunks."""
        starts = {span.start for span in self.spans}
        return {
            "chunks": [
                {"start": s.start, "end": s.end, "tokens": n, "text": s.of(self.text)}
                for s, n in zip(self.spans, self.tokens, strict=True)
            ],
            "boundaries": [
                {"position": b.position, "probability": round(b.probability, 4), "cut": b.position in starts}
                for b in self.boundaries
            ],
        }
