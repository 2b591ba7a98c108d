"""The package as its users install it: LangChain's own suite, the names, and the example."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import langchain_sage_rag
import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_sage_rag import MiniLMEmbeddings, SageRetriever, middleware
from langchain_tests.integration_tests import RetrieversIntegrationTests

import sage_langchain
import sage_langchain.middleware

TOPICS = ("bees", "presses", "tea", "bridges", "ferries", "lamps")


def over_store(**settings: Any) -> SageRetriever:
    texts = [f"Note {i} is about {TOPICS[i % 6]}." for i in range(20)]
    return SageRetriever.from_vectorstore(
        InMemoryVectorStore.from_texts(texts, MiniLMEmbeddings()), **settings
    )


class TestSageRetriever(RetrieversIntegrationTests):
    """LangChain's own suite, unmodified."""

    @property
    def retriever_constructor(self) -> Any:
        return over_store

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {}

    @property
    def retriever_query_example(self) -> str:
        return "What is said about tea?"


def test_every_name_is_the_one_of_sage_langchain() -> None:
    assert langchain_sage_rag.__all__ == sage_langchain.__all__
    assert all(getattr(langchain_sage_rag, n) is getattr(sage_langchain, n) for n in sage_langchain.__all__)
    assert middleware.SageRetrievalMiddleware is sage_langchain.middleware.SageRetrievalMiddleware
    assert middleware.SageGroundingMiddleware is sage_langchain.middleware.SageGroundingMiddleware


def test_the_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {"__name__": "readme"})
    assert "The ferry leaves at seven." in capsys.readouterr().out
