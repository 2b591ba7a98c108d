"""What users say at the doors of the adapters and of the core; their mistakes are told at once, with what to do."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

import sage_langchain
import sage_llamaindex
from sage_app import Sage
from sage_app.cli.main import run
from sage_core.errors import InputError, ModelError
from sage_core.ranking import HybridReranker
from sage_core.segmentation import Segmenter
from sage_core.selection import SelectionConfig
from sage_langchain import SageChain, SageCompressor, SageRetriever, SageTextSplitter, create_sage_chain
from sage_llamaindex import (
    MiniLMEmbedding,
    SageNodeParser,
    SageNodePostprocessor,
    SageQueryEngine,
    feedback_of,
)
from sage_llamaindex import SageRetriever as NodeRetriever
from tests.fakes.langchain import WordEmbeddings
from tests.fakes.llamaindex import HashEmbedding


def an_index() -> VectorStoreIndex:
    return VectorStoreIndex([], embed_model=MockEmbedding(4))


def a_store() -> SageRetriever:
    return SageRetriever.from_vectorstore(InMemoryVectorStore(WordEmbeddings()))


RERANKERS = [lambda name: SageNodePostprocessor(reranker=name), lambda name: SageCompressor(reranker=name)]  # fmt: skip
MISTAKES = [
    *((lambda make=make: make("hybird"), "'hybrid'") for make in RERANKERS),
    *((lambda make=make: make("BAAI/bge-reranker-base"), "'BAAI/bge-reranker-base'.*object") for make in RERANKERS),
    *((lambda make=make: make(" "), "reranker") for make in RERANKERS),
    *((lambda make=make: make(object()), "reranker") for make in RERANKERS),
    (lambda: SageNodePostprocessor(scale="logits"), "scale"),
    (lambda: SageCompressor(scale="logits"), "scale"),
    (lambda: HybridReranker().score(["a", "b"], "q"), r"score\(query, texts\)"),
    (lambda: HybridReranker().score("q", "abc"), "texts"),
    # Models and counters that are not there
    (lambda: MiniLMEmbedding("BAAI/bge-small-en-v1.5"), "HuggingFaceEmbedding"),
    (lambda: Segmenter("defualt"), "'default'"),
    (lambda: Segmenter("/no/such"), "/no/such"),
    (lambda: Segmenter(counter="cl100kbase"), "'cl100k_base'"),
    (lambda: Segmenter(counter="/no/such/tokenizer"), "/no/such/tokenizer"),
    (lambda: Segmenter(counter="no-such-counter"), "no-such-counter"),
    # Questions that are none
    (lambda: SageQueryEngine.from_index(an_index(), llm=MockLLM()).query(" "), "question"),
    (lambda: Sage("/no/such/store").ask("  "), "question"),
    (lambda: Sage("/no/such/store").ask(5), "question"),
    # Arguments of another kind
    (lambda: SageQueryEngine(an_index()), r"from_index\(index\)"),
    (lambda: SageQueryEngine.from_args(an_index(), llm=MockLLM()), r"from_index\(index\)"),
    (lambda: SageQueryEngine("docs"), "retriever"),
    (lambda: SageQueryEngine.from_index("x"), "'x'"),
    (lambda: feedback_of("abc"), "str"),
    (lambda: SageRetriever.from_vectorstore(a_store()), "base_retriever="),
    (lambda: SageTextSplitter().create_documents("text"), "create_documents"),
    (lambda: create_sage_chain("gpt", a_store()), "'gpt'"),
    (lambda: create_sage_chain(a_store(), lambda _: "answer"), r"create_sage_chain\(llm, retriever\)"),
    (lambda: create_sage_chain(lambda _: "answer", a_store(), max_round=3), "max_round"),
    (lambda: create_sage_chain(lambda _: "answer", a_store(), critic="locla"), "locla"),
    (lambda: SageQueryEngine.from_index(an_index(), llm=MockLLM(), critic="locla"), "locla"),
    # Fields, each in one line of our own
    (lambda: SageNodePostprocessor(selections=3), "'selections'.*'selection'"),
    (lambda: SageCompressor(selections=3), "'selections'.*'selection'"),
    (lambda: SageRetriever(base_retriver=1), "'base_retriever'"),
    (lambda: SageChain(llm=lambda _: "answer"), "retriever"),
    (lambda: SageNodeParser(chunk_size="many"), "chunk_size.*integer.*'many'"),
    (lambda: SageCompressor(selection=SelectionConfig(min_k="many")), "min_k.*whole number.*'many'"),
    (lambda: SageNodeParser(target_tokens="sentense"), "'sentence', 'passage'.*'sentense'"),
]  # fmt: skip


@pytest.mark.parametrize(("use", "named"), MISTAKES)
def test_a_mistake_is_told_at_once_in_one_line(use: Any, named: str) -> None:
    with pytest.raises((ModelError, ValueError, TypeError), match=named) as caught:
        use()
    assert "pydantic" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("package", [sage_langchain, sage_llamaindex])
def test_a_name_that_is_not_there(package: Any) -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        package.Nothing  # noqa: B018


def test_words_without_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", "when", "does", "it", "leave"]) == 2
    assert 'sage-rag ask "' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("package", "framework"), [("sage_langchain", "langchain_core"), ("sage_llamaindex", "llama_index")]
)
@pytest.mark.slow
def test_both_adapters_are_imported_without_their_framework(package: str, framework: str) -> None:
    code = (
        f"import sys; sys.modules[{framework!r}] = None; import {package}\n"
        f"try: [getattr({package}, n) for n in {package}.__all__]\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert f"sage-rag[{package.removeprefix('sage_')}]" in done.stdout


# What a door is called with, and what ranks and selects there.
TEXTS = [f"The ferry number {i} leaves at seven." for i in range(9)]


def filled_index() -> VectorStoreIndex:
    nodes = [TextNode(text=t, metadata={"i": i}) for i, t in enumerate(TEXTS)]
    return VectorStoreIndex(nodes, embed_model=HashEmbedding())


def filled_store() -> InMemoryVectorStore:
    return InMemoryVectorStore.from_texts(TEXTS, WordEmbeddings())


SELECTING: dict[str, Callable[..., Any]] = {
    "SageRetriever": lambda **s: NodeRetriever(an_index().as_retriever(), **s).postprocessor,
    "SageRetriever.from_index": lambda **s: NodeRetriever.from_index(an_index(), **s).postprocessor,
    "SageQueryEngine.from_index": lambda **s: (
        SageQueryEngine.from_index(an_index(), llm=MockLLM(), **s)._sage
    ),
    "from_vectorstore": lambda **s: SageRetriever.from_vectorstore(filled_store(), **s).base_compressor,
}


@pytest.mark.parametrize("door", SELECTING)
def test_how_much_is_said_in_one_way_at_every_door(door: str) -> None:
    config, make = SelectionConfig(gradient=0.4, max_k=5), SELECTING[door]
    assert make(selection=config).selection == config
    assert make(selection=config, max_context_tokens=700).selection == replace(config, max_context_tokens=700)
    for refused in ({"min_k": 3}, {"selection": 3}, {"max_context_tokens": 0}):
        with pytest.raises((InputError, TypeError), match=next(iter(refused))):
            make(**refused)


def test_filters_reach_the_search_of_an_engine() -> None:
    only = MetadataFilters(filters=[MetadataFilter(key="i", value=3)])
    engine = SageQueryEngine.from_index(filled_index(), llm=MockLLM(), critic="off", filters=only)
    assert [n.text for n in engine.query("When does the ferry leave?").source_nodes] == TEXTS[3:4]


def test_what_is_shown_of_a_retriever_and_an_engine() -> None:
    retriever = SageRetriever.from_vectorstore(filled_store(), selection=SelectionConfig(min_k=3))
    assert "min_k=3" in repr(retriever) and len(repr(retriever)) < 500
    engine = SageQueryEngine.from_index(filled_index(), llm=MockLLM(), critic="local")
    inner = "SageRetriever(VectorIndexRetriever, words_from='docstore')"
    assert repr(engine) == f"SageQueryEngine({inner}, critic='local')"
