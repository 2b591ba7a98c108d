"""One request while it is tried: its arguments, its retries, its time, and what the server will not take."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sage_core.errors import LLMError
from sage_core.llm.failures import (
    EmptyReplyError,
    MalformedReplyError,
    backoff_seconds,
    classify,
    out_of_time,
    transport_errors,
)
from sage_core.llm.messages import Completion, Message
from sage_core.llm.transport import Budget, OutOfTimeError
from sage_core.llm.usage import TokenUsage, estimate_usage
from sage_core.text.tokens import without_lone_surrogates

T = TypeVar("T")
R = TypeVar("R")
_log = logging.getLogger(__name__)

# Settings some servers and models refuse; left out (or renamed) from then on, rather than failing.
_ADAPTABLE = ("response_format", "temperature", "max_tokens", "stream_options")


@dataclass(slots=True, kw_only=True)
class Attempts:
    """The attempts of one call, the pauses between them, and the time they have.

    ``where`` names the model and server in messages, from which ``secrets`` are kept out.
    """

    where: str
    max_retries: int
    backoff: float
    timeout: float
    secrets: Sequence[str] = field(repr=False)
    failed: int = 0
    budget: Budget = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.budget = Budget(self.timeout)

    def after(self, error: Exception, *, begun: bool = False) -> float | LLMError:
        """What to do after a failed attempt: seconds to wait before the next, or the error to raise.

        The error is returned, not raised, so that it carries no trace of the client's own error, whose
        request holds the key. ``begun``: part of the reply was handed on, and a retry would repeat it.
        """
        broke = "the reply broke off: " if begun else ""
        if isinstance(error, OutOfTimeError):
            return LLMError(f"{self.where}: {broke}{out_of_time(self.timeout)}", retryable=True)
        failure = classify(error, timeout=self.timeout, secrets=self.secrets)
        if failure.refused is not None and not begun and self.adapt(failure.refused):
            return 0.0
        if begun:
            return LLMError(f"{self.where}: {broke}{failure.message}", retryable=True)
        if not failure.retryable or self.failed >= self.max_retries:
            tries = f" (tried {self.failed + 1} times)" if self.failed else ""
            return LLMError(f"{self.where}: {failure.message}{tries}", retryable=failure.retryable)
        self.failed += 1
        pause = backoff_seconds(self.failed, self.backoff, failure.retry_after)
        if pause >= self.budget.left:
            return LLMError(
                f"{self.where}: {failure.message} (the next attempt, in {pause:.3g} s, would go over the "
                f"timeout of {self.timeout:g} s)",
                retryable=True,
            )
        _log.info("%s: %s; retry %d in %.2f s", self.where, failure.message, self.failed, pause)
        return pause

    async def run(self, send: Callable[[], Awaitable[R]], read: Callable[[R], T]) -> T:
        """What ``read`` makes of the reply, after as many attempts as it takes and is allowed.

        Raises:
            LLMError: Where no attempt succeeded.
        """
        errors: tuple[type[Exception], ...] = (*transport_errors(), OutOfTimeError)
        while True:
            try:
                return read(await self.budget.spend(send()))
            except errors as error:
                outcome = self.after(error)
            try:
                await self.pause(outcome)
            finally:
                del outcome  # else an error and this frame would keep each other, and the callers' data

    async def pause(self, outcome: float | LLMError) -> None:
        """Wait before the next attempt, or raise what ends the call."""
        if not isinstance(outcome, LLMError):
            await self.budget.spend(asyncio.sleep(outcome))
            return
        try:
            raise outcome
        finally:
            del outcome  # as in `run`

    def adapt(self, said: str) -> bool:
        """Change the request after a refusal so that the server takes it; False where that cannot be done."""
        return False


@dataclass(slots=True, kw_only=True)
class Request(Attempts):
    """A chat request while it is tried.

    ``refused`` are settings that this server refuses; shared with the adapter, which remembers them.
    """

    arguments: dict[str, Any]
    messages: Sequence[Message]
    refused: set[str]

    def __post_init__(self) -> None:
        Attempts.__post_init__(self)  # super() does not work in a dataclass with slots
        for name in self.refused & self.arguments.keys():
            self._leave_out(name)

    def adapt(self, said: str) -> bool:
        """Leave out the setting a refusal is about; False where it is about none of them."""
        name = next((n for n in _ADAPTABLE if n in self.arguments and n in said), None)
        if name is None and "response_format" in self.arguments:
            # Servers without structured output refuse it in many words; the prompt asks for JSON anyway.
            name = "response_format"
        if name is None:
            return False
        _log.info("%s refuses %s; asking without it from now on", self.where, name)
        self.refused.add(name)
        self._leave_out(name)
        return True

    def _leave_out(self, name: str) -> None:
        value = self.arguments.pop(name)
        if name == "max_tokens":
            self.arguments["max_completion_tokens"] = value

    def completion(self, reply: Any) -> Completion:
        """The text and tokens of a whole reply.

        Raises:
            MalformedReplyError: Where it has no choice or no text.
            EmptyReplyError: Where it has no text and says why.
        """
        choices = getattr(reply, "choices", None)
        if not isinstance(choices, list) or not choices:
            raise MalformedReplyError("no choices in the reply")
        choice = choices[0]
        message = getattr(choice, "message", None)
        reason = getattr(choice, "finish_reason", None)
        text = getattr(message, "content", None)
        if text is None:
            text = getattr(message, "refusal", None)
        if not isinstance(text, str):
            raise _no_text(reason)
        text = without_lone_surrogates(text)
        return Completion(text, self.usage(getattr(reply, "usage", None), text), reason)

    def usage(self, reported: Any, text: str) -> TokenUsage:
        """The server's count, or our estimate, marked so."""
        prompt = getattr(reported, "prompt_tokens", None)
        completion = getattr(reported, "completion_tokens", None)
        if isinstance(prompt, int) and isinstance(completion, int) and min(prompt, completion) >= 0:
            return TokenUsage(prompt, completion, 1)
        return estimate_usage((m.content for m in self.messages), text)


