"""How well each node stood in a search, by the scores and the order of a list that someone else made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sage_core.selection.scales import usable_scores

_SAMPLED = 8
"""So many of the highest and of the lowest scores are compared with the evidence."""
_AGREES = 0.3
"""Least correlation of ranks, so that the evidence has an opinion."""
_FOLLOWS = 0.1  # The same of places: the lowest twentieth of searches has .2, of other orders the middle 0.
_FEWEST_DISTANCES = 5
_FALLS = 0.8
"""Correlation of score and place from which on a list is in the order of its scores, but for a few."""

OVERRULED = (
    "the candidates' scores do not fall along their list: they may be distances, or reordered. What the "
    "candidates share with the question decides which way the scores count; say scale= if you know it"
)
"""What is logged, once, if it is so."""


class Standing(NamedTuple):
    """Scores of which higher is better, one per node; equal ones if nothing is known.

    ``overruled``: the list's scores and its order disagreed, and the evidence decided.
    """

    scores: list[float | None]
    overruled: bool = False


def standing(
    scores: Sequence[Any], evidence: Callable[[list[int]], Sequence[float]] | None = None
) -> Standing:
    """Which way the scores of a list count.

    Scores that fall along the list, but for a few, count as they are: every search lists its best first. If
    score and order disagree (distances, a list that is reversed, reordered or joined of several), the
    evidence decides between the scores, their negatives, and none. If it has no opinion, five scores and more
    that rise are distances. The order of eight nodes and more without scores counts if the evidence agrees.

    Args:
        scores: In the order of the list.
        evidence: For nodes at some positions, how well each answers the question by other means. None if
            there is no question: scores that do not rise then count as they are.

    Examples:
        >>> standing([0.9, 0.7, 0.2], lambda some: []).scores
        [0.9, 0.7, 0.2]
        >>> standing([0.1, 0.5, 1.3], lambda some: [0.8, 0.4, 0.1]).scores
        [-0.1, -0.5, -1.3]
    """
    usable = usable_scores(scores)
    known = [i for i, score in enumerate(usable) if score is not None]
    if not known and evidence is not None and len(usable) >= _SAMPLED:
        some = list(range(0, len(usable), -(-len(usable) // (2 * _SAMPLED))))
        told = np.asarray(evidence(some), dtype=float)
        if np.ptp(told) > 0 and _correlation(-np.array(some, dtype=float), told) < _FOLLOWS:
            return Standing([0.0] * len(usable))
    values = np.array([usable[i] for i in known], dtype=float)
    if len(known) < 2 or values.min() == values.max():
        return Standing(usable)
    falls = _correlation(values, -np.arange(len(values), dtype=float))
    if falls >= _FALLS:
        return Standing(usable)
    agreement = 0.0
    if evidence is not None:
        order = np.argsort(-values, kind="stable")
        some = sorted({*order[:_SAMPLED].tolist(), *order[-_SAMPLED:].tolist()})
        agreement = _correlation(values[some], np.asarray(evidence([known[i] for i in some]), dtype=float))
    if abs(agreement) < _AGREES:
        if falls > -_FALLS or len(known) < _FEWEST_DISTANCES:
            return Standing(usable) if evidence is None else Standing([0.0] * len(usable), True)
        agreement = -1.0
    if agreement < 0:
        usable = [None if score is None else -score for score in usable]
    return Standing(usable, True)


def asked_or_not(scores: Sequence[float | None]) -> list[float | None]:
    """The scores, and the middle of them for a node without one: it was not asked, which is no opinion.

    Examples:
        >>> asked_or_not([0.9, None, 0.5])
        [0.9, 0.7, 0.5]
    """
    known = [score for score in scores if score is not None]
    return [float(np.median(known)) if s is None else s for s in scores] if known else list(scores)


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Of the ranks (Spearman's); 0 where one of them has no order."""
    ranks = [np.searchsorted(np.sort(x), x) + np.searchsorted(np.sort(x), x, "right") for x in (a, b)]
    centered = [r - r.mean() for r in ranks]
    size = float(np.sqrt((centered[0] ** 2).sum() * (centered[1] ** 2).sum()))
    return float(centered[0] @ centered[1]) / size if size else 0.0
