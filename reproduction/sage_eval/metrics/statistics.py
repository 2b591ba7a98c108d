"""Is the difference real? Shares and pairs of right and wrong, beside the bootstrap of differences."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sage_core.errors import InputError, MissingExtraError
from sage_eval.metrics.bootstrap import (
    SAMPLES,
    TAILS,
    Difference,
    checked,
    paired_bootstrap,
    resampled_means,
)


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its confidence interval.

    Attributes:
        value: The estimate.
        low: Lower end.
        high: Upper end.
        n: Number of questions.
    """

    value: float
    low: float
    high: float
    n: int


def bootstrap_mean(
    values: Sequence[float],
    *,
    samples: int = SAMPLES,
    seed: int = 0,
    groups: Sequence[Hashable] | None = None,
) -> Interval:
    """Mean with a percentile bootstrap interval.

    Args:
        values: One figure a question.
        samples: Resamples.
        seed: Of the resampling.
        groups: What belongs together (the document of each question): whole groups are drawn, since questions
            about one document are no independent draws. None draws single questions, and so does one group,
            whose resamples would all be the same.

    Raises:
        InputError: Without values, or for values that are no numbers.
    """
    data = checked(values)
    means = resampled_means(data, samples, seed, groups)
    low, high = np.quantile(means, TAILS)
    return Interval(float(data.mean()), float(low), float(high), len(data))


def paired_difference(
    first: Sequence[float],
    second: Sequence[float],
    *,
    share: bool = False,
    groups: Sequence[Hashable] | None = None,
) -> Difference:
    """`paired_bootstrap` with the p-value that fits the figures.

    Args:
        first: One figure a question.
        second: The other method's.
        share: Whether 1 means right and 0 wrong: where no other figure occurs, p is `mcnemar`'s.
        groups: As for `bootstrap_mean`.

    Raises:
        InputError: As `paired_bootstrap`.
    """
    found = paired_bootstrap(first, second, groups=groups)
    if share and all(value in (0.0, 1.0) for value in (*first, *second)):
        return replace(found, p=mcnemar(first, second))
    return found


def mcnemar(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided p-value of McNemar's exact test for two methods that are right (1) or wrong (0).

    Only the questions that one of them got right and the other wrong count; without any, p is 1.

    Raises:
        InputError: Where the lengths differ or a figure is neither 0 nor 1.
        MissingExtraError: Where scipy is not installed.
    """
    a, b = checked(first), checked(second)
    if len(a) != len(b):
        raise InputError(f"a paired comparison needs the same questions: there are {len(a)} and {len(b)}")
    if not (np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all()):
        raise InputError("McNemar's test compares right (1) with wrong (0): other figures need a bootstrap")
    only_a, only_b = int((a > b).sum()), int((b > a).sum())
    if not only_a + only_b:
        return 1.0
    return float(_binomtest(only_a, only_a + only_b).pvalue)


def wilson(successes: int, n: int) -> Interval:
    """A share with Wilson's score interval, which holds for small ``n`` and near 0 and 1.

    Raises:
        InputError: Without trials, or with more successes than trials.
        MissingExtraError: Where scipy is not installed.
    """
    if not 0 <= successes <= n or n < 1:
        raise InputError(f"{successes} successes in {n} trials make no share")
    found = _binomtest(successes, n).proportion_ci(0.95, method="wilson")
    return Interval(successes / n, float(found.low), float(found.high), n)


def _binomtest(successes: int, n: int) -> Any:
    try:
        from scipy.stats import binomtest
    except ImportError:
        raise MissingExtraError("exact tests and intervals", "eval") from None
    return binomtest(successes, n)
