"""What we read of LangChain's private attributes, because nothing public says it; here and nowhere else.

Each function has a test that runs with the oldest and the newest supported version
(``tests/langchain/test_private.py``), so that a renamed attribute is found by a test, not by a user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.vectorstores import VectorStore


def relevance_function(store: VectorStore) -> Callable[[float], float] | None:
    """The store's own map from raw score to relevance; None if it has none.

    LangChain declares this hook, with its leading underscore, for stores to fill in.
    """
    try:
        return store._select_relevance_score_fn()
    except (NotImplementedError, ValueError):
        return None


def docstore_of(store: Any) -> dict[str, Document] | None:
    """The documents of an in-memory docstore beside vectors, as FAISS has one, by id; None without one."""
    documents = getattr(getattr(store, "docstore", None), "_dict", None)
    return documents if isinstance(documents, dict) and hasattr(store, "index_to_docstore_id") else None


def chroma_collection(store: Any) -> Any:
    """The collection of LangChain's Chroma, which itself can neither count nor give vectors back."""
    return store._collection


def tracing_params(retriever: BaseRetriever, **kwargs: Any) -> LangSmithRetrieverParams:
    """What a retriever tells traces of itself: its store and its embedding model."""
    return retriever._get_ls_params(**kwargs)
