"""Which way the scores of somebody's list count: order and score agree, or the evidence decides."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.ranking.features import are_places
from sage_core.ranking.standing import asked_or_not, standing

COSINES = [0.82, 0.61, 0.55, 0.37, 0.2, 0.11]


def true_likeness(order: list[int]):
    return lambda some: [COSINES[order[i]] for i in some]


def ranked(scores: list[float | None], order: list[int]) -> list[int]:
    """The nodes, best first, that are at these places of a list."""
    by_score = sorted(range(len(scores)), key=lambda i: -(scores[i] or 0.0))
    return [order[i] for i in by_score]


FORMULAS = {
    "cosine": lambda c: c,
    "squared distance": lambda c: 2 - 2 * c,
    "negative inner product": lambda c: -c,
    "distance less one": lambda c: -c + 0.5,
}


@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)
@pytest.mark.parametrize("size", [2, 3, 4, 6])
@pytest.mark.parametrize("order", ["best first", "best last", "mixed"])
def test_whatever_sign_and_order_the_right_one_is_first(formula, size: int, order: str):
    places = list(range(size))
    if order == "best last":
        places.reverse()
    elif order == "mixed":
        random.Random(size).shuffle(places)
    read = standing([formula(COSINES[i]) for i in places], true_likeness(places))
    falls = all(formula(COSINES[a]) >= formula(COSINES[b]) for a, b in pairwise(places))
    if falls:  # nothing contradicts it: the list is believed
        assert not read.overruled and ranked(read.scores, places) == places
    else:
        assert read.overruled and ranked(read.scores, places) == list(range(size))


def test_one_score_out_of_step_does_not_turn_the_list_around():
    distances = [0.36, 0.78, 0.9, 0.89, 1.6, 1.78]
    read = standing(distances, true_likeness(list(range(6))))
    assert ranked(read.scores, list(range(6)))[0] == 0


def test_an_order_without_scores_counts_if_the_evidence_follows_it():
    falling = [1 - i / 40 for i in range(40)]
    nothing: list[float | None] = [None] * 40
    assert standing(nothing, lambda some: [falling[i] for i in some]).scores == nothing
    two_lists = falling[1::2] + falling[::2]
    assert standing(nothing, lambda some: [two_lists[i] for i in some]).scores == nothing, "it falls, mostly"
    assert standing(nothing, lambda some: [two_lists[-i] for i in some]).scores == [0.0] * 40
    assert standing(nothing, lambda some: [1.0] * len(some)).scores == nothing, "nobody can tell"


def test_without_agreement_nobody_stands_out():
    read = standing([0.3, 0.9, 0.2, 0.8], lambda some: [1.0] * len(some))
    assert read.overruled and len(set(read.scores)) == 1


def test_a_node_without_a_score_stands_in_the_middle():
    assert asked_or_not(standing([0.9, None, 0.5, None, 0.1]).scores) == [0.9, 0.5, 0.5, 0.5, 0.1]


@pytest.mark.parametrize("scores", [[], [None, None], [0.4], [0.5, 0.5, 0.5], [float("nan"), 0.2]])
def test_lists_that_say_nothing_are_left(scores: list[float | None]):
    def asked(some: list[int]):
        raise AssertionError("nothing is to be decided")

    assert len(standing(scores, asked).scores) == len(scores)


@given(st.lists(st.floats(-1e6, 1e6) | st.none(), max_size=30))
def test_any_numbers_are_read(scores: list[float | None]):
    read = standing(scores, lambda some: [float(i) for i in some])
    assert len(read.scores) == len(scores)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([1.0, 0.75, 0.5, 0.25, 0.0], True),
        ([1 / (60 + place) for place in range(1, 30)], True),
        (COSINES, False),
        ([0.9, 0.8, 0.7], False),  # three cosines may have equal steps
    ],
)
def test_scores_that_are_only_places_are_known(scores: list[float], expected: bool):
    assert are_places(scores) is expected
