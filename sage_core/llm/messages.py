"""What we need of an LLM: messages in, text and token counts out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from sage_core.llm.usage import NO_USAGE, TokenUsage

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat.

    Examples:
        >>> Message("user", "When does the ferry leave?").role
        'user'

    Attributes:
        role: Who says it.
        content: What is said.
    """

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Completion:
    """An LLM's whole reply.

    Examples:
        >>> Completion("At seven.").text
        'At seven.'

    Attributes:
        text: What it wrote.
        usage: What it took; ``usage.estimated`` where the server did not say.
        finish_reason: Why it stopped, in the server's word: ``"stop"``, ``"length"`` (cut short), ...
    """

    text: str
    usage: TokenUsage = NO_USAGE
    finish_reason: str | None = None


@runtime_checkable
class ChatModel(Protocol):
    """An LLM that can be asked, by the core's own loop."""

    @property
    def name(self) -> str:
        """Name of the model, for reports and prices."""
        ...

    def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, object] | None = None
    ) -> Completion:
        """Ask and wait for the whole reply.

        Args:
            messages: The prompt.
            schema: JSON schema the reply should keep to; a model without structured output ignores it.

        Raises:
            LLMError: Where no reply could be had.
        """
        ...

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Mapping[str, object] | None = None
    ) -> Completion:
        """`complete` as a coroutine."""
        ...

    def stream(self, messages: Sequence[Message]) -> Iterator[str | Completion]:
        """Pieces of the reply as they come, then the whole as a `Completion`."""
        ...

    def astream(self, messages: Sequence[Message]) -> AsyncIterator[str | Completion]:
        """`stream` as an async iterator."""
        ...
