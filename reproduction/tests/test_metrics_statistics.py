"""Tests of shares and their intervals against textbook cases and scipy."""

from __future__ import annotations

import pytest
from sage_eval.metrics import mcnemar, paired_bootstrap, paired_difference, wilson

from sage_core.errors import InputError


def test_right_or_wrong_is_mcnemar_s_and_the_rest_is_not():
    first, second = [1.0] * 5 + [0.0] * 11, [0.0] * 16
    assert paired_difference(first, second, share=True).p == mcnemar(first, second) == pytest.approx(2 / 32)
    groups = [0] * 15 + [1]
    assert paired_difference(first, second, groups=groups).p == 1
    half = [0.5, *first[1:]]
    assert paired_difference(half, second, share=True) == paired_bootstrap(half, second)


def test_mcnemar_by_hand():
    # 1 against 5 discordant: 2 * (C(6,0) + C(6,1)) / 64
    a = [1] * 5 + [0] * 1 + [1] * 10
    b = [0] * 5 + [1] * 1 + [1] * 10
    assert mcnemar(a, b) == pytest.approx(2 * 7 / 64)
    assert mcnemar(b, a) == mcnemar(a, b)
    assert mcnemar([1, 0], [1, 0]) == 1
    assert mcnemar([1, 0], [0, 1]) == 1


def test_mcnemar_is_the_binomial_test():
    binomtest = pytest.importorskip("scipy.stats", reason="scipy is not installed").binomtest
    for left, right in ((3, 17), (40, 61), (500, 700)):
        a, b = [1] * left + [0] * right, [0] * left + [1] * right
        assert mcnemar(a, b) == pytest.approx(binomtest(left, left + right).pvalue)


def test_mcnemar_wants_right_or_wrong():
    with pytest.raises(InputError, match=r"right \(1\)"):
        mcnemar([0.5], [1.0])
    with pytest.raises(InputError, match="1 and 2"):
        mcnemar([1], [1, 0])


def test_wilson_by_hand():
    # Newcombe 1998, table I: 81 of 263 and 15 of 148.
    found = wilson(81, 263)
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)
    found = wilson(15, 148)
    assert (round(found.low, 4), round(found.high, 4)) == (0.0624, 0.1605)
    found = wilson(0, 20)
    assert (found.low, round(found.high, 4)) == (0.0, 0.1611)
    found = wilson(20, 20)
    assert found.high == 1
    for n, k in ((5, 0), (-1, 4), (1, 0)):
        with pytest.raises(InputError):
            wilson(n, k)
