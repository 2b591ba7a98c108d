"""Model folders written, tables as 8-bit rows; `sage_core.embedding.storage` reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from sage_core.embedding.encoder import MINILM
from sage_core.embedding.ops import Floats, Tensors
from sage_core.embedding.storage import CONFIG_FILE, FORMAT, MODEL_FILE, SCALE, load_folder


def save_folder(
    folder: Path,
    config: dict[str, Any],
    tensors: Tensors,
    *,
    tables: Sequence[str] = (),
    groups: Mapping[str, int] = MappingProxyType({}),
    steps: Mapping[str, float] = MappingProxyType({}),
    dtype: type[np.floating[Any]] = np.float16,
) -> None:
    """Write a model.

    Args:
        folder: Made where it does not exist.
        config: Plain data for ``config.json``.
        tensors: The weights.
        tables: Names of those stored as 8-bit integers with one scale a row.
        groups: Of some of them, how many numbers of a row share a scale; else the whole row.
        steps: Of those stored as 4-bit integers, how coarsely: see `quantize_differences`.
        dtype: Of those that are stored as they are.
    """
    from safetensors.numpy import save_file

    stored: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in tensors.items():
        if name in steps:
            stored[name], stored[name + SCALE] = quantize_differences(value, steps[name])
        elif name in tables:
            stored[name], stored[name + SCALE] = quantize_rows(value, groups.get(name))
        else:
            stored[name] = np.ascontiguousarray(value, dtype=dtype)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(stored, folder / MODEL_FILE)
    text = json.dumps({"format": FORMAT, **config}, indent=2, sort_keys=True, ensure_ascii=False)
    (folder / CONFIG_FILE).write_text(text + "\n", encoding="utf-8")
    # safetensors makes its file readable by the owner alone.
    (folder / MODEL_FILE).chmod((folder / CONFIG_FILE).stat().st_mode)


def quantize_rows(
    table: Floats, group: int | None = None
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """``(rows as int8, scales as float16)`` such that rows times scales are close to ``table``.

    Args:
        table: A matrix, shape ``(n, size)``.
        group: Numbers of a row that share a scale, a divisor of ``size``; the whole row where None.

    Returns:
        The scales have the shape ``(n,)``, or ``(n, size / group)``.
    """
    parts = table.reshape(len(table), -1, group or table.shape[1])
    scale = np.maximum((np.abs(parts).max(axis=2) / 127.0).astype(np.float16), np.float16(1e-6))
    rows = np.clip(np.rint(parts / scale.astype(np.float32)[:, :, None]), -127, 127)
    return rows.astype(np.int8).reshape(table.shape), scale if group else scale[:, 0]


def quantize_differences(table: Floats, step: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A matrix as 4-bit integers, two in a byte, and the scale of each row.

    Args:
        table: Shape ``(n, size)``, ``size`` even.
        step: The scale in root mean squares of the row. The larger it is, the better a wheel compresses what
            is left: most of it 0, 1 and -1.
    """
    scale = np.maximum(step * np.sqrt((table**2).mean(axis=1)), 1e-6).astype(np.float16)
    sizes = np.abs(table) / scale.astype(np.float32)[:, None]
    # Rounded down from .6 on, not .5: less error for the same number of compressed bytes.
    rows = np.clip(np.copysign(np.floor(sizes + 0.4), table), -7, 7)
    left, right = np.split((rows + 8).astype(np.uint8), 2, axis=1)
    return left | right << 4, scale


def save_difference(
    folder: Path, config: dict[str, Any], tensors: Tensors, step: Callable[[str], float]
) -> None:
    """Write a model that was trained from the bundled all-MiniLM-L6-v2 as its difference from it.

    The difference is a tenth of what it is added to, so that 4 bits hold it as well as 8 bits the whole.

    Args:
        folder: Made where it does not exist.
        config: Plain data for ``config.json``.
        tensors: The trained weights; those that the bundled model lacks are stored whole.
        step: Of the rounding of each matrix, see `quantize_differences`.
    """
    start = load_folder(MINILM)[1]
    own = {name: value - start[name] if name in start else value for name, value in tensors.items()}
    matrices = [name for name, value in own.items() if value.ndim == 2 and len(value) > 2]
    steps = {name: step(name) for name in matrices if name in start}
    tables = [name for name in matrices if name not in start]
    save_folder(folder, {**config, "difference_from": MINILM.name}, own, tables=tables, steps=steps)
