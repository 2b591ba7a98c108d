"""Any OpenAI-compatible server as a `ChatModel`: sync, async and streaming."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sage_core._checks import check_float, check_int, check_optional_int
from sage_core.errors import InputError
from sage_core.llm.attempts import (
    Attempts,
    EmptyReplyError,
    MalformedReplyError,
    OutOfTimeError,
    transport_errors,
)
from sage_core.llm.messages import Completion, Message
from sage_core.llm.transport import Clients, iterate_blocking, redact_url, run_blocking, server_url
from sage_core.llm.usage import TokenUsage, estimate_usage
from sage_core.text.tokens import without_lone_surrogates

_log = logging.getLogger(__name__)

# Settings some servers and models refuse; left out (or renamed) from then on, rather than failing.
_ADAPTABLE = ("response_format", "temperature", "max_tokens", "stream_options")


class OpenAIChat:
    """Asks a model of OpenAI, or of any server with the same interface (vLLM, Ollama, llama.cpp, ...).

    Safe to share between threads and event loops. Attempts that meet status 408, 409, 429 or 5xx, a dropped
    connection or an unreadable reply are repeated with growing pauses. A setting the server
    refuses (structured output, temperature, ...) is left out from then on.

    Examples:
        >>> chat = OpenAIChat("llama3.1", base_url="http://localhost:11434/v1")
        >>> chat.name
        'llama3.1'
        >>> reply = chat.complete([Message("user", "Hello")])  # doctest: +SKIP

    Args:
        model: The model's name.
        api_key: The key; from ``OPENAI_API_KEY`` where None. A server of your own needs none. The key is in
            no repr, log, error or pickle of this class.
        base_url: The server's address up to ``/v1``; from ``OPENAI_BASE_URL``, else OpenAI's, where None.
        timeout: Seconds one call may take in all: attempts, retries, the pauses between them, and the whole
            of a streamed reply (but for the time its reader takes between two pieces).
        max_retries: Most attempts after the first.
        temperature: Sampling temperature; None leaves it to the server.
        max_tokens: Most tokens of a reply; None leaves it to the server.
        backoff: Seconds before the first retry; doubles each time, up to 8.
        max_reply_bytes: Most bytes of a reply; a larger one is an error.

    Raises:
        InputError: Where a value is out of its range, or ``base_url`` is no address.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 120.0,
        max_retries: int = 4,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        backoff: float = 0.5,
        max_reply_bytes: int = 16 * 2**20,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise InputError(f"model is the name of a model, not {model!r}")
        if not check_float("timeout", timeout, minimum=0):
            raise InputError("timeout must be above 0 seconds")
        check_int("max_retries", max_retries, minimum=0)
        check_float("backoff", backoff, minimum=0)
        if temperature is not None:
            check_float("temperature", temperature, minimum=0)
        check_optional_int("max_tokens", max_tokens, minimum=1)
        self.model = model
        self.timeout = timeout
        self.max_retries = max_retries
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.backoff = backoff
        server_url(base_url)  # raises now, not at the first call
        self._clients = Clients("OpenAIChat", base_url, api_key, check_reply_limit(max_reply_bytes))
        self._refused: set[str] = set()

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model

    @property
    def base_url(self) -> str:
        """The server's address, without user, password and query."""
        return redact_url(self._clients.url)

    def __repr__(self) -> str:
        return f"OpenAIChat({self.model!r}, base_url={self.base_url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_refused": set()}

    def __copy__(self) -> OpenAIChat:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> OpenAIChat:
        # Clients and keys are not copied; the adapter is safe to share.
        return self

    def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, object] | None = None
    ) -> Completion:
        """See `ChatModel.complete`.

        Raises:
            LLMError: Where no reply could be had; ``retryable`` says whether it may be had later.
        """
        return run_blocking(self.acomplete(messages, schema=schema))

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Mapping[str, object] | None = None
    ) -> Completion:
        """`complete` as a coroutine; cancelling it drops its connection and nothing else."""
        client, request = self._clients.get(), self._request(messages, schema)
        return await request.run(
            lambda: client.chat.completions.create(**request.arguments), request.completion
        )

    def stream(self, messages: Sequence[Message]) -> Iterator[str | Completion]:
        """Pieces of the reply as they come, then the whole as a `Completion`.

        Raises:
            LLMError: As `complete`; also where the reply breaks off after its first piece.
        """
        yield from iterate_blocking(self.astream(messages))

    async def astream(self, messages: Sequence[Message]) -> AsyncIterator[str | Completion]:
        """`stream` as an async iterator."""
        client, request = self._clients.get(), self._request(messages, None, stream=True)
        errors: tuple[type[Exception], ...] = (*transport_errors(), OutOfTimeError)
        while True:
            reply = StreamedReply(request)
            try:
                opened = client.chat.completions.create(**request.arguments)
                async with await request.budget.spend(opened) as events:
                    while (event := await request.budget.spend(anext(events, None))) is not None:
                        if piece := reply.take(event):
                            yield piece
                yield reply.whole()
                return
            except errors as error:
                outcome = request.after(error, begun=bool(reply.pieces))
            try:
                await request.pause(outcome)
            finally:
                del outcome  # as in `Attempts.run`

    def close(self) -> None:
        """Close the connections that `complete` and `stream` have opened."""
        self._clients.close()

    async def aclose(self) -> None:
        """Close the connections opened in the running event loop."""
        await self._clients.aclose()

    def _request(
        self, messages: Sequence[Message], schema: Mapping[str, object] | None, *, stream: bool = False
    ) -> Request:
        return Request(
            where=f"model {self.model!r} at {self.base_url}",
            arguments=arguments(
                self.model,
                messages,
                schema=schema,
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                stream=stream,
            ),
            messages=tuple(messages),
            refused=self._refused,
            max_retries=self.max_retries,
            backoff=self.backoff,
            timeout=self.timeout,
            secrets=self._clients.secrets,
        )


def check_reply_limit(value: int) -> int:
    """``value`` as a limit in bytes; InputError for anything but a whole number of at least 1."""
    return check_int("max_reply_bytes", value, minimum=1)


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
