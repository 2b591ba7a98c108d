"""Chat models and embeddings behind OpenAI's interface, on the `openai` package, which tries again by itself.

The package's own timeout begins anew with every byte, so a slow server could keep a call open without end. A
coroutine can be cancelled at any point. So every call is a coroutine with a deadline, in an event loop that
one thread of the process keeps, whether its caller waits or awaits.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from sage_core._checks import check_float, check_int, check_optional_int
from sage_core.embedding.protocol import unit_rows
from sage_core.errors import InputError, LLMError, MissingExtraError, SageError
from sage_core.llm.messages import Completion, Message
from sage_core.llm.usage import TokenUsage, estimate_usage
from sage_core.text.tokens import without_lone_surrogates

T = TypeVar("T")
OPENAI_URL = "https://api.openai.com/v1"
_SECRET = re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_\-*.]{6,}|(?<=Bearer )\S+|(?<=Basic )\S+")
_END: Any = object()

# Settings that some servers and models refuse: left out (or renamed) from then on, rather than failing.
_ADAPTABLE = ("response_format", "temperature", "max_tokens", "stream_options")

_NOT_ALLOWED = ", not allowed: check the API key and its rights"
_STATUS = {401: _NOT_ALLOWED, 403: _NOT_ALLOWED, 404: ": no such model or address, check both"}

# OpenAI takes 2,048 texts and 300,000 tokens in one request.
_MOST_TEXTS = 2_048
_MOST_CHARACTERS = 300_000


class _LoopThread:
    """An event loop in a daemon thread, started on first use and again in a forked process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # the garbage collector may close a stream while it is held
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="sage-calls", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


_calls = _LoopThread()


def _wait(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run in the loop's thread and wait; an interrupt (Ctrl-C) cancels it."""
    future = _calls.submit(coroutine)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
    finally:
        del future  # as in `_within`


def server_url(value: str | None) -> str:
    """The address given, else OPENAI_BASE_URL, else OpenAI's own; InputError for what is no address.

    An address ends up in logs, errors and pickles, so it may hold no user, password or query.
    """
    url = value or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
    shown = str(url).rpartition("@")[2].partition("?")[0].partition("#")[0]  # without what may be secret
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.netloc)
    except (ValueError, TypeError, AttributeError):  # ValueError: a broken IPv6 address
        usable = False
    if not usable or parts.query or parts.fragment or "@" in parts.netloc:
        raise InputError(
            f"{shown!r} is no address of a server, such as http://localhost:11434/v1, without a user and a "
            "query, which logs would show: give a key as api_key or OPENAI_API_KEY"
        )
    return url


def api_key(value: str | None = None) -> str | None:
    """The key given, else OPENAI_API_KEY; None if there is none. InputError for what can be no key."""
    key = (value or os.environ.get("OPENAI_API_KEY") or "").strip()  # files end in a newline
    if not (key.isascii() and key.isprintable()):
        raise InputError("the API key holds characters no key has: copy it anew into OPENAI_API_KEY")
    return key or None


