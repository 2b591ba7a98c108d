"""What we read of LlamaIndex's private attributes, because nothing public says it; here and nowhere else.

Each function has a test that runs with the oldest and the newest supported version
(``tests/llamaindex/test_private.py``), so that a renamed attribute is found by a test, not by a user.
"""

from __future__ import annotations

import copy
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.vector_stores.types import VectorStoreQueryMode

# Modes in which a vector store reads the question's text, not its embedding.
_WITHOUT_EMBEDDING = (VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.SPARSE)


def index_of(retriever: VectorIndexRetriever) -> BaseIndex[Any]:
    """The index that it searches."""
    return retriever._index


def embedding_model_of(retriever: BaseRetriever) -> BaseEmbedding | None:
    """What embeds its questions; None for a retriever that needs no embedding."""
    if not isinstance(retriever, VectorIndexRetriever):
        return None
    if not retriever._vector_store.is_embedding_query:
        return None
    return None if retriever._vector_store_query_mode in _WITHOUT_EMBEDDING else retriever._embed_model


def undiversified(retriever: VectorIndexRetriever) -> VectorIndexRetriever | None:
    """Of one that looks for what is new as well (MMR) a copy that looks for what is near; else None."""
    if retriever._vector_store_query_mode != VectorStoreQueryMode.MMR:
        return None
    return searching_words(retriever, VectorStoreQueryMode.DEFAULT, retriever.similarity_top_k)


def limits_of(retriever: BaseRetriever) -> dict[str, Any]:
    """Which nodes it may return: those of ``filters``, ``node_ids``, ``doc_ids`` that it has."""
    if not isinstance(retriever, VectorIndexRetriever):
        return {}
    limits = {"filters": retriever._filters, "node_ids": retriever._node_ids, "doc_ids": retriever._doc_ids}
    return {name: limit for name, limit in limits.items() if limit is not None}


def follow_new_nodes(retriever: BaseRetriever) -> None:
    """Forget the list of the index's nodes at the moment the retriever was made: later ones are found too."""
    if isinstance(retriever, VectorIndexRetriever):
        retriever._node_ids = None


def searching_words(
    retriever: VectorIndexRetriever, mode: VectorStoreQueryMode, n: int
) -> VectorIndexRetriever:
    """A copy that searches the same store by words, with the same filters, for ``n`` nodes."""
    made = copy.copy(retriever)
    made._vector_store_query_mode, made._sparse_top_k = mode, n
    made.similarity_top_k = n
    return made


def llm_of(part: Any) -> Any:
    """The LLM of a synthesizer; None if it has none."""
    return getattr(part, "_llm", None)


def parts_of(
    engine: RetrieverQueryEngine,
) -> tuple[BaseRetriever, BaseSynthesizer, list[BaseNodePostprocessor]]:
    """What a query engine is made of."""
    return engine._retriever, engine._response_synthesizer, list(engine._node_postprocessors)


def shows_progress(index: Any) -> bool:
    """Whether an index was made with ``show_progress=True``."""
    return bool(getattr(index, "_show_progress", False))
