"""LangChain's Runnables: the question in what a chain passes on, and what lies inside a wrapper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, TypeVar

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import merge_configs
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from pydantic import BaseModel, GetPydanticSchema, ValidationError
from pydantic_core import core_schema

from sage_core._checks import refused
from sage_core.errors import InputError

QUERY_KEYS = ("input", "query", "question")


T = TypeVar("T")
# An object of the class as it is: of a dataclass pydantic would make a schema, which it cannot of a protocol.
Instance = Annotated[T, GetPydanticSchema(lambda source, _: core_schema.is_instance_schema(source))]


class CheckedModel(BaseModel):
    """A model whose errors are an `InputError` in a line."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        try:
            super().__init__(*args, **fields)
        except ValidationError as error:
            raise refused(type(self).__name__, error.errors(), type(self).model_fields) from None


def query_of(value: object) -> str:
    """The question: ``value`` itself, or the first of its keys ``input``, ``query``, ``question``.

    Raises:
        InputError: If it is neither a string nor a mapping with such a string, or blank.
    """
    if isinstance(value, str):
        if not value.strip():
            raise InputError("the question is blank")
        return value
    if isinstance(value, Mapping):
        for key in QUERY_KEYS:
            if isinstance(value.get(key), str):
                return query_of(value[key])
        raise InputError(f"a mapping needs the question as a string under one of {', '.join(QUERY_KEYS)}")
    raise InputError(f"a question is a string or a mapping that holds one, not {type(value).__name__}")


def layers(value: Any, config: RunnableConfig | None) -> Iterator[tuple[Any, RunnableConfig | None]]:
    """``value``, what is inside it, and so on, as a call with this config reaches them.

    Looked into are bindings (`with_config`, `with_retry`, ...), what is configured at run time, and the first
    choice of `with_fallbacks`.

    Args:
        value: A Runnable, or anything else, which has one layer.
        config: The config of the call; None if it is not known: then what is configured at run time
            counts by its default.
    """
    # Ends: every wrapper has one thing inside, and none contains itself.
    while True:
        yield value, config
        if isinstance(value, RunnableBindingBase):
            value, config = value.bound, merge_configs(value.config, config)
        elif isinstance(value, DynamicRunnable):
            value, config = value.prepare(config)
        elif isinstance(value, RunnableWithFallbacks):
            value = value.runnable
        else:
            return


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
        whole: The mapping it came in; None if there was none.
        config: The config of the call.
    """
    *_, (asked, _) = layers(inner, config)
    plain = isinstance(asked, BaseRetriever | FunctionRetriever) and not hasattr(asked, "takes_whole_input")
    return question if whole is None or plain else whole


def checked(documents: Any, inner: Runnable[Any, Any]) -> list[Document]:
    """What the inner retriever gave, as a list.

    Raises:
        InputError: If it is no list of documents.
    """
    if isinstance(documents, list | tuple) and all(isinstance(d, Document) for d in documents):
        return list(documents)
    held = documents if isinstance(documents, list | tuple) else [documents]
    wrong = next(type(d).__name__ for d in held if not isinstance(d, Document))
    raise InputError(f"base_retriever {inner.get_name()} gave {wrong}, not a list of Documents")
