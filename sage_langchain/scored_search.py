"""`ScoredVectorStoreRetriever`: a vector store's search that keeps the scores, higher always better."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import ConfigDict, Field, PrivateAttr

from sage_core.selection.scales import store_similarities
from sage_langchain._runnables import CheckedModel

logger = logging.getLogger(__name__)


class ScoredVectorStoreRetriever(CheckedModel, BaseRetriever):
    """Searches a vector store and keeps what LangChain's own retriever throws away: the scores.

    ``metadata["score"]`` of each result is a similarity: higher is better in every store. Where the store
    reports distances (Chroma does), they are converted by the store's own relevance function and kept raw in
    ``metadata["distance"]``. Results are copies: an entry of your own under one of these keys is replaced in
    them (with a warning), unless you choose other keys.

    Examples:
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> embedding = DeterministicFakeEmbedding(size=8)
        >>> store = InMemoryVectorStore.from_texts(["The ferry leaves at seven."], embedding)
        >>> [found] = ScoredVectorStoreRetriever(vectorstore=store, k=5).invoke("When does the ferry leave?")
        >>> found.page_content
        'The ferry leaves at seven.'

    Attributes:
        vectorstore: The store.
        k: Number of documents to fetch.
        search_kwargs: Passed to every search (such as ``filter``).
        similarity: From the store's raw score to a similarity; None takes the store's own relevance function.
            Where it has none, raw scores that rise are distances and count by their negatives, others as they
            are.
        score_key: Metadata key of the similarity.
        distance_key: Metadata key of the raw distance, where there is one.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    vectorstore: VectorStore = Field(repr=False)
    k: int = Field(default=30, ge=1)
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    similarity: Callable[[float], float] | None = Field(default=None, repr=False)
    score_key: str = "score"
    distance_key: str = "distance"

    _named: set[str] = PrivateAttr(default_factory=set)
    _warned: bool = PrivateAttr(default=False)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None, **kwargs: Any
    ) -> list[Document]:
        found = self.vectorstore.similarity_search_with_score(query, **self._arguments(k, kwargs))
        return self._scored(found)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        found = await self.vectorstore.asimilarity_search_with_score(query, **self._arguments(k, kwargs))
        return self._scored(found)

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        return VectorStoreRetriever(vectorstore=self.vectorstore)._get_ls_params(**kwargs)

    def _arguments(self, k: int | None, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {"k": self.k, **self.search_kwargs, **kwargs, **({} if k is None else {"k": k})}

    def _scored(self, found: Sequence[tuple[Document, float]]) -> list[Document]:
        raw = [float(score) for _, score in found]
        values, distances = self._similarities(raw)
        documents = []
        for i, (document, _) in enumerate(found):
            metadata = copy.deepcopy(document.metadata)
            found_out = {self.score_key: values[i]}
            if distances:
                found_out[self.distance_key] = raw[i]
            self._name_replaced(found_out.keys() & metadata.keys())
            metadata.update(found_out)
            documents.append(document.model_copy(update={"metadata": metadata}))
        return documents

    def _similarities(self, raw: list[float]) -> tuple[list[float], bool]:
        """Similarities for raw scores in the store's order, and whether the raw are distances."""
        found = store_similarities(raw, self.similarity or _relevance_function(self.vectorstore))
        if found.contradicted:
            self._warn_once()
        return found.values, found.distances

    def _name_replaced(self, keys: set[str]) -> None:
        """Warn once of each key under which the documents have something already."""
        for key in sorted(keys - self._named):
            self._named.add(key)
            setting = "score_key" if key == self.score_key else "distance_key"
            logger.warning(
                "documents have metadata[%r] already; it is replaced in the results. Pass %s= to keep both",
                key,
                setting,
            )

    def _warn_once(self) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "the relevance function of %s contradicts its ranking and is ignored; "
                "pass similarity= to set another",
                type(self.vectorstore).__name__,
            )


def _relevance_function(store: VectorStore) -> Callable[[float], float] | None:
    """The store's own map from raw score to relevance; None where it has none.

    LangChain declares this hook, with its leading underscore, for stores to fill in; there is no public name.
    """
    try:
        return store._select_relevance_score_fn()
    except (NotImplementedError, ValueError):
        return None
