"""`sage-rag serve`: a local page to try settings on, for one person in one browser.

The server listens on the loopback device alone, under an address with a random token. It answers only where
the Host header is its own (a name that an attacker's DNS turns into 127.0.0.1 is not) and where the request
does not come from another site. Bodies are limited, work is done in threads and bounded in time, and all text
goes to the page as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from sage_core._checks import check_installed, check_int, near_match
from sage_core.cli import options as cli
from sage_core.errors import InputError, SageError, StoreError
from sage_core.pipeline.opening import DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from sage_core.embedding.protocol import Embedder
    from sage_core.pipeline.sage import Sage
    from sage_core.pipeline.settings import SageSettings
    from sage_core.ranking import Reranker
    from sage_core.store import Store

logger = logging.getLogger(__name__)

EXAMPLES = """
\b
Examples:
  sage-rag serve --store .sage
  sage-rag serve --store .sage --settings sage-settings.json --no-browser --port 8765
"""

_SLOT_POLL_SECONDS = 0.02
MOST_CHARACTERS = 300_000
"""Of a text that is segmented."""
MOST_QUESTION = 2_000
SECONDS = 120.0
"""Most seconds of a request."""
_BODY_SECONDS = 30.0
# Until the head of a request has come, and until a connection ends whatever it does.
_HEAD_SECONDS = 10.0
_CONNECTION_SECONDS = SECONDS + 60.0
# Beyond this the oldest one that has asked for nothing is closed.
_MOST_CONNECTIONS = 200
_WORKERS = 2
_RERANKERS = ("hybrid", "hybrid+sage-minilm", "none")
_MOST_TOKENS = 10_000
_JSON_BYTES = 4 * MOST_CHARACTERS + 10_000

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
    # What is left of a body is not waited for.
    "connection": "close",
}

T = TypeVar("T")

app = typer.Typer()


@app.command(epilog=EXAMPLES)
def serve(
    store: cli.StoreOption = ".sage",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 for any that is free.", min=0, max=65535)
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address, do not open it.")
    ] = False,
    settings: cli.SettingsOption = None,
    embedder: cli.EmbedderOption = cli.DEFAULT_EMBEDDER,
    base_url: cli.BaseUrlOption = None,
    timeout: cli.TimeoutOption = DEFAULT_TIMEOUT,
) -> int:
    """Open a page on this machine to try settings: watch boundaries move and scores being cut.

    The page is served to this machine alone, under an address that nobody can guess, and works without a
    network. It reads the store and changes nothing. Without a store, documents can be cut, but nothing asked.
    Ctrl-C stops it.
    """
    check_installed("sage-rag serve", "serve", "starlette", "uvicorn")
    from sage_core.embedding import named_embedder
    from sage_core.pipeline.settings import SageSettings
    from sage_core.store import open_store

    cli.require_packages(embedder, store=store)
    chosen = SageSettings(embedder=embedder) if settings is None else SageSettings.load(settings)
    embedding = named_embedder(embedder, base_url=base_url, timeout=timeout)
    kept = open_store(store)
    workbench = Workbench(kept, embedding, chosen)
    token = secrets.token_urlsafe(24)
    try:
        listening = cli.listen_locally(port)
        with listening:
            run_server(workbench, token, listening, browser=not no_browser)
    finally:
        kept.close()
    return 0


def run_server(workbench: Workbench, token: str, listening: socket.socket, *, browser: bool) -> None:
    """Serve until Ctrl-C.

    Args:
        workbench: What replies.
        token: First part of every path.
        listening: A socket bound to the loopback device.
        browser: Open the page.
    """
    import uvicorn

    port = listening.getsockname()[1]
    address = f"http://{cli.HOST}:{port}/{token}/"
    config = uvicorn.Config(
        make_app(workbench, token, port),
        http=_limited_protocol(),
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=16_384,
        ws="none",
    )
    out = cli.console()
    out.print(f"sage-rag playground: {address}", markup=False, soft_wrap=True)
    if problem := workbench.info({})["problem"]:
        out.print(problem, markup=False, soft_wrap=True, style="yellow")
    out.print("Ctrl-C stops it. Whoever has this address can read the store: do not pass it on.")
    if browser:
        opening = threading.Timer(0.5, partial(webbrowser.open, address))
        opening.daemon = True
        opening.start()
    with contextlib.suppress(KeyboardInterrupt):  # raised again by uvicorn, once it has stopped
        uvicorn.Server(config).run(sockets=[listening])
    out.print("stopped")


def _limited_protocol() -> type[asyncio.Protocol]:
    """Uvicorn's protocol with limits: uvicorn waits for a request as long as the connection lasts."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Limited(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.opened = time.monotonic()
            idle: list[Any] = [c for c in self.connections if isinstance(c, Limited) and c.cycle is None]
            if len(self.connections) > _MOST_CONNECTIONS:
                min(idle, key=lambda c: c.opened).transport.abort()
            self.loop.call_later(_HEAD_SECONDS, self._require_request)
            self.loop.call_later(_CONNECTION_SECONDS, transport.abort)

        def _require_request(self) -> None:
            if self.cycle is None:
                self.transport.abort()

    return Limited


