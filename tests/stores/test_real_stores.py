"""Both searches over real vector stores of both frameworks, against a brute-force search over the same vectors.

`nox -s stores` installs the stores; one that is not installed is skipped.
"""

import math
import re
import sqlite3
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langchain_text_splitters import RecursiveCharacterTextSplitter
from llama_index.core import Document
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.node_parser import SentenceSplitter
from numpy.typing import NDArray

from sage_langchain.scored_search import CandidateSearch
from tests.fakes.searched import Documents, Nodes, Passage, chroma, chroma_vectors

pytestmark = pytest.mark.stores

WORDS = [
    "harbor",
    "ferry",
    "pump",
    "valve",
    "lamp",
    "bell",
    "rope",
    "crane",
    "tide",
    "mast",
    "keel",
    "anchor",
    "buoy",
    "deck",
    "sail",
]
SIZE = 24  # of a vector


def vector(text: str) -> NDArray[np.float64]:
    """A direction for each word, and a length that is not 1, so that metrics differ."""
    words = [word for word in text.lower().split() if "/" not in word]  # a number is nothing to it
    rows = [np.random.default_rng(int.from_bytes(w.encode(), "big") % 2**63).normal(size=SIZE) for w in words]
    direction = np.sum(rows, axis=0)
    return direction / np.linalg.norm(direction) * (0.6 + len(text) % 5 / 10)


class Vectors(Embeddings):
    """For LangChain."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [vector(text).tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


class VectorModel(BaseEmbedding):
    """For LlamaIndex."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return vector(text.rpartition("\n\n")[2]).tolist()  # without the metadata before it

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def passages() -> list[Passage]:
    rng = np.random.default_rng(5)
    texts = [" ".join([*rng.choice(WORDS, size=6), f"w{i}"]) for i in range(60)]
    return [Passage(text, f"k{i % 2}") for i, text in enumerate([*texts, RARE])]


RARE = "seal XK-200/7b fits nothing else here at all"
QUESTION = "the ferry and its anchor"
ABOUT_RARE = "what about XK-200/7b"
PASSAGES = passages()

METRICS: dict[str, Callable[[Any, Any], float]] = {
    "l2": lambda a, b: -float(np.linalg.norm(a - b)),
    "ip": lambda a, b: float(a @ b),
    "cosine": lambda a, b: float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)),
}


def nearest(question: str, metric: str, some: list[Passage]) -> list[str]:
    """The texts by a brute-force search, best first."""
    similarity = METRICS[metric]
    asked = vector(question)
    return sorted((p.text for p in some), key=lambda text: -similarity(asked, vector(text)))


class Case(NamedTuple):
    """A store, the metric it goes by, and what it can do.

    Attributes:
        framework: ``"langchain"`` or ``"llamaindex"``.
        make: From (folder, address of PostgreSQL) to the filled store.
        metric: One of `METRICS`.
        words: What `words_from` says.
        filters: Whether its search takes filters.
        deletes: Whether texts can be deleted from it.
        awaited: Whether it can be awaited.
    """

    framework: str
    make: Callable[[Path, Callable[[], str]], Any]
    metric: str
    words: str
    filters: bool = True
    deletes: bool = True
    awaited: bool = True


def faiss_store(strategy: str, normalize: bool = False) -> Callable[..., Any]:
    def make(model: Embeddings) -> Any:
        faiss = pytest.importorskip("faiss")
        vectorstores = pytest.importorskip("langchain_community.vectorstores")
        docstores = pytest.importorskip("langchain_community.docstore")
        index = faiss.IndexFlatIP(SIZE) if strategy == "MAX_INNER_PRODUCT" else faiss.IndexFlatL2(SIZE)
        return vectorstores.FAISS(
            model,
            index,
            docstores.InMemoryDocstore(),
            {},
            normalize_L2=normalize,
            distance_strategy=strategy,
        )

    return lambda folder, address: Documents(PASSAGES, make, Vectors())


