"""Which way a list counts, and which offsets are places, in what real searches and splitters give."""

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_text_splitters import (
    RecursiveCharacterTextSplitter,
)
from llama_index.core import Document as LlamaDocument
from llama_index.core import StorageContext, SummaryIndex, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.node_parser import (
    SentenceSplitter,
)
from llama_index.core.postprocessor import LongContextReorder
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.types import VectorStore as OldProtocol

from sage_core.selection import SelectionConfig
from sage_langchain import MiniLMEmbeddings, SageCompressor
from sage_langchain import SageRetriever as LangChainRetriever
from sage_llamaindex import MiniLMEmbedding, SageNodePostprocessor, SageRetriever
from tests.core.test_passages import SENTENCES
from tests.fakes.langchain import WordEmbeddings
from tests.fakes.llamaindex import HashEmbedding

TEXTS = [
    "The ferry leaves at nine on Sundays.",
    "The museum shows old maps of the coast.",
    "Dogs must be kept on a lead in the park.",
    "Bees make honey in summer.",
]
QUESTION = "When does the boat depart at the weekend?"
ASKED = QueryBundle(QUESTION)
COSINES = [0.6, 0.3, 0.2, 0.1]
FORMULAS: dict[str, Callable[[float], float]] = {
    "cosine": lambda c: c,
    "squared distance": lambda c: 2 - 2 * c,
    "distance from -1": lambda c: -c,
    "exponential": lambda c: 2.7 ** (c - 1),
}


def by_nodes(found: list[tuple[str, float | None]], **settings: Any) -> str:
    nodes = [NodeWithScore(node=TextNode(text=text), score=score) for text, score in found]
    return (
        SageNodePostprocessor(**settings).postprocess_nodes(nodes, query_str=QUESTION)[0].node.get_content()
    )


def by_documents(found: list[tuple[str, float | None]], **settings: Any) -> str:
    documents = [Document(text, metadata={"score": score}) for text, score in found]
    return asyncio.run(SageCompressor(**settings).acompress_documents(documents, QUESTION))[0].page_content


class Listed(BaseRetriever):
    """A retriever of somebody else's."""

    def __init__(self, nodes: list[NodeWithScore]) -> None:
        self._nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes


def by_retriever(found: list[tuple[str, float | None]], **settings: Any) -> str:
    nodes = [NodeWithScore(node=TextNode(text=text), score=score) for text, score in found]
    return SageRetriever(Listed(nodes), **settings).retrieve(QUESTION)[0].node.get_content()


BOTH = pytest.mark.parametrize("first_of", [by_nodes, by_documents, by_retriever])


@BOTH
@pytest.mark.parametrize("reranker", ["hybrid", None])
@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)
@pytest.mark.parametrize("order", ["best first", "best last", "reordered"])
def test_the_right_one_is_first_whatever_the_store_s_numbers(
    first_of: Any, reranker: Any, n: int, formula: Callable[[float], float], order: str
) -> None:
    found: list[tuple[str, float | None]] = [
        (t, formula(c)) for t, c in zip(TEXTS[:n], COSINES, strict=False)
    ]
    if order == "best last":
        if formula(1.0) < formula(0.0):
            pytest.skip("distances that fall look as similarities do")
        found.reverse()
    elif order == "reordered":
        nodes = [NodeWithScore(node=TextNode(text=text), score=score) for text, score in found]
        found = [(n.node.get_content(), n.score) for n in LongContextReorder().postprocess_nodes(nodes)]
    if reranker is None and any(a[1] == b[1] for a, b in pairwise(found)):
        pytest.skip("nothing to select on")
    assert first_of(found, reranker=reranker) == TEXTS[0]


# What stores make of a cosine, under the name of a class that does so.
STORES: dict[str, Callable[[float], float]] = {
    "SimpleVectorStore": lambda c: c,
    "QdrantVectorStore": lambda c: c,
    "VelesDBVectorStore": lambda c: (1 + c) / 2,
    "FaissVectorStore": lambda c: 2 - 2 * c,
    "HnswlibVectorStore": lambda c: 1 - c,
    "DocArrayHnswVectorStore": lambda c: 2 - 2 * c,
    "NegativeProduct": lambda c: -c,
    "LanceDBVectorStore": lambda c: math.exp(2 * c - 2),
    "ChromaVectorStore": lambda c: math.exp(c - 1),
}
DOCUMENT_STORES: dict[str, Callable[[float], float]] = {
    "InMemoryVectorStore": lambda c: c,
    "VelesDBVectorStore": lambda c: (1 + c) / 2,
    "FAISS": lambda c: 2 - 2 * c,
    "USearch": lambda c: 1 - c,
    "NegativeProduct": lambda c: -c,
    "SQLiteVec": lambda c: math.sqrt(max(0.0, 2 - 2 * c)),
    "Annoy": lambda c: math.sqrt(max(0.0, 2 - 2 * c)),
    "QdrantVectorStore": lambda c: math.sqrt(max(0.0, 2 - 2 * c)),
    "PGVector": lambda c: math.sqrt(max(0.0, 2 - 2 * c)),
}
MANY = [*TEXTS, *(f"{sentence} It was so in year {i}." for i in range(3) for sentence in SENTENCES)][:50]
ODD = MetadataFilters(filters=[MetadataFilter(key="odd", value=1)])


