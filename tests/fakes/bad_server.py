"""A server on 127.0.0.1 that answers with raw bytes in its own time: nothing, or drips."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from tests.fakes.loop_server import LoopServer

Behavior = Callable[[asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\n"
JSON = OK + b"content-type: application/json\r\n"
EVENTS = OK + b"content-type: text/event-stream\r\n\r\n"


async def headers_and_nothing(writer: asyncio.StreamWriter) -> None:
    writer.write(JSON + b"content-length: 100\r\n\r\n")
    await writer.drain()
    await asyncio.sleep(60)


async def dripping_body(writer: asyncio.StreamWriter) -> None:
    writer.write(JSON + b"content-length: 100000\r\n\r\n")
    await _drip(writer, b" ")


async def dripping_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(OK + b"x-long: ")
    await _drip(writer, b"a")


async def endless_stream(writer: asyncio.StreamWriter) -> None:
    writer.write(EVENTS)
    event = b'data: {"id":"1","object":"chat.completion.chunk","created":0,"model":"m","choices":'
    event += b'[{"index":0,"delta":{"content":"on and "},"finish_reason":null}]}\n\n'
    await _drip(writer, event)


async def _drip(writer: asyncio.StreamWriter, piece: bytes) -> None:
    while True:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.05)


class BadServer(LoopServer):
    """Behaves badly towards every request while the ``with`` block runs.

    Args:
        behavior: Writes to a client whose request has been read.
    """

    def __init__(self, behavior: Behavior) -> None:
        super().__init__()
        self._behavior = behavior
        self.requests = 0

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            await self._behavior(writer)
        writer.close()
