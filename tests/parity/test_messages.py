"""Mistakes that users make at the doors of the adapters and of the core: told at once, with what to do."""

import subprocess
import sys
from typing import Any

import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import Document, MockEmbedding, Settings, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.schema import QueryBundle

import sage_langchain
import sage_llamaindex
from sage_core import Sage
from sage_core.cli.main import run
from sage_core.embedding import named_embedder
from sage_core.errors import InputError, MissingExtraError, ModelError
from sage_core.ranking import CrossEncoderReranker, HybridReranker, RemoteReranker, named_reranker
from sage_core.segmentation import Segmenter
from sage_langchain import SageCompressor, SageRetriever
from sage_llamaindex import SageNodeParser, SageNodePostprocessor, SageQueryEngine, feedback_of
from tests.fakes.langchain import WordEmbeddings
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM


@pytest.mark.parametrize(
    "reranker",
    [HybridReranker(), CrossEncoderReranker("sage-minilm"), RemoteReranker("http://127.0.0.1:1")],
    ids=lambda r: type(r).__name__,
)
def test_the_question_comes_before_the_texts(reranker: HybridReranker) -> None:
    with pytest.raises(InputError, match=r"score\(query, texts\)"):
        reranker.score(["a", "b"], "q")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="texts"):
        reranker.score("q", "abc")


def test_a_misspelt_reranker_is_told_with_the_right_name() -> None:
    for make in (
        named_reranker,
        lambda name: SageNodePostprocessor(reranker=name),
        lambda name: SageCompressor(reranker=name),
    ):
        with pytest.raises(ValueError, match="'hybrid'"):
            make("hybird")
    with pytest.raises(InputError, match="'sage-minilm'"):
        named_reranker("sage-minlm")
    assert named_reranker("cross-encoder/ms-marco-MiniLM-L6-v2").scale == "logit", (
        "names of the hub are names"
    )


def test_a_folder_that_is_not_there_is_told_at_once() -> None:
    for make in (named_reranker, named_embedder):
        with pytest.raises(InputError, match="/no/such/model"):
            make("/no/such/model")


def test_a_model_or_counter_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(ModelError, match="'default'"):
        Segmenter("defualt")
    with pytest.raises(ModelError, match="/no/such"):
        Segmenter("/no/such")
    for name, hint in (
        ("cl100kbase", "did you mean 'cl100k_base'"),
        ("cl100k", "did you mean 'cl100k_base'"),
        ("/no/such/tokenizer", "no tokenizer at"),
    ):
        with pytest.raises(InputError, match=hint):
            Segmenter(counter=name)
    with pytest.raises(ModelError, match="no-such-counter"):
        Segmenter(counter="no-such-counter")


def test_questions_that_are_none(tmp_path: object) -> None:
    engine = SageQueryEngine.from_args(FixedRetriever(0.9), llm=ScriptedLLM.of())
    sage = Sage(str(tmp_path))
    for ask in (engine.query, sage.ask):
        with pytest.raises(InputError, match="question"):
            ask("  ")
        with pytest.raises(InputError, match="question"):
            ask(5)  # type: ignore[arg-type]
    assert str(engine.query(QueryBundle("", embedding=[0.1]))) == "an answer"


def test_a_text_in_the_place_of_a_path_is_not_repeated_in_full(tmp_path: object) -> None:
    with pytest.raises(InputError) as caught:
        Sage(str(tmp_path)).ingest("The ferry leaves at noon. " * 500)
    assert len(str(caught.value)) < 300


class TestLlamaIndex:
    def test_an_index_is_no_retriever(self) -> None:
        Settings.llm, Settings.embed_model = MockLLM(), MockEmbedding(4)
        index = VectorStoreIndex.from_documents([Document(text="a b c")])
        for make in (SageQueryEngine, SageQueryEngine.from_args):
            with pytest.raises(InputError, match=r"from_index\(index\)"):
                make(index)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="retriever"):
            SageQueryEngine("docs")  # type: ignore[arg-type]

    def test_one_document_is_no_list(self) -> None:
        with pytest.raises(InputError, match="document"):
            SageNodeParser().get_nodes_from_documents(Document(text="a."))  # type: ignore[arg-type]

    def test_feedback_of_something_else(self) -> None:
        with pytest.raises(InputError, match="not str"):
            feedback_of("abc")  # type: ignore[arg-type]


class TestLangChain:
    def test_another_kind_of_search(self) -> None:
        store = InMemoryVectorStore(WordEmbeddings())
        with pytest.raises(ValueError, match="as_retriever"):
            SageRetriever.from_vectorstore(store, search_type="mmr")


@pytest.mark.parametrize("package", [sage_langchain, sage_llamaindex])
def test_a_name_that_is_not_there(package: Any) -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        package.Nothing  # noqa: B018


def test_missing_packages_are_told_when_the_parts_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    for make in (SageCompressor, SageNodePostprocessor):
        with pytest.raises((MissingExtraError, ValueError), match=r"sage-rag\[models\]"):
            make(reranker="some/model")
        assert make(reranker="sage-minilm"), "what needs no model needs no package"


def test_words_without_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", "when", "does", "it", "leave"]) == 2
    assert 'goes in quotes: sage-rag ask "' in capsys.readouterr().err


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