def chroma_store(space: str) -> Callable[..., Any]:
    return lambda folder, address: Documents(PASSAGES, lambda model: chroma(model, space), Vectors())


def qdrant_store(distance: str) -> Callable[..., Any]:
    def make(model: Embeddings) -> Any:
        module, client = pytest.importorskip("langchain_qdrant"), pytest.importorskip("qdrant_client")
        connection = client.QdrantClient(":memory:")
        settings = client.models.VectorParams(size=SIZE, distance=client.models.Distance(distance))
        connection.create_collection("c", vectors_config=settings)
        return module.QdrantVectorStore(connection, "c", model, distance=settings.distance)

    def only(title: str) -> Any:
        from qdrant_client.models import FieldCondition, Filter, MatchValue

        return Filter(must=[FieldCondition(key="metadata.title", match=MatchValue(value=title))])

    return lambda folder, address: Documents(
        PASSAGES, make, Vectors(), only, new_id=lambda: str(uuid.uuid4())
    )


def lance_store(folder: Path, address: Any) -> Any:
    lancedb = pytest.importorskip("lancedb")
    vectorstores = pytest.importorskip("langchain_community.vectorstores")

    def make(model: Embeddings) -> Any:
        return vectorstores.LanceDB(lancedb.connect(folder / "lance"), model, mode="append")

    return Documents(PASSAGES, make, Vectors(), lambda title: f"metadata.title = '{title}'")


def sqlite_store(folder: Path, address: Any) -> Any:
    pytest.importorskip("sqlite_vec")
    vectorstores = pytest.importorskip("langchain_community.vectorstores")
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        pytest.skip("this Python's sqlite3 loads no extensions")

    def make(model: Embeddings) -> Any:
        return vectorstores.SQLiteVec("t", None, model, db_file=str(folder / "vec.db"))

    return Documents(PASSAGES, make, Vectors())


def sklearn_store(folder: Path, address: Any) -> Any:
    pytest.importorskip("sklearn")
    vectorstores = pytest.importorskip("langchain_community.vectorstores")
    return Documents(
        PASSAGES, lambda model: vectorstores.SKLearnVectorStore(model, metric="cosine"), Vectors()
    )


def pgvector_store(strategy: str) -> Callable[..., Any]:
    def filled(folder: Path, address: Callable[[], str]) -> Any:
        module = pytest.importorskip("langchain_postgres")
        url = address().replace("postgresql:", "postgresql+psycopg:")

        def make(model: Embeddings) -> Any:
            return module.PGVector(
                model,
                connection=url,
                collection_name=f"t{uuid.uuid4().hex}",
                distance_strategy=strategy,
                use_jsonb=True,
            )

        # An id is one row in all collections of a database.
        return Documents(PASSAGES, make, Vectors(), new_id=lambda: str(uuid.uuid4()))

    return filled


def faiss_nodes(metric: str) -> Callable[..., Any]:
    def vectors() -> Any:
        faiss, stores = pytest.importorskip("faiss"), pytest.importorskip("llama_index.vector_stores.faiss")
        flat = faiss.IndexFlatIP(SIZE) if metric == "ip" else faiss.IndexFlatL2(SIZE)
        return stores.FaissMapVectorStore(faiss_index=faiss.IndexIDMap2(flat))

    return lambda folder, address: Nodes(PASSAGES, vectors(), VectorModel())


def chroma_nodes(space: str) -> Callable[..., Any]:
    return lambda folder, address: Nodes(PASSAGES, chroma_vectors(space), VectorModel())


def qdrant_nodes(folder: Path, address: Any) -> Any:
    stores = pytest.importorskip("llama_index.vector_stores.qdrant")
    from qdrant_client import QdrantClient

    vectors = stores.QdrantVectorStore("nodes", client=QdrantClient(":memory:"))
    return Nodes(PASSAGES, vectors, VectorModel(), new_id=lambda: str(uuid.uuid4()))


