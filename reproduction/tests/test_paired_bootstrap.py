"""Statistics against textbook cases and coverage by simulation."""

import numpy as np
import pytest
from sage_eval.metrics.bootstrap import paired_bootstrap

from sage_core.errors import InputError


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
    monkeypatch.setattr("sage_eval.metrics.bootstrap._EXACT", 0)
    assert paired_bootstrap(values, [0.0] * 12).p == pytest.approx(counted, abs=0.02)
