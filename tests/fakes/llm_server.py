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

import contextlib
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

S = TypeVar("S", bound="Serving")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a reply in two pieces waits for the client's acknowledgment
    served: "Serving"

    def do_POST(self) -> None:
        with contextlib.suppress(ConnectionError):
            self.served.answer(self)

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


class Serving(ThreadingHTTPServer):
    """Serves from threads of its own while the ``with`` block runs."""

    daemon_threads, block_on_close, request_queue_size = True, False, 512

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), type("Handler", (_Handler,), {"served": self}))
        self.base_url = f"http://127.0.0.1:{self.server_port}/v1"
        self.stopped = threading.Event()
        self.lock = threading.Lock()

    def __enter__(self: S) -> S:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stopped.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *_: object) -> None:
        """A client that went away is no error of the server's."""

    def answer(self, client: BaseHTTPRequestHandler) -> None:
        """Answer one request, whose body has not been read."""
        raise NotImplementedError


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

OK = b"HTTP/1.1 200 OK\r\n"


class LLMServer(Serving):
    """Serves ``script`` while the ``with`` block runs.

    Args:
        script: The replies; see the module.
        latency: Seconds every reply takes.
        embed: From a text to its vector.
        embed_first: Replies to the first requests for embeddings, in the place of vectors.
    """

    def __init__(
        self,
        script: Script,
        *,
        latency: float = 0.0,
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

    @property
    def critic_requests(self) -> list[Request]:
        return [r for r in self.requests if r.is_critic]

    @property
    def answer_requests(self) -> list[Request]:
        return [r for r in self.requests if not r.is_critic]

    def answer(self, client: BaseHTTPRequestHandler) -> None:
        """The next reply."""
        raw = client.rfile.read(int(client.headers.get("content-length", "0")))
        headers = {name.lower(): value for name, value in client.headers.items()}
        with self.lock:
            request = Request(len(self.requests), client.path, headers, json.loads(raw or b"{}"))
            self.requests.append(request)
            self.in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self.in_flight)
            reply = self._next(request)
        self.stopped.wait(self._latency + reply.delay)
        with self.lock:
            self.in_flight -= 1
        streamed = request.streamed and reply.status == 200 and reply.raw is None
        client.close_connection = streamed or reply.drop or reply.half
        if streamed:
            self._send_stream(client, reply)
        elif not reply.drop:
            self._send(client, reply)

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

    def _send(self, client: BaseHTTPRequestHandler, reply: Reply) -> None:
        body = reply.raw if reply.raw is not None else json.dumps(_body(reply))
        body = body if isinstance(body, bytes) else body.encode()
        client.send_response_only(reply.status, "Scripted")
        headers = {"content-type": "application/json", "content-length": str(len(body)), **reply.headers}
        for name, value in headers.items():
            client.send_header(name, value)
        client.end_headers()
        client.wfile.write(body[: len(body) // 2] if reply.half else body)

    def _send_stream(self, client: BaseHTTPRequestHandler, reply: Reply) -> None:
        if reply.drop:
            return
        client.wfile.write(OK + b"content-type: text/event-stream\r\nconnection: close\r\n\r\n")
        events = _events(reply)
        for event in events[: len(events) // 2] if reply.half else events:
            client.wfile.write(b"data: " + event.encode() + b"\n\n")


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


Write, Wait = Callable[[bytes], object], Callable[[float], bool]
Behavior = Callable[[Write, Wait], None]
"""Writes to a client, and waits between; what waits is told if the server is to stop."""

JSON = OK + b"content-type: application/json\r\n"
EVENTS = OK + b"content-type: text/event-stream\r\n\r\n"


def headers_and_nothing(write: Write, wait: Wait) -> None:
    write(JSON + b"content-length: 100\r\n\r\n")
    wait(60)


def dripping_body(write: Write, wait: Wait) -> None:
    write(JSON + b"content-length: 100000\r\n\r\n")
    _drip(write, wait, b" ")


def dripping_headers(write: Write, wait: Wait) -> None:
    write(OK + b"x-long: ")
    _drip(write, wait, b"a")


def endless_stream(write: Write, wait: Wait) -> None:
    write(EVENTS)
    event = b'data: {"id":"1","object":"chat.completion.chunk","created":0,"model":"m","choices":'
    event += b'[{"index":0,"delta":{"content":"on and "},"finish_reason":null}]}\n\n'
    _drip(write, wait, event)


def _drip(write: Write, wait: Wait, piece: bytes) -> None:
    while not wait(0.05):
        write(piece)


class BadServer(Serving):
    """Behaves badly towards every request while the ``with`` block runs.

    Args:
        behavior: Writes to a client whose request has been read.
    """

    def __init__(self, behavior: Behavior) -> None:
        super().__init__()
        self._behavior = behavior
        self.requests = 0

    def answer(self, client: BaseHTTPRequestHandler) -> None:
        """Nothing good."""
        self.requests += 1
        client.close_connection = True
        self._behavior(client.wfile.write, self.stopped.wait)
