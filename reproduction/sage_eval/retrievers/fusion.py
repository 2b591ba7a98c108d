"""Several retrievers as one: reciprocal rank fusion, and a second stage that reranks."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from sage_core.errors import InputError
from sage_core.ranking import Reranker, name_of, score_candidates
from sage_core.selection import Scale
from sage_core.selection.scales import rank_order
from sage_eval.records import Hit, Piece, PieceIndex
from sage_eval.retrievers.dense import check_k

T = TypeVar("T", bound=Hashable)


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[T]], *, k: float = 60, order: Mapping[T, int] | None = None
) -> list[tuple[T, float]]:
    """Join rankings: each gives an item ``1 / (k + rank)``, ranks from 1 (Cormack et al., 2009).

    Args:
        rankings: Each best first. A repeated item counts where it stands first.
        k: The larger, the less the first places count.
        order: Decides where scores and ranks are equal; else the order of first appearance.

    Returns:
        Every item and its score, best first. Equal scores: the item with the better of its ranks goes first.
        With ``order`` the result does not depend on the order of the rankings.

    Raises:
        InputError: For ``k`` below 0.
    """
    if not k >= 0:
        raise InputError(f"k of reciprocal rank fusion is at least 0, not {k}")
    ranks: dict[T, list[int]] = {}
    for ranking in rankings:
        for place, item in enumerate(dict.fromkeys(ranking), 1):
            ranks.setdefault(item, []).append(place)
    # fsum rounds once, so that the order of the rankings does not show in the last bit.
    scores = {item: math.fsum(1 / (k + place) for place in places) for item, places in ranks.items()}
    appeared = order if order is not None else {item: i for i, item in enumerate(ranks)}
    best = sorted(scores, key=lambda item: (-scores[item], sorted(ranks[item]), appeared[item]))
    return [(item, scores[item]) for item in best]


class HybridIndex:
    """Searches several indexes and joins what they find by `reciprocal_rank_fusion`.

    Args:
        parts: The indexes, at least two.
        k: See `reciprocal_rank_fusion`.
        depth: How many hits of each part are joined, at least; more where more are requested.

    Raises:
        InputError: For fewer than two parts, or values out of range.
    """

    scale: Scale = "unbounded"

    def __init__(self, parts: Sequence[PieceIndex], *, k: float = 60, depth: int = 100) -> None:
        if len(parts) < 2:
            raise InputError(f"a hybrid index joins at least two indexes, not {len(parts)}")
        if not k >= 0:
            raise InputError(f"k of reciprocal rank fusion is at least 0, not {k}")
        check_k(depth)
        self._parts = tuple(parts)
        self._k = k
        self._depth = depth
        self._order: dict[Piece, int] = {}

    @property
    def name(self) -> str:
        """The parts and k."""
        return f"rrf({' + '.join(part.name for part in self._parts)}, k={self._k:g})"

    def build(self, pieces: Sequence[Piece]) -> None:
        self._order = {piece: i for i, piece in reversed(list(enumerate(pieces)))}
        for part in self._parts:
            part.build(pieces)

    def search(self, question: str, k: int) -> list[Hit]:
        """See `PieceIndex.search`. Scores are those of the fusion."""
        check_k(k)
        depth = max(k, self._depth)
        rankings = [[hit.piece for hit in part.search(question, depth)] for part in self._parts]
        fused = reciprocal_rank_fusion(rankings, k=self._k, order=self._order)
        return [Hit(piece, score) for piece, score in fused[:k]]


class RerankedIndex:
    """Two stages: an index finds candidates, a reranker puts them in order.

    Args:
        first: Finds the candidates.
        reranker: Scores them.
        candidates: How many, at least; more where more are requested.
    """

    def __init__(self, first: PieceIndex, reranker: Reranker, *, candidates: int = 50) -> None:
        check_k(candidates)
        self._first = first
        self._reranker = reranker
        self._candidates = candidates

    @property
    def scale(self) -> Scale:
        """The reranker's."""
        return self._reranker.scale

    @property
    def name(self) -> str:
        """Both stages."""
        return f"{self._first.name} > {name_of(self._reranker)}({self._candidates})"

    def build(self, pieces: Sequence[Piece]) -> None:
        self._first.build(pieces)

    def search(self, question: str, k: int) -> list[Hit]:
        """See `PieceIndex.search`. Scores are the reranker's."""
        check_k(k)
        found = self._first.search(question, max(k, self._candidates))
        if not found:
            return []
        texts, scores = [hit.piece.text for hit in found], [hit.score for hit in found]
        ranked = score_candidates(self._reranker, question, texts, scores)
        return [Hit(found[i].piece, ranked[i]) for i in rank_order(ranked)[:k]]
