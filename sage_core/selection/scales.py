"""Scores of candidates: which of them are usable, their order, and what a quotient of two means.

Scores carry their scale, because a rule on ratios means something only where 0 is "no evidence" and a
quotient is a quotient. `to_ratio_scale` is the documented map of each scale to such numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from sage_core.errors import InputError

Scale = Literal["probability", "logit", "cosine", "unbounded"]
SCALES: tuple[Scale, ...] = get_args(Scale)

# Cosines of one candidate list that differ by less than this are one score with rounding noise.
FLAT_SPREAD = 1e-6


def check_scale(scale: str) -> None:
    """Raise InputError for an unknown scale."""
    if scale not in SCALES:
        raise InputError(f"unknown score scale {scale!r}: one of {', '.join(SCALES)}")


def plain_scores(scores: Iterable[Any]) -> list[float | None]:
    """Scores as Python floats; None stays.

    Args:
        scores: One per candidate: numbers and None in any iterable, or a one-dimensional NumPy array.

    Raises:
        InputError: For anything else. Text is refused even where it reads as a number.
    """
    if isinstance(scores, str | bytes | Mapping) or not isinstance(scores, Iterable):
        raise InputError(f"scores are a list of numbers, one per candidate, not {type(scores).__name__}")
    return [None if score is None else _plain(score, position) for position, score in enumerate(scores)]


def _plain(score: Any, position: int) -> float:
    try:
        if isinstance(score, str | bytes):
            raise TypeError
        return float(score)
    except (TypeError, ValueError):  # ValueError: an array of several numbers
        raise InputError(f"score {position} is {score!r}: a score is a number, or None") from None


def usable_scores(scores: Iterable[Any]) -> list[float | None]:
    """`plain_scores`, with None also for NaN and -inf, which are no evidence at all.

    Raises:
        InputError: As `plain_scores`.
    """
    return [
        None if score is None or math.isnan(score) or score == -math.inf else score
        for score in plain_scores(scores)
    ]


def rank_order(scores: Iterable[float | None]) -> list[int]:
    """Positions of ``scores`` from best to worst: stable on ties, None, NaN and -inf last.

    Raises:
        InputError: As `usable_scores`.
    """
    keys = [-math.inf if score is None else score for score in usable_scores(scores)]
    return sorted(range(len(keys)), key=keys.__getitem__, reverse=True)


def to_ratio_scale(scores: Sequence[float], scale: Scale) -> list[float]:
    """Map scores to numbers >= 0 whose quotients mean something.

    - ``probability``: itself, clipped to 0..1.
    - ``logit``: odds relative to the best, ``exp(s - max)``. Adding a constant to every logit changes
      nothing, and a ratio of g is a drop of ``-ln(g)`` logits. A sigmoid would flatten the top instead.
    - ``cosine``: min-max within the list, because the cosines of one embedding model crowd a narrow band
      (neighbours differ by 3%) and a raw ratio never falls. A spread under `FLAT_SPREAD` gives all 1.
    - ``unbounded`` (BM25, the paper's own reranker): itself; at or below 0 there is no evidence.

    Args:
        scores: Any order; finite or +inf.
        scale: What the numbers are.

    Returns:
        As many numbers, in the same order.

    Raises:
        InputError: For an unknown scale.
    """
    check_scale(scale)
    scores = [float(score) for score in scores]
    if not scores:
        return []
    high, low = max(scores), min(scores)
    if scale == "probability":
        return [min(max(s, 0.0), 1.0) for s in scores]
    if scale == "unbounded":
        return [max(s, 0.0) for s in scores]
    if scale == "logit":
        return [1.0 if s == high else math.exp(s - high) for s in scores]
    spread = high - low
    if spread < FLAT_SPREAD:
        return [1.0] * len(scores)
    if math.isinf(spread):
        return [1.0 if s == high else 0.0 for s in scores]
    return [(s - low) / spread for s in scores]
