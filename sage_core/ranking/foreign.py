"""Rerankers of other frameworks as a source of scores for every candidate, whatever their own ``top_n``.

Such a reranker returns its best few candidates as objects of its framework. The adapters call it and say
which candidate each result is; what is common to them stands here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from sage_core.errors import InputError
from sage_core.selection.scales import finite_score

T = TypeVar("T")


def with_unlimited_top_n(component: T, candidates: int) -> T:
    """The component, or a copy of it whose ``top_n`` leaves no candidate out.

    Args:
        component: A pydantic object of a framework.
        candidates: How many it will be given.
    """
    top_n: Any = getattr(component, "top_n", None)
    if not isinstance(top_n, int) or top_n >= candidates:
        return component
    # A copy: the user's own object may rerank elsewhere with its own top_n.
    copied: T = component.model_copy(update={"top_n": candidates})  # type: ignore[attr-defined]
    return copied


def collected_scores(name: str, results: Iterable[tuple[int, Any]]) -> dict[int, float | None]:
    """The scores by candidate, without those that the reranker left out, which so rank last.

    Args:
        name: The reranker's, for messages.
        results: Position of a candidate, and the score it was given.

    Raises:
        InputError: For what is no score, and for results none of which has one.
    """
    scores: dict[int, float | None] = {}
    for position, score in results:
        try:
            scores[position] = finite_score(score)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
    # An empty reply drops all candidates, as some do by a threshold; one without scores is no reranker.
    if scores and all(score is None for score in scores.values()):
        raise InputError(f"{name} set no scores, so it is no reranker")
    return scores
