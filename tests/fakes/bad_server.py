"""A server on 127.0.0.1 that answers with raw bytes in its own time: nothing, drips, floods."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable

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


async def flood(writer: asyncio.StreamWriter) -> None:
    """100 MB of JSON that never makes sense."""
    writer.write(JSON + b"content-length: 100000000\r\n\r\n")
    for _ in range(1_000):
        writer.write(b'"' * 100_000)
        await writer.drain()


async def _drip(writer: asyncio.StreamWriter, piece: bytes) -> None:
    while True:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.05)


class BadServer:
    """Behaves badly towards every request while the ``with`` block runs.

    Args:
        behavior: Writes to a client whose request has been read.
    """

    def __init__(self, behavior: Behavior) -> None:
        self._behavior = behavior
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="bad-server")
        self.requests = 0
        self.url = ""

    def __enter__(self) -> "BadServer":
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await reader.readuntil(b"\r\n\r\n")
                self.requests += 1
                await self._behavior(writer)
            writer.close()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(serve(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
