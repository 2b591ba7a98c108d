"""The bounds on a series of searches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.feedback.searches import SearchLimits

RESULTS = st.lists(st.lists(st.sampled_from(["a", "b ", " b", "c c", "c  c", ""]), max_size=4), max_size=8)


def test_white_space_does_not_make_a_passage_new():
    review = SearchLimits().review([["The  ferry\nleaves."], [" The ferry leaves. "]])
    assert review.new == ((0,), ())
    assert review.unchanged == 1


def test_no_search_no_stop():
    review = SearchLimits(max_searches=1, max_context_tokens=1, max_unchanged=1).review([])
    assert (review.searches, review.tokens, review.stop) == (0, 0, None)


@pytest.mark.parametrize(
    ("limits", "stop"),
    [
        ({"max_searches": 2}, "searches"),
        ({"max_searches": None, "max_unchanged": 1}, "unchanged"),
        ({"max_searches": None, "max_unchanged": None, "max_context_tokens": 2}, "tokens"),
        ({"max_searches": 3, "max_unchanged": 2, "max_context_tokens": 99}, None),
    ],
)
def test_each_limit_has_its_name(limits, stop):
    assert SearchLimits(**limits).review([["x" * 8], ["x" * 8]]).stop == stop


@pytest.mark.slow
@given(RESULTS)
def test_every_different_passage_is_new_exactly_once(results):
    review = SearchLimits().review(results)
    new = [
        " ".join(passages[i].split())
        for passages, positions in zip(results, review.new, strict=True)
        for i in positions
    ]
    assert len(new) == len(set(new))
    assert set(new) == {" ".join(p.split()) for passages in results for p in passages} - {""}


@given(RESULTS, st.integers(1, 5))
def test_a_series_that_was_stopped_stays_stopped(results, most):
    limits = SearchLimits(max_searches=most, max_unchanged=None)
    stops = [limits.review(results[:n]).stop for n in range(len(results) + 1)]
    assert stops == sorted(stops, key=lambda stop: stop is not None)


@pytest.mark.parametrize("name", ["max_searches", "max_context_tokens", "max_unchanged"])
def test_limits_below_one_are_refused(name):
    with pytest.raises(InputError, match=name):
        SearchLimits(**{name: 0})
