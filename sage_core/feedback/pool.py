"""The candidates of one question, and those that further searches found for what was missing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from sage_core.feedback.drivers import Hits

T = TypeVar("T")


class EvidencePool(Generic[T]):
    """Numbers candidates as a `FeedbackLoop` does: each keeps its number, what a search adds comes behind.

    Examples:
        >>> pool = EvidencePool(["ferry", "seals"], str.casefold)
        >>> pool.add(["Seals", "harbor"], [0.2, 0.7], lambda new: [len(text) for text in new], "Where?")
        ([(1, 0.2), (2, 0.7)], [6], 'Where?')
        >>> pool.items, pool.first
        (['ferry', 'seals', 'harbor'], 2)

    Args:
        items: The candidates that the question itself found.
        key: What makes two candidates the same.

    Attributes:
        items: All candidates.
        first: How many of them the question itself found.
    """

    def __init__(self, items: Sequence[T], key: Callable[[T], Hashable]) -> None:
        self.items = list(items)
        self.first = len(self.items)
        self._key = key
        self._places: dict[Hashable, int] = {}
        for i, item in enumerate(self.items):
            # Of repetitions the first, which a search lists as the better one.
            self._places.setdefault(key(item), i)

    def add(
        self,
        results: Sequence[T],
        scores: Sequence[float | None],
        sizes: Callable[[Sequence[T]], Sequence[int]],
        query: str,
    ) -> Hits:
        """Add the results of another search, each candidate once.

        Args:
            results: What the search returned.
            scores: Their scores for ``query``.
            sizes: Counts the tokens of candidates.
            query: What was searched for.

        Returns:
            What `FeedbackLoop.found` takes.
        """
        hits = []
        known = len(self.items)
        for item, score in zip(results, scores, strict=True):
            # One lookup for both: an unknown key gets the number that its item is about to have.
            place = self._places.setdefault(self._key(item), len(self.items))
            if place == len(self.items):
                self.items.append(item)
            hits.append((place, score))
        return hits, sizes(self.items[known:]), query