def lance_nodes(folder: Path, address: Any) -> Any:
    stores = pytest.importorskip("llama_index.vector_stores.lancedb")
    return Nodes(PASSAGES, stores.LanceDBVectorStore(uri=str(folder), mode="create"), VectorModel())


def pgvector_nodes(hybrid: bool) -> Callable[..., Any]:
    def filled(folder: Path, address: Callable[[], str]) -> Any:
        stores = pytest.importorskip("llama_index.vector_stores.postgres")
        vectors = stores.PGVectorStore(
            connection_string=address().replace("postgresql:", "postgresql+psycopg2:"),
            async_connection_string=address().replace("postgresql:", "postgresql+asyncpg:"),
            table_name=f"t{uuid.uuid4().hex}",
            embed_dim=SIZE,
            hybrid_search=hybrid,
            text_search_config="english",
        )
        return Nodes(PASSAGES, vectors, VectorModel())

    return filled


OWN = "the vector store's own sparse search"
PAGE = Path(__file__).parents[2].joinpath("docs/existing-app.md").read_text("utf-8")
FORMULAS = dict(re.findall(r"^\| ((?:LangChain|LlamaIndex) [\w -]+) \| `(.+?)` \|", PAGE, re.MULTILINE))
"""What the page says: the score of a cosine c."""
CASES = {
    "LangChain FAISS l2": Case("langchain", faiss_store("EUCLIDEAN_DISTANCE"), "l2", "docstore"),
    "LangChain FAISS ip": Case("langchain", faiss_store("MAX_INNER_PRODUCT"), "ip", "docstore"),
    "LangChain FAISS normalized": Case(
        "langchain", faiss_store("EUCLIDEAN_DISTANCE", normalize=True), "cosine", "docstore"
    ),
    "LangChain Chroma l2": Case("langchain", chroma_store("l2"), "l2", "Chroma collection"),
    "LangChain Chroma ip": Case("langchain", chroma_store("ip"), "ip", "Chroma collection"),
    "LangChain Chroma cosine": Case("langchain", chroma_store("cosine"), "cosine", "Chroma collection"),
    "LangChain Qdrant cosine": Case("langchain", qdrant_store("Cosine"), "cosine", "none"),
    "LangChain Qdrant dot": Case("langchain", qdrant_store("Dot"), "ip", "none"),
    "LangChain Qdrant l2": Case("langchain", qdrant_store("Euclid"), "l2", "none"),
    "LangChain LanceDB": Case("langchain", lance_store, "l2", "none"),
    "LangChain sqlite-vec": Case(
        "langchain", sqlite_store, "l2", "none", filters=False, deletes=False, awaited=False
    ),
    "LangChain scikit-learn": Case(
        "langchain", sklearn_store, "cosine", "none", filters=False, deletes=False, awaited=False
    ),
    "LangChain pgvector cosine": Case("langchain", pgvector_store("cosine"), "cosine", "none", awaited=False),
    "LangChain pgvector l2": Case("langchain", pgvector_store("l2"), "l2", "none", awaited=False),
    "LangChain pgvector ip": Case("langchain", pgvector_store("inner"), "ip", "none", awaited=False),
    "LlamaIndex FAISS l2": Case("llamaindex", faiss_nodes("l2"), "l2", "docstore", filters=False),
    "LlamaIndex FAISS ip": Case("llamaindex", faiss_nodes("ip"), "ip", "docstore", filters=False),
    "LlamaIndex Chroma l2": Case("llamaindex", chroma_nodes("l2"), "l2", "Chroma collection"),
    "LlamaIndex Chroma ip": Case("llamaindex", chroma_nodes("ip"), "ip", "Chroma collection"),
    "LlamaIndex Chroma cosine": Case("llamaindex", chroma_nodes("cosine"), "cosine", "Chroma collection"),
    "LlamaIndex Qdrant": Case("llamaindex", qdrant_nodes, "cosine", "none", awaited=False),
    # Its delete_nodes writes a filter that LanceDB refuses.
    "LlamaIndex LanceDB": Case("llamaindex", lance_nodes, "l2", "none", deletes=False),
    "LlamaIndex pgvector": Case("llamaindex", pgvector_nodes(False), "cosine", "none"),
    "LlamaIndex pgvector hybrid": Case("llamaindex", pgvector_nodes(True), "cosine", OWN),
}


