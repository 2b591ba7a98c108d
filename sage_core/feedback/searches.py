"""When to end a series of searches: an agent that asks again and again is stopped by what it finds.

Sans-IO, like the feedback loop: the caller reports what each search returned, in order, and is told which of
it is new and whether another search may follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sage_core._checks import check_optional_int

SearchStop = Literal["searches", "tokens", "unchanged"]

STOP_REASONS: dict[SearchStop, str] = {
    "searches": "the limit of searches is reached",
    "tokens": "the limit of retrieved tokens is reached",
    "unchanged": "the last searches found nothing new",
}
"""What each reason means, for people and for the model."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Bounds on the searches that serve one question.

        >>> limits = SearchLimits(max_searches=3, max_unchanged=2)
        >>> limits.review([["The ferry leaves at nine."], ["The ferry leaves at  nine."], []]).stop
        'searches'

    Attributes:
        max_searches: Most searches; None for no limit.
        max_tokens: Most tokens of passages, repeated ones not counted; None for no limit. The search that
            crosses it is the last.
        max_unchanged: So many searches in a row without a new passage end the series; None for no limit.
    """

    max_searches: int | None = 5
    max_tokens: int | None = 8_000
    max_unchanged: int | None = 2

    def __post_init__(self) -> None:
        for name in ("max_searches", "max_tokens", "max_unchanged"):
            check_optional_int(name, getattr(self, name), minimum=1)

    def review(
        self, results: Sequence[Sequence[str]], count: Callable[[str], int] | None = None
    ) -> SearchReview:
        """Judge a series of searches.

        Args:
            results: The passages that each search returned, in order.
            count: Token counter; characters divided by four where None.
        """
        count = count if count is not None else _estimated_tokens
        seen: set[str] = set()
        new: list[tuple[int, ...]] = []
        tokens = unchanged = 0
        for passages in results:
            fresh: list[int] = []
            for i, passage in enumerate(passages):
                # Retrievers differ in the white space around a passage, not in the passage.
                key = " ".join(passage.split())
                if key and key not in seen:
                    seen.add(key)
                    fresh.append(i)
                    tokens += count(passage)
            unchanged = 0 if fresh else unchanged + 1
            new.append(tuple(fresh))
        return SearchReview(tuple(new), len(new), tokens, unchanged, self._stop(len(new), tokens, unchanged))

    def _stop(self, searches: int, tokens: int, unchanged: int) -> SearchStop | None:
        # The first that holds is named; "unchanged" before "tokens" because it says more about what to do.
        reached: tuple[tuple[SearchStop, int, int | None], ...] = (
            ("searches", searches, self.max_searches),
            ("unchanged", unchanged, self.max_unchanged),
            ("tokens", tokens, self.max_tokens),
        )
        return next((name for name, value, limit in reached if limit is not None and value >= limit), None)


@dataclass(frozen=True, slots=True)
class SearchReview:
    """What a series of searches came to.

    Attributes:
        new: For each search, the positions of its passages that no earlier one had returned.
        searches: Number of searches.
        tokens: Tokens of all different passages.
        unchanged: Searches without a new passage at the end of the series.
        stop: Why no further search may follow; None where one may.
    """

    new: tuple[tuple[int, ...], ...]
    searches: int
    tokens: int
    unchanged: int
    stop: SearchStop | None


def _estimated_tokens(text: str) -> int:
    return max(len(text) // 4, 1)
