"""The dynamic program against every segmentation there is, and the paper's threshold."""

import itertools
import math
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from sage_core.segmentation.boundaries import (
    SizeCost,
    optimal_boundaries,
    sized_boundaries,
    threshold_boundaries,
)

SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=9)


@st.composite
def size_costs(draw: st.DrawFn) -> SizeCost:
    max_tokens = draw(st.integers(1, 25))
    usual = draw(st.integers(1, max_tokens))
    return SizeCost(usual, max_tokens, draw(st.integers(0, usual)), draw(st.sampled_from([0.5, 1.5, 3.0])))


def cost(cuts: list[int], lengths: list[int], keep: list[float], size_cost: SizeCost, price: float) -> float:
    total = sum(keep[cut - 1] for cut in cuts[1:])
    for start, end in itertools.pairwise([*cuts, len(lengths)]):
        size = sum(lengths[start:end])
        if size > size_cost.max_tokens and end - start > 1:
            return float("inf")
        size = min(size, size_cost.max_tokens)
        if size > size_cost.usual or size_cost.min_tokens:
            total += size_cost.weight * math.log(size / size_cost.usual) ** 2
        if size < size_cost.min_tokens:
            total += 3.0 * (1 - size / size_cost.min_tokens)
        total += price
    return total


@given(SIZES, size_costs(), st.floats(-3, 3), st.data())
def test_no_segmentation_is_better(lengths: list[int], size_cost: SizeCost, price: float, data) -> None:
    keep = data.draw(st.lists(st.floats(-5, 5), min_size=len(lengths) - 1, max_size=len(lengths) - 1))
    found = optimal_boundaries(lengths, keep, size_cost, price)
    assert found[0] == 0
    inner = range(1, len(lengths))
    every = ([0, *c] for n in range(len(lengths)) for c in itertools.combinations(inner, n))
    best = min(cost(cuts, lengths, keep, size_cost, price) for cuts in every)
    assert abs(cost(found, lengths, keep, size_cost, price) - best) < 1e-9


@given(
    st.lists(st.integers(5, 40), min_size=60, max_size=120),
    st.integers(60, 200),
    st.floats(-6, 6),
    st.integers(0, 1000),
)
def test_a_target_is_met_whatever_the_model_says(lengths, target: int, bias: float, seed: int) -> None:
    """A model that always parts, always joins, or anything between: the mean is what was asked for."""
    random = Random(seed)
    keep = [random.gauss(bias, 2.0) for _ in lengths[1:]]
    found = sized_boundaries(lengths, keep, SizeCost(target, 2 * target, target // 4, 3.0))
    wanted = sum(lengths) / target
    assert abs(len(found) - round(wanted)) <= max(1.0, 0.06 * wanted)
    assert max(sum(lengths[a:b]) for a, b in itertools.pairwise([*found, len(lengths)])) <= 2 * target


def test_a_target_is_met_where_the_model_sees_topics() -> None:
    """Of the gaps that would do, those of the lowest probability are cut."""
    lengths = [20] * 40
    keep = [3.0] * 39
    topics = [3, 8, 12, 17, 22, 26, 31, 36]  # chunks of 80 and 100 tokens
    for topic in topics:
        keep[topic - 1] = -3.0
    assert sized_boundaries(lengths, keep, SizeCost(90, 180, 22, 3.0)) == [0, *topics]


@given(SIZES, st.data())
def test_the_paper_cuts_exactly_below_the_threshold(lengths: list[int], data) -> None:
    keep = data.draw(st.lists(st.floats(-5, 5), min_size=len(lengths) - 1, max_size=len(lengths) - 1))
    found = threshold_boundaries(lengths, keep, coarse_tokens=1000, max_tokens=1000, min_tokens=0)
    assert found == [0, *(i + 1 for i, value in enumerate(keep) if value < 0)]


@given(SIZES, st.integers(1, 25), st.integers(0, 25), st.data())
def test_threshold_keeps_the_limit(lengths: list[int], max_tokens: int, least: int, data) -> None:
    keep = data.draw(st.lists(st.floats(-5, 5), min_size=len(lengths) - 1, max_size=len(lengths) - 1))
    found = threshold_boundaries(lengths, keep, 2 * max_tokens, max_tokens, min(least, max_tokens))
    assert found[0] == 0
    assert found == sorted(set(found))
    for start, end in itertools.pairwise([*found, len(lengths)]):
        assert end - start == 1 or sum(lengths[start:end]) <= max_tokens


def test_nothing_in_nothing_out() -> None:
    cost = SizeCost(5, 10, 2)
    assert (
        optimal_boundaries([], [], cost)
        == sized_boundaries([], [], cost)
        == threshold_boundaries([], [], 20, 10, 2)
        == []
    )
