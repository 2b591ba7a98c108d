"""`inspect` over what LangChain itself offers: real embeddings, no part of ours."""

import asyncio
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from sage_core.errors import InputError
from sage_core.inspecting import Inspection
from sage_core.selection import SelectionConfig
from sage_langchain import (
    MiniLMEmbeddings,
    SageCompressor,
    SageRetriever,
    ainspect,
    create_sage_chain,
    inspect,
)
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import grade

TEXTS = (
    "The ferry leaves the island at seven in the morning. On Sundays it leaves at nine.",
    "Tickets cost nine crowns. Children travel free.",
    "Bees live on the roof of the library. Their honey is sold in autumn.",
    "The library opens at ten. It lends books for four weeks.",
    "Seals live in the harbor. They come back every spring.",
    "The lighthouse was built in 1870. Its lamp is now electric.",
)
QUESTION = "When does the ferry leave?"
EVIDENCE = "leaves the island at seven"


@pytest.fixture(scope="module")
def embeddings() -> MiniLMEmbeddings:
    return MiniLMEmbeddings()


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return [
        Document(text, metadata={"source": "island.md", "title": "Island", "part": "ab"[i % 2]}, id=f"d{i}")
        for i, text in enumerate(TEXTS)
    ]


@pytest.fixture(scope="module")
def store(embeddings: MiniLMEmbeddings, documents: list[Document]) -> InMemoryVectorStore:
    return InMemoryVectorStore.from_documents(documents, embeddings)


def steps(found: Inspection) -> list[str]:
    return [step.name for step in found.steps]


@pytest.mark.parametrize("search_type", ["similarity", "mmr"])
def test_vector_search(store: InMemoryVectorStore, search_type: str) -> None:
    retriever = store.as_retriever(search_type=search_type, search_kwargs={"k": 3})
    found = inspect(retriever, QUESTION)
    assert steps(found) == ["VectorStoreRetriever"] and "3 found" in found.steps[0].title
    assert [p.text for p in found.sent] == [d.page_content for d in retriever.invoke(QUESTION)]
    assert EVIDENCE in found.text and "island.md | Island" in found.text


def test_ensemble_shows_each_search_and_what_moved(
    store: InMemoryVectorStore, documents: list[Document]
) -> None:
    classic = pytest.importorskip("langchain_classic.retrievers")
    words = BM25Retriever(documents=documents, bm25=pytest.importorskip("rank_bm25"))
    ensemble = classic.EnsembleRetriever(
        retrievers=[store.as_retriever(search_kwargs={"k": 3}), words], weights=[0.5, 0.5]
    )
    found = inspect(ensemble, QUESTION)
    assert steps(found) == ["VectorStoreRetriever", "BM25Retriever", "EnsembleRetriever"]
    last = found.steps[-1]
    assert len(last.incoming) == 5 and {p.number for p in last.passages} == {*last.incoming}


def test_ensemble_of_stores(store: InMemoryVectorStore, embeddings: MiniLMEmbeddings) -> None:
    ensemble = pytest.importorskip("langchain_classic.retrievers").EnsembleRetriever
    other = InMemoryVectorStore.from_texts([TEXTS[0], TEXTS[2]], embeddings)
    both = ensemble(retrievers=[s.as_retriever(search_kwargs={"k": 2}) for s in (store, other)])
    found = inspect(both, QUESTION)
    assert steps(found) == ["VectorStoreRetriever", "VectorStoreRetriever", "EnsembleRetriever"]
    numbers = {p.number for step in found.steps for p in step.passages}
    assert len(found.steps[-1].passages) == len(numbers) < 4  # the same text has one number


def test_multi_query_shows_the_questions_it_made(store: InMemoryVectorStore) -> None:
    classic = pytest.importorskip("langchain_classic.retrievers")
    llm = FakeListChatModel(responses=["timetable of the ferry\nprice of tickets"])
    retriever = classic.MultiQueryRetriever.from_llm(store.as_retriever(search_kwargs={"k": 2}), llm)
    found = inspect(retriever, QUESTION)
    asked = [s.question for s in found.steps if s.name == "VectorStoreRetriever"]
    assert asked == ["timetable of the ferry", "price of tickets"]
    assert steps(found)[-1] == "MultiQueryRetriever"
    assert len(found.prompts) == 1 and QUESTION in found.prompts[0]


def test_parent_documents_say_which_parts_led_to_them(embeddings: MiniLMEmbeddings) -> None:
    classic = pytest.importorskip("langchain_classic.retrievers")
    retriever = classic.ParentDocumentRetriever(
        vectorstore=InMemoryVectorStore(embeddings),
        docstore=InMemoryStore(),
        child_splitter=RecursiveCharacterTextSplitter(chunk_size=60, chunk_overlap=0),
    )
    retriever.add_documents([Document(" ".join(TEXTS[:3])), Document(" ".join(TEXTS[3:]))])
    found = inspect(retriever, QUESTION)
    assert steps(found) == ["ParentDocumentRetriever"]
    assert [p.text for p in found.sent] == [d.page_content for d in retriever.invoke(QUESTION)]


