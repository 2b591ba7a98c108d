"""Candidates by meaning, by words and by names, and what is sent of them, over stores of both frameworks."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from llama_index.core import StorageContext, SummaryIndex, VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.types import VectorStore as OldProtocol

from sage_core.errors import InputError
from sage_langchain import MiniLMEmbeddings
from sage_langchain import SageRetriever as ChainRetriever
from sage_langchain._passages import titled as langchain_titled
from sage_llamaindex import MiniLMEmbedding, SageRetriever
from sage_llamaindex._neighbors import titled as llamaindex_titled
from tests.core.test_passages import SENTENCES
from tests.fakes.langchain import WordEmbeddings
from tests.fakes.llamaindex import FixedRetriever, HashEmbedding
from tests.fakes.searched import Documents, Nodes, Passage, chroma, chroma_vectors
from tests.parity.asking import RANKING, Listed

# By meaning: whatever a store makes of a cosine

TEXTS = [
    "The ferry leaves at nine on Sundays.",
    "The museum shows old maps of the coast.",
    "Dogs must be kept on a lead in the park.",
    "Bees make honey in summer.",
]
QUESTION = "When does the boat depart at the weekend?"
# What stores make of a cosine, under the name of a class that does so.
FORMULAS: dict[str, Callable[[float], float]] = {
    "SimpleVectorStore": lambda c: c,
    "QdrantVectorStore": lambda c: c,
    "VelesDBVectorStore": lambda c: (1 + c) / 2,
    "FaissVectorStore": lambda c: 2 - 2 * c,
    "HnswlibVectorStore": lambda c: 1 - c,
    "NegativeProduct": lambda c: -c,
    "LanceDBVectorStore": lambda c: math.exp(2 * c - 2),
    "ChromaVectorStore": lambda c: math.exp(c - 1),
}
DOCUMENT_FORMULAS: dict[str, Callable[[float], float]] = {
    "InMemoryVectorStore": lambda c: c,
    "VelesDBVectorStore": lambda c: (1 + c) / 2,
    "FAISS": lambda c: 2 - 2 * c,
    "USearch": lambda c: 1 - c,
    "NegativeProduct": lambda c: -c,
    **dict.fromkeys(
        ("SQLiteVec", "Annoy", "QdrantVectorStore", "PGVector"), lambda c: math.sqrt(max(0.0, 2 - 2 * c))
    ),
}
MANY = [*TEXTS, *(f"{sentence} It was so in year {i}." for i in range(3) for sentence in SENTENCES)][:50]
ODD = MetadataFilters(filters=[MetadataFilter(key="odd", value=1)])


def by_index(name: str, n: int, filtered: bool, mode: str = "default") -> list[tuple[str, Any]]:
    formula = FORMULAS[name]

    def query(self: Any, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        found = SimpleVectorStore.query(self, query, **kwargs)
        return replace(found, similarities=[formula(c) for c in found.similarities or []])

    store = type(name, (SimpleVectorStore,), {"query": query})()
    store.__dict__["client"] = None
    nodes = [TextNode(text=text, metadata={"odd": i % 2}) for i, text in enumerate(MANY[:n])]
    for node in nodes:
        node.excluded_embed_metadata_keys = node.excluded_llm_metadata_keys = ["odd"]
    context = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex(nodes, storage_context=context, embed_model=HashEmbedding())
    inner = index.as_retriever(vector_store_query_mode=mode, filters=ODD if filtered else None)
    made = SageRetriever(inner, words="off")
    return [(n.node.get_content(), n.score) for n in made.retrieve(QUESTION)]


def by_store(name: str, n: int, filtered: bool) -> list[tuple[str, Any]]:
    formula = DOCUMENT_FORMULAS[name]

    def search(self: Any, embedding: list[float], k: int = 4, **kwargs: Any) -> Any:
        found = InMemoryVectorStore.similarity_search_with_score_by_vector(self, embedding, k, **kwargs)
        return [(document, formula(cosine)) for document, cosine in found]

    kind = type(name, (InMemoryVectorStore,), {"similarity_search_with_score_by_vector": search})
    store = kind(WordEmbeddings())
    store.add_texts(MANY[:n], [{"odd": i % 2} for i in range(n)])
    only = {"search_kwargs": {"filter": lambda d: d.metadata["odd"]}} if filtered else {}
    made = ChainRetriever.from_vectorstore(store, words="off", **only)
    return [(d.page_content, d.metadata["relevance_score"]) for d in made.invoke(QUESTION)]


@pytest.mark.parametrize(
    ("found", "name"),
    [*((by_index, name) for name in FORMULAS), *((by_store, name) for name in DOCUMENT_FORMULAS)],
)
def test_whatever_the_store_s_formula_the_same_is_sent(found: Any, name: str) -> None:
    first = next(iter(FORMULAS if found is by_index else DOCUMENT_FORMULAS))
    for n, filtered in ((2, False), (4, False), (50, False), (10, True)):
        expected, sent = found(first, n, filtered), found(name, n, filtered)
        assert dict(sent) == pytest.approx(dict(expected), abs=1e-4)


@pytest.mark.parametrize("name", ["SimpleVectorStore", "FaissVectorStore", "LanceDBVectorStore"])
def test_of_a_search_for_different_nodes_the_nearest_are_the_best(name: str) -> None:
    different = by_index(name, 10, False, mode="mmr")
    assert dict(different) == pytest.approx(dict(by_index(name, 10, False)))


@pytest.mark.parametrize("door", ["nodes", "documents"])
def test_nor_need_the_formula_be_known(door: str) -> None:
    unknown: Callable[[float], float] = lambda c: 1 / (1 + math.sqrt(max(0.0, 2 - 2 * c)))  # noqa: E731
    cosines = Documents([Passage(text, "") for text in MANY[:10]]).scored(QUESTION, 10)

    def sent(formula: Callable[[float], float]) -> set[str]:
        found = [Listed(text, formula(cosine)) for text, cosine in cosines]
        return {text for text, _ in RANKING[door](found, QUESTION, max_k=3)}

    expected = sent(lambda cosine: cosine)
    for formula in (*FORMULAS.values(), *DOCUMENT_FORMULAS.values(), unknown):
        assert sent(formula) == expected != set()


class SmallStore(SimpleVectorStore):
    """Fails, as hnswlib does, if more nodes are asked for than it holds."""

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        if query.similarity_top_k > len(self.data.embedding_dict):
            raise RuntimeError("Cannot return the results in a contiguous 2D array")
        return super().query(query, **kwargs)


class OldStore(OldProtocol):
    """As DocArray's and NGT's: it has no ``class_name``."""

    stores_text, is_embedding_query, client = False, True, None

    def __init__(self) -> None:
        self._inner = SimpleVectorStore()
        self.add, self.delete, self.query = self._inner.add, self._inner.delete, self._inner.query


class SmallDocuments(VectorStore):
    """Fails, as scikit-learn does, and shows neither its embedding model nor its documents."""

    def __init__(self) -> None:
        self._inner = InMemoryVectorStore.from_texts(TEXTS, MiniLMEmbeddings())

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> Any:
        raise NotImplementedError

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Any:
        if k > len(TEXTS):
            raise ValueError("Expected n_neighbors <= n_samples_fit")
        return self._inner.similarity_search_with_score(query, k, **kwargs)

    @classmethod
    def from_texts(cls, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


class NearestDocuments(SmallDocuments):
    """With LangChain's docstore beside its vectors, as Annoy."""

    def __init__(self) -> None:
        super().__init__()
        self.docstore = SimpleNamespace(_dict={str(i): Document(text) for i, text in enumerate(TEXTS)})
        self.index_to_docstore_id = {i: str(i) for i in range(len(TEXTS))}


