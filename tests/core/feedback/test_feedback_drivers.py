"""The drivers of the feedback loop, plain and async: what fails, and a check before the critic."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sage_core.errors import LLMError
from sage_core.feedback import FeedbackLoop, Verdict, arun_loop, run_loop
from sage_core.llm.usage import TokenUsage
from sage_core.selection.cut import Selection

# Three that stand out and a flat rest, of which 3, 6, 12 and 24 are kept in turn.
from tests.core.feedback.scripts import ONE_CALL, drive, grade
from tests.fakes.paper_figures import FIGURE_8


def raising(error: Exception) -> Callable[..., Any]:
    def fails(*_: object) -> Any:
        raise error

    return fails


def kept(selection: Selection) -> tuple[str, TokenUsage]:
    return "kept", ONE_CALL


def test_other_errors_of_a_critic_are_not_hidden() -> None:
    wrong = raising(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        run_loop(FeedbackLoop(FIGURE_8, "unbounded"), kept, wrong)
    result = run_loop(FeedbackLoop(FIGURE_8, "unbounded"), kept, wrong, failures=(ZeroDivisionError,))
    assert result.stop_reason == "critic_failed"


def test_a_first_answer_that_fails_is_raised() -> None:
    fails = raising(LLMError("no answer", chunks=("a chunk",)))
    with pytest.raises(LLMError) as caught:
        run_loop(FeedbackLoop(FIGURE_8, "unbounded"), fails, lambda s, a: (grade(9), ONE_CALL))
    assert caught.value.chunks == ("a chunk",)


def test_a_later_answer_that_fails_keeps_the_earlier_one() -> None:
    def once(selection: Selection) -> tuple[str, TokenUsage]:
        if selection.cut > 9:
            raise LLMError("no answer")
        return "first", ONE_CALL

    result = run_loop(FeedbackLoop(FIGURE_8, "unbounded"), once, lambda s, a: (grade(3, 1), ONE_CALL))
    assert (result.answer, result.score, result.stop_reason) == ("first", 3, "answer_failed")
    assert (result.rounds[1].answer, result.rounds[1].error) == (None, "no answer")


def test_a_local_check_saves_the_critic() -> None:
    asked: list[str] = []

    def judge(_selection: Selection, answer: str) -> tuple[Verdict, TokenUsage]:
        asked.append(answer)
        return grade(9), ONE_CALL

    def check(selection: Selection, _answer: str) -> Verdict | None:
        return Verdict(1, 1, source="local") if selection.cut == 9 else None

    loop = FeedbackLoop(FIGURE_8, "unbounded")
    result = run_loop(loop, lambda s: (f"from {s.cut}", ONE_CALL), judge, check=check)
    assert asked == ["from 15"]
    assert (result.usage_by_role["judge"].calls, result.stop_reason) == (1, "accepted")


async def test_the_async_driver_gives_the_same_trace() -> None:
    replies = [grade(3, 1), grade(4, 1), grade(2, -1)]
    given = iter(replies)

    async def generate(selection: Selection) -> tuple[str, TokenUsage]:
        await asyncio.sleep(0)
        return f"from {selection.cut}", ONE_CALL

    async def judge(_selection: Selection, _answer: str) -> tuple[Verdict, TokenUsage]:
        return next(given), ONE_CALL

    result = await arun_loop(FeedbackLoop(FIGURE_8, "unbounded"), generate, judge)
    assert result == drive(replies)