def test_compression_shows_what_it_dropped(store: InMemoryVectorStore) -> None:
    classic = pytest.importorskip("langchain_classic.retrievers")
    retriever = classic.ContextualCompressionRetriever(
        base_retriever=store.as_retriever(search_kwargs={"k": 6}),
        base_compressor=SageCompressor(selection=SelectionConfig(min_k=1)),
    )
    found = inspect(retriever, QUESTION)
    assert steps(found) == ["VectorStoreRetriever", "ContextualCompressionRetriever"]
    assert "6 in, 1 out" in found.steps[1].title and len(found.steps[1].dropped) == 5
    assert "rank 2 falls to" in found.reason and found.steps[1].scale == "probability"


def test_a_chain_of_expressions(store: InMemoryVectorStore) -> None:
    llm = FakeListChatModel(responses=["At seven in the morning. Seals eat 300 herrings a day."])
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    chain = (
        {
            "context": store.as_retriever(search_kwargs={"k": 2}) | (lambda ds: ds[0].page_content),
            "question": RunnablePassthrough(),
        }
        | prompt
        | llm
        | StrOutputParser()
    )
    found = inspect(chain, QUESTION)
    assert steps(found) == ["VectorStoreRetriever"]
    assert EVIDENCE in found.prompts[0] and QUESTION in found.prompts[0]
    assert found.answer and found.answer.startswith("At seven")
    assert [m.support for m in found.marks if m.text.strip()] == ["supported", "unsupported"]


def test_a_retrieval_chain(store: InMemoryVectorStore) -> None:
    classic = pytest.importorskip("langchain_classic.chains")
    combine = pytest.importorskip("langchain_classic.chains.combine_documents")
    llm = FakeListChatModel(responses=["At seven in the morning."])
    prompt = ChatPromptTemplate.from_template("{context}\n{input}")
    chain = classic.create_retrieval_chain(
        store.as_retriever(search_kwargs={"k": 2}), combine.create_stuff_documents_chain(llm, prompt)
    )
    found = inspect(chain, {"input": QUESTION})
    assert found.question == QUESTION and len(found.sent) == 2
    assert found.answer == "At seven in the morning." and TEXTS[0] in found.prompts[0]


def test_a_function_as_retriever(documents: list[Document]) -> None:
    found = inspect(RunnableLambda(lambda question: documents[:2], name="mine"), QUESTION)
    assert steps(found) == ["mine"] and [p.score for p in found.sent] == [None, None]


def test_our_retriever_says_where_it_cut(store: InMemoryVectorStore) -> None:
    found = inspect(SageRetriever.from_vectorstore(store, selection=SelectionConfig(min_k=1)), QUESTION)
    assert steps(found) == ["CandidateSearch", "sage_rerank", "SageRetriever > sage_select"]
    assert "rank 2 falls to" in found.reason and found.steps[-1].scale == "probability"


def test_our_chain_shows_each_round(store: InMemoryVectorStore) -> None:
    llm = ScriptedChat(replies=["a draft", grade(3, 1), "at seven", grade(9)])
    chain = create_sage_chain(llm, store, selection=SelectionConfig(min_k=1), critic_method="prompt")
    found = inspect(chain, QUESTION)
    first, second = (len(s.passages) for s in found.steps if s.name == "sage_select")
    assert first < second == len(found.sent)
    assert found.answer == "at seven" and len(found.prompts) == 4


class BM25Retriever(BaseRetriever):
    """As in `langchain_community`, which is not to be installed for one class."""

    documents: list[Document]
    bm25: Any

    def _get_relevant_documents(self, query: str, **kwargs: Any) -> list[Document]:
        scores = self.bm25.BM25Okapi([d.page_content.split() for d in self.documents]).get_scores(
            query.split()
        )
        return [self.documents[i] for i in sorted(range(len(scores)), key=lambda i: -scores[i])[:2]]


class Broken(BaseRetriever):
    def _get_relevant_documents(self, query: str, **kwargs: Any) -> list[Document]:
        raise ValueError("broken")


def test_errors_are_those_of_the_retriever(store: InMemoryVectorStore) -> None:
    with pytest.raises(ValueError, match="broken"):
        inspect(Broken(), QUESTION)
    with pytest.raises(InputError, match="as_retriever"):
        inspect(store, QUESTION)  # type: ignore[arg-type]


async def test_awaited_it_shows_the_same_and_two_at_once_are_kept_apart(store: InMemoryVectorStore) -> None:
    stock = store.as_retriever(search_kwargs={"k": 4})
    for make in (
        lambda: stock,
        lambda: SageRetriever.from_vectorstore(store),
        lambda: create_sage_chain(ScriptedChat(replies=["At seven.", grade(9)]), store),
    ):
        expected = inspect(make(), QUESTION)
        one, other = await asyncio.gather(
            ainspect(make(), QUESTION), ainspect(stock, "What lives on the roof?")
        )
        assert [s.name for s in one.steps] == [s.name for s in expected.steps]
        assert one.answer == expected.answer
        assert [p.text for p in one.sent] == [p.text for p in expected.sent]
        assert [s.name for s in other.steps] == ["VectorStoreRetriever"] and len(other.sent) == 4
