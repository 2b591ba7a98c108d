"""Mistakes that users make at the doors of the adapters and of the core: told at once, with what to do."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.schema import QueryBundle

import sage_langchain
import sage_llamaindex
from sage_app import Sage
from sage_app.cli.main import run
from sage_app.models import named_embedder
from sage_core.errors import InputError, ModelError
from sage_core.ranking import HybridReranker, named_reranker
from sage_core.segmentation import Segmenter
from sage_core.selection import SelectionConfig
from sage_langchain import SageChain, SageCompressor, SageRetriever, SageTextSplitter, create_sage_chain
from sage_llamaindex import SageNodeParser, SageNodePostprocessor, SageQueryEngine, feedback_of
from tests.fakes.doors import at_door
from tests.fakes.langchain import WordEmbeddings
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM


@pytest.mark.parametrize(
    "reranker",
    [HybridReranker(), named_reranker("none")],
    ids=lambda r: type(r).__name__,
)
def test_the_question_comes_before_the_texts(reranker: HybridReranker) -> None:
    with pytest.raises(InputError, match=r"score\(query, texts\)"):
        reranker.score(["a", "b"], "q")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="texts"):
        reranker.score("q", "abc")


DOORS = {
    "core": named_reranker,
    "llamaindex": lambda name: SageNodePostprocessor(reranker=name),
    "langchain": lambda name: SageCompressor(reranker=name),
}


@pytest.mark.parametrize("make", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("hybird", "'hybrid'"),
        ("BAAI/bge-reranker-base", "'BAAI/bge-reranker-base'.*object"),
        (" ", "reranker"),
    ],
)
def test_a_misspelt_reranker_is_told_with_the_right_name(make: Any, name: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make(name)


@pytest.mark.parametrize(
    ("make", "error", "named"),
    [
        (lambda: named_embedder("/no/such/model"), InputError, "/no/such/model"),
        (lambda: Segmenter("defualt"), ModelError, "'default'"),
        (lambda: Segmenter("/no/such"), ModelError, "/no/such"),
        (lambda: Segmenter(counter="cl100kbase"), InputError, "'cl100k_base'"),
        (lambda: Segmenter(counter="cl100k"), InputError, "'cl100k_base'"),
        (lambda: Segmenter(counter="/no/such/tokenizer"), InputError, "/no/such/tokenizer"),
        (lambda: Segmenter(counter="no-such-counter"), ModelError, "no-such-counter"),
    ],
)
def test_a_model_or_counter_that_is_not_there_is_told_at_once(make: Any, error: type, named: str) -> None:
    with pytest.raises(error, match=named):
        make()


def test_questions_that_are_none(tmp_path: Path) -> None:
    engine = SageQueryEngine.from_args(FixedRetriever(0.9), llm=ScriptedLLM.of())
    for ask in (engine.query, Sage(tmp_path).ask):
        for question in ("  ", 5):
            with pytest.raises(InputError, match="question"):
                ask(question)  # type: ignore[arg-type]
    assert str(engine.query(QueryBundle("", embedding=[0.1]))) == "an answer"


def an_index() -> VectorStoreIndex:
    return VectorStoreIndex([], embed_model=MockEmbedding(4))


def a_store(**settings: Any) -> SageRetriever:
    return SageRetriever.from_vectorstore(InMemoryVectorStore(WordEmbeddings()), **at_door(**settings))


@pytest.mark.parametrize(
    ("use", "named"),
    [
        (lambda: SageQueryEngine(an_index()), r"from_index\(index\)"),
        (lambda: SageQueryEngine.from_args(an_index(), llm=MockLLM()), r"from_index\(index\)"),
        (lambda: SageQueryEngine("docs"), "retriever"),
        (lambda: SageQueryEngine.from_index("x"), "'x'"),
        (lambda: SageNodeParser().get_nodes_from_documents(Document(text="a.")), "document"),
        (lambda: SageNodeParser().get_nodes_from_documents(["text"]), "Document"),
        (lambda: feedback_of("abc"), "str"),
        (lambda: SageRetriever.from_vectorstore(a_store()), "base_retriever"),
        (lambda: SageTextSplitter().split_documents(["text"]), "create_documents"),
        (lambda: create_sage_chain("gpt", a_store()), "'gpt'"),
        (lambda: create_sage_chain(a_store(), lambda _: "answer"), r"create_sage_chain\(llm, retriever\)"),
        (lambda: create_sage_chain(lambda _: "answer", a_store(), max_round=3), "max_round"),
    ],
)
def test_arguments_of_another_kind(use: Any, named: str) -> None:
    with pytest.raises((InputError, ValueError, TypeError), match=named):
        use()


async def test_texts_are_no_documents_when_awaited_either() -> None:
    with pytest.raises(InputError, match="Document"):
        await SageNodeParser().aget_nodes_from_documents(["text"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: SageNodePostprocessor(selections=3), "'selections'.*'selection'"),
        (lambda: SageCompressor(selections=3), "'selections'.*'selection'"),
        (lambda: SageRetriever(base_retriver=1), "'base_retriever'"),
        (lambda: SageChain(llm=lambda _: "answer"), "retriever"),
        (lambda: SageNodeParser(chunk_size="many"), "chunk_size.*integer.*'many'"),
        (lambda: SageCompressor(selection=SelectionConfig(min_k="many")), "min_k.*whole number.*'many'"),
        (lambda: SageNodeParser(target_tokens="sentense"), "'sentence', 'passage'.*'sentense'"),
        (lambda: SageNodePostprocessor().model_copy(update={"max_k": 0}), "max_k"),
        (lambda: SageCompressor().model_copy(update={"max_k": 0}), "max_k"),
        (lambda: setattr(SageNodePostprocessor(), "max_k", 0), "max_k"),
    ],
)
def test_errors_of_fields_are_one_line_of_our_own(make: Any, named: str) -> None:
    with pytest.raises(InputError, match=named) as caught:
        make()
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
