"""Model folders: ``model.safetensors`` (tables as 8-bit rows) and ``config.json``; never pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sage_core.errors import ModelError
from sage_core.segmentation.models.ops import Floats, Tensors

WEIGHTS = Path(__file__).parents[1] / "weights"
FORMAT = 1
MODEL_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
_SCALE = ".scale"


def save_folder(
    folder: Path, config: dict[str, Any], tensors: Tensors, *, tables: Sequence[str] = ()
) -> None:
    """Write a model.

    Args:
        folder: Made where it does not exist.
        config: Plain data for ``config.json``.
        tensors: The weights; stored as float16.
        tables: Names of those stored as 8-bit integers with one scale a row.
    """
    from safetensors.numpy import save_file

    stored: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in tensors.items():
        if name in tables:
            stored[name], stored[name + _SCALE] = quantize_rows(value)
        else:
            stored[name] = np.ascontiguousarray(value, dtype=np.float16)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(stored, folder / MODEL_FILE)
    text = json.dumps({"format": FORMAT, **config}, indent=2, sort_keys=True, ensure_ascii=False)
    (folder / CONFIG_FILE).write_text(text + "\n", encoding="utf-8")
    # safetensors makes its file readable by the owner alone.
    (folder / MODEL_FILE).chmod((folder / CONFIG_FILE).stat().st_mode)


def load_folder(folder: Path) -> tuple[dict[str, Any], Tensors, str]:
    """Read a model.

    Returns:
        Its configuration, its tensors as float32, and the SHA-256 over both files' contents.

    Raises:
        ModelError: Where a file is missing, damaged or of a format this version does not know.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        raw = (folder / MODEL_FILE).read_bytes()
        text = (folder / CONFIG_FILE).read_bytes()
    except OSError as error:
        raise ModelError(
            f"{folder} holds no model: {error}. A model folder has {MODEL_FILE} and {CONFIG_FILE}"
        ) from error
    try:
        config = json.loads(text)
        stored = load(raw)
    except (ValueError, SafetensorError, KeyError, TypeError) as error:
        raise ModelError(f"the model in {folder} is damaged: {error}; copy or train it again") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ModelError(
            f"{folder / CONFIG_FILE} is not of format {FORMAT}; update sage-rag or train it again"
        )
    tensors = {name: _restore(stored, name) for name in stored if not name.endswith(_SCALE)}
    canonical = json.dumps(config, sort_keys=True, ensure_ascii=False).encode()
    return config, tensors, hashlib.sha256(canonical + b"\0" + raw).hexdigest()


def quantize_rows(table: Floats) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """``(rows as int8, scale of each row as float16)`` such that ``rows * scale`` is close to ``table``."""
    scale = (np.abs(table).max(axis=1) / 127.0).astype(np.float16)
    scale = np.maximum(scale, np.float16(1e-6))
    rows = np.clip(np.rint(table / scale.astype(np.float32)[:, None]), -127, 127)
    return rows.astype(np.int8), scale


def _restore(stored: dict[str, np.ndarray[Any, Any]], name: str) -> Floats:
    value = stored[name].astype(np.float32)
    scale = stored.get(name + _SCALE)
    if scale is None:
        return value
    if scale.shape != value.shape[:1]:
        raise ModelError(f"the scales of the table {name!r} do not fit it; copy or train the model again")
    value *= scale.astype(np.float32)[:, None]
    return value
