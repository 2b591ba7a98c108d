"""Streams of tokens that can be read again, and what an answer is, whatever kind of response holds it."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    PydanticResponse,
    Response,
    StreamingResponse,
)

from sage_core.llm.reasoning import aanswer_pieces, answer_pieces, without_reasoning


class TokenReplay(Generator[str, None, None]):
    """Tokens from ``source``, kept as they come: every ``iter()`` begins at the first one.

    ``next()`` on the object itself works too, with a place of its own. An error of the source is kept as
    well: every reader gets the tokens before it, then the error, and ``ended`` is never called.

    Args:
        source: Tokens; read only as far as somebody reads.
        ended: Called once, with the whole text, when the source is used up.
    """

    def __init__(self, source: Iterator[str], ended: Callable[[str], None] | None = None) -> None:
        self._source, self._ended = source, ended
        self._tokens: list[str] = []
        self._end: BaseException | None = None
        self._lock = threading.Lock()
        self._own: Generator[str, None, None] | None = None

    def __iter__(self) -> Generator[str, None, None]:
        at = 0
        while at < len(self._tokens) or self._read(at):
            yield self._tokens[at]
            at += 1

    def send(self, value: None) -> str:
        """The next token; nothing can be sent."""
        # `next()` needs a place that lasts between calls; `iter()` always begins anew.
        self._own = self._own or iter(self)
        return next(self._own)

    def throw(self, *args: Any) -> str:
        """Raise where the reader is."""
        self._own = self._own or iter(self)
        return self._own.throw(*args)

    def _read(self, at: int) -> bool:
        """Read token ``at``, unless another reader has; False at the end, the source's error if it broke."""
        # Held for one token only: readers at different places do not wait for each other.
        with self._lock:
            if self._end is None and at == len(self._tokens):
                try:
                    self._tokens.append(next(self._source))
                except BaseException as error:
                    self._end = error
                    if isinstance(error, StopIteration) and self._ended is not None:
                        self._ended("".join(self._tokens))
        return _there(self._tokens, at, self._end)


class AsyncTokenReplay(AsyncGenerator[str, None]):
    """`TokenReplay` for async sources: every ``aiter()`` begins at the first token."""

    def __init__(
        self, source: AsyncIterator[str], ended: Callable[[str], Awaitable[None]] | None = None
    ) -> None:
        self._source, self._ended = source, ended
        self._tokens: list[str] = []
        self._end: BaseException | None = None
        self._lock = asyncio.Lock()
        self._own: AsyncGenerator[str, None] | None = None

    async def _all(self) -> AsyncGenerator[str, None]:
        at = 0
        while at < len(self._tokens) or await self._read(at):
            yield self._tokens[at]
            at += 1

    def __aiter__(self) -> AsyncGenerator[str, None]:
        return self._all()

    async def asend(self, value: None) -> str:
        """The next token; nothing can be sent."""
        self._own = self._own or self._all()
        return await anext(self._own)

    async def athrow(self, *args: Any) -> str:
        """Raise where the reader is."""
        self._own = self._own or self._all()
        return await self._own.athrow(*args)

    async def _read(self, at: int) -> bool:
        async with self._lock:
            if self._end is None and at == len(self._tokens):
                try:
                    self._tokens.append(await anext(self._source))
                except BaseException as error:
                    self._end = error
                    if isinstance(error, StopAsyncIteration) and self._ended is not None:
                        await self._ended("".join(self._tokens))
        return _there(self._tokens, at, self._end)


def _there(tokens: list[str], at: int, end: BaseException | None) -> bool:
    if at < len(tokens):
        return True
    if isinstance(end, StopIteration | StopAsyncIteration):
        return False
    assert end is not None  # what broke the source off, again for each reader
    raise end


async def _replayed(tokens: list[str]) -> AsyncIterator[str]:
    for token in tokens:
        yield token


def drained(response: RESPONSE_TYPE) -> tuple[str, RESPONSE_TYPE]:
    """The answer's text, and the response in a form that can still be read in full.

    For streams this reads all tokens now; what is returned replays them. Async streams: `adrained`.
    """
    if isinstance(response, StreamingResponse):
        tokens = _answer_tokens(list(response.response_gen))
        # response_txt caches what was read of the old stream; it must not survive.
        fresh = dataclasses.replace(response, response_gen=TokenReplay(iter(tokens)), response_txt=None)
        return "".join(tokens), fresh
    response = answer_only(response)
    return text_of_response(response), response


def _answer_tokens(tokens: list[str]) -> list[str]:
    """The tokens, or the answer alone if they have reasoning."""
    whole = "".join(tokens)
    answer = without_reasoning(whole)
    return tokens if answer == whole else [answer]


def answer_only(response: RESPONSE_TYPE, written: list[str] | None = None) -> RESPONSE_TYPE:
    """A response without the model's reasoning; ``written`` gets a stream's tokens as they are."""
    if isinstance(response, AsyncStreamingResponse):
        response.response_gen = aanswer_pieces(response.response_gen, written)
    elif isinstance(response, StreamingResponse):
        response.response_gen = answer_pieces(iter(response.response_gen), written)
    elif isinstance(response, Response) and response.response:
        response.response = without_reasoning(response.response)
    return response


async def adrained(response: RESPONSE_TYPE) -> tuple[str, RESPONSE_TYPE]:
    """`drained`, for async streams too."""
    if isinstance(response, AsyncStreamingResponse):
        tokens = _answer_tokens([token async for token in response.response_gen])
        fresh = dataclasses.replace(
            response, response_gen=AsyncTokenReplay(_replayed(tokens)), response_txt=None
        )
        return "".join(tokens), fresh
    return drained(response)


def text_of_response(response: RESPONSE_TYPE) -> str:
    """The text of an answer that is not a stream; a pydantic answer as JSON."""
    if isinstance(response, PydanticResponse):
        return response.get_response().response or ""
    return (response.response or "") if isinstance(response, Response) else str(response)


def with_text(response: RESPONSE_TYPE, text: str) -> RESPONSE_TYPE:
    """A response whose text is this."""
    if isinstance(response, AsyncStreamingResponse):
        response.response_gen = AsyncTokenReplay(_replayed([text]))
    elif isinstance(response, StreamingResponse):
        response.response_gen = TokenReplay(iter([text]))
    elif isinstance(response, Response):
        response.response = text
    return response


def plain_response(response: RESPONSE_TYPE, text: str) -> Response:
    """The answer as the `Response` that evaluators take."""
    return Response(text, source_nodes=response.source_nodes, metadata=response.metadata)
