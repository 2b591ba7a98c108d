"""What all indexes share: checked ``k``, and the best of an array of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.errors import InputError


def check_k(k: int) -> None:
    """Raise InputError unless ``k`` is a whole number of at least 1."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"k is a whole number of at least 1, not {k!r}")


def best_positions(scores: NDArray[np.floating[Any]], k: int) -> list[int]:
    """Positions of the ``k`` highest scores, best first; ties keep their order."""
    if k < len(scores):
        # A partial sort first; all that tie with the last place stay in, so that order decides, not luck.
        floor = np.partition(scores, len(scores) - k)[len(scores) - k]
        near = np.flatnonzero(scores >= floor)
        return [int(near[i]) for i in np.argsort(-scores[near], kind="stable")[:k]]
    return [int(i) for i in np.argsort(-scores, kind="stable")]
