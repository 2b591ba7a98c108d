"""Calls of OpenAI-compatible servers: one deadline for a whole call, a limit on the reply, sync over async.

The HTTP client's own timeout begins anew with every byte, so a slow server can keep a call open indefinitely.
A coroutine can be cancelled at any point. So every call is a coroutine under `Budget.spend`, and plain
functions run it in an event loop that one thread of the process keeps (`run_blocking`).
"""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import importlib
import os
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from sage_core.errors import InputError, LLMError, MissingExtraError
from sage_core.llm.attempts import RedirectRefusedError, ReplyTooLargeError

OPENAI_URL = "https://api.openai.com/v1"
T = TypeVar("T")
_END: Any = object()

# A compressed reply may be this many times larger than what was sent.
_COMPRESSION = 16


def check_url(url: str) -> None:
    """Raise InputError for what is no address of a server."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.netloc)
    except (ValueError, TypeError, AttributeError):  # ValueError: a broken IPv6 address
        usable = False
    if not usable:
        shown = str(url).rpartition("@")[2].partition("?")[0]  # without user, password and query
        raise InputError(
            f"{shown!r} is no address of a server: it starts with http:// or https://, such as "
            "http://localhost:11434/v1"
        )


def redact_url(url: str) -> str:
    """A URL without user, password and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def server_url(value: str | None) -> str:
    """The address given, else OPENAI_BASE_URL, else OpenAI's own; InputError for what is no address."""
    url = value or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
    check_url(url)
    parts = urlsplit(url)
    if parts.query or parts.fragment:  # logs and pickles would hold it, and paths be joined to it
        host = parts.netloc.rpartition("@")[2]
        raise InputError(
            f"the address of {host} ends in a query (after '?' or '#'), where a key would show in logs: "
            "leave it out, and give the key as api_key or OPENAI_API_KEY"
        )
    return url


def without_login(url: str) -> tuple[str, str | None]:
    """An address without its user and password, and these as an Authorization header; None if it has none.

    An address ends up in logs, errors and pickles; a header does not.

    Examples:
        >>> without_login("http://ann:secret@localhost:8000/v1")
        ('http://localhost:8000/v1', 'Basic YW5uOnNlY3JldA==')
    """
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    if not login:
        return url, None
    user, _, password = login.partition(":")
    header = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), f"Basic {header}"


def login_secrets(header: str | None) -> tuple[str, ...]:
    """What no message may repeat of an Authorization header: the password too, plain and as in an address."""
    sent = (header or "").rpartition(" ")[2]
    try:
        password = base64.b64decode(sent, validate=True).decode().partition(":")[2]
    except ValueError:  # A token.
        password = ""
    # To blot out fewer characters would blot out the message.
    return tuple(text for text in (sent, password, quote(password, safe="")) if len(text) >= 4)


def api_key(value: str | None) -> str | None:
    """The key given, else OPENAI_API_KEY; None if there is none. InputError for what can be no key."""
    key = (value or os.environ.get("OPENAI_API_KEY") or "").strip()  # files end in a newline
    if not (key.isascii() and key.isprintable()):
        raise InputError("the API key holds characters no key has: copy it anew into OPENAI_API_KEY")
    return key or None


