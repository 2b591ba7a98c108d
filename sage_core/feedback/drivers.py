"""Drive a `FeedbackLoop` to its end or step by step, plain or async.

What happens between two calls is decided once, in generators: each yields the next call and is sent its
result. `drive` makes the calls in place, `adrive` awaits them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from sage_core.errors import InputError, LLMError
from sage_core.feedback.loop import FeedbackLoop
from sage_core.feedback.types import Done, FeedbackResult, Generate, Judge, Step, Verdict
from sage_core.llm.usage import NO_USAGE, TokenUsage
from sage_core.selection.cut import Selection

_log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
Steps = Generator["Call[Any] | StreamedCall[Any]", Any, T]
Answered = tuple[str, TokenUsage | None]
Judged = tuple[Verdict, TokenUsage | None]
Check = Callable[[Selection, str], Verdict | None]


class _Request(Generic[T]):
    """What a generator asks its driver for: ``result = yield from request``."""

    __slots__ = ()

    # `yield from` gives mypy the type of the result, which the `yield` of a generator cannot.
    def __iter__(self) -> Generator[Any, Any, T]:
        result: T = yield self
        return result


class Call(_Request[T]):
    """A call of a function, and of the coroutine function that an async driver awaits in its place.

    Examples:
        >>> def steps() -> Steps[str]:
        ...     async def areplace(old: str, new: str) -> str:
        ...         return "At nine."
        ...     return (yield from Call("At seven.".replace, areplace, "seven", "nine"))
        >>> drive(steps()), asyncio.run(adrive(steps()))
        ('At nine.', 'At nine.')
    """

    __slots__ = ("arun", "run")

    def __init__(
        self,
        function: Callable[P, T],
        coroutine: Callable[P, Awaitable[T]],
        *arguments: P.args,
        **keywords: P.kwargs,
    ) -> None:
        self.run: Callable[[], T] = partial(function, *arguments, **keywords)
        self.arun: Callable[[], Awaitable[T]] = partial(coroutine, *arguments, **keywords)


class Compute(Call[T]):
    """A computation, which an async driver keeps off the event loop."""

    __slots__ = ()

    def __init__(self, function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> None:
        async def in_thread(*arguments: P.args, **keywords: P.kwargs) -> T:
            return await asyncio.to_thread(function, *arguments, **keywords)

        super().__init__(function, in_thread, *arguments, **keywords)


class StreamedCall(_Request[T]):
    """A call whose reply comes in pieces: `drive` reads them, `drive_pieces` hands them on as they come.

    Examples:
        >>> def steps() -> Steps[str]:
        ...     return (yield from StreamedCall(lambda: iter(["At ", "seven."]), None, lambda: "At seven."))
        >>> list(drive_pieces(steps())), drive(steps())
        (['At ', 'seven.', 'At seven.'], 'At seven.')

    Args:
        pieces: Begins the call.
        apieces: Begins it for an async driver; None reads ``pieces`` in place.
        result: What the call gives once the pieces are read.
    """

    __slots__ = ("_apieces", "_pieces", "result")

    def __init__(
        self,
        pieces: Callable[[], Iterator[Any]],
        apieces: Callable[[], AsyncIterator[Any]] | None,
        result: Callable[[], T],
    ) -> None:
        self._pieces, self._apieces, self.result = pieces, apieces, result

    def stream(self) -> Iterator[Any]:
        """The pieces."""
        yield from self._pieces()

    async def astream(self) -> AsyncIterator[Any]:
        """The pieces, awaited."""
        if self._apieces is None:
            for piece in self._pieces():
                yield piece
        else:
            async for piece in self._apieces():
                yield piece


def as_many(ask: Callable[[int], Steps[T]], n: int) -> Steps[T]:
    """What a search for ``n`` results gives; of a store that fails if it holds fewer, all that it holds.

    Raises:
        Exception: That of a search for one result.
    """
    found: T
    most, fails, k = 0, n + 1, n
    while most < k < fails:
        try:
            found, most = (yield from ask(k)), k
        except (RuntimeError, ValueError) as error:
            if k == 1 or isinstance(error, NotImplementedError | InputError):
                raise
            if k == n:
                _log.warning("the search for %d results failed, fewer are asked for: %s", k, error)
            fails = k
        k = (most + fails) // 2
    return found


def drive(steps: Steps[T]) -> T:
    """Make the calls of a generator, and return what it returns."""
    # The last piece is the result; a deque of one keeps none of those before it.
    result: T = deque(drive_pieces(steps), maxlen=1).pop()
    return result


async def adrive(steps: Steps[T]) -> T:
    """`drive` with coroutines. Cancelling it cancels the call under way and nothing else."""
    # Closed here and not by the garbage collector, which may run in another event loop.
    async with aclosing(adrive_pieces(steps)) as pieces:
        async for piece in pieces:
            last = piece
    result: T = last
    return result


def drive_pieces(steps: Steps[Any]) -> Iterator[Any]:
    """`drive`, with the pieces of every `StreamedCall` as they come, and last what the generator returns."""
    try:
        request = next(steps)
        while True:
            try:
                if isinstance(request, StreamedCall):
                    yield from request.stream()
                    result = request.result()
                else:
                    result = request.run()
            except Exception as error:  # any: the generator knows which it can live with
                request = steps.throw(error)
            else:
                request = steps.send(result)
    except StopIteration as end:
        yield end.value
    finally:
        steps.close()


async def adrive_pieces(steps: Steps[Any]) -> AsyncGenerator[Any, None]:
    """`drive_pieces` with coroutines."""
    try:
        request = next(steps)
        while True:
            try:
                if isinstance(request, StreamedCall):
                    async for piece in request.astream():
                        yield piece
                    result = request.result()
                else:
                    result = await request.arun()
            except Exception as error:  # any: the generator knows which it can live with
                request = steps.throw(error)
            else:
                request = steps.send(result)
    except StopIteration as end:
        yield end.value
    finally:
        steps.close()


def loop_steps(
    loop: FeedbackLoop,
    generate: Callable[[Selection], Steps[Answered]],
    judge: Callable[[Selection, str], Steps[Judged]],
    check: Check | None,
    failures: tuple[type[Exception], ...],
) -> Steps[FeedbackResult]:
    """`run_loop` for callers that write answering and grading as generators too."""
    step: Step = loop.start()
    while not isinstance(step, Done):
        step = yield from one_step(loop, step, generate, judge, check, failures)
    return step.result


def one_step(
    loop: FeedbackLoop,
    step: Generate | Judge,
    generate: Callable[[Selection], Steps[Answered]],
    judge: Callable[[Selection, str], Steps[Judged]],
    check: Check | None,
    failures: tuple[type[Exception], ...],
) -> Steps[Step]:
    """One request of ``loop``, as `loop_steps` carries it out."""
    if isinstance(step, Generate):
        try:
            text, usage = yield from generate(step.selection)
        except failures as error:
            # No earlier answer is there to fall back to: the caller must see the error itself.
            if step.round == 1:
                raise
            _log.warning("answering failed in round %d, an earlier answer is kept: %s", step.round, error)
            return loop.answer_failed(str(error))
        return loop.answered(text, usage)
    return (yield from _grading(loop, step, judge, check, failures))


def _grading(
    loop: FeedbackLoop,
    step: Judge,
    judge: Callable[[Selection, str], Steps[Judged]],
    check: Check | None,
    failures: tuple[type[Exception], ...],
) -> Steps[Step]:
    """The grade of an answer: by the check where it knows, else by the critic. Neither loses the answer."""
    local = None
    if check is not None:  # some 50 ms for a local judge
        try:
            local = yield from Compute(check, step.selection, step.answer)
        except Exception as error:  # whatever it is: the answer is there, and is not lost
            _log.warning("the check without an LLM failed, the answer is kept: %s", error)
            if loop.config.critic == "local":
                return loop.critic_failed(f"{type(error).__name__}: {error}")
    if local is not None:
        return loop.judged(local, NO_USAGE)
    # Only now is it known that a call is needed: a local grade costs nothing of the budget.
    if (ended := loop.before_critic()) is not None:
        return ended
    try:
        verdict, usage = yield from judge(step.selection, step.answer)
    except failures as error:
        _log.warning("the critic failed, the best answer so far is kept: %s", error)
        return loop.critic_failed(str(error))
    return loop.judged(verdict, usage)


def _asking(function: Callable[..., Any]) -> Callable[..., Steps[Any]]:
    """A caller's function as a generator of one call."""

    def steps(*arguments: object) -> Steps[Any]:
        return (yield from Call(function, function, *arguments))

    return steps


