"""A trace that was written can be read back."""

from __future__ import annotations

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