def all_of_index(store: Any, awaited: bool) -> list[str]:
    context = StorageContext.from_defaults(vector_store=store())
    nodes = [TextNode(text=text) for text in TEXTS]
    index = VectorStoreIndex(nodes, storage_context=context, embed_model=MiniLMEmbedding())
    made = SageRetriever.from_index(index)
    found = asyncio.run(made.aretrieve(QUESTION)) if awaited else made.retrieve(QUESTION)
    return [n.node.get_content() for n in found]


def all_of_store(store: Any, awaited: bool) -> list[str]:
    made = ChainRetriever.from_vectorstore(store())
    found = asyncio.run(made.ainvoke(QUESTION)) if awaited else made.invoke(QUESTION)
    return [d.page_content for d in found]


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("found", "store"),
    [
        (all_of_index, SmallStore),
        (all_of_index, OldStore),
        (all_of_store, SmallDocuments),
        (all_of_store, NearestDocuments),
    ],
)
def test_every_store_answers_with_all_that_it_holds(found: Any, store: Any, awaited: bool) -> None:
    sent = found(store, awaited)
    assert sent[0] == TEXTS[0] and {*sent} == {*TEXTS}


# By words

PART = "Spare parts: seal XK-200/7b fits."
PUMPS = [f"The pump number {i} of the ferry is painted green." for i in range(80)]
PASSAGES = [Passage(text, f"k{i % 2}") for i, text in enumerate([*PUMPS, PART])]
RARE = "the pump of the ferry painted green, what fits XK-200/7b?"
VALVE, FOR_VALVE = Passage("Valve QZ-9 is red.", "k0"), "the green pump of the ferry, and QZ-9"
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
IN_CHROMA = pytest.mark.parametrize("store", ["index over Chroma", "Chroma, cosine"], indirect=True)


