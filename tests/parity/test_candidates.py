"""The same chunks and the same embedding model: every door finds, ranks and keeps the same."""

import math
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from sage_core.ranking import HybridReranker, Links
from sage_core.ranking.candidates import Hit, merge
from sage_langchain import SageRetriever as ChainRetriever
from sage_llamaindex import SageRetriever
from tests.fakes.doors import at_door
from tests.fakes.langchain import WordEmbeddings
from tests.fakes.llamaindex import HashEmbedding
from tests.fakes.models import HashEmbedder
from tests.fakes.sages import small_sage
from tests.fakes.stores import fill

COPIED = "The ferry of the harbor is painted green every spring."
# No two are of one length, so that none are equally near to a question.
DOCUMENTS = {
    f"{i}.txt": [
        f"The ferry number {i} sails from harbor {i % 7}{' far' * (40 - i)}.",
        f"Its crew of {i % 5 + 2} is paid on day {i}{' well' * i}.",
        f"Part XK-{i} fits its pump {i * 7}{' now' * (60 - i)}.",
    ]
    for i in range(40)
} | {f"copy {i}.txt": [COPIED] for i in range(9)}
QUESTIONS = [
    "When is the ferry of the harbor painted?",
    "Which pump does part XK-31 fit?",
    "crew paid on day 7",
]
SETTINGS: dict[str, Any] = {"candidates": 6, "min_k": 2}


def chunks() -> list[tuple[str, str, int]]:
    """Document, text and offset of each chunk."""
    made = []
    for name, texts in DOCUMENTS.items():
        start = 0
        for text in texts:
            made.append((name, text, start))
            start += len(text) + 2
    return made


def llamaindex(**settings: Any) -> SageRetriever:
    nodes = []
    for i, (name, text, start) in enumerate(chunks()):
        node = TextNode(text=text, id_=str(i), start_char_idx=start, end_char_idx=start + len(text))
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=name)
        nodes.append(node)
    index = VectorStoreIndex(nodes, embed_model=HashEmbedding())
    return SageRetriever.from_index(index, **at_door(**settings))


def langchain(**settings: Any) -> ChainRetriever:
    documents = [
        Document(text, metadata={"source": name, "start_index": start}) for name, text, start in chunks()
    ]
    store = InMemoryVectorStore.from_documents(documents, WordEmbeddings())
    return ChainRetriever.from_vectorstore(store, **at_door(**settings))


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_door_ranks_and_keeps_the_same(question: str, tmp_path: Path) -> None:
    doors = {
        "LlamaIndex": [(n.text, n.score) for n in llamaindex(**SETTINGS).retrieve(question)],
        "LangChain": [
            (d.page_content, d.metadata["relevance_score"]) for d in langchain(**SETTINGS).invoke(question)
        ],
    }
    folder = fill(tmp_path / "docs", {name: "\n\n".join(texts) for name, texts in DOCUMENTS.items()})
    with small_sage(
        tmp_path / "store", embedder=HashEmbedder(), reranker=HybridReranker(), **SETTINGS
    ) as sage:
        sage.ingest(folder)
        doors["Sage"] = [(hit.chunk.text, hit.score) for hit in sage.retrieve(question).hits]
    expected = doors["Sage"]
    for door, kept in doors.items():
        assert [text for text, _ in kept] == [text for text, _ in expected], door
        # The store keeps its vectors in half precision.
        assert [s for _, s in kept] == pytest.approx([s for _, s in expected], abs=1e-3), door
    assert 2 <= len(expected) < 20


def merged(near: list[Hit[str]], by_words: list[Hit[str]], n: int, **options: Any) -> list[str]:
    return [h.item for h in merge(near, by_words, n, links=lambda i: [Links() for _ in i], **options)]


class Cosines(Embeddings):
    """The number at the end of a text is its cosine to a question, which has none."""

    def embed_query(self, text: str) -> list[float]:
        cosine = float(text.split()[-1]) if text[-1].isdigit() else 1.0
        return [cosine, math.sqrt(1 - cosine**2)]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


def test_a_neighbor_vouches_before_the_nearest_are_counted() -> None:
    beside, alone = ["The best .95", "Beside it .79"], ["Another .9", "A third .8", "The last .3"]
    documents = [Document(text, metadata={"source": text, "start_index": 0}) for text in alone]
    for text, start in zip(beside, (0, len(beside[0]) + 1), strict=True):
        documents.append(Document(text, metadata={"source": "both", "start_index": start}))
    store = InMemoryVectorStore.from_documents(documents, Cosines())
    retriever = ChainRetriever.from_vectorstore(store, candidates=3, words="off")
    assert {d.page_content for d in retriever.invoke("Which?", select=False)} == {*beside, alone[0]}


def test_where_the_store_lists_distances_so_does_the_merge() -> None:
    near = [Hit("a", "a", score=0.1), Hit("b", "b", score=0.5)]
    by_words = [Hit("e", "e"), Hit("d", "d"), Hit("c", "c"), Hit("b again", " b")]
    distances = {"c": 0.7, "d": 0.9}
    found = merged(
        near,
        by_words,
        2,
        scores=lambda items: [distances.get(item) for item in items],
        similarities=lambda raw: [None if s is None else -s for s in raw],
    )
    assert found == ["a", "b", "c", "d", "e"], "first as the store would go on, then what it does not know"


def test_a_search_without_scores_counts_by_its_order() -> None:
    near = [Hit(text, text) for text in "abc"]
    assert merged(near, [Hit("z", "z")], 2) == ["a", "b", "z"]
    assert merged(near, [], 5) == ["a", "b", "c"]


def test_candidates_without_text_are_told_apart_by_their_ids() -> None:
    pictures = [Hit("p", "", "1", 0.9), Hit("q", "", "2", 0.8), Hit("p again", "", "1", 0.7)]
    assert merged(pictures, [Hit("r", "", "2"), Hit("s", "")], 9) == ["p", "q", "s"]
