"""The driver of the feedback loop: what fails."""

from collections.abc import Callable
from typing import Any

import pytest

from sage_core.errors import LLMError
from sage_core.feedback import FeedbackLoop, run_loop
from sage_core.llm.usage import TokenUsage
from sage_core.selection.cut import Selection

# Three that stand out and a flat rest, of which 3, 6, 12 and 24 are kept in turn.
from tests.core.feedback.scripts import ONE_CALL, grade
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
