"""Statistics against textbook cases and coverage by simulation."""

import math

import numpy as np
import pytest

from sage_core.errors import InputError
from sage_core.tuning.statistics import bootstrap_mean, paired_bootstrap


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
    monkeypatch.setattr("sage_core.tuning.statistics._BLOCK", 500)
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


def test_paired_bootstrap_sees_what_an_unpaired_one_does_not():
    rng = np.random.default_rng(5)
    base = rng.normal(0, 10, size=300)
    better = base + 0.5 + rng.normal(0, 0.5, size=300)
    found = paired_bootstrap(better.tolist(), base.tolist())
    assert 0.4 < found.low < found.value < found.high < 0.6
    assert found.p < 0.001
    back = paired_bootstrap(base.tolist(), better.tolist())
    assert back.value == pytest.approx(-found.value)
    assert back.high < 0


def test_paired_bootstrap_without_a_difference():
    same = paired_bootstrap([1.0, 0.0, 1.0], [1.0, 0.0, 1.0])
    assert (same.value, same.low, same.high, same.p) == (0.0, 0.0, 0.0, 1.0)
    with pytest.raises(InputError, match="2 and 1"):
        paired_bootstrap([1.0, 2.0], [1.0])


def test_p_values_of_no_difference_are_uniform_enough():
    rng = np.random.default_rng(11)
    found = [
        paired_bootstrap(rng.normal(size=60).tolist(), rng.normal(size=60).tolist(), samples=500, seed=i).p
        for i in range(300)
    ]
    assert 0.02 < np.mean(np.array(found) < 0.05) < 0.10
    assert 0.42 < np.mean(np.array(found) < 0.5) < 0.58


def test_sign_flips_by_hand():
    # Sums of documents 3, 2 and 1 all to one side: 2 of 8 flips are as extreme. 3, 2 and -1: 4 of 8.
    for third, p in ((1.0, 2 / 8), (-1.0, 4 / 8)):
        first, groups = [1.0, 2.0, 2.0, third], ["a", "a", "b", "c"]
        assert paired_bootstrap(first, [0.0] * 4, groups=groups).p == pytest.approx(p)
    # Documents without a difference say nothing, whether counted or drawn.
    more = paired_bootstrap([1.0, 2.0, 2.0, 1.0] + [0.0] * 30, [0.0] * 34, groups=range(34))
    assert more.p == pytest.approx(2 / 16)


def test_sign_flips_drawn_agree_with_sign_flips_counted(monkeypatch):
    values = np.random.default_rng(2).normal(0.4, 1, size=12).tolist()
    counted = paired_bootstrap(values, [0.0] * 12).p
    monkeypatch.setattr("sage_core.tuning.statistics._EXACT", 0)
    assert paired_bootstrap(values, [0.0] * 12).p == pytest.approx(counted, abs=0.02)


@pytest.mark.parametrize("values", [[], [float("nan")], [float("inf")], [[1.0, 2.0]]])
def test_figures_are_finite_numbers(values):
    with pytest.raises(InputError):
        bootstrap_mean(values)


@pytest.mark.parametrize("settings", [{"confidence": 1.0}, {"confidence": 0}, {"samples": 0}])
def test_settings_are_in_range(settings):
    with pytest.raises(InputError):
        bootstrap_mean([1.0], **settings)
