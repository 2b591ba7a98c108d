"""Small stand-ins for the LlamaIndex tests: a boundary model, texts, scripted LLMs. All by rule, no chance."""

import asyncio
import hashlib
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.llms import MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from numpy.typing import NDArray
from pydantic import PrivateAttr

from sage_core.feedback import FeedbackResult
from sage_llamaindex import feedback_of
from tests.fakes.models import HashEmbedder, grade

_WORDS = re.compile(r"\w+")


class OverlapModel:
    """P(same) from shared words: 0.9 where two sentences share a word of five letters or more, else 0.1."""

    def __init__(self, salt: str = "") -> None:
        self.salt = salt
        self.calls: list[int] = []

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"overlap{self.salt}".encode()).hexdigest()

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        self.calls.append(len(documents))
        found = []
        for sentences in documents:
            words = [{w for w in _WORDS.findall(s.lower()) if len(w) >= 5} for s in sentences]
            same = [0.9 if a & b else 0.1 for a, b in pairwise(words)]
            found.append(np.array(same, dtype=np.float32))
        return found


TOPICS = [
    "The lighthouse stands on the northern cliff. Its lighthouse keeper climbs the stairs at dusk. "
    "The lighthouse lamp turns once in nine seconds.",
    "Bread rises slowly in a cold kitchen. A warm kitchen shortens the wait to an hour. "
    "The kitchen oven must be hot before the loaf goes in.",
    "The orchestra rehearses on Tuesdays. A rehearsal of the orchestra lasts three hours. "
    "Visitors may hear the orchestra from the gallery.",
    "Glaciers carry stones for many miles. The stones that glaciers leave behind are scratched. "
    "Farmers build walls from glaciers' stones.",
    "The ferry crosses the strait at noon. In winter the ferry waits for calm water. "
    "Tickets for the ferry are sold on the quay.",
]


def story(topics: Sequence[int] = (0, 1, 2, 3, 4)) -> str:
    """A text that goes from topic to topic."""
    return "\n\n".join(TOPICS[i] for i in topics)


def trace_of(response: Any) -> FeedbackResult:
    """The trace that a response has."""
    trace = feedback_of(response)
    assert trace is not None
    return trace


class ScriptedLLM(MockLLM):
    """Answers and grades from two lists, in order; the last of each is repeated. Remembers what it was asked.

    An item that is an exception is raised. Tells the critic's prompt by its first words.
    """

    _answers: list[Any] = PrivateAttr(default_factory=lambda: ["an answer"])
    _grades: list[Any] = PrivateAttr(default_factory=lambda: [grade(10)])
    _prompts: list[tuple[str, str]] = PrivateAttr(default_factory=list)
    _delay: float = PrivateAttr(default=0.0)
    _gate: asyncio.Event | None = PrivateAttr(default=None)
    _chats: bool = PrivateAttr(default=False)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=self._chats)

    @classmethod
    def of(
        cls,
        answers: list[Any] | None = None,
        grades: list[Any] | None = None,
        *,
        chats: bool = False,
        **settings: Any,
    ) -> "ScriptedLLM":
        llm = cls(**settings)
        llm._chats = chats
        llm._answers = list(answers or ["an answer"])
        llm._grades = list(grades or [grade(10)])
        return llm

    def asked(self, role: str) -> list[str]:
        """Prompts of one role, ``"answer"`` or ``"critic"``, in order."""
        return [prompt for kind, prompt in self._prompts if kind == role]

    def _reply(self, prompt: str) -> str:
        role = "critic" if "You grade an answer" in prompt else "answer"
        self._prompts.append((role, prompt))
        script = self._grades if role == "critic" else self._answers
        item = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(item, Exception):
            raise item
        return str(item)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self._reply(prompt))

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        await asyncio.sleep(self._delay)
        if self._gate is not None:
            await asyncio.wait_for(self._gate.wait(), 30)
        return CompletionResponse(text=self._reply(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        text = self._reply(prompt)

        def tokens() -> CompletionResponseGen:
            for end in range(1, len(text) + 1):
                yield CompletionResponse(text=text[:end], delta=text[end - 1])

        return tokens()


def scored(*scores: float | None) -> list[NodeWithScore]:
    """Nodes with these scores, whose texts and ids are their positions."""
    return [
        NodeWithScore(node=TextNode(id_=f"n{i}", text=f"text {i}"), score=s) for i, s in enumerate(scores)
    ]


class FixedRetriever(BaseRetriever):
    """Returns fresh nodes with given scores, and counts its calls."""

    def __init__(self, *scores: float | None) -> None:
        self.scores = scores
        self.calls = 0
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.calls += 1
        return scored(*self.scores)


class Recorder(BaseEventHandler):
    """Keeps the events of a test."""

    events: list[Any] = []  # noqa: RUF012 a pydantic field

    @classmethod
    def class_name(cls) -> str:
        return "Recorder"

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        self.events.append(event)

    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


class HashEmbedding(BaseEmbedding):
    """Vectors of hashed words; counts the questions."""

    questions: int = 0

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(v) for v in HashEmbedder().embed_query(text)]

    def _get_query_embedding(self, query: str) -> list[float]:
        self.questions += 1
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)
