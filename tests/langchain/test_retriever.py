"""The retriever: LangChain's standard tests, configuration on direct calls, scores, dict input, traces."""

import copy
from typing import Any

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import ConfigurableField, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests

from sage_core.errors import InputError
from sage_core.selection import SelectionConfig
from sage_langchain import (
    SageCompressor,
    SageRetriever,
)
from sage_langchain.scored_search import CandidateSearch
from tests.fakes.doors import at_door
from tests.fakes.langchain import AsyncWordReranker, WordEmbeddings
from tests.fakes.models import WordReranker

TOPICS = ("bees", "presses", "tea", "bridges", "ferries", "lamps")
WORDS = [
    Document(page_content=f"note {i} on {TOPICS[i % 6]} {'and bees ' * (i % 3)}", id=str(i))
    for i in range(30)
]


def word_store() -> InMemoryVectorStore:
    store = InMemoryVectorStore(WordEmbeddings())
    store.add_documents(copy.deepcopy(WORDS))
    return store


def over_words(**settings: Any) -> SageRetriever:
    settings.setdefault("reranker", WordReranker())
    return SageRetriever.from_vectorstore(word_store(), **at_door(**settings))


def fake_store() -> InMemoryVectorStore:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
    store.add_texts([f"document {i}" for i in range(20)])
    return store


def fake_store_retriever(**settings: Any) -> SageRetriever:
    return SageRetriever.from_vectorstore(fake_store(), reranker=WordReranker(), **settings)


class TestStandard(RetrieversIntegrationTests):
    """LangChain's own suite, unmodified; it needs no network here."""

    @property
    def retriever_constructor(self) -> Any:
        return fake_store_retriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {}

    @property
    def retriever_query_example(self) -> str:
        return "document 3"


def test_reranks_and_selects():
    retriever = over_words()
    ranked = retriever.invoke("bees", select=False)
    assert len(ranked) == 30
    scores = [d.metadata["relevance_score"] for d in ranked]
    assert scores == sorted(scores, reverse=True)
    chosen = retriever.invoke("bees")
    assert chosen == ranked, "all of them have fewer than 250 tokens"
    chosen = over_words(selection=SelectionConfig(min_context_tokens=50)).invoke("bees")
    assert chosen == ranked[: len(chosen)] and 5 <= len(chosen) < 30
    assert all(d.id is not None and "score" not in d.metadata for d in chosen), "scores are in one place"


async def test_sync_async_and_batches_agree():
    retriever = over_words()
    questions = ["bees", "tea", "who mends the lamps"]
    expected = [retriever.invoke(q) for q in questions]
    assert [await retriever.ainvoke(q) for q in questions] == expected
    assert retriever.batch(questions) == expected
    assert await retriever.abatch(questions) == expected
    assert list(retriever.stream("bees")) == [expected[0]]
    awaited = over_words(reranker=AsyncWordReranker())
    assert await awaited.ainvoke("bees") == expected[0]


async def test_explicit_k_means_exactly_k():
    retriever = over_words()
    for k in (1, 3, 12):
        assert len(retriever.invoke("bees", k=k)) == k
        assert len(await retriever.ainvoke("bees", k=k)) == k
    assert len(over_words(k=2).invoke("bees")) == 2
    assert len(over_words(k=2).invoke("bees", k=5)) == 5
    assert len(over_words(candidates=3).invoke("bees", k=9)) == 9
    plain = SageRetriever(
        base_retriever=word_store().as_retriever(), base_compressor=SageCompressor(reranker=WordReranker())
    )
    assert len(plain.invoke("bees")) == 4
    assert len(plain.invoke("bees", k=9)) == 9
    assert len(plain.bind(k=2).invoke("bees")) == 2


async def test_configuration_reaches_the_inner_retriever_on_direct_calls():
    inner = (
        word_store()
        .as_retriever(search_kwargs={"k": 4})
        .configurable_fields(search_kwargs=ConfigurableField(id="search_kwargs"))
    )
    retriever = SageRetriever(base_retriever=inner, base_compressor=SageCompressor(reranker=WordReranker()))
    config = {"configurable": {"search_kwargs": {"k": 6}}}
    assert len(retriever.invoke("bees")) == 4
    assert len(retriever.invoke("bees", config)) == 6
    assert len(await retriever.ainvoke("bees", config)) == 6
    assert len((RunnablePassthrough() | retriever).invoke("bees", config)) == 6
    assert [spec.id for spec in retriever.config_specs] == ["search_kwargs"]
    assert [len(x) for x in retriever.batch(["bees", "tea"], [config, {}])] == [6, 4]


async def test_max_concurrency_and_tags_reach_the_inner_retriever_once():
    seen = []

    def inner(question: str, config: Any) -> list[Document]:
        seen.append(config)
        return [Document(page_content=question)]

    retriever = SageRetriever(base_retriever=inner, base_compressor=SageCompressor(reranker=WordReranker()))
    config = {"max_concurrency": 3, "tags": ["mine"], "metadata": {"a": 1}, "run_name": "outer"}
    retriever.invoke("bees", config)
    await retriever.ainvoke("bees", config)
    for found in seen:
        assert found["max_concurrency"] == 3
        assert found["tags"] == ["mine"] and found["metadata"]["a"] == 1
        assert found.get("run_name") != "outer"


def test_input_that_holds_no_question_is_an_error():
    for bad in ({"text": "bees"}, {"input": ["bees"]}, 7):
        with pytest.raises(InputError, match="question"):
            over_words().invoke(bad)


def test_a_compressor_without_scores_is_named():
    class Last(BaseDocumentCompressor):
        def compress_documents(self, documents, query, callbacks=None):
            return documents[-5:]

    foreign = SageRetriever(base_retriever=lambda q: WORDS, base_compressor=Last())
    with pytest.raises(InputError, match=r"Last.*only compressors with scores"):
        foreign.invoke("bees")


def test_wrong_construction_is_named():
    with pytest.raises(InputError, match="from_vectorstore"):
        SageRetriever(base_retriever=word_store())
    with pytest.raises(InputError, match=r"SageRetriever\(base_retriever="):
        SageRetriever.from_vectorstore(word_store().as_retriever())


def test_stored_documents_are_never_changed():
    stored = [Document(page_content=f"bees {i}", metadata={"deep": {"x": []}}) for i in range(9)]
    before = copy.deepcopy(stored)
    store = InMemoryVectorStore(WordEmbeddings())
    store.add_documents(stored)
    for found in CandidateSearch(vectorstore=store).invoke("bees"):
        found.metadata["deep"]["x"].append(1)
    assert stored == before


def test_traces_name_the_store_and_its_embeddings():
    told = over_words()._get_ls_params()
    assert told["ls_retriever_name"] == "sage"
    assert told["ls_vector_store_provider"] == "InMemoryVectorStore"
    assert told["ls_embedding_provider"] == "WordEmbeddings"


def test_a_filter_of_the_store_s_kind_limits_given_documents_too():
    documents = [
        Document("The ferry leaves at seven.", id="a", metadata={"lang": "en"}),
        Document("Ferry: um sieben.", id="b", metadata={"lang": "de"}),
    ]
    store = InMemoryVectorStore.from_documents(documents, WordEmbeddings())
    limits = {"filter": lambda document: document.metadata["lang"] == "en"}
    retriever = SageRetriever.from_vectorstore(
        store, words=documents, search_kwargs=limits, reranker=None, selection=SelectionConfig(min_k=2)
    )
    assert [d.metadata["lang"] for d in retriever.invoke("When does the ferry leave?")] == ["en"]
