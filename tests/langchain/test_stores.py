"""Stores with scores of all kinds: cosines, none, of NumPy, contradicted by the store's own function."""

import uuid
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from sage_core.selection import SelectionConfig
from sage_langchain import SageRetriever
from sage_langchain.scored_search import CandidateSearch
from tests.fakes.langchain import WordEmbeddings

TEXTS = [
    "bees on the roof",
    "bees in a box by the canal",
    "presses in the printing house",
    "tea grows on mountains",
    "a courier crosses the long bridge",
]


def memory() -> VectorStore:
    store = InMemoryVectorStore(WordEmbeddings())
    store.add_texts(TEXTS, metadatas=[{"i": i} for i in range(5)], ids=[f"id{i}" for i in range(5)])
    return store


def test_a_store_of_cosines_gives_them_as_floats():
    settings = {
        "collection_configuration": {"hnsw": {"space": "cosine"}},
        "embedding_function": WordEmbeddings(),
    }
    store = pytest.importorskip("langchain_chroma").Chroma(f"t{uuid.uuid4().hex}", **settings)
    store.add_texts(TEXTS)
    found = CandidateSearch(vectorstore=store, k=5, words="off").invoke("bees on the roof")
    scores = [d.metadata["relevance_score"] for d in found]
    cosines = [cosine for _, cosine in memory().similarity_search_with_score("bees on the roof", 5)]
    assert scores == pytest.approx(cosines, abs=1e-5) and {type(score) for score in scores} == {float}


class DistanceStore(InMemoryVectorStore):
    """Returns distances and says nothing about them."""

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return [(d, 1 - s) for d, s in super().similarity_search_with_score(query, k, **kwargs)]


class WrongWayStore(DistanceStore):
    """Returns distances and converts them the wrong way round."""

    def _select_relevance_score_fn(self) -> Any:
        return lambda distance: distance


class OrderedStore(VectorStore):
    """Has what every vector store must have, and no scores."""

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return memory().similarity_search(query, k, **kwargs)

    @classmethod
    def from_texts(cls, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("k", [2, 5])
async def test_a_store_without_scores_is_searched_by_order(k):
    expected = [d.page_content for d in memory().similarity_search("bees on the roof", k)]
    search = CandidateSearch(vectorstore=OrderedStore(), k=k)
    assert [d.page_content for d in search.invoke("bees on the roof")] == expected
    retriever = SageRetriever.from_vectorstore(
        OrderedStore(), candidates=k, reranker=None, selection=SelectionConfig(min_k=k)
    )
    found = retriever.invoke("bees on the roof")
    assert await retriever.ainvoke("bees on the roof") == found
    assert [d.page_content for d in found] == expected
    scores = [d.metadata["relevance_score"] for d in found]
    assert scores == sorted(set(scores), reverse=True)
    assert (
        SageRetriever.from_vectorstore(OrderedStore()).invoke("bees on the roof")[0].page_content == TEXTS[0]
    )


class NumpyStore(OrderedStore):
    """Returns distances as NumPy's floats, as FAISS does."""

    def similarity_search_with_score(self, query: str, k: int = 4) -> list[tuple[Document, np.float32]]:
        return [(d, np.float32(1 - s)) for d, s in memory().similarity_search_with_score(query, k)]


def test_scores_of_numpy_are_sorted_as_numbers():
    found = SageRetriever.from_vectorstore(NumpyStore(), reranker=None).invoke("bees on the roof")
    assert found[0].page_content == TEXTS[0] and type(found[0].metadata["relevance_score"]) is float


class FlatStore(InMemoryVectorStore):
    """Its relevance function cuts off what is below the middle, as those that are made for thresholds do."""

    def _select_relevance_score_fn(self) -> Any:
        return lambda score: max(0.5, score)


@pytest.mark.parametrize("store_type", [WrongWayStore, FlatStore])
def test_a_relevance_function_that_contradicts_the_ranking_is_ignored(store_type):
    store = store_type(WordEmbeddings())
    store.add_texts(TEXTS)
    found = CandidateSearch(vectorstore=store).invoke("bees on the roof")
    assert len({d.metadata["relevance_score"] for d in found}) == len(TEXTS)
    scores = [d.metadata["relevance_score"] for d in found]
    assert scores == sorted(scores, reverse=True) and found[0].page_content == TEXTS[0]


def test_arguments_of_the_search_are_configured_at_a_call():
    made = SageRetriever.from_vectorstore(memory(), search_kwargs={"k": 2}).configurable_fields(
        search_kwargs=ConfigurableField(id="search")
    )
    assert len(made.invoke("bees")) == 2
    only = {"filter": lambda document: document.metadata["i"] == 3}
    found = made.invoke("bees", {"configurable": {"search": only}})
    assert [d.metadata["i"] for d in found] == [3]
