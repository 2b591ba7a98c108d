"""Small deterministic stand-ins: a boundary model, embeddings, a reranker, chat models, texts of our own."""

import threading
from collections.abc import Sequence
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from tests.fakes.models import HashEmbedder, WordReranker

TEXT = (
    "Dr. Ibarra keeps bees on the roof. The hives face south, and p.m. visits are calm. "
    "In winter she feeds them sugar.\n\n"
    "The printing house stands by the canal. Its presses date from 1911. They still run on Fridays. "
    "They still run on Fridays.\r\n\r\n"
    "这是一个关于茶的故事。茶叶在山上生长。人们在春天采茶。\n"
    "🚲 A bicycle courier 🚲 crosses the bridge.   He is late.\t"
)


class WordEmbeddings(Embeddings):
    """The vectors of `HashEmbedder`; counts the questions."""

    questions = 0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        found: list[list[float]] = HashEmbedder().embed_documents(texts).astype(float).tolist()
        return found

    def embed_query(self, text: str) -> list[float]:
        self.questions += 1
        return self.embed_documents([text])[0]


class AsyncWordReranker(WordReranker):
    """The same, awaited; its plain method fails, so that a test sees which one was used."""

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        raise AssertionError("the async path must await ascore")

    async def ascore(self, query: str, texts: Sequence[str]) -> list[float]:
        return WordReranker().score(query, texts)


class ListReranker:
    """Hands out a fixed list of scores."""

    name = "list"

    def __init__(self, scores: Sequence[Any], scale: str = "probability") -> None:
        self.scores = list(scores)
        self.scale = scale

    def score(self, query: str, texts: Sequence[str]) -> list[Any]:
        return self.scores[: len(texts)]


class ScriptedChat(BaseChatModel):
    """Answers from a list, in order, and keeps what it was asked. An exception in the list is raised."""

    replies: list[Any]
    seen: list[list[BaseMessage]] = Field(default_factory=list)

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.seen.append(messages)
        reply = self.replies[len(self.seen) - 1]
        if isinstance(reply, BaseException):
            raise reply
        message = reply if isinstance(reply, AIMessage) else AIMessage(content=reply)
        return ChatResult(generations=[ChatGeneration(message=message)])

    @property
    def _llm_type(self) -> str:
        return "scripted"


class ToolChat(ScriptedChat):
    """The same, with tool calling: `with_structured_output` works as with hosted models."""

    bound: dict[str, Any] = Field(default_factory=dict)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        self.bound["tools"] = list(tools)
        kwargs.pop("ls_structured_output_format", None)
        return self.bind(**kwargs)


def tokens(read: int, written: int) -> Any:
    """Usage as LangChain reports it."""
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}


class WatchingCounter:
    """Counts characters, and notes each call's thread."""

    name = "watching"

    def __init__(self) -> None:
        self.threads: list[int] = []

    def count(self, text: str) -> int:
        return self.count_many([text])[0]

    def count_many(self, texts: Sequence[str]) -> list[int]:
        self.threads.append(threading.get_ident())
        return [len(text) for text in texts]
