"""Real vector stores: scores and their scale, selection, persisting, and asking again."""

from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.vector_stores import SimpleVectorStore

from sage_core.segmentation import Segmenter
from sage_core.selection import SelectionConfig
from sage_llamaindex import SageNodeParser, SageNodePostprocessor, SageQueryEngine
from tests.fakes.doors import at_door
from tests.fakes.llamaindex import TOPICS, HashEmbedding, OverlapModel, ScriptedLLM, story


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
        documents(), storage_context=storage, transformations=[parser], embed_model=HashEmbedding()
    )


def ask(index: VectorStoreIndex, question: str, **options: Any) -> list[Any]:
    found = SageQueryEngine.from_index(
        index,
        llm=ScriptedLLM.of(),
        node_postprocessors=[SageNodePostprocessor(selection=SelectionConfig(min_k=1))],
        **at_door(**options),
    )
    return found.query(question).source_nodes


def test_the_chunk_that_fits_is_found_and_the_rest_cut(storage: StorageContext) -> None:
    index = built(storage)
    for topic, question in (
        (4, "When does the ferry cross the strait?"),
        (1, "bread in a warm kitchen oven"),
    ):
        nodes = ask(index, question)
        assert nodes[0].get_content() == TOPICS[topic] and len(nodes) < 5
        scores = [n.score for n in nodes]
        assert scores == sorted(scores, reverse=True)
        assert all(type(s) is float and 0 < s <= 1 for s in scores)


def test_nodes_come_back_as_they_were(storage: StorageContext) -> None:
    index = built(storage)
    (node, *_) = ask(index, "When does the ferry cross the strait?")
    assert node.metadata == {"source": "b"} and node.node.ref_doc_id == "b"
    assert story((3, 4))[node.node.start_char_idx : node.node.end_char_idx] == node.node.text
    assert node.node.prev_node is not None and node.node.next_node is None


def test_saved_and_asked_again_chroma(tmp_path: Path) -> None:
    before = ask(
        built(StorageContext.from_defaults(vector_store=chroma(tmp_path, "cosine"))), "orchestra hours"
    )
    loaded = VectorStoreIndex.from_vector_store(chroma(tmp_path, "cosine"), embed_model=HashEmbedding())
    after = ask(loaded, "orchestra hours")
    assert [(n.node_id, n.node.get_content()) for n in after] == [
        (n.node_id, n.node.get_content()) for n in before
    ]
    assert [n.score for n in after] == pytest.approx([n.score for n in before])
