"""Model folders: ``model.safetensors`` (tables as 8-bit rows) and ``config.json``; never pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.ops import Floats, Tensors
from sage_core.errors import ModelError

FORMAT = 1
MODEL_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
SCALE = ".scale"


def read_folder(
    folder: Path, *, names: Collection[str] | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """A model's configuration and its tensors as they are stored; those of ``names`` alone, where given.

    Raises:
        ModelError: Where a file is missing, damaged or of a format this version does not know.
    """
    from safetensors import SafetensorError, safe_open

    try:
        config = json.loads((folder / CONFIG_FILE).read_bytes())
        with safe_open(str(folder / MODEL_FILE), framework="numpy") as file:
            stored = {name: file.get_tensor(name) for name in (names or file.keys())}
    except OSError as error:
        raise ModelError(
            f"{folder} holds no model: {error}. A model folder has {MODEL_FILE} and {CONFIG_FILE}"
        ) from error
    except (ValueError, SafetensorError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"the model in {folder} is damaged: {error}; copy or train it again") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ModelError(
            f"{folder / CONFIG_FILE} is not of format {FORMAT}; update sage-rag or train it again"
        )
    return config, stored


def load_folder(folder: Path) -> tuple[dict[str, Any], Tensors, str]:
    """A model's configuration, tensors as float32, and SHA-256 over both files; as `read_folder`."""
    config, stored = read_folder(folder)
    try:
        tensors = {name: restored(stored, name) for name in stored if not name.endswith(SCALE)}
    except ModelError as error:
        raise ModelError(f"{folder / MODEL_FILE}: {error}") from error
    canonical = json.dumps(config, sort_keys=True, ensure_ascii=False).encode(errors="surrogatepass")
    raw = (folder / MODEL_FILE).read_bytes()
    return config, tensors, hashlib.sha256(canonical + b"\0" + raw).hexdigest()


def require(
    tensors: Mapping[str, np.ndarray[Any, Any]], shapes: Mapping[str, tuple[int, ...] | None]
) -> None:
    """Raise ModelError unless tensors of these names and shapes (None: any) are there and finite."""
    for name, shape in shapes.items():
        if name not in tensors:
            raise ModelError(f"the model lacks the tensor {name!r}; train it again or use the bundled one")
        if shape is not None and tensors[name].shape != shape:
            raise ModelError(
                f"the tensor {name!r} has shape {tensors[name].shape}, its configuration says {shape}"
            )
        if not np.isfinite(tensors[name]).all():
            raise ModelError(f"the tensor {name!r} holds values that are not finite; train the model again")


class Rows:
    """A table of 8-bit rows, of which only those that are looked up become float32.

    Examples:
        >>> table = Rows(np.array([[2, 4], [3, 0]], np.int8), np.array([0.5, 1.0], np.float16))
        >>> table[np.array([1, 0])].tolist()
        [[3.0, 0.0], [1.0, 2.0]]

    Args:
        rows: The rows, shape ``(n, size)``.
        scale: What each row is multiplied with, shape ``(n,)``.
    """

    def __init__(self, rows: np.ndarray[Any, Any], scale: np.ndarray[Any, Any]) -> None:
        self.shape: tuple[int, ...] = rows.shape
        self._rows = rows
        self._scale = scale.astype(np.float32)[:, None]

    @classmethod
    def of(cls, stored: Mapping[str, np.ndarray[Any, Any]], name: str) -> Rows:
        """The table of that name; ModelError where it or its scale is missing, or they do not fit."""
        require(stored, {name: None, name + SCALE: None})
        rows, scale = stored[name], stored[name + SCALE]
        if rows.ndim != 2 or rows.dtype != np.int8 or scale.shape != rows.shape[:1]:
            raise ModelError(f"the scales of the table {name!r} do not fit it; copy or train the model again")
        return cls(rows, scale)

    def __getitem__(self, ids: NDArray[np.intp]) -> Floats:
        result: Floats = self._rows[ids].astype(np.float32)
        result *= self._scale[ids]
        return result


def restored(stored: Mapping[str, np.ndarray[Any, Any]], name: str) -> Floats:
    """A stored tensor as float32, times its scales where it has any; ModelError where these do not fit."""
    value: Floats = stored[name].astype(np.float32)
    if stored[name].dtype == np.uint8:  # Two numbers of 4 bits in a byte, those of a row's halves.
        value = np.concatenate([stored[name] & 15, stored[name] >> 4], axis=-1).astype(np.float32) - 8
    scale = stored.get(name + SCALE)
    if scale is None:
        return value
    groups = scale.shape[1] if scale.ndim == 2 else 1
    if (
        value.ndim != 2
        or not value.size
        or scale.shape[:1] != value.shape[:1]
        or not groups
        or value.shape[1] % groups
    ):
        raise ModelError(f"the scales of the table {name!r} do not fit it; copy or train the model again")
    parts = value.reshape(len(value), groups, -1)
    parts *= scale.astype(np.float32).reshape(len(value), groups, 1)
    return value