class Clients:
    """Async clients of one server, one per event loop: connections belong to the loop they were opened in.

    Pickles without the key, user, password and connections; copies share. User and password in an address are
    sent as a header. ``what`` asks, for messages.
    """

    def __init__(self, what: str, base_url: str | None, key: str | None, max_reply_bytes: int) -> None:
        self._what = what
        self._base_url = base_url
        self._login: str | None = None
        if base_url:
            self._base_url, self._login = without_login(base_url)
        self._key = key
        self._max_reply_bytes = max_reply_bytes
        self._init_runtime_state()

    def _init_runtime_state(self) -> None:
        """Create the lock and the table of clients; called again after unpickling."""
        self._lock = threading.Lock()
        self._open: dict[int, tuple[asyncio.AbstractEventLoop, Any]] = {}
        weakref.finalize(self, _close_all, self._open).atexit = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_key": None, "_login": None, "_lock": None, "_open": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._init_runtime_state()

    def __copy__(self) -> Clients:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Clients:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._what!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key and the password that are sent, if any."""
        key = api_key(self._key)
        return (*(() if key is None else (key,)), *login_secrets(self._sent_login()))

    def _sent_login(self) -> str | None:
        return self._login or without_login(server_url(self._base_url))[1]

    @property
    def url(self) -> str:
        """The server's address, without user and password."""
        return without_login(server_url(self._base_url))[0]

    def get(self) -> Any:
        """The client for the running event loop.

        Raises:
            InputError: For an address or a key that cannot be one.
            LLMError: Where OpenAI is asked without a key.
            MissingExtraError: Where the client is not installed.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            # A closed loop's client holds its loop and its sockets; nobody can use it again.
            for number in [n for n, (old, _) in self._open.items() if old.is_closed()]:
                del self._open[number]
            if id(loop) not in self._open:
                self._open[id(loop)] = (loop, self._make())
            return self._open[id(loop)][1]

    def _make(self) -> Any:
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError(self._what, "openai") from error
        key = api_key(self._key)
        if key is None and self.url == OPENAI_URL:
            raise LLMError(
                f"no API key for {self._what}: set OPENAI_API_KEY, or give base_url for a server of your own"
            )
        login = self._sent_login()
        return openai.AsyncOpenAI(
            api_key=key or "none-needed",
            base_url=self.url,
            default_headers={"Authorization": login} if login else None,
            timeout=None,  # `Budget` ends the call
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(
                timeout=None, event_hooks={"response": [limit_reply(self._max_reply_bytes), stay_on_host]}
            ),
        )

    async def aclose(self) -> None:
        """Close the connections opened in the running event loop."""
        with self._lock:
            _, client = self._open.pop(id(asyncio.get_running_loop()), (None, None))
        if client is not None:
            await client.close()

    def close(self) -> None:
        """Close the connections that plain functions have opened."""
        run_blocking(self.aclose())


def _close_all(opened: dict[int, tuple[asyncio.AbstractEventLoop, Any]]) -> None:
    """Close what a collected `Clients` has left open in loops that still run."""
    for loop, client in opened.values():
        if loop.is_running():
            # From a finalizer nothing may be awaited; the loop does it when it can.
            loop.call_soon_threadsafe(_close_client, client)
    opened.clear()


def _close_client(client: Any) -> None:
    asyncio.ensure_future(client.close())  # noqa: RUF006  # the loop keeps it until its connections are closed


def limit_reply(max_bytes: int) -> Callable[[Any], Awaitable[None]]:
    """A response hook of the HTTP client that ends a reply above a size."""

    async def hook(response: Any) -> None:
        # A body that comes compressed is counted as it comes.
        encoding = response.headers.get("content-encoding", "identity")
        limit = max_bytes if encoding == "identity" else max(max_bytes // _COMPRESSION, 1)
        # The client has had two HTTP libraries, each of which takes streams of its own class only.
        library = type(response).__module__.partition(".")[0]
        response.stream = _limited_stream(library)(response.stream, limit)

    return hook


async def stay_on_host(response: Any) -> None:
    """A response hook of the HTTP client that refuses a redirect to another server: passages would go there.

    Raises:
        RedirectRefusedError: For another host or port, or from https to http.
    """
    if not 300 <= response.status_code < 400 or "location" not in response.headers:
        return
    here = urlsplit(str(response.request.url))
    there = urlsplit(urljoin(here.geturl(), response.headers["location"]))
    if there.hostname == here.hostname and (
        (there.scheme, there.port) == (here.scheme, here.port)
        or (here.scheme, here.port, there.scheme, there.port) == ("http", None, "https", None)
    ):
        return
    target = redact_url(there.geturl())
    raise RedirectRefusedError(
        f"the server redirects to another one, {target}, which is not followed: give that address as base_url"
    )


@lru_cache(maxsize=4)
def _limited_stream(library: str) -> Any:
    base: Any = importlib.import_module(library).AsyncByteStream

    class LimitedStream(base):  # type: ignore[misc]
        def __init__(self, inner: Any, limit: int) -> None:
            self._inner = inner
            self._limit = limit

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for part in self._inner:
                size += len(part)
                if size > self._limit:
                    raise ReplyTooLargeError(f"the reply is larger than {self._limit:,} bytes")
                yield part

        async def aclose(self) -> None:
            await self._inner.aclose()

    return LimitedStream


class _LoopThread:
    """An event loop in a daemon thread, started on first use and again in a forked process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # the garbage collector may close a stream while it is held
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="sage-llm-calls", daemon=True
                )
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


_calls = _LoopThread()


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the process's own event loop and wait; the caller's context variables hold in it.

    An interrupt (Ctrl-C) cancels it.
    """
    future = _calls.submit(coroutine)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
    finally:
        del future  # as in `Budget.spend`


def iterate_blocking(source: AsyncIterator[T]) -> Iterator[T]:
    """A plain iterator over an async generator, which is closed after it."""

    async def step() -> T:
        return await anext(source, _END)

    try:
        while (item := run_blocking(step())) is not _END:
            yield item
    finally:
        # Not waited for: the garbage collector may get here in the event loop's own thread.
        _calls.submit(_close(source))


async def _close(source: Any) -> None:
    # A step that was interrupted may still be on its way out.
    for _ in range(100):
        try:
            await source.aclose()
            return
        except RuntimeError:
            await asyncio.sleep(0.01)
