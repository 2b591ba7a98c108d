"""One call of a server while it is tried: what went wrong, whether and when to try again, and its time."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sage_core.errors import LLMError

T = TypeVar("T")
R = TypeVar("R")
_log = logging.getLogger(__name__)

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
    # ValueError: bytes that are not UTF-8, invalid JSON, a number of over 4,300 digits, and our own.
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
    """A Retry-After header in seconds; None if absent or a date."""
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


class OutOfTimeError(Exception):
    """A call's deadline has passed."""


class Budget:
    """The seconds that one call may take in all."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    async def spend(self, awaitable: Awaitable[T]) -> T:
        """Await, and take off what it took; time between two calls of this method does not count.

        Raises:
            OutOfTimeError: Where nothing is left; what was awaited is cancelled.
        """
        started = time.monotonic()
        task = asyncio.ensure_future(awaitable)
        try:
            done, _ = await asyncio.wait({task}, timeout=max(self.left, 0.0))
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        finally:
            self.left -= time.monotonic() - started
        if not done:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise OutOfTimeError
        try:
            return task.result()
        finally:
            del task  # an error has this frame in its traceback: a cycle that would keep all callers' data


@dataclass(slots=True, kw_only=True)
class Attempts:
    """The attempts of one call, the pauses between them, and the time they have.

    ``where`` names the model and server in messages, from which ``secrets`` are kept out.
    """

    where: str
    max_retries: int
    backoff: float
    timeout: float
    secrets: Sequence[str] = field(repr=False)
    failed: int = 0
    budget: Budget = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.budget = Budget(self.timeout)

    def after(self, error: Exception, *, begun: bool = False) -> float | LLMError:
        """What to do after a failed attempt: seconds to wait before the next, or the error to raise.

        The error is returned, not raised, so that it carries no trace of the client's own error, whose
        request holds the key. ``begun``: part of the reply was handed on, and a retry would repeat it.
        """
        broke = "the reply broke off: " if begun else ""
        if isinstance(error, OutOfTimeError):
            return LLMError(f"{self.where}: {broke}{out_of_time(self.timeout)}", retryable=True)
        failure = classify(error, timeout=self.timeout, secrets=self.secrets)
        if failure.refused is not None and not begun and self.adapt(failure.refused):
            return 0.0
        if begun:
            return LLMError(f"{self.where}: {broke}{failure.message}", retryable=True)
        if not failure.retryable or self.failed >= self.max_retries:
            tries = f" (tried {self.failed + 1} times)" if self.failed else ""
            return LLMError(f"{self.where}: {failure.message}{tries}", retryable=failure.retryable)
        self.failed += 1
        pause = backoff_seconds(self.failed, self.backoff, failure.retry_after)
        if pause >= self.budget.left:
            return LLMError(
                f"{self.where}: {failure.message} (the next attempt, in {pause:.3g} s, would go over the "
                f"timeout of {self.timeout:g} s)",
                retryable=True,
            )
        _log.info("%s: %s; retry %d in %.2f s", self.where, failure.message, self.failed, pause)
        return pause

    async def run(self, send: Callable[[], Awaitable[R]], read: Callable[[R], T]) -> T:
        """What ``read`` makes of the reply, after as many attempts as it takes and is allowed.

        Raises:
            LLMError: Where no attempt succeeded.
        """
        errors: tuple[type[Exception], ...] = (*transport_errors(), OutOfTimeError)
        while True:
            try:
                return read(await self.budget.spend(send()))
            except errors as error:
                outcome = self.after(error)
            try:
                await self.pause(outcome)
            finally:
                del outcome  # else an error and this frame would keep each other, and the callers' data

    async def pause(self, outcome: float | LLMError) -> None:
        """Wait before the next attempt, or raise what ends the call."""
        if not isinstance(outcome, LLMError):
            await self.budget.spend(asyncio.sleep(outcome))
            return
        try:
            raise outcome
        finally:
            del outcome  # as in `run`

    def adapt(self, said: str) -> bool:
        """Change the request after a refusal so that the server takes it; False where that cannot be done."""
        return False