def run_loop(
    loop: FeedbackLoop,
    generate: Callable[[Selection], Answered],
    judge: Callable[[Selection, str], Judged],
    *,
    check: Check | None = None,
    failures: tuple[type[Exception], ...] = (LLMError,),
) -> FeedbackResult:
    """Run ``loop`` to its end.

    Args:
        loop: A loop that has not been started.
        generate: Answers from a selection; gives the text and what it took (None if unknown).
        judge: Grades an answer given its selection; gives the verdict and what it took.
        check: Looked at before ``judge``: a verdict made without an LLM, or None to ask ``judge``. Where it
            raises, ``judge`` is asked, or the loop ends as ``critic_failed`` where the config asks no LLM.
        failures: Errors of ``judge`` that end the loop as ``critic_failed``, and of ``generate`` that end it
            as ``answer_failed`` where an earlier round has an answer. All others are raised.

    Returns:
        The loop's result.

    Raises:
        Exception: Whatever ``generate`` raised in the first round, and errors not in ``failures``.
    """
    return drive(loop_steps(loop, _asking(generate), _asking(judge), check, failures))


async def arun_loop(
    loop: FeedbackLoop,
    generate: Callable[[Selection], Awaitable[Answered]],
    judge: Callable[[Selection, str], Awaitable[Judged]],
    *,
    check: Check | None = None,
    failures: tuple[type[Exception], ...] = (LLMError,),
) -> FeedbackResult:
    """`run_loop` with coroutines. Cancelling it cancels the call under way and nothing else."""
    return await adrive(loop_steps(loop, _asking(generate), _asking(judge), check, failures))
