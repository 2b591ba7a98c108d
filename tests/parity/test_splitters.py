"""A place that is given is true, whatever stock splitter cut the text; and most true ones are given."""

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_text_splitters import RecursiveCharacterTextSplitter
from llama_index.core import Document as LlamaDocument
from llama_index.core import VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import MarkdownNodeParser, SentenceSplitter
from llama_index.core.schema import QueryBundle

from sage_langchain import SageCompressor
from sage_llamaindex import MiniLMEmbedding, SageNodePostprocessor
from sage_llamaindex._neighbors import neighbors_of
from tests.fakes.splitters import DOCUMENTS, NODES, shares

PAGE = Path(__file__).parents[2].joinpath("docs/indexes.md").read_text("utf-8")
TOLD = {m[1].replace("`", ""): m[2] for m in re.finditer(r"^\| (.+?) \| (all|none|some) \|", PAGE, re.M)}
"""What the page says: how many places are given."""


@pytest.mark.parametrize("name", [*NODES, *DOCUMENTS])
def test_a_place_that_is_given_is_true(name: str) -> None:
    found = shares((NODES | DOCUMENTS)[name](), draws=100)
    told = TOLD[name.partition("(")[0]]
    # Of parts without a name that a few of their chunks do not contradict, only the document tells.
    few = found.drawn // 100 if name == "two splitters" else 0
    assert found.false == 0 and found.drawn_false <= few
    if told == "all":
        assert found.believed >= 0.95 * found.exact > 0 and found.drawn
    else:
        assert (found.believed > 0.01 * found.pieces) == (told == "some")


def test_the_page_has_no_other_rows() -> None:
    assert TOLD.keys() == {name.partition("(")[0] for name in [*NODES, *DOCUMENTS]}


@pytest.mark.parametrize("name", NODES)
def test_neighbors_are_known_from_either_side(name: str) -> None:
    pieces = NODES[name]()
    links: list[Any] = neighbors_of([piece.item for piece in pieces])
    assert all(links[link.next].previous == i for i, link in enumerate(links) if link.next is not None)
    if name not in ("HierarchicalNodeParser", "MarkdownElementNodeParser"):  # the nodes between leave
        documents = len({piece.whole for piece in pieces})
        assert sum(link.next is not None for link in links) == len(pieces) - documents


NOTES = [
    f"The {what} of the town is open on {day}." for what in ("museum", "bath") for day in ("Friday", "May 1")
]
HARBOR = (
    "The harbor was built in 1840 by convicts, who carried the stone from the quarry for eleven long years."
)
BERTHS = (
    "Berths along the north wall are let by the week to boats of any flag, and to those of the fishermen."
)


def test_a_neighbor_is_on_the_same_page() -> None:
    dill = "Recipes: boil the crab for ten minutes, and let it cool in the shade, with dill and the bread of the day."
    pages = [
        Document(f"{first}\n\n{second}", metadata={"source": "guide.pdf", "page": i})
        for i, (first, second) in enumerate([(HARBOR, BERTHS), (NOTES[0] * 3, dill)])
    ]
    splitter = RecursiveCharacterTextSplitter(chunk_size=110, chunk_overlap=0, add_start_index=True)
    notes = [Document(note, metadata={"source": note}) for note in NOTES]
    found = SageCompressor().rank([*splitter.split_documents(pages), *notes], "When was the harbor built?")
    score = {document.page_content: document.metadata["relevance_score"] for document in found}
    assert score[BERTHS] > 0.1 > 10 * score[dill]


def test_a_neighbor_is_one_after_a_second_parser_too() -> None:
    text = "# Guide\n\nOf the island.\n\n## Harbor\n\n\n" + f"{BERTHS}\n\n\n{HARBOR}\n\n\n{NOTES[0] * 2}"
    size, scores = SentenceSplitter(chunk_size=50, chunk_overlap=0), []
    for parsers in ([size], [MarkdownNodeParser(include_metadata=False), size]):
        documents = [LlamaDocument(text=text), *(LlamaDocument(text=note) for note in NOTES)]
        nodes = IngestionPipeline(transformations=parsers).run(documents=documents)
        index = VectorStoreIndex(nodes, embed_model=MiniLMEmbedding())
        asked = QueryBundle("When was the harbor built?")
        ranked = SageNodePostprocessor().rerank(
            index.as_retriever(similarity_top_k=20).retrieve(asked), asked
        )
        scores.append(next(n.score for n in ranked.nodes if BERTHS in n.node.get_content()))
    assert scores[0] > 0.1 and scores[1] == pytest.approx(scores[0], rel=0.2)
