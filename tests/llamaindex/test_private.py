"""Each private attribute of LlamaIndex that is read, on the version that is installed."""

import ast
from pathlib import Path

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import (
    ExactMatchFilter,
    MetadataFilters,
    VectorStoreQueryMode,
)

import sage_langchain
import sage_llamaindex
from sage_llamaindex import _private
from tests.fakes.llamaindex import FixedRetriever, HashEmbedding

FILTERS = MetadataFilters(filters=[ExactMatchFilter(key="kind", value="even")])


def index() -> VectorStoreIndex:
    nodes = [
        TextNode(text=f"Ferry {i}.", id_=str(i), metadata={"kind": "even"} if i % 2 else {}) for i in range(6)
    ]
    return VectorStoreIndex(nodes, embed_model=HashEmbedding())


def test_of_a_retriever() -> None:
    made = index()
    retriever = VectorIndexRetriever(made, filters=FILTERS, node_ids=["1"], doc_ids=["d"])
    assert _private.index_of(retriever) is made
    assert _private.limits_of(retriever) == {"filters": FILTERS, "node_ids": ["1"], "doc_ids": ["d"]}
    assert _private.limits_of(FixedRetriever()) == {}
    assert _private.embedding_model_of(retriever) is made._embed_model
    assert _private.embedding_model_of(FixedRetriever()) is None
    sparse = made.as_retriever(vector_store_query_mode=VectorStoreQueryMode.SPARSE)
    assert _private.embedding_model_of(sparse) is None


def test_copies_change_the_copy() -> None:
    retriever = index().as_retriever(filters=FILTERS, similarity_top_k=6)
    words = _private.searching_words(retriever, VectorStoreQueryMode.SPARSE, 7)
    assert words.similarity_top_k == 7 and _private.embedding_model_of(words) is None
    assert retriever.similarity_top_k == 6 and _private.embedding_model_of(retriever) is not None
    different = index().as_retriever(vector_store_query_mode="mmr", similarity_top_k=6)
    plain = _private.undiversified(different)
    assert plain is not None and _private.undiversified(plain) is None is _private.undiversified(retriever)
    assert _private.undiversified(different) is not None, "it stays as it is"


@pytest.mark.parametrize("package", [sage_llamaindex, sage_langchain])
def test_no_other_module_reads_what_is_private_of_a_framework(package: object) -> None:
    folder = Path(str(package.__file__)).parent
    trees = {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in folder.glob("*.py")}
    ours: set[str] = set()
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                ours.add(node.name)
            elif isinstance(node, ast.AnnAssign | ast.Assign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                ours |= {t.attr for t in targets if isinstance(t, ast.Attribute)}
                ours |= {t.id for t in targets if isinstance(t, ast.Name)}
    read = {
        f"{name}:{node.lineno} {node.attr}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if name != "_private.py"
        and isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in ours
        # What a class inherits is its own.
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }
    assert not read
