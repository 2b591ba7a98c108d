"""Model folders written, tables as 8-bit rows; `sage_core.embedding.storage` reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sage_core.embedding.ops import Floats, Tensors
from sage_core.embedding.sentence_transformer import quiet_loading
from sage_core.embedding.storage import CONFIG_FILE, FORMAT, MODEL_FILE, SCALE
from sage_core.ranking.packed import KIND

_SETTINGS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "hidden_act",
)


def save_folder(
    folder: Path,
    config: dict[str, Any],
    tensors: Tensors,
    *,
    tables: Sequence[str] = (),
    group: int | None = None,
) -> None:
    """Write a model.

    Args:
        folder: Made where it does not exist.
        config: Plain data for ``config.json``.
        tensors: The weights; stored as float16.
        tables: Names of those stored as 8-bit integers with one scale a row.
        group: Numbers of a row of a table that share a scale; all where None.
    """
    from safetensors.numpy import save_file

    stored: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in tensors.items():
        if name in tables:
            stored[name], stored[name + SCALE] = quantize_rows(value, group)
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


def pack(source: Path, target: Path, about: dict[str, Any] | None = None) -> None:
    """Write a trained cross-encoder as a packed folder, a quarter of its size.

    Args:
        source: A folder of transformers with a BERT for sequence classification with one output, on the
            uncased English vocabulary.
        target: Where to write ``model.safetensors`` and ``config.json``.
        about: Added to the configuration, for the record.
    """
    from transformers import AutoModelForSequenceClassification

    with quiet_loading():
        model = AutoModelForSequenceClassification.from_pretrained(source, use_safetensors=True)
    tensors = {name: value.float().numpy() for name, value in model.state_dict().items()}
    tables = [n for n, v in tensors.items() if v.ndim == 2 and len(v) > 1]
    bert = {name: getattr(model.config, name) for name in _SETTINGS}
    save_folder(target, {**(about or {}), "kind": KIND, "bert": bert}, tensors, tables=tables)
