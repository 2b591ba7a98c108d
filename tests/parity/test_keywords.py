"""Every keyword of the docs at every door that takes it, in both frameworks."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import TextNode

from sage_core.selection import SelectionConfig
from sage_langchain import SageCompressor, create_sage_chain
from sage_langchain import SageRetriever as ChainRetriever
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine, SageRetriever
from tests.fakes.langchain import WordEmbeddings
from tests.fakes.llamaindex import HashEmbedding

TEXTS = [f"The ferry number {i} leaves at seven." for i in range(9)]


def an_index() -> VectorStoreIndex:
    nodes = [TextNode(text=t, metadata={"i": i}) for i, t in enumerate(TEXTS)]
    return VectorStoreIndex(nodes, embed_model=HashEmbedding())


def a_store() -> InMemoryVectorStore:
    store = InMemoryVectorStore(WordEmbeddings())
    store.add_texts(TEXTS, [{"i": i} for i in range(9)])
    return store


def stock_engine() -> Any:
    return an_index().as_query_engine(llm=MockLLM())


# What a door is called with, and where the settings of its selection then are.
SELECTING: dict[str, Callable[..., SelectionConfig]] = {
    "SageNodePostprocessor": lambda **s: SageNodePostprocessor(**s).selection,
    "SageRetriever": lambda **s: SageRetriever(an_index().as_retriever(), **s).postprocessor.selection,
    "SageRetriever.from_index": lambda **s: SageRetriever.from_index(an_index(), **s).postprocessor.selection,
    "SageQueryEngine": lambda **s: (
        SageQueryEngine(
            an_index().as_retriever(), get_response_synthesizer(llm=MockLLM()), **s
        )._sage.selection
    ),
    "SageQueryEngine.from_args": lambda **s: (
        SageQueryEngine.from_args(an_index().as_retriever(), llm=MockLLM(), **s)._sage.selection
    ),
    "SageQueryEngine.from_index": lambda **s: (
        SageQueryEngine.from_index(an_index(), llm=MockLLM(), **s)._sage.selection
    ),
    "SageQueryEngine.from_query_engine": lambda **s: (
        SageQueryEngine.from_query_engine(stock_engine(), **s)._sage.selection
    ),
    "SageCompressor": lambda **s: SageCompressor(**s).selection,
    "SageRetriever of LangChain": lambda **s: (
        ChainRetriever(base_retriever=a_store().as_retriever(), **s).base_compressor.selection
    ),
    "from_vectorstore": lambda **s: ChainRetriever.from_vectorstore(a_store(), **s).base_compressor.selection,
    "create_sage_chain": lambda **s: (
        create_sage_chain(lambda _: "yes", a_store(), **s).retriever.base_compressor.selection
    ),
}
SETTINGS: dict[str, Any] = {
    "rule": "gradient",
    "min_k": 2,
    "max_k": 5,
    "gradient": 0.4,
    "min_tokens": 60,
    "empty_below": 0.02,
}


def test_the_table_has_every_setting() -> None:
    assert SETTINGS.keys() == {field.name for field in fields(SelectionConfig)}


@pytest.mark.parametrize("name", [*SETTINGS, "selection"])
@pytest.mark.parametrize("door", SELECTING)
def test_a_setting_of_the_selection(door: str, name: str) -> None:
    alone = {name: SETTINGS[name]} if name in SETTINGS else {}
    expected = SelectionConfig(**alone) if alone else SelectionConfig(**SETTINGS)
    assert SELECTING[door](**(alone or {"selection": expected})) == expected
