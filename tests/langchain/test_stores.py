"""Real stores: scores and their direction, in memory and in Chroma with each of its distances."""

import logging
import uuid
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from sage_core.errors import InputError
from sage_langchain import SageCompressor, SageRetriever, SageTextSplitter, ScoredVectorStoreRetriever
from tests.fakes.langchain import TEXT, WordEmbeddings
from tests.fakes.models import HashModel, WordReranker

TEXTS = [
    "bees on the roof",
    "bees in a box by the canal",
    "presses in the printing house",
    "tea grows on mountains",
    "a courier crosses the long bridge",
]


def chroma(space: str) -> VectorStore:
    module = pytest.importorskip("langchain_chroma")
    store = module.Chroma(
        collection_name=f"t{uuid.uuid4().hex}",
        embedding_function=WordEmbeddings(),
        collection_configuration={"hnsw": {"space": space}},
    )
    store.add_texts(TEXTS, metadatas=[{"i": i} for i in range(5)], ids=[f"id{i}" for i in range(5)])
    return store


def memory() -> VectorStore:
    store = InMemoryVectorStore(WordEmbeddings())
    store.add_texts(TEXTS, metadatas=[{"i": i} for i in range(5)], ids=[f"id{i}" for i in range(5)])
    return store


def cosines(question: str) -> dict[int, float]:
    vectors = WordEmbeddings()
    q = np.array(vectors.embed_query(question))
    return {i: float(q @ np.array(vectors.embed_query(t))) for i, t in enumerate(TEXTS)}


@pytest.mark.parametrize(
    "make", [memory, lambda: chroma("cosine"), lambda: chroma("ip"), lambda: chroma("l2")]
)
async def test_scores_are_similarities_in_every_store(make):
    retriever = ScoredVectorStoreRetriever(vectorstore=make(), k=5)
    found = retriever.invoke("bees on the roof")
    assert await retriever.ainvoke("bees on the roof") == found
    truth = cosines("bees on the roof")
    assert [d.metadata["i"] for d in found] == sorted(truth, key=truth.get, reverse=True)
    scores = [d.metadata["score"] for d in found]
    assert scores == sorted(scores, reverse=True) and all(type(s) is float for s in scores)
    assert found[0].id == "id0"


def test_cosine_scores_are_the_cosines_and_distances_are_kept():
    truth = cosines("bees on the roof")
    for store in (memory(), chroma("cosine")):
        for d in ScoredVectorStoreRetriever(vectorstore=store, k=5).invoke("bees on the roof"):
            assert d.metadata["score"] == pytest.approx(truth[d.metadata["i"]], abs=1e-5)
    for d in ScoredVectorStoreRetriever(vectorstore=chroma("l2"), k=5).invoke("bees on the roof"):
        assert d.metadata["distance"] == pytest.approx(2 - 2 * truth[d.metadata["i"]], abs=1e-5)
    assert all(
        "distance" not in d.metadata for d in ScoredVectorStoreRetriever(vectorstore=memory()).invoke("x")
    )


def test_search_kwargs_and_filters():
    store = chroma("cosine")
    assert len(ScoredVectorStoreRetriever(vectorstore=store, k=2).invoke("bees")) == 2
    assert len(ScoredVectorStoreRetriever(vectorstore=store).invoke("bees", k=3)) == 3
    only = ScoredVectorStoreRetriever(vectorstore=store, search_kwargs={"filter": {"i": 3}}).invoke("bees")
    assert [d.metadata["i"] for d in only] == [3]
    through = SageRetriever.from_vectorstore(
        store, base_compressor=SageCompressor(reranker=WordReranker())
    ).invoke("bees", filter={"i": 4})
    assert [d.metadata["i"] for d in through] == [4]


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


def test_distances_without_a_meaning_are_recognised_and_can_be_given_one():
    store = DistanceStore(WordEmbeddings())
    store.add_texts(TEXTS)
    plain = ScoredVectorStoreRetriever(vectorstore=store).invoke("bees on the roof")
    assert [d.metadata["score"] for d in plain] == [-d.metadata["distance"] for d in plain]
    assert plain[0].page_content == TEXTS[0] and plain[0].metadata["score"] > plain[-1].metadata["score"]
    found = ScoredVectorStoreRetriever(vectorstore=store, similarity=lambda d: 1 - d).invoke(
        "bees on the roof"
    )
    assert found[0].metadata["score"] == pytest.approx(1.0, abs=1e-6)
    assert found[0].metadata["distance"] == pytest.approx(0.0, abs=1e-6)


def test_a_relevance_function_that_contradicts_the_ranking_is_ignored(caplog):
    store = WrongWayStore(WordEmbeddings())
    store.add_texts(TEXTS)
    with caplog.at_level(logging.WARNING):
        found = ScoredVectorStoreRetriever(vectorstore=store).invoke("bees on the roof")
    assert "contradicts" in caplog.text
    scores = [d.metadata["score"] for d in found]
    assert scores == sorted(scores, reverse=True) and found[0].page_content == TEXTS[0]


