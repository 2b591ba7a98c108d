"""What goes wrong in LLMs, evaluators and callback handlers, and which of it ends the question."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from llama_index.core.callbacks.base_handler import BaseCallbackHandler

from sage_core.errors import InputError, LLMError
from sage_core.feedback import Verdict

logger = logging.getLogger(__name__)


@contextmanager
def service_errors(answered: bool) -> Iterator[None]:
    """Let the core see failures of an LLM service, which it can live with once there is an answer.

    Args:
        answered: Whether there is one. Without one the error is left as it is, for the caller.
    """
    try:
        yield
    except Exception as error:  # any: `as_llm_error` tells which are of a service, the rest is raised again
        known = as_llm_error(error) if answered else None
        if known is None or known is error:
            raise
        raise known from error


def as_llm_error(error: Exception) -> LLMError | None:
    """An LLM service's failure as the core's error; None where the error is ours or the user's to see.

    Client libraries have exceptions of their own, with no base in common. A built-in exception is not taken
    for one, but for the operating system's; nor is a ValueError, by which token budgets stop a run.
    """
    if isinstance(error, LLMError):
        return error
    ours = (ValueError, TypeError, LookupError, AttributeError, AssertionError, ImportError)
    if isinstance(error, OSError) or (type(error).__module__ != "builtins" and not isinstance(error, ours)):
        return LLMError(f"{type(error).__name__}: {error}", retryable=True)
    return None


def failed_grade(error: Exception) -> Verdict:
    """What an exception while grading amounts to: an unreadable grade, for there is an answer to keep.

    Evaluators read replies with code of their own, which may fail in any way on a reply they do not expect.

    Raises:
        InputError: As it is: a setting is wrong.
        ValueError: As it is, where a callback handler raised it: a token budget stops the run.
        LLMError: For the failure of a service.
    """
    if isinstance(error, InputError) or _raised_by_handler(error):
        raise error
    service = as_llm_error(error)
    if service is not None:
        raise service from error
    reason = f"{type(error).__name__}: {error}"
    logger.warning("the critic failed, the answer is kept: %s", reason)
    logger.debug("where the critic failed", exc_info=error)
    return Verdict(None, parsed=False, reason=reason)


def _raised_by_handler(error: Exception) -> bool:
    """Whether a method of a callback handler raised this ValueError itself.

    That is how `TokenCountingHandler` keeps a budget. It has no exception of its own, so the place tells.
    """
    trace = error.__traceback__
    if not isinstance(error, ValueError) or trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    return isinstance(trace.tb_frame.f_locals.get("self"), BaseCallbackHandler)
