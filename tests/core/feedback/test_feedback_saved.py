"""A trace that was written can be read back."""

import json

import pytest

from sage_core import FeedbackResult, InputError
from tests.fakes.results_to_show import failed_critic, hostile, nothing_found, usual


@pytest.mark.parametrize("make", [usual, failed_critic, nothing_found, hostile])
def test_a_trace_survives_being_saved(make):
    result = make().feedback
    again = FeedbackResult.from_dict(json.loads(json.dumps(result.to_dict())))
    assert again == result
    assert again._repr_html_() == result._repr_html_()


@pytest.mark.parametrize(
    "trace", [{}, {"answer": "x"}, [], {**usual().feedback.to_dict(), "stop_reason": "bored"}]
)
def test_anything_else_is_told(trace):
    with pytest.raises(InputError, match="no trace"):
        FeedbackResult.from_dict(trace)


def test_unknown_keys_are_ignored_at_every_depth() -> None:
    from sage_core.feedback.types import Verdict, _usage

    verdict, usage = (
        Verdict.from_dict({"score": 8.0, "adjust": 0, "later": 1}),
        _usage({"prompt": 1, "completion": 2, "calls": 1, "later": 1}),
    )
    assert verdict is not None and verdict.score == 8 and usage.prompt == 1
