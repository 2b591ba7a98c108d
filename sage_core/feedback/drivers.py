"""Drive a `FeedbackLoop` with functions that do the asking, plain or async, to its end or step by step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from sage_core.errors import InputError, LLMError
from sage_core.feedback.loop import FeedbackLoop
from sage_core.feedback.types import Done, FeedbackResult, Generate, Judge, Search, Step, Verdict
from sage_core.llm.usage import NO_USAGE, TokenUsage
from sage_core.selection.cut import Selection

_log = logging.getLogger(__name__)

Answered = tuple[str, TokenUsage | None]
Judged = tuple[Verdict, TokenUsage | None]
Check = Callable[[Selection, str], Verdict | None]
Hits = tuple[Sequence[tuple[int, float | None]], Sequence[int] | None, str]
"""What `FeedbackLoop.found` takes: candidates with scores, tokens of the new ones, what was searched for."""
NO_HITS: Hits = ((), (), "")


def run_loop(
    loop: FeedbackLoop,
    generate: Callable[[Selection], Answered],
    judge: Callable[[Selection, str], Judged],
    *,
    check: Check | None = None,
    search: Callable[[Search], Hits] | None = None,
    failures: tuple[type[Exception], ...] = (LLMError,),
) -> FeedbackResult:
    """Run ``loop`` to its end.

    Args:
        loop: A loop that has not been started.
        generate: Answers from a selection; gives the text and what it took (None where unknown).
        judge: Grades an answer given its selection; gives the verdict and what it took.
        check: Looked at before ``judge``: a verdict made without an LLM, or None to ask ``judge``.
        search: Searches for what is missing, where ``config.hops`` allows it; None searches for nothing.
        failures: Errors of ``judge`` that end the loop as ``critic_failed``, and of ``generate`` that end it
            as ``answer_failed`` where an earlier round has an answer. All others are raised.

    Returns:
        The loop's result.

    Raises:
        Exception: Whatever ``generate`` raised in the first round, and errors not in ``failures``.
    """
    step: Step = loop.start()
    while not isinstance(step, Done):
        step = run_step(loop, step, generate, judge, check=check, search=search, failures=failures)
    return step.result


def run_step(
    loop: FeedbackLoop,
    step: Generate | Judge | Search,
    generate: Callable[[Selection], Answered],
    judge: Callable[[Selection, str], Judged],
    *,
    check: Check | None = None,
    search: Callable[[Search], Hits] | None = None,
    failures: tuple[type[Exception], ...] = (LLMError,),
) -> Step:
    """Carry out one request of ``loop`` and feed back the reply; for drivers that save what happens between.

    Args:
        loop: The loop that made the request.
        step: The request.
        generate: As for `run_loop`.
        judge: As for `run_loop`.
        check: As for `run_loop`.
        search: As for `run_loop`.
        failures: As for `run_loop`.

    Returns:
        The loop's next request, or its result.

    Raises:
        Exception: As `run_loop`.
    """
    if isinstance(step, Generate):
        try:
            text, usage = generate(step.selection)
        except failures as error:
            return _answer_failed(loop, step, error)
        return loop.answered(text, usage)
    if isinstance(step, Search):
        try:
            found = search(step) if search is not None else NO_HITS
        except failures as error:
            _log.warning("the search for what is missing failed: %s", error)
            found = NO_HITS
        return loop.found(*found)
    local = check(step.selection, step.answer) if check is not None else None
    if local is not None:
        return loop.judged(local, NO_USAGE)
    if (ended := loop.before_critic()) is not None:
        return ended
    try:
        verdict, usage = judge(step.selection, step.answer)
    except failures as error:
        return _critic_failed(loop, error)
    return loop.judged(verdict, usage)


async def arun_loop(
    loop: FeedbackLoop,
    generate: Callable[[Selection], Awaitable[Answered]],
    judge: Callable[[Selection, str], Awaitable[Judged]],
    *,
    check: Check | None = None,
    search: Callable[[Search], Awaitable[Hits]] | None = None,
    failures: tuple[type[Exception], ...] = (LLMError,),
) -> FeedbackResult:
    """`run_loop` with coroutines. Cancelling it cancels the call under way and nothing else."""
    step: Step = loop.start()
    while not isinstance(step, Done):
        step = await arun_step(loop, step, generate, judge, check=check, search=search, failures=failures)
    return step.result


async def arun_step(
    loop: FeedbackLoop,
    step: Generate | Judge | Search,
    generate: Callable[[Selection], Awaitable[Answered]],
    judge: Callable[[Selection, str], Awaitable[Judged]],
    *,
    check: Check | None = None,
    search: Callable[[Search], Awaitable[Hits]] | None = None,
    failures: tuple[type[Exception], ...] = (LLMError,),
) -> Step:
    """`run_step` with coroutines."""
    if isinstance(step, Generate):
        try:
            text, usage = await generate(step.selection)
        except failures as error:
            return _answer_failed(loop, step, error)
        return loop.answered(text, usage)
    if isinstance(step, Search):
        try:
            found = await search(step) if search is not None else NO_HITS
        except failures as error:
            _log.warning("the search for what is missing failed: %s", error)
            found = NO_HITS
        return loop.found(*found)
    local = None
    if check is not None:
        # A local judge computes for some 50 ms: not on the event loop.
        local = await asyncio.to_thread(check, step.selection, step.answer)
    if local is not None:
        return loop.judged(local, NO_USAGE)
    if (ended := loop.before_critic()) is not None:
        return ended
    try:
        verdict, usage = await judge(step.selection, step.answer)
    except failures as error:
        return _critic_failed(loop, error)
    return loop.judged(verdict, usage)


def grade_answer(
    loop: FeedbackLoop,
    answer: str,
    usage: TokenUsage | None,
    judge: Callable[[Selection, str], Judged],
    *,
    check: Check | None = None,
    failures: tuple[type[Exception], ...] = (LLMError,),
) -> FeedbackResult:
    """`run_loop` for an answer that has been shown already, such as a stream: it is graded, never replaced.

    Args:
        loop: A loop that has not been started; of one round.
        answer: The answer.
        usage: What it took; None where unknown.
        judge: As for `run_loop`.
        check: As for `run_loop`.
        failures: As for `run_loop`.

    Raises:
        InputError: For a loop of several rounds.
    """
    _check_single(loop)
    return run_loop(loop, lambda _: (answer, usage), judge, check=check, failures=failures)


async def agrade_answer(
    loop: FeedbackLoop,
    answer: str,
    usage: TokenUsage | None,
    judge: Callable[[Selection, str], Awaitable[Judged]],
    *,
    check: Check | None = None,
    failures: tuple[type[Exception], ...] = (LLMError,),
) -> FeedbackResult:
    """`grade_answer` with a coroutine."""
    _check_single(loop)

    async def known(_: Selection) -> Answered:
        return answer, usage

    return await arun_loop(loop, known, judge, check=check, failures=failures)


def _check_single(loop: FeedbackLoop) -> None:
    if loop.config.max_rounds > 1 and loop.config.max_calls != 1:
        raise InputError("an answer that was shown already is graded in a loop with max_rounds=1")


def _answer_failed(loop: FeedbackLoop, step: Generate, error: Exception) -> Done:
    """Keep an earlier answer, or raise where there is none."""
    if step.round == 1:
        try:
            raise error
        finally:
            del error  # else it and this frame would keep each other, and with it the callers' data
    _log.warning("answering failed in round %d, an earlier answer is kept: %s", step.round, error)
    return loop.answer_failed(str(error))


def _critic_failed(loop: FeedbackLoop, error: Exception) -> Done:
    _log.warning("the critic failed, the best answer so far is kept: %s", error)
    return loop.critic_failed(str(error))
