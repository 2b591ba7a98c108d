"""Rerankers behind HTTP: the ``/rerank`` request that Cohere, Jina, Voyage, vLLM and TEI share."""

from __future__ import annotations

import http.client
import io
import json
import logging
import math
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from sage_core._checks import check_int
from sage_core.errors import InputError, RerankerError
from sage_core.llm.access import without_login
from sage_core.llm.failures import redact, redact_url
from sage_core.ranking.protocol import check_request
from sage_core.selection.cut import SCALES, Scale

logger = logging.getLogger(__name__)

_LONGEST_WAIT = 30.0
_RETRYABLE_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host; it is an error instead."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class _Deadline:
    """A moment by which everything has to be done."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left.

        Raises:
            TimeoutError: Where there are none.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time is used up")
        return left


class _TimedReader(io.RawIOBase):
    """Reads from a socket until a deadline: a socket's own timeout begins anew with every byte."""

    def __init__(self, connection: socket.socket, deadline: _Deadline) -> None:
        self._socket = connection
        self._raw = connection.makefile("rb", buffering=0)
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(self._deadline.left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedSocket:
    """The part of a socket that `http.client` uses, under a deadline."""

    def __init__(self, connection: socket.socket, deadline: _Deadline) -> None:
        self._socket = connection
        self._deadline = deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._socket, self._deadline))

    def sendall(self, data: Any) -> None:
        self._socket.settimeout(self._deadline.left)  # of all of it, here
        self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()


def _timed_handlers(deadline: _Deadline) -> list[urllib.request.BaseHandler]:
    """Handlers for http and https whose connections end with the deadline."""

    class Plain(http.client.HTTPConnection):
        def connect(self) -> None:
            self.timeout = deadline.left
            super().connect()
            self.sock: Any = _TimedSocket(self.sock, deadline)

    class Secure(http.client.HTTPSConnection):
        def connect(self) -> None:
            self.timeout = deadline.left
            super().connect()
            self.sock: Any = _TimedSocket(self.sock, deadline)

    class PlainHandler(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Plain, req)

    class SecureHandler(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Secure, req, context=self._context)  # type: ignore[attr-defined]

    return [PlainHandler(), SecureHandler()]