class Filled(NamedTuple):
    """A case and its store."""

    case: Case
    store: Any

    def candidates(self, question: str, n: int, awaited: bool = False, **settings: Any) -> dict[str, Any]:
        """What the retriever finds, with the scores of the search."""
        settings = {"candidates": n, "select": False, "reranker": None, **settings}
        return self.store.found(self.store.retriever(**settings), question, awaited)


@pytest.fixture(params=CASES, scope="module")
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    case = CASES[request.param]
    folder = tmp_path_factory.mktemp("store")
    return Filled(case, case.make(folder, lambda: request.getfixturevalue("postgres")))


def having(filled: Filled, ability: str) -> None:
    if not getattr(filled.case, ability):
        pytest.skip(f"the store has no {ability}")


def test_the_candidates_by_meaning_are_those_of_a_brute_force_search(filled: Filled) -> None:
    found = filled.candidates(QUESTION, 12, words="off")
    assert list(found) == nearest(QUESTION, filled.case.metric, PASSAGES)[:12]


def test_scores_are_higher_where_nearer(filled: Filled) -> None:
    if filled.case.framework == "langchain":
        search = CandidateSearch(vectorstore=filled.store.store, words="off", k=12)
        scores = [d.metadata["relevance_score"] for d in search.invoke(QUESTION)]
        assert all(type(score) is float for score in scores) and scores == sorted(scores, reverse=True)
    settings: dict[str, Any] = {"words": "off", "select": True, "min_k": 12, "max_k": 12, "candidates": 12}
    kept = filled.candidates(QUESTION, **{"n": 12, **settings})
    assert list(kept) == nearest(QUESTION, filled.case.metric, PASSAGES)[:12]


def test_a_rare_word_is_found_beside_them(filled: Filled) -> None:
    best = nearest(ABOUT_RARE, filled.case.metric, PASSAGES)[:5]
    assert RARE not in best
    retriever = filled.store.retriever()
    assert retriever.words_from == filled.case.words
    found = filled.candidates(ABOUT_RARE, 5)
    assert {*best} <= {*found} and (RARE in found) is (filled.case.words != "none")
    assert RARE not in filled.candidates(ABOUT_RARE, 5, words="off")


def test_the_rare_word_is_found_in_texts_that_are_given(filled: Filled) -> None:
    assert RARE in filled.candidates(ABOUT_RARE, 5, **filled.store.given(PASSAGES))


def test_filters_hold_for_both_searches(filled: Filled) -> None:
    having(filled, "filters")
    for title in ("k0", "k1"):
        some = [p for p in PASSAGES if p.title == title]
        found = filled.candidates(ABOUT_RARE, 5, title=title)
        assert {*found} <= {p.text for p in some}
        assert {*nearest(ABOUT_RARE, filled.case.metric, some)[:5]} <= {*found}
    assert RARE not in found, "it is of k0"


def test_texts_that_come_and_go_are_followed(filled: Filled) -> None:
    having(filled, "deletes")
    question, new = "zebra quilt", Passage("zebra quilt XZ-9", "k0")
    assert new.text not in filled.candidates(question, 5)
    filled.store.add(new, "new")
    assert next(iter(filled.candidates(question, 5))) == new.text
    filled.store.remove("new")
    assert new.text not in filled.candidates(question, 5)


def test_awaited_it_finds_the_same(filled: Filled) -> None:
    having(filled, "awaited")
    assert filled.candidates(ABOUT_RARE, 5, awaited=True) == filled.candidates(ABOUT_RARE, 5)


