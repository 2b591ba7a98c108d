"""The few array operations that the bundled models are made of. Everything is float32."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Tensors = dict[str, Floats]

LAYER_NORM_EPSILON = 1e-5
NORM_FLOOR = 1e-4  # least length a vector is divided by


def linear(x: Floats, tensors: Tensors, name: str) -> Floats:
    """``x @ weight + bias`` with the layer's weight of shape (in, out)."""
    result: Floats = x @ tensors[f"{name}.weight"]
    result += tensors[f"{name}.bias"]
    return result


def layer_norm(x: Floats, tensors: Tensors, name: str, epsilon: float = LAYER_NORM_EPSILON) -> Floats:
    """Layer norm over the last axis."""
    centered: Floats = x - x.mean(-1, keepdims=True)
    variance = np.einsum("...d,...d->...", centered, centered) / x.shape[-1]
    centered *= (1.0 / np.sqrt(variance + epsilon))[..., None]
    centered *= tensors[f"{name}.weight"]
    centered += tensors[f"{name}.bias"]
    return centered


def relu(x: Floats) -> Floats:
    """``max(x, 0)``, in place."""
    return np.maximum(x, 0.0, out=x)


def sigmoid(x: Floats) -> Floats:
    """Logistic function, without overflow at either end."""
    result: Floats = (0.5 * (1.0 + np.tanh(0.5 * x))).astype(np.float32)
    return result


def unit_rows(x: Floats) -> Floats:
    """Rows scaled to length 1; rows of zeros stay zeros."""
    norms = np.sqrt(np.einsum("...d,...d->...", x, x))[..., None]
    result: Floats = x / np.maximum(norms, NORM_FLOOR)
    return result
