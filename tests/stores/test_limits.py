"""Limits of real stores that lose an answer unless they are minded: filters, distances."""

from typing import Any

import pytest
from langchain_core.documents import Document
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.schema import TextNode

from sage_langchain import SageRetriever as LangChainRetriever
from sage_llamaindex import MiniLMEmbedding
from sage_llamaindex import SageRetriever as LlamaIndexRetriever
from tests.stores.test_real_stores import Vectors

pytestmark = pytest.mark.stores


def test_a_filter_sees_more_than_the_twenty_nearest(caplog: pytest.LogCaptureFixture) -> None:
    vectorstores = pytest.importorskip("langchain_community.vectorstores")
    pytest.importorskip("faiss")
    texts = [Document("harbor ferry", metadata={"kind": "near"}, id=str(i)) for i in range(200)]
    texts += [Document(f"lamp rope {i}", metadata={"kind": "far"}, id=f"far {i}") for i in range(5)]
    store = vectorstores.FAISS.from_documents(texts, Vectors())
    few = store.as_retriever(search_kwargs={"filter": {"kind": "far"}, "k": 5}).invoke("harbor ferry")
    assert few == [], "else this says nothing"
    only: dict[str, Any] = {"filter": {"kind": "far"}}
    ours = LangChainRetriever.from_vectorstore(store, search_kwargs=only, words="off")
    assert len(ours.invoke("harbor ferry")) == 5
    assert not caplog.records
    narrow = LangChainRetriever.from_vectorstore(store, search_kwargs={**only, "fetch_k": 20}, words="off")
    for _ in range(2):
        narrow.invoke("harbor ferry")
    [record] = caplog.records
    assert "filters the nearest 20 of its 205 documents only, and 0 passed" in record.getMessage()


@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_of_few_distances_the_nearest_is_first(n: int) -> None:
    faiss, stores = pytest.importorskip("faiss"), pytest.importorskip("llama_index.vector_stores.faiss")
    sentences = [
        "The ferry leaves at seven in the morning.",
        "Bees live on the roof of the library.",
        "A doctor comes on Mondays.",
        "Bread is baked twice a week.",
        "The lighthouse was built in 1870.",
        "Seals come back every spring.",
    ][:n]
    store = stores.FaissVectorStore(faiss_index=faiss.IndexFlatL2(384))
    index = VectorStoreIndex(
        [TextNode(text=t) for t in sentences],
        embed_model=MiniLMEmbedding(),
        storage_context=StorageContext.from_defaults(vector_store=store),
    )
    retriever = LlamaIndexRetriever.from_index(index)
    for i, question in enumerate(("At what time does the boat depart?", "Where are the hives?")):
        assert index.as_retriever(similarity_top_k=1).retrieve(question)[0].text == sentences[i]
        assert retriever.retrieve(question)[0].text == sentences[i]
        whole = LlamaIndexRetriever.from_index(index, reranker=None, words="off").retrieve(question)
        assert whole[0].text == sentences[i]
