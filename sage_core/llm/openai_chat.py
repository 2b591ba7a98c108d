"""Any OpenAI-compatible server as a `ChatModel`: sync, async and streaming."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from sage_core._checks import optional_whole_number, real_number, whole_number
from sage_core.errors import InputError, LLMError, MissingExtraError
from sage_core.llm.access import OPENAI_URL, api_key, server_url
from sage_core.llm.failures import shown_url, transport_errors
from sage_core.llm.messages import Completion, Message
from sage_core.llm.request import Request, StreamedReply, arguments


class OpenAIChat:
    """Asks a model of OpenAI, or of any server with the same interface (vLLM, Ollama, llama.cpp, ...).

    Safe to share between threads and event loops. Attempts that meet status 408, 409, 429 or 5xx, a dropped
    connection, a timeout or an unreadable reply are repeated with growing pauses. A setting the server
    refuses (structured output, temperature, ...) is left out from then on.

    Args:
        model: The model's name.
        api_key: The key; from ``OPENAI_API_KEY`` where None. A server of your own needs none. The key is in
            no repr, log, error or pickle of this class.
        base_url: The server's address up to ``/v1``; from ``OPENAI_BASE_URL``, else OpenAI's, where None.
        timeout: Seconds one attempt may take.
        max_retries: Attempts after the first.
        temperature: Sampling temperature; None leaves it to the server.
        max_tokens: Most tokens of a reply; None leaves it to the server.
        backoff: Seconds before the first retry; doubles each time, up to 8.

    Raises:
        InputError: Where a value is out of its range, or ``base_url`` is no address.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60.0,
        max_retries: int = 4,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        backoff: float = 0.5,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise InputError(f"model is the name of a model, not {model!r}")
        if not real_number("timeout", timeout, 0):
            raise InputError("timeout must be above 0 seconds")
        whole_number("max_retries", max_retries, 0)
        real_number("backoff", backoff, 0)
        if temperature is not None:
            real_number("temperature", temperature, 0)
        optional_whole_number("max_tokens", max_tokens, 1)
        self.model = model
        self.timeout = timeout
        self.max_retries = max_retries
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.backoff = backoff
        self._api_key = api_key
        self._base_url = base_url
        server_url(self._base_url)  # a wrong address is told now
        self._set_up()

    def _set_up(self) -> None:
        self._refused: set[str] = set()
        self._lock = threading.Lock()
        self._client: Any = None
        # One async client an event loop: its connections belong to the loop they were opened in.
        self._async_clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = (
            weakref.WeakKeyDictionary()
        )

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model

    @property
    def base_url(self) -> str:
        """The server's address, without user, password and query."""
        return shown_url(server_url(self._base_url))

    def __repr__(self) -> str:
        return f"OpenAIChat({self.model!r}, base_url={self.base_url!r})"

    def __getstate__(self) -> dict[str, Any]:
        live = ("_lock", "_client", "_async_clients", "_refused", "_api_key")
        return {k: v for k, v in self.__dict__.items() if k not in live}

    def __copy__(self) -> OpenAIChat:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> OpenAIChat:
        # Clients and keys are not copied; the adapter is safe to share.
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._api_key = None
        self._set_up()

    def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, object] | None = None
    ) -> Completion:
        """See `ChatModel.complete`.

        Raises:
            LLMError: Where no reply could be had; ``retryable`` says whether it may be had later.
        """
        client, request = self._sync_client(), self._request(messages, schema)
        errors = transport_errors()
        while True:
            try:
                return request.completion(client.chat.completions.create(**request.arguments))
            except errors as error:
                outcome = request.after(error)
            if isinstance(outcome, LLMError):
                raise outcome
            time.sleep(outcome)

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Mapping[str, object] | None = None
    ) -> Completion:
        """`complete` as a coroutine; cancelling it drops its connection and nothing else."""
        client, request = self._async_client(), self._request(messages, schema)
        errors = transport_errors()
        while True:
            try:
                return request.completion(await client.chat.completions.create(**request.arguments))
            except errors as error:
                outcome = request.after(error)
            if isinstance(outcome, LLMError):
                raise outcome
            await asyncio.sleep(outcome)

    def stream(self, messages: Sequence[Message]) -> Iterator[str | Completion]:
        """Pieces of the reply as they come, then the whole as a `Completion`.

        Raises:
            LLMError: As `complete`; also where the reply breaks off after its first piece.
        """
        client, request = self._sync_client(), self._request(messages, None, stream=True)
        errors = transport_errors()
        while True:
            reply = StreamedReply(request)
            try:
                with client.chat.completions.create(**request.arguments) as events:
                    for event in events:
                        if piece := reply.take(event):
                            yield piece
                yield reply.whole()
                return
            except errors as error:
                outcome = request.after(error, begun=bool(reply.pieces))
            if isinstance(outcome, LLMError):
                raise outcome
            time.sleep(outcome)

    async def astream(self, messages: Sequence[Message]) -> AsyncIterator[str | Completion]:
        """`stream` as an async iterator."""
        client, request = self._async_client(), self._request(messages, None, stream=True)
        errors = transport_errors()
        while True:
            reply = StreamedReply(request)
            try:
                async with await client.chat.completions.create(**request.arguments) as events:
                    async for event in events:
                        if piece := reply.take(event):
                            yield piece
                yield reply.whole()
                return
            except errors as error:
                outcome = request.after(error, begun=bool(reply.pieces))
            if isinstance(outcome, LLMError):
                raise outcome
            await asyncio.sleep(outcome)

    def close(self) -> None:
        """Close the sync client's connections."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close the connections opened in the running event loop."""
        with self._lock:
            client = self._async_clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

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
            key=api_key(self._api_key),
        )

    def _settings(self) -> dict[str, Any]:
        """Arguments both clients take. Retries are ours, so that streams have the same."""
        key = api_key(self._api_key)
        if key is None and server_url(self._base_url) == OPENAI_URL:
            raise LLMError(
                "no API key for OpenAI: set OPENAI_API_KEY, or give base_url for a server of your own"
            )
        return {
            "api_key": key or "none-needed",
            "base_url": server_url(self._base_url),
            "timeout": self.timeout,
            "max_retries": 0,
        }

    def _sync_client(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = _openai().OpenAI(**self._settings())
            return self._client

    def _async_client(self) -> Any:
        loop = asyncio.get_running_loop()
        with self._lock:
            client = self._async_clients.get(loop)
            if client is None:
                client = self._async_clients[loop] = _openai().AsyncOpenAI(**self._settings())
            return client


def _openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise MissingExtraError("OpenAIChat", "openai") from error
    return openai
