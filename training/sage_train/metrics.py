"""How good boundaries are (ROC AUC, F1, windowed errors), and what their probabilities mean (Platt 1999)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.errors import InputError

Bools = NDArray[np.bool_]
Values = NDArray[np.floating[Any]]


def roc_auc(labels: Bools, scores: Values) -> float:
    """Chance that a random positive scores above a random negative (ties count half).

    Raises:
        InputError: Where one of the two classes is absent.
    """
    positives = int(labels.sum())
    negatives = len(labels) - positives
    if not positives or not negatives:
        raise InputError("ROC AUC needs both classes")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2.0
    total = float(ranks[inverse][labels].sum())
    return (total - positives * (positives + 1) / 2.0) / (positives * negatives)


def f1(labels: Bools, predicted: Bools) -> float:
    """F1 of the positive class; 0 where nothing is found."""
    found = int((labels & predicted).sum())
    return 2.0 * found / max(1, int(labels.sum()) + int(predicted.sum()))


def best_f1(labels: Bools, scores: Values) -> tuple[float, float]:
    """``(F1, threshold)`` of the rule ``score >= threshold`` that has the highest F1."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(labels[order])
    values = 2.0 * hits / (np.arange(1, len(scores) + 1) + max(1, int(labels.sum())))
    ends = np.append(np.diff(scores[order]) != 0, True)  # only whole groups of equal scores
    best = int(np.argmax(np.where(ends, values, -1.0)))
    return float(values[best]), float(scores[order][best])


def pk(reference: Bools, predicted: Bools, k: int | None = None) -> float:
    """Pk (Beeferman 1999): how often two sentences k apart are wrongly joined or parted. 0 is best.

    Args:
        reference: (n - 1,) true boundaries at the gaps of n sentences.
        predicted: The predicted ones.
        k: Window in sentences; default half the mean reference segment, at least 2.
    """
    real, guess, k = _windows(reference, predicted, k)
    return float(np.mean((real == 0) != (guess == 0))) if len(real) else 0.0


def window_diff(reference: Bools, predicted: Bools, k: int | None = None) -> float:
    """WindowDiff (Pevzner and Hearst 2002): share of windows with a wrong number of boundaries. 0 is best."""
    real, guess, k = _windows(reference, predicted, k)
    return float(np.mean(real != guess)) if len(real) else 0.0


def default_window(reference: Bools) -> int:
    """Half the mean segment length of the reference, in sentences, at least 2."""
    segments = int(reference.sum()) + 1
    return max(2, round((len(reference) + 1) / segments / 2.0))


def _windows(
    reference: Bools, predicted: Bools, k: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Numbers of boundaries in every window of k gaps."""
    if len(reference) != len(predicted):
        raise InputError(f"{len(reference)} reference gaps but {len(predicted)} predicted ones")
    size = min(k or default_window(reference), len(reference))
    counts = []
    for gaps in (reference, predicted):
        total = np.concatenate([[0], np.cumsum(gaps, dtype=np.int64)])
        counts.append(total[size:] - total[:-size] if size else np.zeros(0, np.int64))
    return counts[0], counts[1], size


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