def candidates(store: Any, question: str = RARE, *, awaited: bool = False, **settings: Any) -> Any:
    retriever = store.retriever(candidates=3, select=False, reranker=None, **settings)
    return store.found(retriever, question, awaited)


def test_a_rare_word_finds_its_text_whatever_the_vector(store: Any) -> None:
    found = candidates(store)
    assert PART in found and PART not in candidates(store, words="off")
    assert candidates(store, awaited=True) == found
    exact = store.exact(RARE)
    # Chroma's index is approximate: a search for all may leave one out.
    assert found == pytest.approx({text: exact.get(text, found[text]) for text in found}, abs=1e-5)
    assert found[PART] == min(found.values())


def test_filters_hold_for_words_too(store: Any) -> None:
    odd = candidates(store, title="k1")
    assert odd and {*odd} <= {p.text for p in PASSAGES if p.title == "k1"}
    assert PART in candidates(store, title="k0")


def test_texts_that_come_and_go_and_are_replaced_are_followed(store: Any) -> None:
    retriever = store.retriever(candidates=3, select=False, reranker=None)
    assert VALVE.text not in store.found(retriever, FOR_VALVE)
    store.add(VALVE, "new")
    assert VALVE.text in store.found(retriever, FOR_VALVE)
    store.remove("new")
    assert VALVE.text not in store.found(retriever, FOR_VALVE)
    store.replace(VALVE, "7.md")
    assert VALVE.text in store.found(retriever, FOR_VALVE), "the number of texts stays; so do their ids"


@IN_CHROMA
def test_in_a_larger_collection_a_text_for_another_is_seen(store: Any) -> None:
    nodes = isinstance(store, Nodes)
    collection = store.index.vector_store.client if nodes else store.store._collection
    embed = store.model.get_query_embedding if nodes else store.model.embed_query
    ids = [f"more{i}" for i in range(600)]
    vectors, about = [embed("mill")] * len(ids), [{"title": "k0"}] * len(ids)
    collection.add(ids, vectors, about, [f"Mill {key}." for key in ids])
    retriever = store.retriever(candidates=3, select=False, reranker=None)
    store.found(retriever, FOR_VALVE)
    store.remove("7.md")
    store.add(VALVE, "new")
    assert VALVE.text in store.found(retriever, FOR_VALVE)


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


@pytest.mark.parametrize("make", [Nodes, Documents])
def test_headers_are_searched(make: Any) -> None:
    store = make([*PASSAGES[:80], Passage("It fits.", "Seal XK-200/7b")])
    assert "It fits." in candidates(store) and "It fits." not in candidates(store, words="off")


class Unreadable(SmallDocuments):
    """A store of a kind that is not known."""

    def similarity_search_with_score(self, query: str, k: int = 4, **_: Any) -> Any:
        return Documents(PASSAGES).store.similarity_search_with_score(query, k)


class Hybrid(Unreadable):
    """With a search of its own by words."""

    retrieval_mode = "hybrid"


@pytest.mark.parametrize(
    ("make", "source"),
    [
        (lambda: STORES["index"]().retriever(), "docstore"),
        (lambda: STORES["index over Chroma"]().retriever(), "Chroma collection"),
        (lambda: STORES["index"]().retriever(words="off"), "none"),
        (lambda: SageRetriever.from_index(SummaryIndex([])), "none"),
        (lambda: SageRetriever(FixedRetriever(), words=[TextNode(text="x")]), "nodes given"),
        (lambda: STORES["memory"]().retriever(), "in-memory store"),
        (lambda: ChainRetriever(base_retriever=lambda q: []), "none"),
        (lambda: ChainRetriever.from_vectorstore(Unreadable()), "none"),
        (lambda: ChainRetriever.from_vectorstore(Hybrid()), "own"),
    ],
)
def test_it_says_what_it_searches_by_words(make: Callable[[], Any], source: str) -> None:
    assert source in make().words_from


@IN_CHROMA
def test_texts_that_are_given_need_not_be_in_the_store(store: Any) -> None:
    assert VALVE.text in candidates(store, "the green pump, and QZ-9", **store.given([VALVE], "other"))


