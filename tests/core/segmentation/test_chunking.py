"""The dynamic programme against every segmentation there is, and the paper's threshold."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sage_core.segmentation.cuts import LONG_CHUNK_COST, SHORT_CHUNK_COST, optimal_cuts, threshold_cuts

SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=9)


def cost(cuts: list[int], lengths: list[int], keep: list[float], max_tokens: int, min_tokens: int) -> float:
    total = sum(keep[cut - 1] for cut in cuts[1:])
    for start, end in itertools.pairwise([*cuts, len(lengths)]):
        size = sum(lengths[start:end])
        if size > max_tokens and end - start > 1:
            return float("inf")
        if size < min_tokens:
            total += SHORT_CHUNK_COST * (1 - size / min_tokens)
        elif size > min_tokens:
            excess = min(size, max_tokens) - min_tokens
            total += LONG_CHUNK_COST * (excess / (max_tokens - min_tokens)) ** 2 if excess else 0.0
    return total


@given(SIZES, st.integers(1, 25), st.integers(0, 25), st.data())
def test_no_segmentation_is_better(lengths: list[int], max_tokens: int, least: int, data) -> None:
    min_tokens = min(least, max_tokens)
    keep = data.draw(st.lists(st.floats(-5, 5), min_size=len(lengths) - 1, max_size=len(lengths) - 1))
    found = optimal_cuts(lengths, keep, max_tokens, min_tokens)
    assert found[0] == 0
    inner = range(1, len(lengths))
    every = ([0, *c] for n in range(len(lengths)) for c in itertools.combinations(inner, n))
    best = min(cost(cuts, lengths, keep, max_tokens, min_tokens) for cuts in every)
    assert abs(cost(found, lengths, keep, max_tokens, min_tokens) - best) < 1e-9


@given(SIZES, st.data())
def test_the_paper_cuts_exactly_below_the_threshold(lengths: list[int], data) -> None:
    keep = data.draw(st.lists(st.floats(-5, 5), min_size=len(lengths) - 1, max_size=len(lengths) - 1))
    found = threshold_cuts(lengths, keep, coarse_tokens=1000, max_tokens=1000, min_tokens=0)
    assert found == [0, *(i + 1 for i, value in enumerate(keep) if value < 0)]


@given(SIZES, st.integers(1, 25), st.integers(0, 25), st.data())
def test_threshold_keeps_the_limit(lengths: list[int], max_tokens: int, least: int, data) -> None:
    keep = data.draw(st.lists(st.floats(-5, 5), min_size=len(lengths) - 1, max_size=len(lengths) - 1))
    found = threshold_cuts(lengths, keep, 2 * max_tokens, max_tokens, min(least, max_tokens))
    assert found[0] == 0
    assert found == sorted(set(found))
    for start, end in itertools.pairwise([*found, len(lengths)]):
        assert end - start == 1 or sum(lengths[start:end]) <= max_tokens


def test_nothing_in_nothing_out() -> None:
    assert optimal_cuts([], [], 10, 2) == threshold_cuts([], [], 20, 10, 2) == []
