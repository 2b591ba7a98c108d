"""Logistic models and thresholds of the judge: ``judge.json``."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

COEFFICIENTS = Path(__file__).with_name("judge.json")
"""Logistic models and thresholds, those of support made by ``sage-rag train-support``."""


@lru_cache(maxsize=1)
def coefficients() -> dict[str, Any]:
    """Weights and thresholds by name."""
    loaded: dict[str, Any] = json.loads(COEFFICIENTS.read_text(encoding="utf-8"))
    return loaded


def chance(odds: float) -> float:
    """The probability of log-odds."""
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, odds))))  # beyond 30 `exp` may overflow


def log_odds_of(name: str, values: Sequence[float]) -> float:
    """Log-odds by a logistic model of ``judge.json``."""
    weights: NDArray[np.float64] = np.asarray(coefficients()[name]["weights"])
    # The last weight is the intercept.
    return float(weights[:-1] @ np.asarray(values, dtype=float) + weights[-1])


def log_odds(probability: float) -> float:
    """Log-odds of a probability, cut to 1% and 99%."""
    p = min(0.99, max(0.01, probability))
    return math.log(p / (1 - p))