def test_documents_with_and_without_ids_are_all_searched() -> None:
    texts = ["Valve QZ-1 is red.", "Valve QZ-2 is blue.", "Valve QZ-3 is green."]
    documents = [Document(texts[0], id="1"), Document(texts[1]), Document(texts[2])]
    retriever = ChainRetriever.from_vectorstore(Unreadable(), words=documents, candidates=6)
    assert {*texts} <= {d.page_content for d in retriever.invoke("QZ-1, QZ-2 or QZ-3?")}
    with pytest.raises(InputError):
        only = {"filter": {"$or": []}}
        ChainRetriever.from_vectorstore(Unreadable(), words=documents, search_kwargs=only).invoke(RARE)


# By names: documents that candidates name

ASKED, HOLT, BORN = "who owned the petrel", "Mara Holt (1820)", "born near Ulm"
RULES = [Passage(f"who owned the boat number {i} the year", f"Rules {i}") for i in range(80)]
NAMED = [Passage("the petrel was owned by Mara Holt who sold it", "Petrel"), Passage(BORN, HOLT), *RULES]
BOTH = pytest.mark.parametrize("make", [Nodes, Documents])


def named(store: Any, title: str = "", **settings: Any) -> list[str]:
    retriever = store.retriever(title, candidates=5, **settings)
    texts = [*store.found(retriever, ASKED)]
    assert [*store.found(retriever, ASKED, awaited=True)] == texts
    return texts


@BOTH
def test_what_candidates_name_is_fetched_while_it_is_there(make: Any) -> None:
    store = make(NAMED)
    assert BORN in named(store, select=False)
    assert named(store, "Petrel") == [NAMED[0].text], "a filter holds for it too"
    store.remove("1.md")
    assert BORN not in named(store, select=False)


def said_by_tool(retriever: Any) -> str:
    if isinstance(retriever, SageRetriever):
        tool = retriever.as_tool("guide")
        text = str(tool.call(query=ASKED))
        assert tool.metadata.name == "guide" and str(asyncio.run(tool.acall(query=ASKED))) == text
        least = str(retriever.as_tool(max_tokens=1).call(query=ASKED))
        assert text.startswith(least) and "[2]" not in least
        return text
    tool = retriever.as_tool(name="guide")
    call = {"type": "tool_call", "id": "1", "name": "guide", "args": {"query": ASKED}}
    message = tool.invoke(call)
    assert tool.name == "guide" and asyncio.run(tool.ainvoke(call)).content == message.content
    assert message.artifact[0].page_content == NAMED[0].text
    return message.content


@BOTH
@pytest.mark.parametrize("only", ["", "Petrel"])
def test_a_tool_says_which_of_them_a_passage_names(make: Any, only: str) -> None:
    text = said_by_tool(make(NAMED).retriever(only, candidates=5))
    told = any(f"Mara Holt ({name})" in text for name in ("1.md", HOLT))  # LlamaIndex has no file to name
    assert text.startswith("[1] ") and told == (not only)


@BOTH
@pytest.mark.parametrize(
    ("owner", "titles", "reached"),
    [
        ("丸山花子 who sold it", ["丸山花子"], True),
        ("Mara Holt", ["Mara Holt"] * 60, False),
        ("[her](gone.md)", ["Mara Holt"], False),
        ("nobody who knew the number", ["number"], False),
    ],
)
def test_names_that_say_something_and_those_that_do_not(
    make: Any, owner: str, titles: list[str], reached: bool
) -> None:
    # Each of them names the first one, too: a circle.
    others = [Passage(f"{BORN} {i} in a Storm", title) for i, title in enumerate(titles)]
    store = make([Passage(f"the petrel was owned by {owner}", "Storm"), *others, *RULES])
    born = [
        sum(text.startswith("born") for text in named(store, words=words, select=False))
        for words in ("auto", "off")
    ]
    assert (born[0] > born[1]) == reached


@pytest.mark.parametrize(
    ("text", "metadata"),
    [
        ("Born.", {"title": "Mara Holt"}),
        ("Born.", {"document_title": "Mara Holt", "file_name": "7.pdf"}),
        ("Born.", {"source": "Mara Holt"}),
        ("Born.", {"source": "people/Mara Holt.md"}),
        ("# Mara Holt\n\nBorn.", {"source": "7.md"}),
    ],
)
def test_what_names_a_document(text: str, metadata: dict[str, str]) -> None:
    for about in (
        llamaindex_titled(TextNode(text=text, metadata=metadata)),
        langchain_titled(Document(text, metadata=metadata)),
    ):
        assert "mara holt" in about.names
