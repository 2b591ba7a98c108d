"""Model folders written, tables as 8-bit rows; `sage_core.embedding.storage` reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from sage_core.embedding.ops import Floats, Tensors
from sage_core.embedding.storage import CONFIG_FILE, FORMAT, MODEL_FILE, SCALE


def save_folder(
    folder: Path,
    config: dict[str, Any],
    tensors: Tensors,
    *,
    tables: Sequence[str] = (),
    groups: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Write a model.

    Args:
        folder: Made where it does not exist.
        config: Plain data for ``config.json``.
        tensors: The weights; stored as float16.
        tables: Names of those stored as 8-bit integers with one scale a row.
        groups: Of some of them, how many numbers of a row share a scale; else the whole row.
    """
    from safetensors.numpy import save_file

    stored: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in tensors.items():
        if name in tables:
            stored[name], stored[name + SCALE] = quantize_rows(value, groups.get(name))
        else:
            stored[name] = np.ascontiguousarray(value, dtype=np.float16)
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
