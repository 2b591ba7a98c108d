"""Calibration: a scale and a shift of the logit, so that P(same) means what it says (Platt 1999)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sage_train.metrics import Bools, Values


def platt(logits: Values, same: Bools, *, steps: int = 50) -> tuple[float, float]:
    """Maximum likelihood ``(scale, shift)`` of ``P(same) = sigmoid(scale * logit + shift)``, by Newton steps.

    A weak prior towards ``(1, 0)`` keeps it finite where the classes are perfectly apart or one is absent.
    """
    x = np.stack([logits.astype(np.float64), np.ones(len(logits))], axis=1)
    y = same.astype(np.float64)
    start = np.array([1.0, 0.0])
    beta = start.copy()
    for _ in range(steps):
        p = _sigmoid(x @ beta)
        gradient = x.T @ (p - y) + (beta - start)
        hessian = (x * (p * (1 - p))[:, None]).T @ x + np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        beta -= step * min(1.0, 5.0 / max(1e-12, float(np.abs(step).max())))
        if np.abs(step).max() < 1e-9:
            break
    return float(max(beta[0], 1e-3)), float(beta[1])


def expected_calibration_error(probabilities: Values, same: Bools, *, bins: int = 15) -> float:
    """Mean gap between P(same) and the share that is the same, over bins of equal count."""
    order = np.argsort(probabilities, kind="stable")
    groups = np.array_split(order, min(bins, len(order)) or 1)
    gaps = [abs(float(probabilities[g].mean()) - float(same[g].mean())) * len(g) for g in groups if len(g)]
    return sum(gaps) / max(1, len(order))


def _sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 * (1.0 + np.tanh(0.5 * x))
