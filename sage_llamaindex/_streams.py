"""What an answer is, whatever kind of response holds it: its text, without a model's reasoning."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable
from typing import Any

from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    PydanticResponse,
    Response,
    StreamingResponse,
)

from sage_core.llm.reasoning import aanswer_pieces, answer_pieces, without_reasoning

Ended = Callable[[str], object]


def answer_only(response: RESPONSE_TYPE, ended: Ended = str) -> RESPONSE_TYPE:
    """The response without the model's reasoning.

    Args:
        response: Changed in place.
        ended: Called with the answer once a stream has been read to its end, in a thread if it is awaited.
    """
    if isinstance(response, AsyncStreamingResponse):
        response.response_gen = _apieces(response, response.response_gen, ended)
    elif isinstance(response, StreamingResponse):
        response.response_gen = _pieces(response, response.response_gen, ended)
    elif isinstance(response, Response) and response.response:
        response.response = without_reasoning(response.response)
    return response


def _pieces(response: Any, source: Iterable[str], ended: Ended) -> Generator[str, None, None]:
    written: list[str] = []
    yield from answer_pieces(iter(source), written)
    # So that `str(response)` has it, too, for those who read the pieces.
    response.response_txt = without_reasoning("".join(written))
    ended(response.response_txt)


async def _apieces(response: Any, source: AsyncIterator[str], ended: Ended) -> AsyncGenerator[str, None]:
    written: list[str] = []
    async for piece in aanswer_pieces(source, written):
        yield piece
    response.response_txt = without_reasoning("".join(written))
    await asyncio.to_thread(ended, response.response_txt)


async def _later(pieces: Iterable[str]) -> AsyncGenerator[str, None]:
    for piece in pieces:
        yield piece


def drained(response: RESPONSE_TYPE) -> tuple[str, RESPONSE_TYPE]:
    """The answer's text (JSON if it is an object), and the response, whose stream begins anew."""
    if isinstance(response, StreamingResponse):
        text, pieces = _answer(list(response.response_gen))
        # What was read of the old stream must not survive.
        fresh = dataclasses.replace(response, response_gen=(piece for piece in pieces), response_txt=None)
        return text, answer_only(fresh)
    if isinstance(response, PydanticResponse):
        return response.get_response().response or "", response
    response = answer_only(response)
    return (response.response or "") if isinstance(response, Response) else str(response), response


async def adrained(response: RESPONSE_TYPE) -> tuple[str, RESPONSE_TYPE]:
    """`drained`, for async streams too."""
    if isinstance(response, AsyncStreamingResponse):
        text, pieces = _answer([piece async for piece in response.response_gen])
        fresh = dataclasses.replace(response, response_gen=_later(pieces), response_txt=None)
        return text, answer_only(fresh)
    return drained(response)


def _answer(pieces: list[str]) -> tuple[str, list[str]]:
    """The answer in a whole reply, and its pieces: one if the reply has reasoning."""
    whole = "".join(pieces)
    text = without_reasoning(whole)
    return text, pieces if text == whole else [text]


def with_text(response: RESPONSE_TYPE, text: str) -> RESPONSE_TYPE:
    """A response whose text is this."""
    if isinstance(response, AsyncStreamingResponse):
        response.response_gen = _later([text])
    elif isinstance(response, StreamingResponse):
        response.response_gen = (piece for piece in [text])
    elif isinstance(response, Response):
        response.response = text
    return response
