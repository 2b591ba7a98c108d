"""Is the evidence high up? Recall@k, MRR@k and nDCG@k of a ranked list of pieces."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sage_core.errors import InputError
from sage_core.evaluation.metrics.evidence import check_evidence, found_evidence, relevant_pieces
from sage_core.evaluation.records import Evidence, Piece


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
    """Normalised discounted cumulative gain of the first ``k`` pieces; a relevant piece gains 1.

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