def by_index(name: str, n: int, filtered: bool, mode: str = "default") -> list[tuple[str, Any]]:
    formula = STORES[name]

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
    formula = DOCUMENT_STORES[name]

    def search(self: Any, embedding: list[float], k: int = 4, **kwargs: Any) -> Any:
        found = InMemoryVectorStore.similarity_search_with_score_by_vector(self, embedding, k, **kwargs)
        return [(document, formula(cosine)) for document, cosine in found]

    store = type(name, (InMemoryVectorStore,), {"similarity_search_with_score_by_vector": search})(
        WordEmbeddings()
    )
    store.add_texts(MANY[:n], [{"odd": i % 2} for i in range(n)])
    only = {"search_kwargs": {"filter": lambda d: d.metadata["odd"]}} if filtered else {}
    made = LangChainRetriever.from_vectorstore(store, words="off", **only)
    return [(d.page_content, d.metadata["relevance_score"]) for d in made.invoke(QUESTION)]


@pytest.mark.parametrize(
    ("found", "name"),
    [*((by_index, name) for name in STORES), *((by_store, name) for name in DOCUMENT_STORES)],
)
def test_whatever_the_store_s_formula_the_same_is_sent(found: Any, name: str) -> None:
    first = next(iter(STORES if found is by_index else DOCUMENT_STORES))
    for n, filtered in ((2, False), (4, False), (10, False), (50, False), (10, True)):
        expected, sent = found(first, n, filtered), found(name, n, filtered)
        assert dict(sent) == pytest.approx(dict(expected), abs=1e-4)


THREE = SelectionConfig(max_k=3)


def behind_an_index(formula: Callable[[float], float], question: str, n: int) -> set[str]:
    index = VectorStoreIndex([TextNode(text=text) for text in MANY[:n]], embed_model=HashEmbedding())
    found = index.as_retriever(similarity_top_k=n).retrieve(question)
    nodes = [NodeWithScore(node=x.node, score=formula(x.score or 0.0)) for x in found]
    return {
        x.text for x in SageNodePostprocessor(selection=THREE).postprocess_nodes(nodes, query_str=question)
    }


def behind_a_store(formula: Callable[[float], float], question: str, n: int) -> set[str]:
    store = InMemoryVectorStore(WordEmbeddings())
    store.add_texts(MANY[:n])
    found = store.similarity_search_with_score(question, k=n)
    documents = [Document(d.page_content, metadata={"score": formula(cosine)}) for d, cosine in found]
    return {d.page_content for d in SageCompressor(selection=THREE).compress_documents(documents, question)}


@pytest.mark.parametrize("n", [4, 10, 30])
@pytest.mark.parametrize("sent", [behind_an_index, behind_a_store])
def test_nor_need_the_formula_be_known(sent: Any, n: int) -> None:
    curves = [*STORES.values(), *DOCUMENT_STORES.values(), lambda c: 1 / (1 + math.sqrt(max(0.0, 2 - 2 * c)))]
    for question in (QUESTION, "What do the old maps show?"):
        expected = sent(lambda cosine: cosine, question, n)
        assert expected and all(sent(formula, question, n) == expected for formula in curves)


@pytest.mark.parametrize("name", ["SimpleVectorStore", "FaissVectorStore", "LanceDBVectorStore"])
def test_of_a_search_for_different_nodes_the_nearest_are_the_best(name: str) -> None:
    different = by_index(name, 10, False, mode="mmr")
    assert dict(different) == pytest.approx(dict(by_index(name, 10, False)))


def read_by_index(text: str) -> list[tuple[str, Any]]:
    nodes = SentenceSplitter(chunk_size=30, chunk_overlap=0).get_nodes_from_documents(
        [LlamaDocument(text=text)]
    )
    ranked = SageNodePostprocessor().rerank(SummaryIndex(nodes).as_retriever().retrieve(QUESTION), ASKED)
    return [(n.node.get_content(), n.score) for n in ranked.nodes]


