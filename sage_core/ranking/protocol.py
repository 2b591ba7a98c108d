"""What a reranker is, and how to call one of any kind."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from sage_core.errors import InputError
from sage_core.selection.scales import Scale, plain_scores, rank_order


@runtime_checkable
class Reranker(Protocol):
    """Scores texts against a question; higher is more relevant.

    A reranker may also have ``async def ascore(query, texts)``, used by `ascore`, and
    ``score_many(requests)``, used to share batches between simultaneous questions.

    Examples:
        >>> class ByLength:
        ...     name, scale = "by length", "unbounded"
        ...     def score(self, query, texts):
        ...         return [float(len(text)) for text in texts]
        >>> isinstance(ByLength(), Reranker)
        True
        >>> [found.position for found in rank(ByLength(), "Why?", ["a", "abc"])]
        [1, 0]
    """

    @property
    def name(self) -> str:
        """Identifies the model in reports and caches."""
        ...

    @property
    def scale(self) -> Scale:
        """What the scores are: see `sage_core.selection.cut.to_ratio_scale`."""
        ...

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score per text, in the order of ``texts``. NaN where the model gave none."""
        ...


class Request(NamedTuple):
    """One question and its candidates, for rerankers that score several questions at once.

    Examples:
        >>> Request("Why?", ["Because."]).texts
        ['Because.']
    """

    query: str
    texts: Sequence[str]


class CosineRequest(NamedTuple):
    """A `Request` with cosines that a search found out already, for a `CosineReranker`.

    Examples:
        >>> CosineRequest("Why?", ["Because."], [None]).cosines
        [None]

    Attributes:
        query: The question.
        texts: The candidates.
        cosines: Of the question's embedding and each text's; None where that is not known.
        embedded: What the embedding model reads in place of each text, such as title and text; None for the
            texts themselves.
    """

    query: str
    texts: Sequence[str]
    cosines: Sequence[float | None]
    embedded: Sequence[str] | None = None


@runtime_checkable
class BatchReranker(Reranker, Protocol):
    """A reranker that puts the candidates of several questions into the same batches."""

    def score_many(self, requests: Sequence[Request]) -> list[list[float]]:
        """For each request, what `Reranker.score` would give."""
        ...


@runtime_checkable
class CosineReranker(BatchReranker, Protocol):
    """A reranker that computes in this process, and takes cosines where a search has them."""

    @property
    def embedder_name(self) -> str:
        """The embedding model: cosines of another are of no use."""
        ...

    def score_many(self, requests: Sequence[Request | CosineRequest]) -> list[list[float]]:
        """As `BatchReranker.score_many`; embeds those texts that come without their cosine."""
        ...


class Ranked(NamedTuple):
    """A candidate: its position in the caller's list, and its score.

    Examples:
        >>> Ranked(position=3, score=0.9).position
        3
    """

    position: int
    score: float


def rank(reranker: Reranker, query: str, texts: Sequence[str]) -> list[Ranked]:
    """Score ``texts`` and sort them, best first: ties keep their order, NaN ranks last.

    Raises:
        InputError: Where the reranker does not return one score per text.
    """
    return _sorted(checked_scores(reranker.name, reranker.score(query, texts), len(texts)))


async def arank(reranker: Reranker, query: str, texts: Sequence[str]) -> list[Ranked]:
    """`rank` without blocking the event loop."""
    return _sorted(await ascore(reranker, query, texts))


async def ascore(reranker: Reranker, query: str, texts: Sequence[str]) -> list[float]:
    """`Reranker.score` without blocking the event loop: its own coroutine if it has one, else a thread."""
    native = getattr(reranker, "ascore", None)
    if native is not None and inspect.iscoroutinefunction(native):
        scores = await native(query, texts)
    else:
        scores = await asyncio.to_thread(reranker.score, query, texts)
    return checked_scores(reranker.name, scores, len(texts))


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


def _sorted(scores: list[float]) -> list[Ranked]:
    return [Ranked(i, scores[i]) for i in rank_order(scores)]
