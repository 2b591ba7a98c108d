"""A scripted OpenAI-compatible server on 127.0.0.1, for every test suite.

    with LLMServer(["Paris.", Reply(status=503), '{"score": 9, "adjust": 0}']) as server:
        chat = OpenAIChat("test", base_url=server.base_url, api_key="sk-test")

Replies are a list, used in order (the last one again and again), or a function of the `Request`. A reply is a
text, a mapping (sent as JSON text) or a `Reply`, which can be late, wrong, half or missing. Every request is
kept in `LLMServer.requests`.

With ``embed``, a function from a text to its vector, the server also has embeddings: `/embeddings` requests take
the replies of ``embed_first`` in order, if any, and then get vectors, in reverse order, as a server may send them.

`BadServer` answers with raw bytes in its own time: nothing, or drips.
"""

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

S = TypeVar("S", bound="LoopServer")


class LoopServer:
    """Serves connections while the ``with`` block runs; `base_url` is known within it."""

    def __init__(self) -> None:
        self.base_url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=type(self).__name__)

    def __enter__(self: S) -> S:
        self._thread.start()
        assert self._ready.wait(10), "the server did not start"
        return self

    def __exit__(self, *_exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to one client."""
        raise NotImplementedError

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._connection(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0, backlog=512)
        self.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Request:
    """A request as it came."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def system(self) -> str:
        return "\n".join(m["content"] for m in self.body.get("messages", ()) if m["role"] == "system")

    @property
    def user(self) -> str:
        return "\n".join(m["content"] for m in self.body.get("messages", ()) if m["role"] == "user")

    @property
    def is_critic(self) -> bool:
        return "You grade an answer" in self.system

    @property
    def streamed(self) -> bool:
        return bool(self.body.get("stream"))


@dataclass
class Reply:
    """What to send. ``usage`` None leaves the counts out; ``raw`` replaces the whole body."""

    text: str | None = ""
    status: int = 200
    delay: float = 0.0
    usage: tuple[int, int] | None = (100, 10)
    finish_reason: str | None = "stop"
    headers: dict[str, str] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    refusal: str | None = None
    raw: str | bytes | None = None
    drop: bool = False  # close the connection without a word
    half: bool = False  # close it in the middle of the body, or of the stream
    stream_error: dict[str, Any] | None = None  # an error event in the middle of a stream


Scripted = str | Mapping[str, Any] | Reply
Script = Sequence[Scripted] | Callable[[Request], Scripted]
Embed = Callable[[str], Sequence[float]]


class LLMServer(LoopServer):
    """Serves ``script`` from a thread of its own while the ``with`` block runs.

    Args:
        script: The replies; see the module.
        latency: Seconds every reply takes.
        hold: No reply before so many requests are in flight at the same time.
        embed: From a text to its vector.
        embed_first: Replies to the first requests for embeddings, in the place of vectors.
    """

    def __init__(
        self,
        script: Script,
        *,
        latency: float = 0.0,
        hold: int = 0,
        embed: Embed | None = None,
        embed_first: Sequence[Reply] = (),
    ) -> None:
        super().__init__()
        self._script = script
        self._embed = embed
        self._embed_first = list(embed_first)
        self._latency = latency
        self.requests: list[Request] = []
        self.in_flight = 0
        self.max_in_flight = 0
        self._hold = hold
        self._held = asyncio.Event()

    @property
    def critic_requests(self) -> list[Request]:
        return [r for r in self.requests if r.is_critic]

    @property
    def answer_requests(self) -> list[Request]:
        return [r for r in self.requests if not r.is_critic]

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests of one kept-alive connection, one after the other."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._exchange(reader, writer):
                pass
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)
        }
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(len(self.requests), head[0].split(" ")[1], headers, json.loads(raw or b"{}"))
        self.requests.append(request)
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            reply = await self._work(request)
        finally:
            self.in_flight -= 1
        if reply.drop:
            return False
        if request.streamed and reply.status == 200 and reply.raw is None:
            return await self._send_stream(writer, reply)
        return await self._send(writer, reply)

    async def _work(self, request: Request) -> Reply:
        """Wait for the others, take the time, make the reply."""
        if self.in_flight >= self._hold:
            self._held.set()
        await self._held.wait()
        scripted = self._next(request)
        await asyncio.sleep(self._latency + scripted.delay)
        return scripted

    def _next(self, request: Request) -> Reply:
        if self._embed is not None and request.path.endswith("/embeddings"):
            return self._embed_first.pop(0) if self._embed_first else _vectors(request.body, self._embed)
        if callable(self._script):
            scripted = self._script(request)
        else:
            scripted = self._script[min(request.number, len(self._script) - 1)]
        if isinstance(scripted, Reply):
            return scripted
        return Reply(scripted if isinstance(scripted, str) else json.dumps(scripted))

    async def _send(self, writer: asyncio.StreamWriter, reply: Reply) -> bool:
        body = reply.raw if reply.raw is not None else json.dumps(_body(reply))
        body = body if isinstance(body, bytes) else body.encode()
        headers = {"content-type": "application/json", "content-length": str(len(body)), **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{k}: {v}" for k, v in headers.items())]
        writer.write(
            "\r\n".join(lines).encode() + b"\r\n\r\n" + (body[: len(body) // 2] if reply.half else body)
        )
        await writer.drain()
        return not reply.half

    async def _send_stream(self, writer: asyncio.StreamWriter, reply: Reply) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        events = _events(reply)
        for event in events[: len(events) // 2] if reply.half else events:
            writer.write(b"data: " + event.encode() + b"\n\n")
            await writer.drain()
        return False


def _vectors(body: dict[str, Any], embed: Embed) -> Reply:
    """The vectors of a request for embeddings, and a token for every word."""
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    data = [
        {"object": "embedding", "index": i, "embedding": [float(x) for x in embed(text)]}
        for i, text in enumerate(texts)
    ]
    words = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": words, "total_tokens": words}
    return Reply(raw=json.dumps({"object": "list", "data": data[::-1], "model": "scripted", "usage": usage}))


def _body(reply: Reply) -> dict[str, Any]:
    if reply.status != 200:
        return {"error": reply.error or {"message": "scripted error", "type": "server_error", "code": None}}
    message = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
    }
    return {**body, **_usage(reply)}


def _usage(reply: Reply) -> dict[str, Any]:
    if reply.usage is None:
        return {}
    prompt, completion = reply.usage
    total = prompt + completion
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}}


def _events(reply: Reply) -> list[str]:
    """The reply word by word, then its end, its usage, and the word that closes a stream."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}

    def choice(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}

    chunks = [
        choice({"role": "assistant", "content": p}) for p in re.findall(r"[^ ]* |[^ ]+$|^$", reply.text or "")
    ]
    if reply.stream_error is not None:
        return [json.dumps(c) for c in chunks] + [json.dumps({"error": reply.stream_error})]
    chunks.append(choice({}, reply.finish_reason))
    if reply.usage is not None:
        chunks.append({**head, "choices": [], **_usage(reply)})
    return [*(json.dumps(c) for c in chunks), "[DONE]"]


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
