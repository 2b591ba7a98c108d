"""Mistakes that users make at the doors of the adapters and of the core: told at once, with what to do."""

import subprocess
import sys
from typing import Any

import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM

import sage_langchain
import sage_llamaindex
from sage_app import Sage
from sage_app.cli.main import run
from sage_core.errors import ModelError
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
from tests.fakes.langchain import WordEmbeddings


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