def test_the_whole_way_from_text_to_chunks_in_chroma():
    module = pytest.importorskip("langchain_chroma")
    chunks = SageTextSplitter(model=HashModel(), add_start_index=True, add_end_index=True).split_documents(
        [Document(page_content=TEXT, metadata={"source": "note"})]
    )
    store = module.Chroma(collection_name=f"t{uuid.uuid4().hex}", embedding_function=WordEmbeddings())
    store.add_documents(chunks)
    found = SageRetriever.from_vectorstore(
        store, base_compressor=SageCompressor(reranker=WordReranker())
    ).invoke("Where are the presses of the printing house?")
    assert "presses" in found[0].page_content
    for d in found:
        assert TEXT[d.metadata["start_index"] : d.metadata["end_index"]] == d.page_content


@pytest.mark.parametrize("make", [memory, lambda: chroma("cosine")])
def test_a_user_s_own_score_is_kept_under_other_keys_and_never_replaced_in_silence(make, caplog):
    store = make()
    store.add_documents(
        [Document(page_content="bees on the new roof", metadata={"score": "A+", "distance": "near"})]
    )
    first = ScoredVectorStoreRetriever(vectorstore=store, k=9)
    for _ in range(2):
        assert all(type(d.metadata["score"]) is float for d in first.invoke("bees on the new roof"))
    assert caplog.text.count("Pass score_key= to keep both") == 1
    caplog.clear()
    kept = SageRetriever.from_vectorstore(
        store,
        score_key="similarity",
        distance_key="far",
        base_compressor=SageCompressor(score_key="similarity", scale="cosine", select=False),
    ).invoke("bees on the new roof")
    own = next(d for d in kept if "score" in d.metadata)
    assert (own.metadata["score"], own.metadata["distance"]) == ("A+", "near")
    assert own.metadata["similarity"] == own.metadata["relevance_score"] == pytest.approx(1.0, abs=1e-5)
    assert not caplog.text


def test_distances_of_inner_products_are_kept_as_such():
    for d in ScoredVectorStoreRetriever(vectorstore=chroma("ip"), k=5).invoke("bees near the bridge"):
        assert d.metadata["score"] == pytest.approx(1 - d.metadata["distance"], abs=1e-5)


MANY = [f"The pump number {i} of the ferry is painted green." for i in range(80)]
PART = "Spare parts: seal XK-200/7b fits."
QUESTION = "the pump of the ferry painted green, what fits XK-200/7b?"


def fill(store: VectorStore) -> VectorStore:
    texts = [*MANY, PART]
    store.add_texts(
        texts, metadatas=[{"kind": f"k{i % 2}"} for i in range(81)], ids=[f"n{i}" for i in range(81)]
    )
    return store


def many(make: Any) -> VectorStore:
    store = make()
    store.delete([f"id{i}" for i in range(5)])
    return fill(store)


