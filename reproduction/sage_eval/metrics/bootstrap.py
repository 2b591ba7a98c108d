"""Is the difference real? Clustered bootstrap and permutation tests."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sage_core.errors import InputError

SAMPLES = 10_000
TAILS = (0.025, 0.975)
"""The quantiles at the ends of an interval of 95 %."""
# Draws held in memory at a time: 16 MB of positions.
_BLOCK = 2_000_000
# Up to so many differences that are not 0, every way of flipping their signs is counted.
_EXACT = 12


@dataclass(frozen=True, slots=True)
class Difference:
    """A paired difference of means, the first less the second.

    Attributes:
        value: The difference.
        low: Lower end of its confidence interval.
        high: Upper end.
        p: Two-sided p-value of the paired test that the function which made it names.
        n: Number of pairs.
    """

    value: float
    low: float
    high: float
    p: float
    n: int

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out 0 and p is below 0.05.

        Over few documents the interval of a bootstrap is too narrow to say so alone.
        """
        return (self.low > 0 or self.high < 0) and self.p < 0.05


def paired_bootstrap(
    first: Sequence[float],
    second: Sequence[float],
    *,
    samples: int = SAMPLES,
    seed: int = 0,
    groups: Sequence[Hashable] | None = None,
) -> Difference:
    """Difference of the means of two methods on the same questions, in the same order.

    The interval is a bootstrap's; p is a permutation test's, which stays honest on few groups: how often a
    difference at least as large comes out where the sign of each group's difference is flipped at random.
    Where at most 12 groups differ all flips are counted.

    Args:
        first: One figure a question.
        second: The other method's.
        samples: Resamples, and flips.
        seed: Of the resampling and the flips.
        groups: What belongs together (the document of each question): whole groups are drawn, since questions
            about one document are no independent draws. None draws single questions, and so does one group,
            whose resamples would all be the same.

    Raises:
        InputError: Where the lengths differ, without values, or for values that are no numbers.
    """
    a, b = checked(first), checked(second)
    if len(a) != len(b):
        raise InputError(f"a paired comparison needs the same questions: there are {len(a)} and {len(b)}")
    data = a - b
    means = resampled_means(data, samples, seed, groups)
    low, high = np.quantile(means, TAILS)
    p = _sign_flip(_sums(data, groups)[0], samples, seed)
    return Difference(float(data.mean()), float(low), float(high), p, len(data))


def resampled_means(
    data: NDArray[np.float64], samples: int, seed: int, groups: Sequence[Hashable] | None
) -> NDArray[np.float64]:
    """Means of ``samples`` resamples of the data, or of its groups."""
    sums, sizes = _sums(data, groups)
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // len(sums))
    means = np.empty(samples)
    for start in range(0, samples, block):
        drawn = rng.integers(len(sums), size=(min(block, samples - start), len(sums)))
        means[start : start + len(drawn)] = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return means


def _sums(
    data: NDArray[np.float64], groups: Sequence[Hashable] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sum and size of each group; the data themselves without groups, or with a single one."""
    if groups is not None:
        if len(groups) != len(data):
            raise InputError(f"there are {len(data)} figures, but {len(groups)} groups")
        numbers: dict[Hashable, int] = {}
        index = np.array([numbers.setdefault(group, len(numbers)) for group in groups])
        if len(numbers) > 1:
            sums = np.asarray(np.bincount(index, weights=data), dtype=np.float64)
            return sums, np.bincount(index).astype(np.float64)
    return data, np.ones(len(data))


def _sign_flip(sums: NDArray[np.float64], flips: int, seed: int) -> float:
    """Two-sided p-value of the paired permutation test on the sums of groups."""
    sums = sums[sums != 0]
    # Sums that are equal but for rounding count as equal.
    least = abs(sums.sum()) - 1e-9 * np.abs(sums).sum()
    n = len(sums)
    if n <= _EXACT:
        signs = 1.0 - 2.0 * (np.arange(1 << n)[:, None] >> np.arange(n) & 1)
        return float((np.abs(signs @ sums) >= least).mean())
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // n)
    extreme = 0
    for start in range(0, flips, block):
        signs = 1.0 - 2.0 * rng.integers(2, size=(min(block, flips - start), n))
        extreme += int((np.abs(signs @ sums) >= least).sum())
    # The signs as found are one of the flips, so that a finite sample never says "impossible".
    return (extreme + 1) / (flips + 1)


def checked(values: Sequence[float]) -> NDArray[np.float64]:
    """The figures as an array; InputError where they cannot be used."""
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not len(data):
        raise InputError("give a list of at least one figure")
    if not np.isfinite(data).all():
        raise InputError("a figure is no finite number: leave out the questions that could not be scored")
    return data
