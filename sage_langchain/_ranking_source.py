"""Find the `SageRetriever` inside whatever LangChain wrapped around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langchain_core.vectorstores import VectorStore

from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig
from sage_core.selection import Scale, SelectionConfig
from sage_langchain._runnables import inner_input, layers
from sage_langchain.compressor import SCORE_KEY, SageCompressor, is_cross_encoder
from sage_langchain.retriever import SageRetriever


@dataclass(frozen=True, slots=True)
class RankingSource:
    """What a chain must know of the retriever that a call reaches.

    Attributes:
        compressor: What ranks and selects.
        exact: How many documents to keep, whatever the scores; None to select.
    """

    compressor: SageCompressor
    exact: int | None

    def scale_of(self, documents: Sequence[Document]) -> Scale:
        """What the scores of the retriever's documents are."""
        return self.compressor.scale_of(documents)

    def selecting(self, feedback: FeedbackConfig, documents: Sequence[Document]) -> FeedbackConfig:
        """The loop's settings with this retriever's selection of these documents."""
        selection = self.compressor.denying(documents).limits
        if self.exact is not None:
            selection = replace(selection, min_k=self.exact, max_k=self.exact)
        return replace(feedback, selection=selection)


def as_sage_retriever(
    value: Any, selection: SelectionConfig | None = None, max_context_tokens: int | None = None
) -> Any:
    """``value`` if a `SageRetriever` is in it, else a `SageRetriever` around it.

    Args:
        value: Any retriever, or a vector store.
        selection: How many documents the new one keeps.
        max_context_tokens: Most tokens that it keeps.

    Raises:
        InputError: For one of these beside a `SageRetriever`, which has them in its compressor.
    """
    if not isinstance(value, VectorStore) and _find(value, None)[0] is not None:
        if selection is not None or max_context_tokens is not None:
            raise InputError(
                "the retriever is a SageRetriever: say how to select in its compressor, "
                "SageRetriever(base_compressor=SageCompressor(selection=...), ...)"
            )
        return value
    compressor = SageCompressor(
        selection=selection or SelectionConfig(), max_context_tokens=max_context_tokens
    )
    if isinstance(value, VectorStore):
        return SageRetriever.from_vectorstore(value, base_compressor=compressor)
    return SageRetriever(base_retriever=value, base_compressor=compressor)


def ranking_source(retriever: Any, config: RunnableConfig | None, candidates: int) -> RankingSource:
    """The `SageRetriever` that a call with this config will reach.

    Args:
        retriever: What the chain calls.
        config: The config it is called with.
        candidates: How many documents it gave.

    Raises:
        InputError: Where there is none, or its compressor is somebody else's, whose scores have no known
        scale.
    """
    sage_retriever, bound_k = _find(retriever, config)
    sage_retriever, compressor = _usable(sage_retriever)
    # A retriever that only ranks hands over all: the loop then keeps them all too.
    every = None if compressor.select else max(candidates, 1)
    # Asked with an empty mapping: only what rewrites the question takes it whole.
    if isinstance(inner_input(sage_retriever.base_retriever, "", {}, config or {}), Mapping):
        compressor = compressor.never_empty()
    return RankingSource(compressor, bound_k or sage_retriever.k or compressor.top_n or every)


def check_retriever(retriever: Any, config: RunnableConfig | None) -> None:
    """See that a call with this config can only reach retrievers that a chain can use.

    Raises:
        InputError: As `ranking_source`; and for a fallback that is no `SageRetriever`.
    """
    _usable(_find(retriever, config)[0])


def check_when_built(retriever: Any) -> None:
    """`check_retriever`, unless it takes the config of a call to know."""
    if not any(isinstance(layer, DynamicRunnable) for layer, _ in layers(retriever, None)):
        check_retriever(retriever, None)


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


def _usable(retriever: SageRetriever | None) -> tuple[SageRetriever, SageCompressor]:
    if retriever is None:
        raise InputError("this configuration leads to a retriever that is no SageRetriever: put it into one")
    compressor = retriever.base_compressor
    if isinstance(compressor, SageCompressor):
        return retriever, compressor
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


def _find(value: Any, config: RunnableConfig | None) -> tuple[SageRetriever | None, int | None]:
    """The retriever inside, and the ``k`` that somebody bound on the way."""
    k: int | None = None
    for layer, inner_config in layers(value, config):
        if isinstance(layer, SageRetriever):
            return layer, k
        if isinstance(layer, RunnableBindingBase):
            # The outermost binding wins, as in a call, which hands its arguments inwards.
            k = layer.kwargs.get("k") if k is None else k
        elif isinstance(layer, RunnableWithFallbacks):
            _check_fallbacks(layer, inner_config)
    return None, None


def _check_fallbacks(value: RunnableWithFallbacks[Any, Any], config: RunnableConfig | None) -> None:
    # No SageRetriever to fall back from: the caller is told of that.
    if _find(value.runnable, config)[0] is None:
        return
    for fallback in value.fallbacks:
        sage_retriever = _find(fallback, config)[0]
        if sage_retriever is None:
            raise InputError(
                f"the retriever falls back to {type(fallback).__name__}, which is no SageRetriever and gives "
                "no scores: put it into one, .with_fallbacks([SageRetriever(base_retriever=...)])"
            )
        _usable(sage_retriever)
