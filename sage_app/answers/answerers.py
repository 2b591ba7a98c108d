"""Who answers and who grades: the protocol, and the answerer that asks an LLM."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sage_core._checks import check_part
from sage_core.errors import InputError
from sage_core.feedback.critic import VERDICT_SCHEMA, critic_messages
from sage_core.feedback.parsing import parse_verdict
from sage_core.feedback.types import Verdict
from sage_core.llm import ChatModel, Completion, Message
from sage_core.llm.prompts import answer_messages
from sage_core.llm.usage import TokenUsage
from sage_core.verify import unsure_statements


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What `Sage` may hand an answerer besides the protocol's arguments; the defaults are the protocol.

    Examples:
        >>> class MyAnswerer:
        ...     capabilities = Capabilities(places=True)  # generate and judge take `places=`
        >>> capabilities_of(MyAnswerer()).places, capabilities_of(object()).places
        (True, False)

    Attributes:
        headings: Passages come with their title and headings, as a prompt shows them; else as they stand.
        places: ``generate`` and ``judge`` take ``places=``, where each passage is from, in words.
        relevance: ``generate`` takes ``relevance=``, how likely each passage bears on the question, or None.
        grades_abstentions: ``judge`` is asked about "The documents do not say." too.
    """

    headings: bool = True
    places: bool = False
    relevance: bool = False
    grades_abstentions: bool = False


def capabilities_of(answerer: object) -> Capabilities:
    """Its attribute ``capabilities``, or the defaults."""
    own = getattr(answerer, "capabilities", None)
    return own if isinstance(own, Capabilities) else Capabilities()


@runtime_checkable
class Answerer(Protocol):
    """Answers a question from passages, and grades such an answer.

    With an attribute ``capabilities`` it is handed more, see `Capabilities`; with ``stream`` and ``astream``
    its answer is shown while it is written, see `StreamingAnswerer`.
    """

    @property
    def label(self) -> str:
        """Human-readable name shown in reports: a model's name, or that there is none."""
        ...

    def generate(
        self, question: str, context: Sequence[str], *, options: Sequence[str] | None = None
    ) -> tuple[str, TokenUsage]:
        """Answer from the passages, and say what it took.

        Args:
            question: The user's question.
            context: Texts of the passages, best first.
            options: Options of a multiple-choice question.

        Raises:
            LLMError: Where no answer could be had.
        """
        ...

    def judge(
        self, question: str, context: Sequence[str], answer: str, *, options: Sequence[str] | None = None
    ) -> tuple[Verdict, TokenUsage]:
        """Grade the answer, and say what it took.

        Raises:
            LLMError: Where no grade could be had. A grade that cannot be read is a `Verdict`, no error.
        """
        ...

    async def agenerate(
        self, question: str, context: Sequence[str], *, options: Sequence[str] | None = None
    ) -> tuple[str, TokenUsage]:
        """`generate` as a coroutine."""
        ...

    async def ajudge(
        self, question: str, context: Sequence[str], answer: str, *, options: Sequence[str] | None = None
    ) -> tuple[Verdict, TokenUsage]:
        """`judge` as a coroutine."""
        ...


@runtime_checkable
class StreamingAnswerer(Answerer, Protocol):
    """An answerer that hands its answer on in pieces."""

    def stream(
        self, question: str, context: Sequence[str], *, options: Sequence[str] | None = None
    ) -> Iterator[str | Completion]:
        """Pieces of the answer as they come, then the whole as a `Completion`.

        Raises:
            LLMError: As `generate`.
        """
        ...

    def astream(
        self, question: str, context: Sequence[str], *, options: Sequence[str] | None = None
    ) -> AsyncIterator[str | Completion]:
        """`stream` as an async iterator."""
        ...


class LLMAnswerer:
    """Answers and grades with an LLM.

    Examples:
        >>> from sage_app import OpenAIChat
        >>> LLMAnswerer(OpenAIChat("llama3.1", base_url="http://localhost:11434/v1")).label
        'llama3.1'

    Args:
        chat: The model that answers.
        critic: The model that grades; the same where None. Models favor their own answers, so another
            one grades more soberly.

    Raises:
        InputError: For something else than a chat model, such as its name.
    """

    def __init__(self, chat: ChatModel, *, critic: ChatModel | None = None) -> None:
        check_part("chat", chat, ("complete",), "OpenAIChat('gpt-4o-mini')")
        check_part("critic", critic, ("complete",), "OpenAIChat('gpt-4o')")
        if chat is None:
            raise InputError("chat is the model that answers, such as OpenAIChat('gpt-4o-mini'), not None")
        self.chat = chat
        self.critic = critic if critic is not None else chat

    def __repr__(self) -> str:
        return f"LLMAnswerer({self.label!r})"

    @property
    def label(self) -> str:
        """The model's name, and the critic's where it is another."""
        if self.critic is self.chat:
            return self.chat.name
        return f"{self.chat.name}, graded by {self.critic.name}"

    def generate(
        self, question: str, context: Sequence[str], *, options: Sequence[str] | None = None
    ) -> tuple[str, TokenUsage]:
        """See `Answerer.generate`."""
        reply = self.chat.complete(answer_messages(question, context, options=options))
        return reply.text.strip(), reply.usage

    async def agenerate(
        self, question: str, context: Sequence[str], *, options: Sequence[str] | None = None
    ) -> tuple[str, TokenUsage]:
        """See `Answerer.agenerate`."""
        reply = await self.chat.acomplete(answer_messages(question, context, options=options))
        return reply.text.strip(), reply.usage

    def judge(
        self, question: str, context: Sequence[str], answer: str, *, options: Sequence[str] | None = None
    ) -> tuple[Verdict, TokenUsage]:
        """See `Answerer.judge`."""
        messages = _critic_messages(question, context, answer, options)
        reply = self.critic.complete(messages, schema=VERDICT_SCHEMA)
        return parse_verdict(reply.text), reply.usage

    async def ajudge(
        self, question: str, context: Sequence[str], answer: str, *, options: Sequence[str] | None = None
    ) -> tuple[Verdict, TokenUsage]:
        """See `Answerer.ajudge`."""
        messages = _critic_messages(question, context, answer, options)
        reply = await self.critic.acomplete(messages, schema=VERDICT_SCHEMA)
        return parse_verdict(reply.text), reply.usage

    def stream(
        self, question: str, context: Sequence[str], *, options: Sequence[str] | None = None
    ) -> Iterator[str | Completion]:
        """See `StreamingAnswerer.stream`."""
        yield from self.chat.stream(answer_messages(question, context, options=options))

    async def astream(
        self, question: str, context: Sequence[str], *, options: Sequence[str] | None = None
    ) -> AsyncIterator[str | Completion]:
        """`stream` as an async iterator."""
        async for piece in self.chat.astream(answer_messages(question, context, options=options)):
            yield piece


def _critic_messages(
    question: str, context: Sequence[str], answer: str, options: Sequence[str] | None
) -> list[Message]:
    statements = unsure_statements(question, context, answer)
    return critic_messages(question, context, answer, options=options, statements=statements)
