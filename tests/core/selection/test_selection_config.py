"""One object holds the settings of a selection; every caller gives the same selection with it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core import FeedbackConfig, InputError, SelectionConfig, select
from sage_core.feedback import FeedbackLoop, Generate
from sage_core.selection import FixedK

SCORES = [0.95, 0.9, 0.2, 0.85, 0.01, 0.6]


@given(
    scores=st.lists(st.floats(0, 1), max_size=20),
    rule=st.sampled_from(["auto", "gradient", FixedK(3)]),
    min_k=st.none() | st.integers(1, 4),
    max_k=st.none() | st.integers(4, 9),
)
def test_it_selects_as_select_does(scores, rule, min_k, max_k):
    config = SelectionConfig(rule=rule, min_k=min_k, max_k=max_k)
    expected = select(scores, rule=rule, min_k=min_k, max_k=max_k)
    assert config.select(scores) == expected
    step = FeedbackLoop(scores, config=FeedbackConfig(selection=config)).start()
    assert (step.selection if isinstance(step, Generate) else step.result.selection) == expected


def test_a_selection_that_was_made_already_is_not_made_again():
    first = SelectionConfig(min_k=2, max_k=2).select(SCORES)
    loop = FeedbackLoop(
        SCORES,
        config=FeedbackConfig(selection=SelectionConfig(min_k=1)),
        first=replace(first, reason="made before"),
    )
    step = loop.start()
    assert isinstance(step, Generate)
    assert (step.selection.indices, step.selection.reason) == (first.indices, "made before")
    with pytest.raises(InputError, match="6"):
        FeedbackLoop(SCORES[1:], first=first)