def _no_text(reason: str | None) -> MalformedReplyError | EmptyReplyError:
    """The error of a reply without text; asking again mends it only where the reply gives no reason."""
    if reason in ("length", "content_filter"):
        return EmptyReplyError(f"no text, finish_reason={reason!r}: raise max_tokens, or reword the question")
    return MalformedReplyError("no text in the reply")


@dataclass(slots=True)
class StreamedReply:
    """Collects a streamed reply."""

    request: Request
    pieces: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    reported: Any = None

    def take(self, event: Any) -> str:
        """The text a stream event adds, mostly a word or none."""
        self.reported = getattr(event, "usage", None) or self.reported
        choices = getattr(event, "choices", None)
        if not isinstance(choices, list) or not choices:
            return ""
        self.finish_reason = getattr(choices[0], "finish_reason", None) or self.finish_reason
        delta = getattr(choices[0], "delta", None)
        piece = getattr(delta, "content", None) or getattr(delta, "refusal", None)
        if not isinstance(piece, str):
            return ""
        piece = without_lone_surrogates(piece)
        self.pieces.append(piece)
        return piece

    def whole(self) -> Completion:
        """The whole reply, once the stream has ended.

        Raises:
            MalformedReplyError: Where it ended without saying that it was at its end, or without a word.
            EmptyReplyError: Where it has no text and says why.
        """
        if self.finish_reason is None and self.reported is None:
            raise MalformedReplyError("the stream ended in the middle")
        if not self.pieces:
            raise _no_text(self.finish_reason)
        text = "".join(self.pieces)
        return Completion(text, self.request.usage(self.reported, text), self.finish_reason)


def arguments(
    model: str,
    messages: Sequence[Message],
    *,
    schema: Mapping[str, object] | None,
    temperature: float | None,
    max_tokens: int | None,
    stream: bool,
) -> dict[str, Any]:
    """Arguments for ``chat.completions.create``."""
    structure = None
    if schema is not None:
        form = {"name": str(schema.get("title", "reply")), "schema": dict(schema), "strict": True}
        structure = {"type": "json_schema", "json_schema": form}
    request = {
        "model": model,
        "messages": [{"role": m.role, "content": without_lone_surrogates(m.content)} for m in messages],
        "temperature": temperature,
        "max_tokens": max_tokens,
        "response_format": structure,
        "stream": stream or None,
        "stream_options": {"include_usage": True} if stream else None,
    }
    return {name: value for name, value in request.items() if value is not None}
