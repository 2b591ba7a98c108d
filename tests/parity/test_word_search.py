"""Candidates by meaning and by words, over real stores of both frameworks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore
from llama_index.core import SummaryIndex
from llama_index.core.schema import TextNode

from sage_core.errors import InputError
from sage_langchain import SageRetriever as ChainRetriever
from sage_llamaindex import SageRetriever
from tests.fakes.llamaindex import FixedRetriever
from tests.fakes.searched import Documents, Nodes, Passage, chroma, chroma_vectors

PART = "Spare parts: seal XK-200/7b fits."
MANY = [f"The pump number {i} of the ferry is painted green." for i in range(80)]
PASSAGES = [Passage(text, f"k{i % 2}") for i, text in enumerate([*MANY, PART])]
QUESTION = "the pump of the ferry painted green, what fits XK-200/7b?"

STORES: dict[str, Callable[[], Any]] = {
    "index": lambda: Nodes(PASSAGES),
    "index over Chroma": lambda: Nodes(PASSAGES, chroma_vectors()),
    "memory": lambda: Documents(PASSAGES),
    "Chroma, cosine": lambda: Documents(PASSAGES, chroma),
    "Chroma, ip": lambda: Documents(PASSAGES, lambda model: chroma(model, "ip")),
    "Chroma, l2": lambda: Documents(PASSAGES, lambda model: chroma(model, "l2")),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Any:
    return STORES[request.param]()


PLAIN = pytest.mark.parametrize("store", ["index", "memory"], indirect=True)


def candidates(store: Any, question: str = QUESTION, *, awaited: bool = False, **settings: Any) -> Any:
    retriever = store.retriever(candidates=3, select=False, reranker=None, **settings)
    return store.found(retriever, question, awaited)


def test_a_rare_word_finds_its_text_whatever_the_vector(store: Any) -> None:
    found = candidates(store)
    assert PART in found and PART not in candidates(store, words="off")
    assert candidates(store, awaited=True) == found
    exact = store.exact(QUESTION)
    # Chroma's index is approximate: a search for all may leave one out.
    assert found == pytest.approx({text: exact.get(text, found[text]) for text in found}, abs=1e-5)
    assert found[PART] == min(found.values())


def test_filters_hold_for_words_too(store: Any) -> None:
    odd = candidates(store, title="k1")
    assert odd and {*odd} <= {p.text for p in PASSAGES if p.title == "k1"}
    assert PART in candidates(store, title="k0")


def test_texts_that_come_and_go_are_followed(store: Any) -> None:
    valve, question = Passage("Valve QZ-9 is red.", "k0"), "the green pump of the ferry, and QZ-9"
    retriever = store.retriever(candidates=3, select=False, reranker=None)
    assert valve.text not in store.found(retriever, question)
    store.add(valve, "new")
    assert valve.text in store.found(retriever, question)
    store.remove("new")
    assert valve.text not in store.found(retriever, question)


def test_a_text_that_is_replaced_is_followed(store: Any) -> None:
    """The number of texts stays; so do their ids."""
    question = "the green pump of the ferry, and QZ-9"
    retriever = store.retriever(candidates=3, select=False, reranker=None)
    store.found(retriever, question)
    store.replace(Passage("Valve QZ-9 is red.", "k0"), "7.md")
    assert "Valve QZ-9 is red." in store.found(retriever, question)


@PLAIN
def test_the_index_of_words_is_kept_in_a_file(store: Any, tmp_path: Path) -> None:
    path = tmp_path / "words.sqlite3"
    assert PART in candidates(store, words_path=path)
    before = path.read_bytes()
    assert PART in candidates(store, words_path=path) and path.read_bytes() == before


@PLAIN
@pytest.mark.parametrize("awaited", [False, True])
def test_the_question_is_embedded_once(store: Any, awaited: bool) -> None:
    candidates(store, awaited=awaited)
    assert store.model.questions == 1


@pytest.mark.parametrize("store", ["index over Chroma", "Chroma, cosine"], indirect=True)
def test_in_a_larger_collection_a_text_for_another_is_seen(store: Any) -> None:
    question = "the green pump of the ferry, and QZ-9"
    fill(store, 600)
    retriever = store.retriever(candidates=3, select=False, reranker=None)
    store.found(retriever, question)
    store.remove("7.md")
    store.add(Passage("Valve QZ-9 is red.", "k0"), "new")
    assert "Valve QZ-9 is red." in store.found(retriever, question)


def fill(store: Any, n: int) -> None:
    """Add ``n`` texts at one place, far from the others."""
    nodes = isinstance(store, Nodes)
    collection = store.index.vector_store.client if nodes else store.store._collection
    embed = store.model.get_query_embedding if nodes else store.model.embed_query
    vector = embed("mill")
    for begin in range(0, n, 3_000):
        ids = [f"more{i}" for i in range(begin, min(n, begin + 3_000))]
        vectors, about = [vector] * len(ids), [{"title": "k0"}] * len(ids)
        collection.add(ids, vectors, about, [f"Mill {key}." for key in ids])


@pytest.mark.parametrize("make", [Nodes, Documents])
def test_headers_are_searched(make: Any) -> None:
    store = make([*PASSAGES[:80], Passage("It fits.", "Seal XK-200/7b")])
    assert "It fits." in candidates(store) and "It fits." not in candidates(store, words="off")


class Unreadable(VectorStore):
    """A store of a kind that is not known."""

    def similarity_search(self, query: str, k: int = 4, **_: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def from_texts(cls, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def similarity_search_with_score(self, query: str, k: int = 4, **_: Any) -> Any:
        return Documents(PASSAGES).store.similarity_search_with_score(query, k)


def with_a_search_of_its_own() -> ChainRetriever:
    store = Unreadable()
    store.retrieval_mode = "hybrid"
    return ChainRetriever.from_vectorstore(store)


@pytest.mark.parametrize(
    ("make", "source"),
    [
        (lambda: STORES["index"]().retriever(), "docstore"),
        (lambda: STORES["index over Chroma"]().retriever(), "Chroma collection"),
        (lambda: STORES["index"]().retriever(words="off"), "none"),
        (lambda: SageRetriever.from_index(SummaryIndex([])), "none"),
        (lambda: SageRetriever(FixedRetriever(), words=[TextNode(text="x")]), "nodes given"),
        (lambda: STORES["memory"]().retriever(), "in-memory store"),
        (lambda: STORES["Chroma, l2"]().retriever(), "Chroma collection"),
        (lambda: STORES["memory"]().retriever(words="off"), "none"),
        (lambda: ChainRetriever(base_retriever=lambda q: []), "none"),
        (lambda: ChainRetriever.from_vectorstore(Unreadable()), "none"),
        (with_a_search_of_its_own, "own"),
    ],
)
def test_it_says_what_it_searches_by_words(make: Callable[[], Any], source: str) -> None:
    assert source in make().words_from


@pytest.mark.parametrize("store", ["index over Chroma", "Chroma, cosine"], indirect=True)
def test_texts_that_are_given_need_not_be_in_the_store(store: Any) -> None:
    given = store.given([Passage("Valve QZ-9 is red.", "k0")], "other")
    assert "Valve QZ-9 is red." in candidates(store, "the green pump, and QZ-9", **given)


def test_documents_with_and_without_ids_are_all_searched() -> None:
    texts = ["Valve QZ-1 is red.", "Valve QZ-2 is blue.", "Valve QZ-3 is green."]
    documents = [Document(texts[0], id="1"), Document(texts[1]), Document(texts[2])]
    retriever = ChainRetriever.from_vectorstore(Unreadable(), words=documents, candidates=6)
    found = {d.page_content for d in retriever.invoke("QZ-1, QZ-2 or QZ-3?")}
    assert {*texts} <= found


def test_documents_for_a_store_that_cannot_be_read() -> None:
    documents = [Document(p.text, metadata={"title": p.title}) for p in PASSAGES]
    settings: dict[str, Any] = {"candidates": 3, "words": documents}
    found = ChainRetriever.from_vectorstore(Unreadable(), **settings).invoke(QUESTION, select=False)
    assert PART in [d.page_content for d in found]
    with pytest.raises(InputError):
        settings["search_kwargs"] = {"filter": {"$or": []}}
        ChainRetriever.from_vectorstore(Unreadable(), **settings).invoke(QUESTION)
