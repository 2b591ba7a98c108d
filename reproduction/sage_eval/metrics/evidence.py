"""Was the evidence retrieved? Recall, precision and IoU of its characters, and ranks of what holds it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sage_core.errors import InputError
from sage_core.text.spans import Span
from sage_eval.records import Evidence, Piece


def recall_at(ranked: Sequence[Piece], evidence: Sequence[Evidence], k: int) -> float:
    """Share of the evidence spans that the first ``k`` pieces hold, at least half of each.

    Where the evidence is one chunk, as in the second paper, it is 1 where that chunk is among them, else 0.

    Raises:
        InputError: Without evidence, or for k below 1.
    """
    _check(evidence, k)
    found = found_evidence(ranked[:k], evidence)
    return sum(found) / len(found)


def mrr_at(ranked: Sequence[Piece], evidence: Sequence[Evidence], k: int) -> float:
    """One by the rank of the first relevant piece, counted from 1; 0 where none of the first ``k`` is.

    The mean over questions is MRR@k.

    Raises:
        InputError: Without evidence, or for k below 1.
    """
    _check(evidence, k)
    relevant = relevant_pieces(ranked[:k], evidence)
    return 1 / (relevant.index(True) + 1) if True in relevant else 0.0


def _check(evidence: Sequence[Evidence], k: int) -> None:
    if not evidence:
        raise InputError("the question has no evidence: such questions are left out of retrieval metrics")
    if k < 1:
        raise InputError(f"k is at least 1, not {k}")


SHARE = 0.5
"""Part of an evidence span that must be covered for it to count as found."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Characters of evidence and of retrieved pieces.

    Attributes:
        shared: Characters of evidence that were retrieved, each once.
        evidence: Characters of evidence, each once.
        retrieved: Characters of the pieces; what two pieces both hold counts twice, since it is sent twice.
    """

    shared: int = 0
    evidence: int = 0
    retrieved: int = 0

    @property
    def recall(self) -> float:
        """Share of the evidence that was retrieved; 0 where there is none."""
        return self.shared / self.evidence if self.evidence else 0.0

    @property
    def precision(self) -> float:
        """Share of what was retrieved that is evidence; 0 where nothing was."""
        return self.shared / self.retrieved if self.retrieved else 0.0


def evidence_overlap(pieces: Iterable[Piece], evidence: Sequence[Evidence]) -> Overlap:
    """How much of the evidence the pieces hold.

    Args:
        pieces: What was retrieved. One without a span (a summary) holds no evidence, but was sent.
        evidence: Where the answer stands; spans may overlap.
    """
    pieces = list(pieces)
    held, wanted = _by_document(_placed(pieces)), _by_document(evidence)
    shared = sum(_shared(held.get(document, []), spans) for document, spans in wanted.items())
    return Overlap(
        shared,
        sum(s.end - s.start for spans in wanted.values() for s in spans),
        sum(len(p.text) if p.span is None else p.span.end - p.span.start for p in pieces),
    )


def found_evidence(pieces: Iterable[Piece], evidence: Sequence[Evidence]) -> tuple[bool, ...]:
    """For each evidence span, whether the pieces together hold at least `SHARE` of it."""
    held = _by_document(_placed(pieces))
    return tuple(_shared(held.get(e.document, []), [e.span]) >= SHARE * _length(e.span) for e in evidence)


def relevant_pieces(pieces: Iterable[Piece], evidence: Sequence[Evidence]) -> tuple[bool, ...]:
    """For each piece, whether it holds at least `SHARE` of an evidence span, or is that much evidence.

    The second makes a piece relevant that lies wholly in a long passage of evidence.
    """
    wanted = _by_document(evidence)
    return tuple(
        any(found_evidence([p], evidence))
        or (p.span is not None and _shared([p.span], wanted.get(p.document, [])) >= SHARE * _length(p.span))
        for p in pieces
    )


def _placed(pieces: Iterable[Piece]) -> list[Evidence]:
    return [Evidence(p.document, p.span) for p in pieces if p.span is not None]


def _by_document(places: Iterable[Evidence]) -> dict[str, list[Span]]:
    """The union of spans of each document: ordered and apart."""
    found: dict[str, list[Span]] = {}
    for place in sorted(places, key=lambda e: e.span):
        spans = found.setdefault(place.document, [])
        if spans and place.span.start <= spans[-1].end:
            spans[-1] = Span(spans[-1].start, max(spans[-1].end, place.span.end))
        else:
            spans.append(place.span)
    return found


def _shared(left: Sequence[Span], right: Sequence[Span]) -> int:
    """Characters in both; each side's spans are apart."""
    return sum(max(0, min(a.end, b.end) - max(a.start, b.start)) for a in left for b in right)


def _length(span: Span) -> int:
    return span.end - span.start
