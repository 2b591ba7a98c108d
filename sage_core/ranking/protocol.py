"""What a reranker is, and how to call one of any kind."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, cast, runtime_checkable

from sage_core.errors import InputError
from sage_core.selection.scales import Scale, plain_scores


@runtime_checkable
class Reranker(Protocol):
    """Scores texts against a question; higher is more relevant.

    A reranker may also have ``async def ascore(query, texts)``, used by `ascore`, and a ``name`` for reports.
    With ``takes_scores = True`` it is given a third argument: what the search gave each text, higher is
    nearer, on any scale; None for one, or for all, where it gave none.

    Examples:
        >>> class ByLength:
        ...     scale = "unbounded"
        ...     def score(self, query, texts):
        ...         return [float(len(text)) for text in texts]
        >>> isinstance(ByLength(), Reranker)
        True
        >>> score_candidates(ByLength(), "Why?", ["a", "abc"])
        [1.0, 3.0]
    """

    @property
    def scale(self) -> Scale:
        """What the scores are: see `sage_core.selection.cut.to_ratio_scale`."""
        ...

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score per text, in the order of ``texts``. NaN where the model gave none."""
        ...


def name_of(reranker: object) -> str:
    """What a reranker is called in reports: its ``name``, else that of its class."""
    return str(getattr(reranker, "name", type(reranker).__name__))


def takes_scores(reranker: object) -> bool:
    """Whether it makes use of what the search that found the candidates says of them."""
    return bool(getattr(reranker, "takes_scores", False))


def score_candidates(
    reranker: Reranker,
    query: str,
    texts: Sequence[str],
    scores: Sequence[Any] | None = None,
    *,
    headed: Sequence[str] | None = None,
) -> list[float]:
    """Score the candidates of a search with a reranker of any kind.

    Args:
        reranker: One with ``takes_scores`` reads ``texts`` and ``scores``, and headers if it has
            ``takes_headers``; others read ``headed``.
        query: The question.
        texts: The candidates.
        scores: What the search gave each, higher is nearer, on any scale; None if there are none.
        headed: Each text with what goes before it: title, headings, metadata. None for the texts themselves.

    Raises:
        InputError: Where the reranker does not return one score per text.
    """
    if not texts:
        return []
    if takes_scores(reranker):
        aware, more = cast(Any, reranker), dict[str, Any]()
        if headed is not None and getattr(reranker, "takes_headers", False):
            # The header is what stands before the text, which it ends with: cutting it off gives both.
            more["headers"] = [h.removesuffix(text) for h, text in zip(headed, texts, strict=True)]
        return checked_scores(name_of(reranker), aware.score(query, texts, scores, **more), len(texts))
    texts = texts if headed is None else headed
    return checked_scores(name_of(reranker), reranker.score(query, texts), len(texts))


async def ascore_candidates(
    reranker: Reranker,
    query: str,
    texts: Sequence[str],
    scores: Sequence[Any] | None = None,
    *,
    headed: Sequence[str] | None = None,
) -> list[float]:
    """`score_candidates` without blocking the event loop."""
    if not texts:
        return []
    if takes_scores(reranker):
        return await asyncio.to_thread(score_candidates, reranker, query, texts, scores, headed=headed)
    return await ascore(reranker, query, texts if headed is None else headed)


async def ascore(reranker: Reranker, query: str, texts: Sequence[str]) -> list[float]:
    """`Reranker.score` without blocking the event loop: its own coroutine if it has one, else a thread."""
    native = getattr(reranker, "ascore", None)
    # A plain `ascore` would block the event loop; in a thread `score` does not.
    if native is not None and inspect.iscoroutinefunction(native):
        scores = await native(query, texts)
    else:
        scores = await asyncio.to_thread(reranker.score, query, texts)
    return checked_scores(name_of(reranker), scores, len(texts))


def check_request(query: object, texts: object) -> None:
    """Raise InputError unless this is a question and its candidates, in this order."""
    if not isinstance(query, str):
        swapped = "; the question comes first, score(query, texts)" if isinstance(texts, str) else ""
        raise InputError(f"query is a text, not {type(query).__name__}{swapped}")
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise InputError(f"texts are a list of texts, one per candidate, not {type(texts).__name__}")


def checked_scores(name: str, scores: Iterable[float | None], expected: int) -> list[float]:
    """The scores as Python floats, NaN for None.

    Raises:
        InputError: Where they are no numbers, or there is not one per text.
    """
    try:
        plain = plain_scores(scores)
    except InputError as error:
        raise InputError(f"reranker {name!r}: {error}") from None
    if len(plain) != expected:
        raise InputError(f"reranker {name!r} returned {len(plain)} scores for {expected} texts")
    return [math.nan if score is None else score for score in plain]