def test_ranked_and_selected_the_passage_asked_for_is_first(filled: Filled) -> None:
    target = PASSAGES[17].text
    retriever = filled.store.retriever(**filled.store.given(PASSAGES))
    found = filled.store.found(retriever, f"which text has {target}?")
    assert next(iter(found)) == target and 1 <= len(found) < len(PASSAGES)


@pytest.mark.parametrize("name", CASES)
def test_vectors_of_length_1_send_the_same_whatever_the_store(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    case, plain, some = CASES[name], vector, passages()
    monkeypatch.setitem(globals(), "vector", lambda text: plain(text) / np.linalg.norm(plain(text)))
    for n, title in ((2, ""), (4, ""), (10, ""), (50, ""), (10, "k0")):
        if title and not case.filters:
            continue
        monkeypatch.setitem(globals(), "PASSAGES", some[:n])
        folder = tmp_path / f"{n}{title}"
        folder.mkdir()
        simple = (
            Nodes(PASSAGES, model=VectorModel())
            if case.framework == "llamaindex"
            else Documents(PASSAGES, model=Vectors())
        )
        sent, filled = [], case.make(folder, lambda: request.getfixturevalue("postgres"))
        for store in (simple, filled):
            sent.append([*store.found(store.retriever(title, words="off"), QUESTION)])
        assert sent[0] and sent[0] == sent[1]
    for text, score in filled.scored(QUESTION, 10):
        cosine = METRICS["cosine"](vector(QUESTION), vector(text))
        assert score == pytest.approx(eval(FORMULAS[name], {"c": cosine, **vars(math)}), abs=1e-3)


WITHOUT_IDS = ("LangChain Qdrant", "LangChain LanceDB", "LangChain scikit-learn")
"""Their searches give documents without an id."""


def long_documents() -> dict[str, str]:
    """By title, of more tokens than a passage has, and than a piece of a stock splitter."""
    rng = np.random.default_rng(7)
    said = [f"The {' '.join(rng.choice(WORDS, size=7))} is number {i}." for i in range(240)]
    return {"k0": " ".join(said[:120]), "k1": " ".join(said[120:])}


@pytest.mark.parametrize("name", CASES)
def test_passages_of_long_texts_have_true_places_ids_and_metadata(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    case, whole, pieces = CASES[name], long_documents(), dict[str, str]()
    monkeypatch.setitem(globals(), "PASSAGES", [])
    filled = case.make(tmp_path, lambda: request.getfixturevalue("postgres"))
    splitter = RecursiveCharacterTextSplitter(chunk_size=2_000, chunk_overlap=250, add_start_index=True)
    for title, text in whole.items():
        if case.framework == "langchain":
            documents = splitter.create_documents([text], [{"title": title, "source": title}])
            ids = [filled.ids[f"{title} {i}"] for i in range(len(documents))]
            filled.store.add_documents(documents, ids=ids)
            pieces |= {i: d.page_content for i, d in zip(ids, documents, strict=True)}
        else:
            document = Document(text=text, id_=title, metadata={"title": title})
            cut = SentenceSplitter(chunk_size=500, chunk_overlap=60, id_func=lambda *_: str(uuid.uuid4()))
            nodes = cut.get_nodes_from_documents([document])
            filled.index.insert_nodes(nodes)
            pieces |= {n.node_id: n.text for n in nodes}
    for title in ("", "k1") if case.filters else ("",):
        sent = filled.passages(filled.retriever(title), QUESTION)
        assert sent and all(passage.title == (title or passage.title) for passage in sent)
        for passage in sent:
            assert whole[passage.title].startswith(passage.text, passage.start)
            if name.startswith(WITHOUT_IDS):
                assert passage.id is passage.node is None
                continue
            node, start, end = passage.id.rsplit("-", 2)
            assert node == passage.node and pieces[node][int(start) : int(end)] == passage.text