class _Served:
    """One model of one server, and a deadline for every call of it. Pickles without what is secret."""

    def __init__(
        self, model: str, key: str | None, base_url: str | None, timeout: float, max_retries: int
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise InputError(f"model is the name of a model, not {model!r}")
        if not check_float("timeout", timeout, minimum=0):
            raise InputError("timeout must be above 0 seconds")
        self.model = model
        self.timeout = timeout
        self.max_retries = check_int("max_retries", max_retries, minimum=0)
        self.base_url = server_url(base_url)
        self._key = key
        self._open: tuple[asyncio.AbstractEventLoop, Any] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, base_url={self.base_url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_key": None, "_open": None}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self  # it is safe to share, and a copy would lack the key

    __copy__ = lambda self: self  # noqa: E731

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model

    def close(self) -> None:
        """Close the connections."""
        opened, self._open = self._open, None
        if opened is not None:
            _close(*opened)

    def _client(self) -> Any:
        """The client of the running loop; its connections belong to the loop they were opened in."""
        loop = asyncio.get_running_loop()
        if self._open is not None and self._open[0] is loop:
            return self._open[1]
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError(f"the model {self.model!r} of a server", "openai") from error
        key = api_key(self._key)
        if key is None and self.base_url == OPENAI_URL:
            raise LLMError(
                f"no key for model {self.model!r}: set OPENAI_API_KEY, or base_url for a server of your own"
            )
        client = openai.AsyncOpenAI(
            api_key=key or "none-needed",
            base_url=self.base_url,
            timeout=None,  # `_within` ends the call
            max_retries=self.max_retries,
            # A redirect would take the passages to another server.
            http_client=openai.DefaultAsyncHttpxClient(timeout=None, follow_redirects=False),
        )
        self._open = (loop, client)
        weakref.finalize(self, _close, loop, client).atexit = False
        return client

    async def _within(self, seconds: float, work: Awaitable[T]) -> T:
        """Await; raise LLMError for what fails or takes longer.

        The error is raised outside `except`, so that it carries no trace of the client's own error, whose
        request holds the key.
        """
        try:
            return await asyncio.wait_for(work, max(seconds, 0))
        except SageError:
            raise
        except Exception as error:  # of the client, its HTTP library, or reading what is no reply
            failure = self._failure(error)
        try:
            raise failure
        finally:
            del failure  # an error has this frame in its traceback: they would keep each other

    def _failure(self, error: Exception) -> LLMError:
        import openai

        said, retryable = self._redacted(str(error)), True
        if isinstance(error, asyncio.TimeoutError | TimeoutError | openai.APITimeoutError):
            said = f"no whole answer within {self.timeout:g} s: raise the timeout, or ask a faster model"
        elif isinstance(error, openai.APIStatusError):
            said, retryable = self._status(error)
        elif (
            isinstance(error, openai.APIConnectionError | OSError)
            or type(error).__module__.partition(".")[0].startswith("httpx")  # in the middle of a stream
        ):
            kind = type(error.__cause__ or error).__name__
            said = f"the connection failed or broke off ({kind}): is the server running?"
        elif not isinstance(error, openai.APIError) or isinstance(error, openai.APIResponseValidationError):
            said = f"the reply could not be read ({said}): is this an OpenAI-compatible server?"
        return LLMError(f"model {self.model!r} at {self.base_url}: {said}", retryable=retryable)

    def _status(self, error: Any) -> tuple[str, bool]:
        status, fields = int(error.status_code), error.body if isinstance(error.body, Mapping) else {}
        said = self._redacted(str(fields.get("message") or fields.get("detail") or error.message))
        used_up = "insufficient_quota" in (fields.get("code"), fields.get("type"))
        retryable = (status in (408, 409, 429) or status >= 500) and not used_up
        why = _STATUS.get(status, ": it redirects; give that address as base_url" if status < 400 else "")
        return f"status {status}{why} ({said})", retryable

    def _redacted(self, text: str) -> str:
        """The text, cut, without anything that was sent as a secret or is shaped like one."""
        key = api_key(self._key)
        # To blot out fewer characters would blot out the message.
        text = text.replace(key, "***") if key and len(key) >= 4 else text
        return " ".join(_SECRET.sub("***", text).split())[:500]


def _close(loop: asyncio.AbstractEventLoop, client: Any) -> None:
    # From a finalizer nothing may be awaited; the loop does it when it can.
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(client.close(), loop)


class OpenAIChat(_Served):
    """Asks a model of OpenAI, or of any server with the same interface (vLLM, Ollama, llama.cpp, ...).

    Safe to share between threads and event loops. A setting that the server refuses (structured output,
    temperature, ...) is left out from then on.

    Examples:
        >>> chat = OpenAIChat("llama3.1", base_url="http://localhost:11434/v1")
        >>> chat.name
        'llama3.1'
        >>> reply = chat.complete([Message("user", "Hello")])  # doctest: +SKIP

    Args:
        model: The model's name.
        api_key: The key; from ``OPENAI_API_KEY`` if None. A server of your own needs none. The key is in no
            repr, log, error or pickle of this class.
        base_url: The server's address up to ``/v1``; from ``OPENAI_BASE_URL``, else OpenAI's, if None.
        timeout: Seconds one call may take in all: attempts, the pauses between them, and the whole of a
            streamed reply (but for the time that its reader takes between two pieces).
        max_retries: Most attempts after the first.
        temperature: Sampling temperature; None leaves it to the server.
        max_tokens: Most tokens of a reply; None leaves it to the server.

    Raises:
        InputError: For a value out of its range, or a ``base_url`` that is no address.
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
    ) -> None:
        super().__init__(model, api_key, base_url, timeout, max_retries)
        if temperature is not None:
            check_float("temperature", temperature, minimum=0)
        self.temperature = temperature
        self.max_tokens = check_optional_int("max_tokens", max_tokens, minimum=1)
        self._refused: set[str] = set()

    def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, object] | None = None
    ) -> Completion:
        """See `sage_core.llm.ChatModel.complete`.

        Raises:
            LLMError: If no reply could be had; ``retryable`` says whether it may be had later.
        """
        return _wait(self._timed(messages, schema))

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Mapping[str, object] | None = None
    ) -> Completion:
        """`complete` as a coroutine; cancelling it drops its connection and nothing else."""
        return await asyncio.wrap_future(_calls.submit(self._timed(messages, schema)))

    def stream(self, messages: Sequence[Message]) -> Iterator[str | Completion]:
        """Pieces of the reply as they come, then the whole as a `Completion`.

        Raises:
            LLMError: As `complete`; also if the reply breaks off after its first piece.
        """
        pieces = self._stream(messages)
        try:
            while (piece := _wait(_next(pieces))) is not _END:
                yield piece
        finally:
            # Not waited for: the garbage collector may get here in the event loop's own thread.
            _calls.submit(_end(pieces))

    async def astream(self, messages: Sequence[Message]) -> AsyncIterator[str | Completion]:
        """`stream` as an async iterator."""
        pieces = self._stream(messages)
        try:
            while (piece := await asyncio.wrap_future(_calls.submit(_next(pieces)))) is not _END:
                yield piece
        finally:
            _calls.submit(_end(pieces))

    def _timed(
        self, messages: Sequence[Message], schema: Mapping[str, object] | None
    ) -> Coroutine[Any, Any, Completion]:
        return self._within(self.timeout, self._reply(self._request(messages, schema), messages))

    async def _reply(self, request: dict[str, Any], messages: Sequence[Message]) -> Completion:
        reply = await self._create(request)
        if not reply.choices and (problem := getattr(reply, "error", None)):  # gateways send it as a reply
            raise LLMError(
                f"model {self.model!r} at {self.base_url}: {self._redacted(str(problem))}", retryable=True
            )
        choice = reply.choices[0]
        text = _text(choice.message.content) if choice.message.content is not None else choice.message.refusal
        return _completion(text, choice.finish_reason, reply.usage, messages)

    async def _stream(self, messages: Sequence[Message]) -> AsyncIterator[str | Completion]:
        request = {
            **self._request(messages, None),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        left = self.timeout
        pieces: list[str] = []
        reason = usage = None
        events: Any = None
        while True:
            began = time.monotonic()
            if events is None:
                events = await self._within(left, self._create(request))
            event = await self._within(left, anext(events, None))
            left -= time.monotonic() - began  # what the reader takes between two pieces does not count
            if event is None:
                break
            usage = getattr(event, "usage", None) or usage
            for choice in (event.choices or ())[:1]:
                reason = choice.finish_reason or reason
                piece = without_lone_surrogates(_text(choice.delta.content) or choice.delta.refusal or "")
                if piece:
                    pieces.append(piece)
                    yield piece
        if reason is None and usage is None:
            raise LLMError(f"model {self.model!r} at {self.base_url}: the reply broke off", retryable=True)
        yield _completion("".join(pieces) or None, reason, usage, messages)

    async def _create(self, request: dict[str, Any]) -> Any:
        """The server's reply, or its stream; asked again without what it refuses; what helped is kept."""
        client, refused = self._client(), {*self._refused}
        import openai

        while True:
            for name in refused & request.keys():
                value = request.pop(name)
                if name == "max_tokens":
                    request["max_completion_tokens"] = value
            if "system" in refused:
                request["messages"] = _without_system(request["messages"])
            try:
                reply = await client.chat.completions.create(**request)
            except openai.APIStatusError as error:
                said = f"{error} {error.body}".lower()
                names = [name for name in _ADAPTABLE if name in request and name in said]
                # Servers without structured output refuse it in many words, or fail; the prompt says JSON.
                if not names and "response_format" in request:
                    names = ["response_format"]
                elif not names and "system" in said and "system" not in refused:
                    names = ["system"]
                if error.status_code not in (400, 422, 500) or not names:
                    raise
                refused.update(names)
            else:
                self._refused |= refused
                return reply

    def _request(self, messages: Sequence[Message], schema: Mapping[str, object] | None) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": m.role, "content": without_lone_surrogates(m.content)} for m in messages],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }
        if schema is not None:
            form = {"name": str(schema.get("title", "reply")), "schema": dict(schema), "strict": True}
            request["response_format"] = {"type": "json_schema", "json_schema": form}
        return {name: value for name, value in request.items() if value is not None}


def _without_system(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """The instructions at the head of the first message of the user, for models that know no other place."""
    told = [m["content"] for m in messages if m["role"] == "system"]
    first, *rest = [m for m in messages if m["role"] != "system"]
    return [{**first, "content": "\n\n".join([*told, first["content"]])}, *rest]


def _text(content: Any) -> Any:
    """The text of a reply, also if it comes in parts."""
    if not isinstance(content, list):
        return content
    return "".join(part.get("text") or "" for part in content if isinstance(part, dict))


def _completion(text: object, reason: str | None, reported: Any, messages: Sequence[Message]) -> Completion:
    """A whole reply; LLMError if it has no text."""
    if not isinstance(text, str):
        raise LLMError(
            f"the LLM replied without text, finish_reason={reason!r}: raise max_tokens, or reword it",
            retryable=reason not in ("length", "content_filter"),
        )
    text = without_lone_surrogates(text)
    prompt, written = (getattr(reported, name, None) for name in ("prompt_tokens", "completion_tokens"))
    if isinstance(prompt, int) and isinstance(written, int) and min(prompt, written) >= 0:
        return Completion(text, TokenUsage(prompt, written, 1), reason)
    return Completion(text, estimate_usage((m.content for m in messages), text), reason)


async def _next(pieces: AsyncIterator[T]) -> T:
    return await anext(pieces, _END)


async def _end(pieces: Any) -> None:
    # A step that was interrupted may still be on its way out.
    for _ in range(100):
        try:
            await pieces.aclose()
            return
        except RuntimeError:
            await asyncio.sleep(0.01)


class OpenAIEmbedder(_Served):
    """An embedder over the embeddings endpoint; texts are sent in batches. Safe across threads.

    A text above the model's limit (8,191 tokens for OpenAI's) is refused, and the error says so.

    Examples:
        >>> embedder = OpenAIEmbedder("text-embedding-3-small", dimensions=256)
        >>> vector = embedder.embed_query("When does the ferry leave?")  # doctest: +SKIP

    Args:
        model: The model's name.
        api_key: As for `OpenAIChat`; so are ``base_url``, ``timeout`` (of one request) and ``max_retries``.
        base_url: The server's address.
        dimensions: Asks for shorter vectors, if the model can; None for the model's own.
        batch_size: Texts in one request.
        timeout: Seconds one request may take in all.
        max_retries: Most attempts after the first.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        dimensions: int | None = None,
        batch_size: int = 256,
        timeout: float = 120.0,
        max_retries: int = 4,
    ) -> None:
        super().__init__(model, api_key, base_url, timeout, max_retries)
        if not 1 <= batch_size <= _MOST_TEXTS:
            raise InputError(f"batch_size must be between 1 and {_MOST_TEXTS}, not {batch_size}")
        self._dimensions = check_optional_int("dimensions", dimensions, minimum=1)
        self._batch_size = batch_size

    @property
    def name(self) -> str:
        """The model, and the dimensions if they were asked for."""
        return self.model if self._dimensions is None else f"{self.model}({self._dimensions})"

    @property
    def endpoint(self) -> str:
        """The server's address: one model's name may mean another model there."""
        return self.base_url

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `sage_core.embedding.Embedder.embed_documents`; shape ``(0, 0)`` for no texts."""
        parts = [self._ask(batch) for batch in self._batches(texts)]
        return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """See `sage_core.embedding.Embedder.embed_query`."""
        return np.asarray(self._ask([without_lone_surrogates(text) or " "])[0])

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """The texts in requests that the service takes."""
        batch: list[str] = []
        size = 0
        for text in texts:
            sent = without_lone_surrogates(text) or " "  # the service refuses an empty text
            if batch and (len(batch) == self._batch_size or size + len(sent) > _MOST_CHARACTERS):
                yield batch
                batch, size = [], 0
            batch.append(sent)
            size += len(sent)
        if batch:
            yield batch

    def _ask(self, texts: list[str]) -> NDArray[np.float32]:
        return _wait(self._within(self.timeout, self._vectors(texts)))

    async def _vectors(self, texts: list[str]) -> NDArray[np.float32]:
        shorter = {} if self._dimensions is None else {"dimensions": self._dimensions}
        reply = await self._client().embeddings.create(
            model=self.model, input=texts, encoding_format="float", **shorter
        )
        data = sorted(reply.data, key=lambda d: d.index)
        if [d.index for d in data] != list(range(len(texts))):
            raise ValueError(f"not one vector for each of {len(texts)} texts")
        rows = np.array([d.embedding for d in data], dtype=np.float32)
        if rows.ndim != 2 or not rows.shape[1]:
            raise ValueError("vectors that are no rows of numbers")
        return unit_rows(rows)
