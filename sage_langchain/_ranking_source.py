"""Find the `SageRetriever` inside whatever LangChain wrapped around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langchain_core.vectorstores import VectorStore

from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig
from sage_core.selection.cut import Scale
from sage_langchain._cross_encoder import is_cross_encoder
from sage_langchain.compressor import SCORE_KEY, SageCompressor
from sage_langchain.retriever import SageRetriever


@dataclass(frozen=True, slots=True)
class RankingSource:
    """What a chain must know of its retriever.

    Attributes:
        scale: What its scores are.
        selection: How to select from them.
    """

    scale: Scale
    selection: FeedbackConfig


def as_sage_retriever(value: Any) -> Any:
    """``value`` where a `SageRetriever` is in it, else a `SageRetriever` around it."""
    if isinstance(value, VectorStore):
        return SageRetriever.from_vectorstore(value)
    if _unwrap(value, None)[0] is not None:
        return value
    return SageRetriever(base_retriever=value)


def ranking_source(retriever: Any, config: RunnableConfig | None, candidates: int) -> RankingSource:
    """Scale and selection of the `SageRetriever` that a call with this config will reach.

    Args:
        retriever: What the chain calls.
        config: The config it is called with.
        candidates: How many documents it gave.

    Raises:
        InputError: Where there is none, or its compressor is somebody else's, whose scores have no known
        scale.
    """
    found, bound_k = _unwrap(retriever, config)
    found, compressor = _usable(found)
    exact = bound_k or found.k or compressor.top_n or (None if compressor.select else max(candidates, 1))
    selection = FeedbackConfig(
        min_k=exact or compressor.min_k,
        max_k=exact or compressor.max_k,
        gradient=compressor.gradient,
        rule=compressor.rule,
    )
    return RankingSource(compressor.score_scale, selection)


def check_retriever(retriever: Any, config: RunnableConfig | None) -> None:
    """See that a call with this config can only reach retrievers that a chain can use.

    Raises:
        InputError: As `ranking_source`; and for a fallback that is no `SageRetriever`.
    """
    _usable(_unwrap(retriever, config)[0])


def check_when_built(retriever: Any) -> None:
    """`check_retriever`, unless it takes the config of a call to know."""
    value = retriever
    while isinstance(value, RunnableBindingBase):
        value = value.bound
    if not isinstance(value, DynamicRunnable):
        check_retriever(value, None)


def scores_of(documents: Sequence[Document]) -> list[float | None]:
    """The scores that a `SageRetriever` wrote into its documents.

    Raises:
        InputError: If a document has none, and so comes from elsewhere.
    """
    if any(SCORE_KEY not in document.metadata for document in documents):
        raise InputError(
            f"the chain's retriever gave documents without metadata[{SCORE_KEY!r}]: every retriever that it "
            "may fall back to must be a SageRetriever with a SageCompressor"
        )
    return [document.metadata[SCORE_KEY] for document in documents]


def _usable(found: SageRetriever | None) -> tuple[SageRetriever, SageCompressor]:
    if found is None:
        raise InputError("this configuration leads to a retriever that is no SageRetriever: put it into one")
    compressor = found.base_compressor
    if isinstance(compressor, SageCompressor):
        return found, compressor
    name, model = type(compressor).__name__, getattr(compressor, "model", None)
    problem = f"SageChain cannot tell the scale of the scores of {name}"
    if is_cross_encoder(model):
        raise InputError(
            f"{problem}, which drops them. Use its model in its place: SageRetriever(base_retriever=..., "
            f"base_compressor=SageCompressor(reranker={type(model).__name__}(...), scale='logit')), or "
            "scale='probability' where its scores lie between 0 and 1"
        )
    raise InputError(
        f"{problem}. If it writes them into the metadata, let it rank first and select after it: "
        f"SageRetriever(base_retriever=SageRetriever(base_retriever=..., base_compressor={name}(...)), "
        "base_compressor=SageCompressor(score_key='relevance_score')). If it drops them, use "
        "SageCompressor(reranker=...) in its place"
    )


def _unwrap(value: Any, config: RunnableConfig | None) -> tuple[SageRetriever | None, int | None]:
    """The retriever inside, and the ``k`` that somebody bound on the way."""
    k: int | None = None
    while not isinstance(value, SageRetriever):
        if isinstance(value, RunnableBindingBase):
            k = value.kwargs.get("k", k)
            value = value.bound
        elif isinstance(value, DynamicRunnable):
            value, config = value.prepare(config)
        elif isinstance(value, RunnableWithFallbacks):
            _check_fallbacks(value, config)
            value = value.runnable
        else:
            return None, None
    return value, k


def _check_fallbacks(value: RunnableWithFallbacks[Any, Any], config: RunnableConfig | None) -> None:
    if _unwrap(value.runnable, config)[0] is None:
        return
    for fallback in value.fallbacks:
        found = _unwrap(fallback, config)[0]
        if found is None:
            raise InputError(
                f"the retriever falls back to {type(fallback).__name__}, which is no SageRetriever and gives "
                "no scores: put it into one, .with_fallbacks([SageRetriever(base_retriever=...)])"
            )
        _usable(found)
