"""Was the evidence retrieved? Recall, precision and IoU of its characters, and ranks of what holds it."""

from __future__ import annotations

import math
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


def ndcg_at(
    ranked: Sequence[Piece], evidence: Sequence[Evidence], k: int, *, relevant: int | None = None
) -> float:
    """Normalized discounted cumulative gain of the first ``k`` pieces; a relevant piece gains 1.

    Args:
        ranked: Pieces, best first; also those behind rank ``k``.
        evidence: Where the answer stands.
        k: Rank of the cut.
        relevant: How many relevant pieces the whole index has, which an ideal ranking would put first. Where
            None, those in ``ranked``: then it judges the order only, not what was never retrieved.

    Raises:
        InputError: Without evidence, for k below 1, or where ``relevant`` is fewer than were retrieved.
    """
    _check(evidence, k)
    gains = relevant_pieces(ranked, evidence)
    total = sum(gains) if relevant is None else relevant
    if total < sum(gains):
        raise InputError(f"{sum(gains)} relevant pieces were retrieved, but there are said to be {total}")
    ideal = sum(_discount(rank) for rank in range(min(total, k)))
    return sum(_discount(rank) for rank, gain in enumerate(gains[:k]) if gain) / ideal if ideal else 0.0


def _discount(rank: int) -> float:
    """The weight of a rank counted from 0."""
    return 1 / math.log2(rank + 2)


def _check(evidence: Sequence[Evidence], k: int) -> None:
    check_evidence(evidence)
    if k < 1:
        raise InputError(f"k is at least 1, not {k}")


SHARE = 0.5
"""Part of an evidence span that must be covered for it to count as found."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Characters of evidence and of retrieved pieces. Sums of it give pooled figures.

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

    @property
    def iou(self) -> float:
        """Shared characters by all of either; 0 where there are none."""
        union = self.evidence + self.retrieved - self.shared
        return self.shared / union if union else 0.0

    def __add__(self, other: Overlap) -> Overlap:
        return Overlap(
            self.shared + other.shared,
            self.evidence + other.evidence,
            self.retrieved + other.retrieved,
        )


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


def pooled_precision(overlaps: Iterable[Overlap]) -> float:
    """Share of evidence in everything that was retrieved for all questions together."""
    return sum(overlaps, Overlap()).precision


def found_evidence(
    pieces: Iterable[Piece], evidence: Sequence[Evidence], *, share: float = SHARE
) -> tuple[bool, ...]:
    """For each evidence span, whether the pieces together hold at least ``share`` of it.

    Raises:
        InputError: Where ``share`` is not above 0 and at most 1.
    """
    _check_share(share)
    held = _by_document(_placed(pieces))
    return tuple(
        _shared(held.get(e.document, []), [e.span]) >= share * (e.span.end - e.span.start) for e in evidence
    )


def relevant_pieces(
    pieces: Iterable[Piece], evidence: Sequence[Evidence], *, share: float = SHARE
) -> tuple[bool, ...]:
    """For each piece, whether it holds at least ``share`` of an evidence span, or is that much evidence.

    The second makes a piece relevant that lies wholly in a long passage of evidence.

    Raises:
        InputError: Where ``share`` is not above 0 and at most 1.
    """
    _check_share(share)
    wanted = _by_document(evidence)
    return tuple(
        any(found_evidence([p], evidence, share=share))
        or (p.span is not None and _shared([p.span], wanted.get(p.document, [])) >= share * _length(p.span))
        for p in pieces
    )


def complete(pieces: Iterable[Piece], evidence: Sequence[Evidence], *, every_span: bool = False) -> float:
    """1 where no part of a multi-hop question lacks its evidence, else 0.

    Args:
        pieces: What was retrieved.
        evidence: Where the answer stands.
        every_span: Every span must be found; otherwise one in every document that has any.

    Raises:
        InputError: Without evidence.
    """
    check_evidence(evidence)
    found = found_evidence(pieces, evidence)
    if every_span:
        return float(all(found))
    documents = {e.document for e in evidence}
    return float(documents == {e.document for e, is_found in zip(evidence, found, strict=True) if is_found})


def check_evidence(evidence: Sequence[Evidence]) -> None:
    """Refuse a question without evidence.

    Raises:
        InputError: Where there is none.
    """
    if not evidence:
        raise InputError("the question has no evidence: such questions are left out of retrieval metrics")


def _check_share(share: float) -> None:
    if not 0 < share <= 1:
        raise InputError(f"the share of evidence to be found is above 0 and at most 1, not {share!r}")


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
