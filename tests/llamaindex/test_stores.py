"""Real vector stores: scores and their scale, selection, persisting, and asking again."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore

from sage_core.segmentation import Segmenter
from sage_llamaindex import SageNodeParser, SageNodePostprocessor, SageQueryEngine
from tests.fakes.llamaindex import TOPICS, OverlapModel, ScriptedLLM, story

VOCABULARY = sorted({w for text in TOPICS for w in re.findall(r"\w{4,}", text.lower())})


class WordEmbedding(BaseEmbedding):
    """Unit vectors of word counts: cosines mean shared words."""

    def _embed(self, text: str) -> list[float]:
        words = re.findall(r"\w+", text.lower())
        counts = [float(words.count(w)) for w in VOCABULARY]
        norm = math.sqrt(sum(c * c for c in counts)) or 1.0
        return [c / norm for c in counts]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._embed(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._embed(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._embed(text)


def chroma(folder: Path, space: str) -> Any:
    chromadb = pytest.importorskip("chromadb")
    stores = pytest.importorskip("llama_index.vector_stores.chroma")
    client = chromadb.PersistentClient(path=str(folder))
    return stores.ChromaVectorStore(
        chroma_collection=client.get_or_create_collection("docs", metadata={"hnsw:space": space})
    )


def documents() -> list[Document]:
    return [
        Document(text=story((0, 1, 2)), id_="a", metadata={"source": "a"}),
        Document(text=story((3, 4)), id_="b", metadata={"source": "b"}),
    ]


@pytest.fixture(params=["simple", "chroma-cosine", "chroma-l2"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> StorageContext:
    if request.param == "simple":
        return StorageContext.from_defaults(vector_store=SimpleVectorStore())
    return StorageContext.from_defaults(vector_store=chroma(tmp_path, request.param.partition("-")[2]))


def built(storage: StorageContext) -> VectorStoreIndex:
    parser = SageNodeParser(segmenter=Segmenter(OverlapModel(), min_tokens=0))
    return VectorStoreIndex.from_documents(
        documents(), storage_context=storage, transformations=[parser], embed_model=WordEmbedding()
    )


def ask(index: VectorStoreIndex, question: str, **options: Any) -> list[Any]:
    found = SageQueryEngine.from_index(
        index, llm=ScriptedLLM.of(), node_postprocessors=[SageNodePostprocessor(min_k=1)], **options
    )
    return found.query(question).source_nodes


def test_the_chunk_that_fits_is_found_and_the_rest_cut(storage: StorageContext) -> None:
    index = built(storage)
    for number, question in (
        (4, "When does the ferry cross the strait?"),
        (1, "bread in a warm kitchen oven"),
    ):
        nodes = ask(index, question)
        assert nodes[0].get_content() == TOPICS[number]
        assert len(nodes) < 5
        scores = [n.score for n in nodes]
        assert scores == sorted(scores, reverse=True)
        assert {type(s) for s in scores} == {float}
        assert all(0 < s <= 1 for s in scores)


def test_nodes_come_back_as_they_were(storage: StorageContext) -> None:
    index = built(storage)
    (node, *_) = ask(index, "When does the ferry cross the strait?")
    assert isinstance(node.node, TextNode)
    assert node.metadata == {"source": "b"}
    assert node.node.ref_doc_id == "b"
    text = story((3, 4))
    assert text[node.node.start_char_idx : node.node.end_char_idx] == node.node.text
    assert node.node.prev_node is not None
    assert node.node.next_node is None


def test_saved_and_asked_again_chroma(tmp_path: Path) -> None:
    before = ask(
        built(StorageContext.from_defaults(vector_store=chroma(tmp_path, "cosine"))), "orchestra hours"
    )
    loaded = VectorStoreIndex.from_vector_store(chroma(tmp_path, "cosine"), embed_model=WordEmbedding())
    after = ask(loaded, "orchestra hours")
    assert [(n.node_id, n.node.get_content()) for n in after] == [
        (n.node_id, n.node.get_content()) for n in before
    ]
    assert [n.score for n in after] == pytest.approx([n.score for n in before])