class RemoteReranker:
    """A reranker served over HTTP.

    Sends ``{"query", "documents" or "texts", "model"}`` and reads ``{"results": [{"index",
    "relevance_score"}]}`` (Cohere, Jina, vLLM), ``{"data": [...]}`` (Voyage) or ``[{"index", "score"}]``
    (Text Embeddings Inference). Holds no connection, so it is safe across threads and pickles.

    Examples:
        >>> reranker = RemoteReranker("https://api.example.com/v1/rerank", model="rerank-v3")
        >>> scores = reranker.score("When?", ["At seven.", "By boat."])  # doctest: +SKIP

    Args:
        url: The whole address, such as ``https://api.jina.ai/v1/rerank``.
        model: Sent as ``"model"`` where given; most servers need it.
        api_key: Sent as a bearer token.
        documents_key: ``"documents"``, or ``"texts"`` for Text Embeddings Inference.
        scale: What the server's scores are; most give a probability.
        batch_size: Most texts in a request.
        timeout: Seconds one call of `score` may take in all: requests, retries and the waits between them.
        max_retries: How often to try a request again that was refused or failed (429, 5xx, no connection),
            with growing waits or the server's ``Retry-After``.
        max_reply_bytes: Most bytes of a reply; a larger one is an error.
        options: Further fields of the request, such as ``{"truncation": True}``.
        headers: Further HTTP headers.

    Raises:
        InputError: For an address that is not http(s), or arguments out of range.
        RerankerError: From `score`, where the server cannot be reached, refuses, or answers in
            another shape.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        documents_key: Literal["documents", "texts"] = "documents",
        scale: Scale = "probability",
        batch_size: int = 64,
        timeout: float = 30.0,
        max_retries: int = 3,
        options: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        max_reply_bytes: int = 16 * 2**20,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            shown = str(url).rpartition("@")[2].partition("?")[0]  # without user, password and query
            raise InputError(f"a reranker's address starts with http:// or https://, not {shown!r}")
        if scale not in SCALES:
            raise InputError(f"unknown score scale {scale!r}: one of {', '.join(SCALES)}")
        if batch_size < 1 or timeout <= 0 or max_retries < 0:
            raise InputError("batch_size must be at least 1, timeout above 0, max_retries at least 0")
        self.name = model or redact_url(url)
        self.scale: Scale = scale
        self._url, login = without_login(url)
        self._where = redact_url(url)
        self._model = model
        self._api_key = api_key
        self._documents_key = documents_key
        self._batch_size = batch_size
        self._timeout = timeout
        self._max_retries = max_retries
        self._options = dict(options or {})
        self._headers = {**({"Authorization": login} if login else {}), **(headers or {})}
        self._max_reply_bytes = check_int("max_reply_bytes", max_reply_bytes, minimum=1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._where!r}, model={self._model!r})"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score per text; see `Reranker.score`."""
        check_request(query, texts)
        scores: list[float] = []
        deadline = _Deadline(self._timeout)
        for start in range(0, len(texts), self._batch_size):
            batch = list(texts[start : start + self._batch_size])
            body = {**self._options, "query": query, self._documents_key: batch}
            if self._model is not None:
                body["model"] = self._model
            scores += self._read_scores(self._post(body, deadline), len(batch))
        return scores

    def _post(self, body: dict[str, Any], deadline: _Deadline) -> Any:
        """The server's answer as JSON, after as many tries as it takes and is allowed."""
        headers = {"Content-Type": "application/json", "Accept": "application/json", **self._headers}
        if self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        data = json.dumps(body).encode()
        opener = urllib.request.build_opener(_NoRedirect, *_timed_handlers(deadline))
        for attempt in range(self._max_retries + 1):
            request = urllib.request.Request(self._url, data=data, headers=headers, method="POST")
            try:
                with opener.open(request, timeout=deadline.left) as response:
                    return json.loads(self._limited(response.read(self._max_reply_bytes + 1)))
            except TimeoutError:
                raise self._out_of_time() from None
            except urllib.error.HTTPError as error:
                said = self._without_secrets(f"{error.reason}. {_detail(error)}")
                failure = RerankerError(
                    f"the reranker at {self._where} refused: HTTP {error.code} {said}",
                    retryable=error.code in _RETRYABLE_STATUS,
                )
                asked = error.headers.get("Retry-After")
            except (OSError, http.client.HTTPException) as error:
                if isinstance(getattr(error, "reason", None), TimeoutError):
                    raise self._out_of_time() from None
                failure = RerankerError(
                    f"the reranker at {self._where} cannot be reached ({error}): check the address, and that "
                    "the server runs",
                    retryable=True,
                )
                asked = None
            except (ValueError, RecursionError) as error:
                raise RerankerError(
                    f"the reranker at {self._where} did not answer in JSON ({error})"
                ) from error
            if not failure.retryable or attempt == self._max_retries:
                raise failure
            wait = _wait(attempt, asked)
            if wait >= deadline.left:
                raise failure
            logger.warning("%s; trying again", failure)
            time.sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _without_secrets(self, text: str) -> str:
        """What a server says, which may repeat what it was sent."""
        # A short header is no secret, and would blot out the message.
        for secret in (self._api_key, *(value for value in self._headers.values() if len(value) >= 8)):
            text = redact(text, secret)
        return text

    def _out_of_time(self) -> RerankerError:
        return RerankerError(
            f"the reranker at {self._where} gave no whole answer within {self._timeout:g} s: "
            "raise the timeout",
            retryable=True,
        )

    def _limited(self, data: bytes) -> bytes:
        if len(data) > self._max_reply_bytes:
            raise RerankerError(
                f"the reranker at {self._where} sent more than {self._max_reply_bytes:,} bytes: is this the "
                "right server? A larger max_reply_bytes takes it"
            )
        return data

    def _read_scores(self, answer: Any, expected: int) -> list[float]:
        """Scores in the order of the texts sent, whatever the order they came back in."""
        rows = answer
        if isinstance(answer, dict):
            rows = answer.get("results", answer.get("data"))
        scores = [math.nan] * expected
        seen: set[int] = set()
        try:
            for row in rows:
                index = row["index"]
                value = row["relevance_score"] if "relevance_score" in row else row["score"]
                if not 0 <= index < expected or index in seen:
                    raise ValueError(f"index {index} is out of range or twice there")
                seen.add(index)
                scores[index] = math.nan if value is None else float(value)
        except (TypeError, KeyError, ValueError) as error:
            raise RerankerError(
                f"the reranker at {self._where} answered in an unknown shape "
                f'({type(error).__name__}: {error}); expected "results" with "index" and "relevance_score"'
            ) from error
        if len(seen) != expected:
            raise RerankerError(
                f"the reranker at {self._where} scored {len(seen)} of {expected} texts: a default top_n of "
                "the server? Ask for all of them through `options`"
            )
        return scores


def _detail(error: urllib.error.HTTPError) -> str:
    """The beginning of what a refusal says; empty where it does not come."""
    try:
        return error.read(500).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException):
        return ""


def _wait(attempt: int, asked: str | None) -> float:
    """Seconds to wait: what the server asked for where it is a plain number, else 0.5, 1, 2, 4, ..."""
    try:
        seconds = float(asked) if asked is not None else 0.5 * 2.0**attempt
    except ValueError:
        seconds = 0.5 * 2.0**attempt
    return min(max(seconds, 0.0), _LONGEST_WAIT)
