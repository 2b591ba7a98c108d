"""The retriever inside a `SageRetriever`: what it is given, and what it must give back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks

from sage_core.errors import InputError


class FunctionRetriever(RunnableLambda[str, Any]):
    """A user's plain function from a question to documents."""


def as_runnable(value: Any) -> Any:
    """A plain function as a `FunctionRetriever`; anything else as it is."""
    if isinstance(value, Runnable) or not callable(value):
        return value
    function: Callable[[str], Any] = value
    return FunctionRetriever(function)


def inner_input(
    inner: Runnable[Any, Any], question: str, whole: Mapping[str, Any] | None, config: RunnableConfig
) -> Any:
    """What the inner retriever is called with: the question, or the whole input of the chain.

    The rule is that of LangChain's `create_retrieval_chain`: retrievers and plain functions take the
    question, any other Runnable (one that rewrites the question from the chat history, say) takes the whole
    mapping. Wrappers are looked through.

    Args:
        inner: The inner retriever.
        question: The question.
        whole: The mapping it came in; None where there was none.
        config: The config of the call.
    """
    if whole is None:
        return question
    while True:
        if getattr(inner, "takes_whole_input", False) is True:
            return whole
        if isinstance(inner, BaseRetriever | FunctionRetriever):
            return question
        if isinstance(inner, RunnableBindingBase):
            inner = inner.bound
        elif isinstance(inner, DynamicRunnable):
            inner, config = inner.prepare(config)
        elif isinstance(inner, RunnableWithFallbacks):
            inner = inner.runnable
        else:
            return whole


def checked(found: Any, inner: Runnable[Any, Any]) -> list[Document]:
    """What the inner retriever gave, as a list.

    Raises:
        InputError: If it is no list of documents.
    """
    name = inner.get_name()
    if not isinstance(found, list | tuple):
        raise InputError(f"base_retriever {name} returned {type(found).__name__}, not a list of Documents")
    for document in found:
        if not isinstance(document, Document):
            raise InputError(
                f"base_retriever {name} returned a list with {type(document).__name__} in it: return "
                "Documents, Document(page_content=...)"
            )
    return list(found)
