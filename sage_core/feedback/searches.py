"""Further searches for one question: what to search for next, and when to stop.

Sans-IO, like the feedback loop: the caller reports what each search returned, in order. An agent that asks
again and again is stopped by what it finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from sage_core._checks import check_optional_int
from sage_core.text.keywords import index_terms

SearchStop = Literal["searches", "tokens", "unchanged"]

STOP_REASONS: dict[SearchStop, str] = {
    "searches": "the limit of searches is reached",
    "tokens": "the limit of retrieved tokens is reached",
    "unchanged": "the last searches found nothing new",
}
"""What each reason means, in words that are shown to users and sent to the model."""

# Two words with capitals or more: single ones are mostly the beginnings of sentences.
_NAME = re.compile(r"[A-Z][\w'’-]+(?:\s+(?:of|de|von|van)?\s*[A-Z][\w'’.-]+)+")
_PASSAGES = 3


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Bounds on the searches that serve one question.

        >>> limits = SearchLimits(max_searches=3, max_unchanged=2)
        >>> limits.review([["The ferry leaves at nine."], ["The ferry leaves at  nine."], []]).stop
        'searches'

    Attributes:
        max_searches: Most searches; None for no limit.
        max_context_tokens: Most tokens of passages, repeated ones not counted; None for no limit. The search
            that crosses it is the last.
        max_unchanged: So many searches in a row without a new passage end the series; None for no limit.
    """

    max_searches: int | None = 5
    max_context_tokens: int | None = 8_000
    max_unchanged: int | None = 2

    def __post_init__(self) -> None:
        for name in ("max_searches", "max_context_tokens", "max_unchanged"):
            check_optional_int(name, getattr(self, name), minimum=1)

    def review(
        self, results: Sequence[Sequence[str] | None], count: Callable[[str], int] | None = None
    ) -> SearchReview:
        """Judge a series of searches.

        Args:
            results: The passages that each search returned, in order; None for a search whose passages
                cannot be read, which is neither new nor unchanged.
            count: Token counter; characters divided by four where None.
        """
        count = count if count is not None else _estimated_tokens
        # Texts, not ids: tools of agents return no ids, and chunks overlap between retrievers.
        seen: set[str] = set()
        new: list[tuple[int, ...]] = []
        tokens = unchanged = 0
        for passages in results:
            fresh: list[int] = []
            for i, passage in enumerate(passages or ()):
                # Retrievers differ in the white space around a passage, not in the passage.
                key = " ".join(passage.split())
                if key and key not in seen:
                    seen.add(key)
                    fresh.append(i)
                    tokens += count(passage)
            if passages is not None:
                # One fruitless search may be bad luck with words; only a row of them ends the series.
                unchanged = 0 if fresh else unchanged + 1
            new.append(tuple(fresh))
        return SearchReview(tuple(new), len(new), tokens, unchanged, self._stop(len(new), tokens, unchanged))

    def _stop(self, searches: int, tokens: int, unchanged: int) -> SearchStop | None:
        # The first that holds is named; "unchanged" before "tokens" because it says more about what to do.
        reached: tuple[tuple[SearchStop, int, int | None], ...] = (
            ("searches", searches, self.max_searches),
            ("unchanged", unchanged, self.max_unchanged),
            ("tokens", tokens, self.max_context_tokens),
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
        stop: Why no further search may follow; None if one may.
    """

    new: tuple[tuple[int, ...], ...]
    searches: int
    tokens: int
    unchanged: int
    stop: SearchStop | None


def _estimated_tokens(text: str) -> int:
    return max(len(text) // 4, 1)


def follow_up(question: str, passages: Sequence[str], asked: Iterable[str] = ()) -> str:
    """A search for the second hop of a question, without an LLM.

    The first name in the best passages that shares no word with the question, and with it those words of the
    question that the best passage does not have: the passage explains who is meant, not what is asked.

        >>> follow_up("Where was the owner of the Petrel born?", ["The Petrel belonged to Mara Holt."])
        'Mara Holt owner born'

    Args:
        question: The user's question.
        passages: Texts that were shown, best first.
        asked: Searches made before; names in them are passed over.

    Returns:
        What to search for; empty where there is no such name.
    """
    before = "\n".join(asked)
    # A name that the question has itself is where the search came from, not where it leads.
    known = {*index_terms(question)}
    explained = {*index_terms("\n".join(passages[:1]))}
    for passage in passages[:_PASSAGES]:
        for match in _NAME.findall(passage):
            name = match.rstrip(".'’-")
            terms = {*index_terms(name)}
            # As text, so that a name that stood inside an earlier search is not searched for again.
            if terms and not terms & known and name not in before:
                words = [w for w in re.findall(r"[\w'-]+", question) if {*index_terms(w)} - explained]
                return " ".join([name, *words])
    return ""