def read_by_splitter(text: str) -> list[tuple[str, Any]]:
    splitter = RecursiveCharacterTextSplitter(chunk_size=100, chunk_overlap=0, add_start_index=True)
    pieces = splitter.split_documents([Document(text, metadata={"source": "s"})])
    return [(d.page_content, d.metadata["relevance_score"]) for d in SageCompressor().rank(pieces, QUESTION)]


@pytest.mark.parametrize("read", [read_by_index, read_by_splitter])
def test_the_order_of_reading_is_no_ranking(read: Any) -> None:
    answer = "The boat departs at nine at the weekend, and comes back in the evening at ten."
    found = []
    for place in (1, 10, 18):
        pieces = read("\n\n".join([*SENTENCES[:place], answer, *SENTENCES[place:]]))
        assert len(pieces) > 10
        found.append(next(score for text, score in pieces if answer in text))
    assert found == pytest.approx(found[:1] * 3, rel=0.05)


@pytest.mark.parametrize("ranked", ["ranked_nodes", "ranked_documents"])
def test_the_order_of_dates_is_mostly_no_ranking(ranked: str) -> None:
    """By chance one of some such orders looks like a search's."""
    answer, scores = "The boat departs at nine at the weekend, and comes back in the evening at ten.", []
    for seed in range(5):
        by_date = [*random.Random(seed).sample(MANY[1:], 30), answer]
        scores.append(globals()[ranked]([(text, None) for text in by_date], QUESTION)[answer])
    assert sorted(scores)[2] > 0.5, "last of 31"


def ranked_nodes(found: list[tuple[str, float | None]], question: str) -> dict[str, Any]:
    nodes = [NodeWithScore(node=TextNode(text=text), score=score) for text, score in found]
    ranked = SageNodePostprocessor().rerank(nodes, QueryBundle(question))
    return {n.node.get_content(): n.score for n in ranked.nodes}


def ranked_documents(found: list[tuple[str, float | None]], question: str) -> dict[str, Any]:
    documents = [Document(text, metadata={"score": score}) for text, score in found]
    ranked = SageCompressor().rank(documents, question)
    return {d.page_content: d.metadata["relevance_score"] for d in ranked}


@pytest.mark.parametrize("rank", [ranked_nodes, ranked_documents])
def test_a_node_of_which_nobody_asked_the_search_is_in_the_middle(rank: Any) -> None:
    scores = [None if i % 2 == 0 else 0.9 - 0.08 * i for i in range(10)]
    found = rank([*zip(MANY, scores, strict=False)], "Whither?")
    unasked = {found[text] for text, score in zip(MANY, scores, strict=False) if score is None}
    assert found[MANY[1]] > max(unasked) >= min(unasked) > found[MANY[9]]


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

    def add(self, nodes: Any, **kwargs: Any) -> list[str]:
        return self._inner.add(nodes, **kwargs)

    def delete(self, ref_doc_id: str, **kwargs: Any) -> None:
        self._inner.delete(ref_doc_id, **kwargs)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        return self._inner.query(query, **kwargs)


class SmallDocuments(VectorStore):
    """Fails, as scikit-learn does, and shows neither its embedding model nor its documents."""

    def __init__(self) -> None:
        self._inner = InMemoryVectorStore(MiniLMEmbeddings())
        self._inner.add_texts(TEXTS)

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


def of_index(store: Any, awaited: bool) -> list[str]:
    context = StorageContext.from_defaults(vector_store=store())
    nodes = [TextNode(text=text) for text in TEXTS]
    index = VectorStoreIndex(nodes, storage_context=context, embed_model=MiniLMEmbedding())
    made = SageRetriever.from_index(index)
    found = asyncio.run(made.aretrieve(QUESTION)) if awaited else made.retrieve(QUESTION)
    return [n.node.get_content() for n in found]


def of_store(store: Any, awaited: bool) -> list[str]:
    made = LangChainRetriever.from_vectorstore(store())
    found = asyncio.run(made.ainvoke(QUESTION)) if awaited else made.invoke(QUESTION)
    return [d.page_content for d in found]


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("found", "store"),
    [(of_index, SmallStore), (of_index, OldStore), (of_store, SmallDocuments), (of_store, NearestDocuments)],
)
def test_every_store_answers_with_all_that_it_holds(found: Any, store: Any, awaited: bool) -> None:
    sent = found(store, awaited)
    assert sent[0] == TEXTS[0] and {*sent} == {*TEXTS}
