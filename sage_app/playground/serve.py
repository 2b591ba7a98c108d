"""`sage-rag serve`: a local page to try settings on, for one person in one browser.

The server listens on the loopback device alone, under an address with a random token. It answers only where
the Host header is its own (a name that an attacker's DNS turns into 127.0.0.1 is not) and where the request
does not come from another site. Bodies are limited, work is done in threads and bounded in time. What is
found is drawn here, as in reports: all text is escaped, and the page runs no script but its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sage_app.cli import options as cli
from sage_app.cli.options import HOST, listen_locally
from sage_app.pipeline.opening import DEFAULT_TIMEOUT
from sage_core._checks import check_installed, check_int, counted, near_match
from sage_core.errors import InputError, SageError, StoreError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from sage_app.pipeline.settings import SageSettings
    from sage_app.store import Store
    from sage_core.embedding.protocol import Embedder

logger = logging.getLogger(__name__)

EXAMPLES = """
\b
Examples:
  sage-rag serve --store .sage
  sage-rag serve --store .sage --settings sage-settings.json --no-browser --port 8765
"""

MOST_CHARACTERS = 300_000
"""Of a text that is segmented."""
MOST_QUESTION = 2_000
SECONDS = 120.0
"""Most seconds of a request."""
_BODY_SECONDS = 30.0
_WORKERS = 2
_MOST_TOKENS, _MOST_CANDIDATES = 10_000, 500
_JSON_BYTES = 4 * MOST_CHARACTERS + 10_000

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
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
    from sage_app.models import named_embedder
    from sage_app.store import open_store

    cli.require_packages(embedder, store=store)
    loaded = cli.load_settings(settings, embedder)
    embedding = named_embedder(embedder, base_url=base_url, timeout=timeout)
    with closing(open_store(store)) as opened, listen_locally(port) as listening:
        _serve(Workbench(opened, embedding, loaded), listening, browser=not no_browser)
    return 0


def _serve(workbench: Workbench, listening: socket.socket, *, browser: bool) -> None:
    """Serve until Ctrl-C."""
    import uvicorn

    port, token = listening.getsockname()[1], secrets.token_urlsafe(24)
    address = f"http://{HOST}:{port}/{token}/"
    config = uvicorn.Config(
        make_app(workbench, token, port),
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=16_384,
        ws="none",
    )
    cli.say(f"sage-rag playground: {address}")
    if problem := workbench.info({})["problem"]:
        cli.say(problem, "yellow")
    cli.say("Ctrl-C stops it. Whoever has this address can read the store: do not pass it on.")
    if browser:
        opening = threading.Timer(0.5, partial(webbrowser.open, address))
        opening.daemon = True
        opening.start()
    with suppress(KeyboardInterrupt):  # raised again by uvicorn, once it has stopped
        uvicorn.Server(config).run(sockets=[listening])
    cli.say("stopped")


# -- what the page asks for -------------------------------------------------------------------------------


class Workbench:
    """What the page's requests do. Every method is given JSON and returns what becomes JSON.

    Args:
        store: Where questions are asked; it may not exist.
        embedder: The model that it was made with.
        settings: What the page begins with.
    """

    def __init__(self, store: Store, embedder: Embedder, settings: SageSettings | None = None) -> None:
        from sage_app.pipeline.settings import SageSettings

        self.store = store
        self.embedder = embedder
        self.settings = settings if settings is not None else SageSettings()

    def info(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """What there is: the store's documents, models and settings to begin with."""
        from sage_core import __version__

        _fields(data, ())
        store: dict[str, Any] | None = None
        documents: list[dict[str, Any]] = []
        problem = (
            f"There is no store at {self.store.location}: texts can be cut, nothing asked. Make "
            f"one with `sage-rag ingest PATH --store {self.store.location}`."
        )
        try:
            if self.store.exists:
                info, problem = self.store.info(), ""
                store = {"documents": info.documents, "chunks": info.chunks, "embedder": info.embedder}
                documents = [
                    {"id": r.id, "name": Path(r.source).name, "chunks": r.chunks}
                    for r in self.store.documents()
                ]
        except StoreError as error:
            problem = str(error)
        settings = self.settings.to_dict()
        return {
            "version": __version__,
            "store": store,
            "problem": problem,
            "documents": documents,
            "models": _models(),
            "settings": {**settings, "threshold": self.settings.make_segmenter().threshold},
        }

    def document(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The text of a document of the store, read again from its file."""
        from sage_app.documents import read_document

        _fields(data, ("id",))
        document = _text(data, "id", 100)
        source = next((r.source for r in self.store.documents() if r.id == document), None)
        if source is None:
            raise InputError("the store has no such document any more: reload the page")
        text = _text({"document": read_document(source).text}, "document", MOST_CHARACTERS)
        return {"name": Path(source).name, "text": text}

    def segment(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """A text, cut with these settings."""
        from sage_app.rendering.html.markup import join
        from sage_app.rendering.html.views import segmentation_parts
        from sage_core.segmentation import Segmenter

        _fields(data, ("text", "settings"))
        text = _text(data, "text", MOST_CHARACTERS)
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
        segmenter = Segmenter(**settings)
        view = segmenter.explain(text)
        return {
            "summary": counted(len(view.spans), "chunk"),
            "html": join(segmentation_parts(view, None)),
            "max_tokens": segmenter.max_tokens,
            "min_tokens": segmenter.min_tokens,
            "code": json.dumps({"segmenter": settings}, indent=2),
        }

    def search(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The candidates of a question, with their scores and the cut."""
        from sage_app.pipeline.sage import Sage
        from sage_app.rendering.html.markup import join
        from sage_app.rendering.html.report import retrieval_parts

        _fields(data, ("question", "settings"))
        question = _text(data, "question", MOST_QUESTION)
        settings = self._chosen(data.get("settings", {}))
        # Never closed, since that would close the store.
        sage = Sage.from_settings(settings, self.store, embedder=self.embedder)
        found = sage.retrieve(question)
        return {
            "summary": f"{found.selection.cut} of {len(found.candidates)} kept: {found.selection.reason}",
            "html": join(retrieval_parts(found, found.selection)),
            "code": json.dumps(settings.to_dict(), indent=2, ensure_ascii=False),
        }

    def _chosen(self, data: Any) -> SageSettings:
        """The settings of a question, as the page has them."""
        from sage_app.pipeline.settings import SageSettings

        in_selection = ("rule", "min_context_tokens", "min_k", "max_k")
        values = _fields(data, ("context", "candidates", *in_selection))
        selection = {n: v for n in in_selection if (v := values.pop(n, None)) is not None}
        settings = SageSettings.from_dict({**self.settings.to_dict(), **values, "selection": selection})
        if settings.candidates > _MOST_CANDIDATES:
            raise InputError(f"candidates is a whole number from 1 to {_MOST_CANDIDATES}")
        return settings


@cache
def _file(name: str) -> str:
    """A file of the page, as text; ``app.css`` begins with the style of the reports."""
    from sage_app.rendering.html.style import page_css

    own = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return page_css() + own if name == "app.css" else own


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


def _text(data: Mapping[str, Any], name: str, most: int) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise InputError(f"{name!r} is a text, not {type(value).__name__}")
    if len(value) > most:
        raise InputError(f"{name!r} has {len(value):,} characters; at most {most:,} are taken")
    return value


# -- the server -------------------------------------------------------------------------------------------


def make_app(
    workbench: Workbench,
    token: str,
    port: int,
    *,
    seconds: float = SECONDS,
    workers: int = _WORKERS,
) -> Starlette:
    """The application: ``token`` begins every path, and ``port`` stands in every Host header.

    At most ``workers`` requests compute at a time, each for at most ``seconds``.
    """
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    def fixed(request: Request, name: str, kind: str) -> Response:
        return Response(_file(name), media_type=kind)

    endpoints = _JsonEndpoint(seconds, workers)
    files = {"app.js": "text/javascript", "app.css": "text/css", "icon.svg": "image/svg+xml"}
    routes = [Route("/", partial(fixed, name="body.html", kind="text/html"))]
    routes += [Route(f"/{name}", partial(fixed, name=name, kind=kind)) for name, kind in files.items()]
    for name in ("info", "document", "segment", "search"):
        endpoint = partial(endpoints.json, work=getattr(workbench, name))
        routes.append(Route(f"/api/{name}", endpoint, methods=["POST"]))
    hosts = frozenset(f"{name}:{port}" for name in (HOST, "localhost"))
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
        from starlette.datastructures import Headers

        headers = Headers(scope=scope)
        host = headers.getlist("host")
        if len(host) != 1 or host[0].lower() not in self.hosts:
            return 421, "this server answers under its own address alone"
        for origin in headers.getlist("origin"):
            if origin.lower() not in {f"http://{name}" for name in self.hosts}:
                return 403, "requests of other sites are refused"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "GET, HEAD or POST"
        # A link from elsewhere may open the page (a person clicked it), but nothing else may.
        site = headers.get("sec-fetch-site", "none")
        page = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if site not in ("same-origin", "none") and not page:
            return 403, "requests of other sites are refused"
        token = scope["path"].split("/")[1].encode("utf-8", "surrogatepass")
        if not secrets.compare_digest(token, self.token):
            return 403, "open the address that `sage-rag serve` printed: it holds a token"
        return None


class _JsonEndpoint:
    """Takes requests in, has the work done in a thread, and sends what came out as JSON."""

    def __init__(self, seconds: float, workers: int) -> None:
        self._seconds = seconds
        self._pool = ThreadPoolExecutor(workers, "sage-serve")

    async def json(self, request: Request, work: Callable[[dict[str, Any]], Any]) -> Response:
        """Work on a JSON object."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _problem(415, "send application/json")
        try:
            data = json.loads(await asyncio.wait_for(_body(request), _BODY_SECONDS))
            if not isinstance(data, dict):
                raise ValueError("not an object")
        except _TooLargeError:
            return _problem(413, f"too long: at most {MOST_CHARACTERS:,} characters are taken")
        except asyncio.TimeoutError:
            return _problem(408, "the request did not come within the time")
        except (ValueError, RecursionError):
            return _problem(400, "a JSON object is needed")
        return await self._done(partial(work, data))

    async def _done(self, work: Callable[[], Any]) -> Response:
        from starlette.responses import Response

        running = self._pool.submit(work)
        try:
            result = await asyncio.wait_for(asyncio.wrap_future(running), self._seconds)
        except asyncio.TimeoutError:
            if running.cancelled():  # it was still waiting for a thread
                return _problem(503, "busy with earlier requests: try again")
            return _problem(504, f"not finished within {self._seconds:g} seconds: try a shorter text")
        except SageError as error:
            return _problem(422, str(error))
        except Exception:
            logger.exception("a request of the page failed")
            return _problem(500, "this failed; the terminal says why")
        # Lone surrogates, which a file name may have, are no UTF-8.
        text = json.dumps(result, ensure_ascii=True, allow_nan=False)
        return Response(text, media_type="application/json")


class _TooLargeError(Exception):
    """A body is over its limit."""


async def _body(request: Request) -> bytes:
    from starlette.requests import ClientDisconnect

    length = request.headers.get("content-length", "")
    body = bytearray()
    try:
        if length.isdecimal() and int(length) > _JSON_BYTES:
            raise _TooLargeError
        async for part in request.stream():
            body += part
            if len(body) > _JSON_BYTES:
                raise _TooLargeError
    except ClientDisconnect:
        raise ValueError("the browser went away") from None
    return bytes(body)


def _problem(status: int, words: str) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse({"error": words}, status)
