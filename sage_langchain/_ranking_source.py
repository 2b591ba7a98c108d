"""Find the `SageRetriever` inside whatever LangChain wrapped around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langchain_core.vectorstores import VectorStore

from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig
from sage_core.selection import Scale
from sage_langchain.compressor import SageCompressor
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
    if found is None:
        raise InputError("this configuration leads to a retriever that is no SageRetriever: put it into one")
    compressor = found.base_compressor
    if not isinstance(compressor, SageCompressor):
        raise InputError(
            f"SageChain cannot tell the scale of the scores of {type(compressor).__name__}. Let it rank "
            "first and select after it: SageRetriever(base_retriever=SageRetriever(base_retriever=..., "
            f"base_compressor={type(compressor).__name__}(...)), "
            "base_compressor=SageCompressor(score_key='relevance_score'))"
        )
    exact = bound_k or found.k or compressor.top_n or (None if compressor.select else max(candidates, 1))
    selection = FeedbackConfig(
        min_k=exact or compressor.min_k,
        max_k=exact or compressor.max_k,
        gradient=compressor.gradient,
        rule=compressor.rule,
    )
    return RankingSource(compressor.score_scale, selection)


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
            value = value.runnable
        else:
            return None, None
    return value, k