class WithDocstore(VectorStore):
    """A stand-in with the attributes of LangChain's FAISS, which is in a package that is not imported here."""

    def __init__(self) -> None:
        self._inner = InMemoryVectorStore(WordEmbeddings())
        self.docstore = self
        self._dict: dict[str, Document] = {}
        self.index_to_docstore_id: dict[int, str] = {}

    @property
    def embeddings(self) -> Any:
        return self._inner.embeddings

    def add_texts(self, texts: Any, metadatas: Any = None, *, ids: Any = None, **_: Any) -> list[str]:
        self._inner.add_texts(texts, metadatas, ids=ids)
        for key, text, metadata in zip(ids, texts, metadatas, strict=True):
            self._dict[key] = Document(text, metadata=metadata)
            self.index_to_docstore_id[len(self.index_to_docstore_id)] = key
        return list(ids)

    def similarity_search_with_score_by_vector(self, vector: Any, k: int, filter: Any = None) -> Any:  # noqa: A002
        passes = None if filter is None else lambda d: all(d.metadata[x] == y for x, y in filter.items())
        found = self._inner.similarity_search_with_score_by_vector(vector, k, filter=passes)
        return [(document, 1 - score) for document, score in found]  # distances

    def delete(self, ids: Any = None, **_: Any) -> None:
        for key in ids:
            self._dict.pop(key, None)
        self.index_to_docstore_id = {i: x for i, x in self.index_to_docstore_id.items() if x in self._dict}
        self._inner.delete(ids)

    def similarity_search(self, query: str, k: int = 4, **_: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def from_texts(cls, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


READABLE = pytest.mark.parametrize(
    "make",
    [memory, lambda: chroma("cosine"), lambda: chroma("ip"), lambda: chroma("l2"), WithDocstore],
    ids=["memory", "cosine", "ip", "l2", "docstore"],
)


async def candidates(store: VectorStore, question: str = QUESTION, **options: Any) -> list[Document]:
    retriever = SageRetriever.from_vectorstore(store, candidates=3, **options).base_retriever
    found = retriever.invoke(question)
    assert await retriever.ainvoke(question) == found
    return found


@READABLE
async def test_a_rare_word_finds_its_document_whatever_the_vector(make):
    store = many(make)
    found = await candidates(store)
    assert PART not in [d.page_content for d in await candidates(store, words="off")]
    [part] = [d for d in found if d.page_content == PART]
    assert len({d.page_content for d in found}) == len(found)
    if make is WithDocstore:
        assert part.metadata["score"] is None
        return
    exact = ScoredVectorStoreRetriever(vectorstore=store, k=81).invoke(QUESTION)
    truth = {d.page_content: d.metadata["score"] for d in exact}
    scores = {d.page_content: d.metadata["score"] for d in found}
    # Chroma's index is approximate: a search for all may leave one out.
    assert scores == pytest.approx({text: truth.get(text, scores[text]) for text in scores}, abs=1e-5)
    assert scores[PART] == min(scores.values())


@READABLE
async def test_filters_hold_for_words_too(make):
    def only(kind: str) -> dict[str, Any]:
        if make is memory:
            return {"filter": lambda document: document.metadata["kind"] == kind}
        return {"filter": {"kind": kind}}

    store = many(make)
    found = await candidates(store, search_kwargs=only("k1"))
    assert {d.metadata["kind"] for d in found} == {"k1"}
    assert PART in [d.page_content for d in await candidates(store, search_kwargs=only("k0"))]


@READABLE
async def test_documents_that_come_and_go_are_followed(make):
    store = many(make)
    retriever = SageRetriever.from_vectorstore(store, candidates=3).base_retriever
    retriever.invoke(QUESTION)
    store.add_texts(["Valve QZ-9 is red."], metadatas=[{"kind": "k0"}], ids=["new"])
    asked = "the green pump of the ferry, and QZ-9"
    assert "Valve QZ-9 is red." in [d.page_content for d in retriever.invoke(asked)]
    store.delete(["new"])
    assert "Valve QZ-9 is red." not in [d.page_content for d in retriever.invoke(asked)]


async def test_the_index_of_words_is_kept_in_a_file(tmp_path):
    for _ in range(2):
        found = await candidates(many(memory), words_path=tmp_path / "words.sqlite3")
        assert PART in [d.page_content for d in found]


async def test_documents_for_a_store_that_cannot_be_read():
    store = Unreadable(many(memory))
    assert SageRetriever.from_vectorstore(store).words_from == "none"
    documents = [Document(t, metadata={"kind": f"k{i % 2}"}) for i, t in enumerate([*MANY, PART])]
    assert PART in [d.page_content for d in await candidates(store, documents=documents)]
    with pytest.raises(InputError):
        await candidates(store, documents=documents, search_kwargs={"filter": {"$or": []}})


class Unreadable(VectorStore):
    """A store of a kind that is not known."""

    def __init__(self, inner: VectorStore) -> None:
        self.inner = inner

    def similarity_search_with_score(self, query: str, k: int = 4, **_: Any) -> Any:
        return self.inner.similarity_search_with_score(query, k)

    def similarity_search(self, query: str, k: int = 4, **_: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def from_texts(cls, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def test_it_says_what_it_searches_by_words():
    assert SageRetriever.from_vectorstore(memory()).words_from == "in-memory store"
    assert SageRetriever.from_vectorstore(chroma("l2")).words_from == "Chroma collection"
    assert SageRetriever.from_vectorstore(WithDocstore()).words_from == "docstore"
    assert SageRetriever.from_vectorstore(memory(), words="off").words_from == "none"
    assert SageRetriever(base_retriever=lambda q: []).words_from == "none"
    hybrid = Unreadable(memory())
    hybrid.retrieval_mode = "hybrid"
    assert "own" in SageRetriever.from_vectorstore(hybrid).words_from


def test_the_question_is_embedded_once():
    model = WordEmbeddings()
    SageRetriever.from_vectorstore(fill(InMemoryVectorStore(model)), candidates=3).invoke(QUESTION)
    assert model.questions == 1


def test_headers_are_searched():
    store = InMemoryVectorStore(WordEmbeddings())
    texts = ["It leaves at seven.", "Bees fly."]
    store.add_texts(texts, metadatas=[{"title": "Ferry guide"}, {"title": "Bees"}], ids=["a", "b"])
    search = SageRetriever.from_vectorstore(store).base_retriever
    assert search._search.search("ferry", 5, {}) == ["a"]