# -- what the page asks for -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Choice:
    """Settings of a question, as the page has them."""

    reranker: str
    context: bool
    candidates: int
    rule: Any
    min_k: int | None
    max_k: int | None


class Workbench:
    """What the page's requests do. Every method is given JSON and returns what becomes JSON.

    Args:
        store: Where questions are asked; it may not exist.
        embedder: The model that it was made with.
        settings: What the page begins with.
    """

    def __init__(self, store: Store, embedder: Embedder, settings: SageSettings | None = None) -> None:
        from sage_core.pipeline.settings import SageSettings

        self.store = store
        self.embedder = embedder
        self.settings = settings if settings is not None else SageSettings()
        self._rerankers: dict[str, Reranker] = {}
        self._lock = threading.Lock()

    def info(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """What there is: the store's documents, models and settings to begin with."""
        from sage_core import __version__
        from sage_core.selection import rule_to_data

        _fields(data, ())
        found: dict[str, Any] | None = None
        documents: list[dict[str, Any]] = []
        problem = ""
        try:
            if self.store.exists:
                info = self.store.info()
                found = {"documents": info.documents, "chunks": info.chunks, "embedder": info.embedder}
                documents = [
                    {"id": r.id, "name": Path(r.source).name, "chunks": r.chunks}
                    for r in self.store.documents()
                ]
            else:
                problem = (
                    f"There is no store at {self.store.location}: texts can be cut, nothing asked. Make "
                    f"one with `sage-rag ingest PATH --store {self.store.location}`."
                )
        except StoreError as error:
            problem = str(error)
        segmenter = self.settings.make_segmenter()
        return {
            "version": __version__,
            "store": found,
            "problem": problem,
            "documents": documents,
            "models": _models(),
            "rerankers": self._offered(),
            "settings": {
                "segmenter": dict(self.settings.segmenter),
                "max_tokens": segmenter.max_tokens,
                "min_tokens": segmenter.min_tokens,
                "threshold": segmenter.threshold,
                "reranker": self.settings.reranker,
                "context": self.settings.context,
                "candidates": self.settings.candidates,
                "rule": rule_to_data(self.settings.selection.rule),
                "min_k": self.settings.selection.min_k,
                "max_k": self.settings.selection.max_k,
            },
            "limits": {"characters": MOST_CHARACTERS},
        }

    def document(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The text of a document of the store, read again from its file."""
        from sage_core.documents import read_document

        _fields(data, ("id",))
        wanted = _text(data, "id", 100)
        source = next((r.source for r in self.store.documents() if r.id == wanted), None)
        if source is None:
            raise InputError("the store has no such document any more: reload the page")
        return {"name": Path(source).name, "text": _limited(read_document(source).text)}

    def segment(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """A text, cut with these settings."""
        from sage_playground.explore import exploring_segmenter
        from sage_playground.page import segmentation_data, segmenter_code

        _fields(data, ("text", "settings"))
        text = _limited(_text(data, "text", None))
        settings = data.get("settings", {})
        names = ("model", "target_tokens", "max_tokens", "min_tokens", "strategy", "threshold")
        settings = {n: v for n, v in _fields(settings, names).items() if v is not None}
        if settings.get("model", "default") not in _models():
            raise InputError(f"there is no model {settings['model']!r} here")
        for name in ("target_tokens", "max_tokens", "min_tokens"):
            value = settings.get(name, 1)
            if not isinstance(value, str) and check_int(name, value, minimum=0) > _MOST_TOKENS:
                raise InputError(f"{name} must be at most {_MOST_TOKENS:,}, not {value}")
        if settings.get("strategy") == "threshold":
            settings.pop("target_tokens", None)
            if isinstance(settings.get("max_tokens"), int) and settings["max_tokens"] > 400:
                settings["coarse_tokens"] = settings["max_tokens"]
        began = time.perf_counter()
        segmenter = exploring_segmenter(**settings)
        view = segmenter.explain(text)
        found = segmentation_data(view, time.perf_counter() - began)
        return {
            **found,
            "max_tokens": segmenter.max_tokens,
            "min_tokens": segmenter.min_tokens,
            "code": segmenter_code(settings),
        }

    def search(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The candidates of a question, with their scores and the cut."""
        from sage_core.pipeline.config import SageConfig
        from sage_playground.page import retrieval_data, sage_code

        question, choice = self._asked(data)
        sage = self._sage(choice)
        retrieval = sage.retrieve(question)
        return {
            **retrieval_data(retrieval),
            "code": sage_code(
                question,
                self.store.location,
                reranker=choice.reranker,
                embedder=self.settings.embedder,
                config={
                    "candidates": None if choice.candidates == SageConfig().candidates else choice.candidates,
                    "context": None if choice.context else False,
                },
                selection=sage.config.feedback.selection,
            ),
        }

    def _offered(self) -> list[str]:
        """Names of rerankers; that of the settings first."""
        return list(dict.fromkeys([self.settings.reranker, *_RERANKERS]))

    def _asked(self, data: Mapping[str, Any]) -> tuple[str, _Choice]:
        from sage_core.selection import rule_from_data

        _fields(data, ("question", "settings"))
        question = _text(data, "question", MOST_QUESTION)
        names = ("reranker", "context", "candidates", "rule", "min_k", "max_k")
        given = _fields(data.get("settings", {}), names)
        reranker = given.get("reranker", self.settings.reranker)
        if reranker not in self._offered():
            raise InputError(f"there is no reranker {reranker!r} here")
        candidates = given.get("candidates", self.settings.candidates)
        if not isinstance(candidates, int) or not 1 <= candidates <= 500:
            raise InputError(f"candidates is a whole number from 1 to 500, not {candidates!r}")
        return question, _Choice(
            str(reranker),
            given.get("context", self.settings.context),
            candidates,
            rule_from_data(given.get("rule", "auto")),
            given.get("min_k"),
            given.get("max_k"),
        )

    def _sage(self, choice: _Choice) -> Sage:
        """A `Sage` over the shared store and models; never closed, since that would close the store."""
        from sage_core.feedback import FeedbackConfig
        from sage_core.pipeline.config import SageConfig
        from sage_core.pipeline.sage import Sage
        from sage_core.ranking import named_reranker
        from sage_core.selection import SelectionConfig

        selection = SelectionConfig(rule=choice.rule, min_k=choice.min_k, max_k=choice.max_k)
        with self._lock:
            if choice.reranker not in self._rerankers:
                self._rerankers[choice.reranker] = named_reranker(choice.reranker)
        return Sage(
            self.store,
            segmenter=self.settings.make_segmenter(),
            embedder=self.embedder,
            reranker=self._rerankers[choice.reranker],
            config=SageConfig(
                candidates=choice.candidates,
                context=choice.context,
                feedback=FeedbackConfig(selection=selection),
            ),
        )


def _models() -> list[str]:
    """Names of bundled boundary models; ``default`` is the one called ``context``."""
    from sage_core.segmentation.models.load import bundled_models

    return ["default", *(name for name in bundled_models() if name != "context")]


def _fields(data: Any, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise InputError("an object of names and values is needed")
    for name in data:
        if name not in names:
            raise InputError(f"there is no field {str(name)[:40]!r}{near_match(str(name), names)}")
    return dict(data)


def _text(data: Mapping[str, Any], name: str, most: int | None) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise InputError(f"{name!r} is a text, not {type(value).__name__}")
    if most is not None and len(value) > most:
        raise InputError(f"{name!r} has {len(value):,} characters; at most {most:,} are taken")
    return value


def _limited(text: str) -> str:
    if len(text) > MOST_CHARACTERS:
        raise InputError(
            f"the document has {len(text):,} characters; the page takes {MOST_CHARACTERS:,}: use "
            "`sage-rag segment` for it"
        )
    return text


# -- the server -------------------------------------------------------------------------------------------


def make_app(
    workbench: Workbench, token: str, port: int, *, seconds: float = SECONDS, workers: int = _WORKERS
) -> Starlette:
    """The application.

    Args:
        workbench: What replies.
        token: First part of every path.
        port: Where it listens, for the Host header.
        seconds: Most seconds of a request.
        workers: How many requests compute at a time.
    """
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    from sage_playground import page

    def fixed(content: Callable[[], str], kind: str) -> Callable[[Request], Response]:
        return lambda request: Response(content(), media_type=kind)

    endpoints = _JsonEndpoint(seconds, workers)

    def api(name: str, work: Callable[[dict[str, Any]], Any]) -> Route:
        async def endpoint(request: Request) -> Response:
            return await endpoints.json(request, work)

        return Route(f"/api/{name}", endpoint, methods=["POST"])

    routes = [
        Route("/", fixed(page.markup, "text/html")),
        Route("/app.js", fixed(page.script, "text/javascript")),
        Route("/app.css", fixed(page.style, "text/css")),
        Route("/icon.svg", fixed(lambda: page.ICON, "image/svg+xml")),
        api("info", workbench.info),
        api("document", workbench.document),
        api("segment", workbench.segment),
        api("search", workbench.search),
    ]
    hosts = frozenset(f"{name}:{port}" for name in (cli.HOST, "localhost"))
    return Starlette(
        routes=[Mount(f"/{token}", routes=routes)],
        middleware=[Middleware(_Guard, token=token, hosts=hosts)],
    )


class _Guard:
    """Refuses what does not come from this page, and sets the headers of every answer."""

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str]) -> None:
        self.app = app
        self.token = token.encode()
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import PlainTextResponse

        if scope["type"] != "http":  # starting and stopping; there are no web sockets
            await self.app(scope, receive, send)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *own]}
            await send(message)

        refusal = self._refusal(scope)
        answer = self.app if refusal is None else PlainTextResponse(refusal[1] + "\n", refusal[0])
        await answer(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and words of a refusal; None for none."""
        headers: dict[str, list[str]] = {}
        for key, value in scope["headers"]:
            headers.setdefault(key.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        host = headers.get("host", [])
        if len(host) != 1 or host[0].lower() not in self.hosts:
            return 421, "this server answers under its own address alone"
        for origin in headers.get("origin", []):
            if origin.lower() not in {f"http://{name}" for name in self.hosts}:
                return 403, "requests of other sites are refused"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "GET, HEAD or POST"
        # A link from elsewhere may open the page (a person clicked it), but nothing else may.
        site = headers.get("sec-fetch-site", ["none"])[0]
        page = scope["method"] == "GET" and headers.get("sec-fetch-mode", [""])[0] == "navigate"
        if site not in ("same-origin", "none") and not page:
            return 403, "requests of other sites are refused"
        given = scope["path"].split("/")[1].encode("utf-8", "surrogatepass")
        if not secrets.compare_digest(given, self.token):
            return 403, "open the address that `sage-rag serve` printed: it holds a token"
        return None


class _JsonEndpoint:
    """Takes requests in, has the work done in a thread, and sends what came out as JSON."""

    def __init__(self, seconds: float, workers: int) -> None:
        self._seconds = seconds
        # Not asyncio's: the thread that works gives the slot back, when the request's loop may be closed.
        self._slots = threading.Semaphore(workers)

    async def json(self, request: Request, work: Callable[[dict[str, Any]], Any]) -> Response:
        """Work on a JSON object."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _problem(415, "send application/json")
        try:
            body = await self._body(request, _JSON_BYTES)
            data = json.loads(body)
            if not isinstance(data, dict):
                raise ValueError("not an object")
        except _TooLargeError:
            return _problem(413, f"too long: at most {MOST_CHARACTERS:,} characters are taken")
        except asyncio.TimeoutError:
            return _problem(408, "the request did not come within the time")
        except (ValueError, RecursionError):
            return _problem(400, "a JSON object is needed")
        return await self._done(lambda: work(data))

    async def _body(self, request: Request, most: int) -> bytes:
        from starlette.requests import ClientDisconnect

        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > most:
            raise _TooLargeError

        async def read() -> bytes:
            parts: list[bytes] = []
            size = 0
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise _TooLargeError
                parts.append(part)
            return b"".join(parts)

        try:
            return await asyncio.wait_for(read(), _BODY_SECONDS)
        except ClientDisconnect:
            raise ValueError("the browser went away") from None

    async def _done(self, work: Callable[[], Any]) -> Response:
        from starlette.responses import Response

        deadline = time.monotonic() + self._seconds
        while not self._slots.acquire(blocking=False):
            if time.monotonic() >= deadline:
                return _problem(503, "busy with earlier requests: try again")
            await asyncio.sleep(_SLOT_POLL_SECONDS)
        try:
            # The slot is given back when the work ends, not when nobody waits for it any more.
            found = await asyncio.wait_for(_in_thread(work, self._slots.release), self._seconds)
        except asyncio.TimeoutError:
            return _problem(504, f"not finished within {self._seconds:g} seconds: try a shorter text")
        except SageError as error:
            return _problem(422, str(error))
        except Exception:
            logger.exception("a request of the page failed")
            return _problem(500, "this failed; the terminal says why")
        # Lone surrogates, which a file name may have, are no UTF-8.
        text = json.dumps(found, ensure_ascii=True, allow_nan=False)
        return Response(text, media_type="application/json")


class _TooLargeError(Exception):
    """A body is over its limit."""


def _problem(status: int, words: str) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse({"error": words}, status)


async def _in_thread(work: Callable[[], T], finished: Callable[[], object]) -> T:
    """Run in a daemon thread, which does not keep the program from ending on Ctrl-C.

    Args:
        work: What to run.
        finished: Called in that thread when the work has ended, before its result can be seen, so that
            whoever reads the result finds the slot free.
    """
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()  # a caller that waits no longer leaves the work running

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # raised again where the work is awaited
            finished()
            done.set_exception(error)
        else:
            finished()
            done.set_result(result)

    threading.Thread(target=run, name="sage-serve", daemon=True).start()
    return await asyncio.wrap_future(done)
