"""The figures of the selection benchmark, on lists small enough to check by hand."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from ranked_lists import (
    Lists,
    Result,
    bootstrap,
    fixed_at,
    front,
    gap_closed,
    oracle_at,
    quality,
    shuffled,
    table,
)


@pytest.fixture
def lists():
    # Question 0 has its evidence first, question 1 third; every chunk has 10 tokens and 10 characters.
    steps = np.tile(10.0 * np.arange(5), (2, 1))
    recall = np.array([[0, 1, 1, 1, 1], [0, 0, 0, 1, 1]], dtype=float)
    half = np.array([0.5, 0.5])
    return Lists(
        "toy", "cosine", [[0.9] * 4] * 2, recall, steps, steps, 10 * recall, np.array([10.0, 10.0]), half
    )


def test_fixed_k_and_the_oracle_at_the_same_tokens(lists):
    assert lists.mean(fixed_at(lists, 20)) == 0.5
    assert lists.mean(fixed_at(lists, 25)) == 0.75
    # Ten and thirty tokens: 20 on the mean, and everything found.
    assert lists.mean(oracle_at(lists, 20)) == pytest.approx(1)


def test_the_share_of_the_gap(lists):
    k = np.array([1, 3])
    value, low, high = gap_closed(lists, lists.at(lists.recall, k), 20)
    assert value == pytest.approx(1)
    assert low <= 1 <= high + 1e-9
    assert gap_closed(lists, fixed_at(lists, 20), 20)[0] == pytest.approx(0)
    assert np.isnan(gap_closed(lists, fixed_at(lists, 40), 40)[0])
    low, high = bootstrap(np.array([0.0, 1.0]), lists.weight)
    assert low == 0 and high == 1


def test_quality_and_the_shuffled_control(lists):
    assert quality(lists, np.array([1, 3])) == pytest.approx((20 / 40, (1 + 1 / 3) / 2))
    precision, _ = shuffled(lists, np.array([1, 3]))
    assert precision < 20 / 40
    assert shuffled(lists, np.array([2, 2])) == pytest.approx(quality(lists, np.array([2, 2])))


def test_the_front_holds_what_nothing_beats(lists):
    def result(family, tokens, recall):
        return Result(family, "", np.array([1, 3]), tokens, recall)

    results = [
        result("knee", 20, 0.9),
        result("fixed k", 20, 0.5),
        result("top-p", 15, 0.6),
        result("top-p", 30, 0.902),  # not half a point better
        result("autocut", 40, 1.0),
        result("autocut", 2000, 1.1),  # beyond any budget that is looked at
    ]
    assert [(r.family, r.tokens) for r in front(results)] == [
        ("top-p", 15),
        ("knee", 20),
        ("autocut", 40),
    ]
    assert len(table(lists, results)) == 2 + 3
