"""What can go wrong with an OpenAI-compatible server: in our words, without the key, and whether to retry."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from sage_core.errors import InputError

_LONGEST_PAUSE = 8.0
_LONGEST_RETRY_AFTER = 60.0
_RETRYABLE_STATUS = frozenset({408, 409, 429})
_SECRET = re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_\-*.]{6,}|(?<=Bearer )\S+|(?<=Basic )\S+")


class MalformedReplyError(ValueError):
    """A reply that arrived and is not one."""


class EmptyReplyError(ValueError):
    """A reply without text that asking again would not mend."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt.

    ``refused`` is what a refusal of the request itself says (status 400 or 422), to see which setting it is;
    ``retry_after`` are seconds that the server asked to wait.
    """

    message: str
    retryable: bool
    retry_after: float | None = None
    refused: str | None = None


class ReplyTooLargeError(ValueError):
    """A reply above the limit on its size."""


class RedirectRefusedError(ValueError):
    """The server sends the request, and what is in it, to another one."""


def transport_errors() -> tuple[type[Exception], ...]:
    """Errors an attempt can raise: the client's, those of the HTTP library below it, and of reading JSON."""
    # ValueError: bytes that are not UTF-8, JSON that is none, a number of over 4,300 digits, and our own.
    errors: list[type[Exception]] = [OSError, ValueError, RecursionError]
    for library, base in (("openai", "OpenAIError"), ("httpx", "HTTPError"), ("httpx2", "HTTPError")):
        if library in sys.modules:  # else it can raise nothing
            errors.append(getattr(sys.modules[library], base))
    return tuple(errors)


def redact(text: str, *secrets: str) -> str:
    """The text without these secrets or anything shaped like a key."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return _SECRET.sub("***", text)


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


def out_of_time(timeout: float) -> str:
    """The error of a call that used up its time."""
    return f"no whole answer within {timeout:g} s: raise the timeout, or ask a faster model"


def classify(error: Exception, *, timeout: float, secrets: Sequence[str] = ()) -> Failure:
    """Say what an error of `transport_errors` means, without ``secrets`` in the message."""
    # By name, so that no library is loaded which has raised nothing.
    names = {kind.__name__ for kind in type(error).__mro__}
    if any("Timeout" in name for name in names):
        return Failure(out_of_time(timeout), True)
    # The client wraps what is raised while it reads a reply.
    inner = error if isinstance(error, ReplyTooLargeError | RedirectRefusedError) else error.__cause__
    if isinstance(inner, ReplyTooLargeError):
        return Failure(f"{inner}: is this the right server? A larger max_reply_bytes takes it", False)
    if isinstance(inner, RedirectRefusedError):
        return Failure(str(inner), False)
    if names & {"APIStatusError", "HTTPStatusError"}:
        return _status(error, secrets)
    if isinstance(error, EmptyReplyError):
        return Failure(str(error), False)
    if isinstance(error, (ValueError, RecursionError)) or "APIResponseValidationError" in names:
        detail = redact(str(error), *secrets)[:200]
        return Failure(f"the reply could not be read ({detail}): is this an OpenAI-compatible server?", True)
    if "APIConnectionError" in names or "OpenAIError" not in names:
        cause = type(error.__cause__ or error).__name__
        return Failure(f"the connection failed or broke off ({cause}): is the server running?", True)
    # What is left is an error sent in the middle of a stream, or one of the client's own set-up.
    return Failure(redact(str(error), *secrets)[:500], "APIError" in names)


def _status(error: Any, secrets: Sequence[str]) -> Failure:
    """A reply with an error status."""
    response = error.response
    status = int(response.status_code)
    body = getattr(error, "body", None)
    fields = body if isinstance(body, Mapping) else {}
    said = redact(str(fields.get("message") or getattr(error, "message", None) or response.text), *secrets)
    said = " ".join(said.split())[:500]
    code = fields.get("code") or fields.get("type")
    if status in (401, 403):
        return Failure(f"status {status}, not allowed: check the API key and its rights ({said})", False)
    if status == 404:
        return Failure(f"status 404: no such model or address, check both ({said})", False)
    if status == 429 and "insufficient_quota" in (code, fields.get("type")):
        return Failure(f"status 429: the account's quota is used up ({said})", False)
    retryable = status in _RETRYABLE_STATUS or status >= 500
    refused = f"{fields.get('param') or ''} {said}" if status in (400, 422) else None
    later = ", the server failed: try again later" if status >= 500 else ""
    return Failure(
        f"status {status}{later} ({said})", retryable, _seconds(response.headers.get("retry-after")), refused
    )


def _seconds(value: str | None) -> float | None:
    """A Retry-After header in seconds; None where absent or a date."""
    try:
        seconds = float(value) if value is not None else -1.0
    except ValueError:
        return None
    return seconds if 0 <= seconds <= _LONGEST_RETRY_AFTER else None


def backoff_seconds(attempt: int, backoff: float, retry_after: float | None) -> float:
    """Seconds to wait before retry number ``attempt`` (from 1): doubling, with jitter, at most 8.

    A server's Retry-After, up to a minute, goes before.
    """
    if retry_after is not None:
        return retry_after
    return float(min(backoff * 2 ** (attempt - 1), _LONGEST_PAUSE) * random.uniform(0.5, 1.0))
