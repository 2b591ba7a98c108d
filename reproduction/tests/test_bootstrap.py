"""Statistics against textbook cases and coverage by simulation."""

import math

import numpy as np
import pytest
from sage_eval.metrics import bootstrap_mean
from sage_eval.metrics.bootstrap import paired_bootstrap

from sage_core.errors import InputError


def test_bootstrap_of_a_mean_agrees_with_the_normal_interval():
    values = np.random.default_rng(1).normal(3, 2, size=800)
    found = bootstrap_mean(values.tolist())
    half = 1.96 * values.std() / math.sqrt(800)
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.02)
    assert found.high == pytest.approx(values.mean() + half, abs=0.02)
    assert found.n == 800


def test_the_seed_decides_and_blocks_do_not_matter(monkeypatch):
    values = [0.0, 1.0, 1.0, 0.5, 0.25]
    assert bootstrap_mean(values, seed=3) == bootstrap_mean(values, seed=3)
    assert bootstrap_mean(values * 9, seed=3) != bootstrap_mean(values * 9, seed=4)
    whole = bootstrap_mean(values, seed=3)
    monkeypatch.setattr("sage_eval.metrics.bootstrap._BLOCK", 500)
    assert bootstrap_mean(values, seed=3) == whole


def test_groups_are_drawn_whole():
    # Ten documents, whose questions all go the same way: only ten independent draws.
    values = [float(d % 2) for d in range(10) for _ in range(20)]
    groups = [d for d in range(10) for _ in range(20)]
    loose, grouped = bootstrap_mean(values), bootstrap_mean(values, groups=groups)
    assert grouped.value == loose.value == 0.5
    assert grouped.high - grouped.low > 3 * (loose.high - loose.low)
    alone = bootstrap_mean(values, groups=list(range(200)))
    assert (alone.low, alone.high) == (loose.low, loose.high)
    with pytest.raises(InputError, match="3 groups"):
        bootstrap_mean(values, groups=[1, 2, 3])


def test_one_group_leaves_the_uncertainty_of_its_questions():
    values, other = [1.0, 0.5, 0.0, 0.75] * 3, [0.0, 0.5, 0.25, 0.75] * 3
    assert bootstrap_mean(values, groups=["guide"] * 12) == bootstrap_mean(values)
    difference = paired_bootstrap(values, other, groups=["guide"] * 12)
    assert difference == paired_bootstrap(values, other)
    assert difference.low < difference.value < difference.high
    assert difference.p > 0.01


def test_groups_of_unequal_size_weigh_by_size():
    found = bootstrap_mean([1.0] * 30 + [0.0] * 10, groups=["a"] * 30 + ["b"] * 10, samples=4000)
    assert found.value == 0.75
    # Resamples are aa (1), ab (30/40) or bb (0).
    assert (found.low, found.high) == (0.0, 1.0)


@pytest.mark.parametrize("values", [[], [float("nan")], [float("inf")], [[1.0, 2.0]]])
def test_figures_are_finite_numbers(values):
    with pytest.raises(InputError):
        bootstrap_mean(values)
