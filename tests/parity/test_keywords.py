"""Every keyword of the docs at every door that takes it, and those of the stock parts that ours replace."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import (
    MetadataFilter,
    MetadataFilters,
)

from sage_core.errors import InputError
from sage_core.selection import FixedK, SelectionConfig
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


# What a door is called with, and what ranks and selects there.
SELECTING: dict[str, Callable[..., Any]] = {
    "SageNodePostprocessor": SageNodePostprocessor,
    "SageRetriever": lambda **s: SageRetriever(an_index().as_retriever(), **s).postprocessor,
    "SageRetriever.from_index": lambda **s: SageRetriever.from_index(an_index(), **s).postprocessor,
    "SageQueryEngine.from_index": lambda **s: (
        SageQueryEngine.from_index(an_index(), llm=MockLLM(), **s)._sage
    ),
    "SageCompressor": SageCompressor,
    "from_vectorstore": lambda **s: ChainRetriever.from_vectorstore(a_store(), **s).base_compressor,
}


@pytest.mark.parametrize("door", SELECTING)
def test_how_much_is_said_in_one_way_at_every_door(door: str) -> None:
    config, make = SelectionConfig(gradient=0.4, max_k=5), SELECTING[door]
    assert make(selection=config).limits == config
    assert make(max_context_tokens=700).limits == SelectionConfig(max_context_tokens=700)
    assert make(selection=config, max_context_tokens=700).limits == replace(config, max_context_tokens=700)
    for refused in ({"min_k": 3}, {"selection": 3}, {"max_context_tokens": 0}):
        with pytest.raises((InputError, TypeError), match=next(iter(refused))):
            make(**refused)


# Doors that grade.
GRADING: dict[str, Callable[..., Any]] = {
    "SageQueryEngine": lambda **s: SageQueryEngine(
        an_index().as_retriever(), get_response_synthesizer(llm=MockLLM()), **s
    ),
    "SageQueryEngine.from_args": lambda **s: SageQueryEngine.from_args(
        an_index().as_retriever(), llm=MockLLM(), **s
    ),
    "SageQueryEngine.from_index": lambda **s: SageQueryEngine.from_index(an_index(), llm=MockLLM(), **s),
    "SageQueryEngine.from_query_engine": lambda **s: SageQueryEngine.from_query_engine(stock_engine(), **s),
    "create_sage_chain": lambda **s: create_sage_chain(lambda _: "yes", a_store(), **s),
}


@pytest.mark.parametrize("door", GRADING)
def test_a_critic_by_its_name(door: str) -> None:
    for name in ("llm", "local", "auto"):
        assert GRADING[door](critic=name) is not None
    with pytest.raises(InputError, match="locla"):
        GRADING[door](critic="locla")


ONE = MetadataFilters(filters=[MetadataFilter(key="i", value=3)])
QUESTION = "When does the ferry leave?"


def of_index(**arguments: Any) -> list[str]:
    return [n.text for n in SageRetriever.from_index(an_index(), **arguments).retrieve(QUESTION)]


def of_engine(**arguments: Any) -> list[str]:
    engine = SageQueryEngine.from_index(an_index(), llm=MockLLM(), critic="off", **arguments)
    return [n.text for n in engine.query(QUESTION).source_nodes]


def of_store(**arguments: Any) -> list[str]:
    retriever = ChainRetriever.from_vectorstore(a_store(), **arguments)
    return [d.page_content for d in retriever.invoke(QUESTION)]


def test_candidates_are_what_the_search_brings() -> None:
    nodes = SageRetriever.from_index(an_index(), candidates=3, words="off").unselected().retrieve(QUESTION)
    retriever = ChainRetriever.from_vectorstore(a_store(), candidates=3, words="off")
    assert len(nodes) == len(retriever.invoke(QUESTION, select=False)) == 3
    engine = SageQueryEngine.from_index(
        an_index(),
        llm=MockLLM(),
        candidates=3,
        selection=SelectionConfig(rule=FixedK(9)),
    )
    assert len(engine.query(QUESTION).source_nodes) == len(engine.retriever.retrieve(QUESTION)) >= 3


@pytest.mark.parametrize(
    ("door", "arguments", "expected"),
    [
        (of_index, {"filters": ONE}, TEXTS[3:4]),
        (of_engine, {"filters": ONE}, TEXTS[3:4]),
        (of_store, {"search_kwargs": {"filter": lambda d: d.metadata["i"] == 3}}, TEXTS[3:4]),
        (of_store, {"k": 3}, 3),
        (of_store, {"search_kwargs": {"k": 3}}, 3),
        (of_store, {"search_kwargs": {"k": 3}, "candidates": 5}, 3),
    ],
)
def test_stock_arguments_do_what_they_do_elsewhere(door: Any, arguments: Any, expected: Any) -> None:
    texts = door(**arguments)
    assert texts == expected if isinstance(expected, list) else len(texts) == expected


def test_what_is_shown_of_a_retriever_and_an_engine() -> None:
    retriever = ChainRetriever.from_vectorstore(a_store(), selection=SelectionConfig(min_k=3))
    assert "min_k=3" in repr(retriever) and len(repr(retriever)) < 500
    engine = SageQueryEngine.from_index(an_index(), llm=MockLLM(), critic="local")
    inner = "SageRetriever(VectorIndexRetriever, words_from='docstore')"
    assert repr(engine) == f"SageQueryEngine({inner}, critic='local')"
