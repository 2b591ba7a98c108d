"""The model of the local judge: a BERT that reads a pair of texts, with three heads. Needs torch.

It is the bundled cross-encoder (``ranking/weights/sage-minilm``), whose file also holds the heads of the
judge.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.bert import Bert, computes_bfloat16
from sage_core.errors import MissingExtraError, ModelError
from sage_core.text.wordpiece import TOKENIZER_FILE

FOLDER = Path(__file__).parents[1] / "ranking" / "weights" / "sage-minilm"
ANSWERABLE, SUPPORTED, RELEVANT = 0, 1, 2
_LONGEST = 144  # Word pieces of a pair, as in training.
_BATCH_TOKENS = 4_096
_PADDED = 1.2  # Longest of a batch to its shortest: padding is computed like text.
_HEADS = "heads.weight"


def has_heads(folder: Path = FOLDER) -> bool:
    """Whether the folder's model has the heads of the judge."""
    try:
        with (folder / "model.safetensors").open("rb") as file:
            header = file.read(int.from_bytes(file.read(8), "little"))
        return _HEADS in json.loads(header)
    except (OSError, ValueError):
        return False


class PairModel:
    """Reads pairs of a question or a claim and a passage.

    Args:
        folder: A packed model with heads.
        bfloat16: Whether to compute with it; None: where the processor does, which takes a little more than
            half the time and moves logits by some 0.01.

    Raises:
        MissingExtraError: Where torch is not installed.
        ModelError: Where the files are missing, damaged or of another kind.
    """

    def __init__(self, folder: Path = FOLDER, *, bfloat16: bool | None = None) -> None:
        try:
            import torch  # noqa: F401 (says whether it is there)
        except ImportError as error:
            raise MissingExtraError("the local judge's model", "models") from error
        from tokenizers import Tokenizer

        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["bert"]
            weights = _unpacked((folder / "model.safetensors").read_bytes())
            weights[_HEADS]
            half = computes_bfloat16() if bfloat16 is None else bfloat16
            self._bert = Bert(weights, config, bfloat16=half)
        except Exception as error:
            raise ModelError(f"{folder} does not hold a model of the local judge ({error!r})") from error
        self._tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
        self._tokenizer.enable_truncation(_LONGEST, strategy="longest_first")

    def logits(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Raw logits, shape ``(len(pairs), 3)``: the second text answers, supports, suits the first."""
        return self._run(pairs, spans=False)[0]

    def spans(
        self, pairs: Sequence[tuple[str, str]]
    ) -> tuple[NDArray[np.float32], list[tuple[int, int, float]]]:
        """As `logits`, and per pair the best answer in its second text.

        Returns:
            The logits, and ``(start, end, margin)``: characters of the second text, and the sum of the two
            logits less that of "no answer".
        """
        logits, found = self._run(pairs, spans=True)
        return logits, found

    def _run(
        self, pairs: Sequence[tuple[str, str]], *, spans: bool
    ) -> tuple[NDArray[np.float32], list[tuple[int, int, float]]]:
        import torch

        encoded = self._tokenizer.encode_batch(list(pairs))
        logits = np.zeros((len(pairs), 3), np.float32)
        found: list[tuple[int, int, float]] = [(0, 0, 0.0)] * len(pairs)
        order = sorted(range(len(pairs)), key=lambda i: len(encoded[i].ids))
        with torch.inference_mode():
            for rows in _batches(order, [len(e.ids) for e in encoded]):
                pooled, hidden = self._bert.read([encoded[i] for i in rows], whole=spans)
                logits[rows, :RELEVANT] = self._bert.linear(pooled, "heads").numpy()[:, :RELEVANT]
                logits[rows, RELEVANT:] = self._bert.linear(pooled, "classifier").numpy()
                if spans:
                    tokens = self._bert.linear(hidden, "span").numpy()
                    for row, i in enumerate(rows):
                        found[i] = _best_span(tokens[row], encoded[i])
        return logits, found


def _unpacked(raw: bytes) -> dict[str, NDArray[np.float32]]:
    """Tensors as float32; those stored as 8-bit rows times the scale of each row."""
    from safetensors.numpy import load

    stored = load(raw)
    result = {}
    for name, value in stored.items():
        if not name.endswith(".scale"):
            scale = stored.get(f"{name}.scale")
            whole = value.astype(np.float32)
            result[name] = whole if scale is None else whole * scale.astype(np.float32)[:, None]
    return result


def _batches(order: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Positions of pairs of like length that share a forward pass."""
    batches: list[list[int]] = []
    for i in order:
        # The order is ascending, so this pair is the longest of its batch.
        batch = batches[-1] if batches else []
        padded = bool(batch) and lengths[i] > _PADDED * lengths[batch[0]]
        if not batch or padded or (len(batch) + 1) * lengths[i] > _BATCH_TOKENS:
            batches.append([])
        batches[-1].append(i)
    return batches


def _best_span(tokens: NDArray[np.float32], encoded: Any, longest: int = 30) -> tuple[int, int, float]:
    """Characters of the best span of the second text, and how far it is above "no answer"."""
    inside = np.array(encoded.type_ids) == 1
    inside &= np.array(encoded.special_tokens_mask) == 0
    if not inside.any():
        return 0, 0, float("-inf")
    starts, ends = (np.where(inside, tokens[: len(inside), k], -np.inf) for k in (0, 1))
    best, where = -np.inf, (0, 0)
    for i in np.argsort(-starts)[:20]:
        if not np.isfinite(starts[i]):
            break
        j = int(i + np.argmax(ends[i : i + longest]))
        if starts[i] + ends[j] > best:
            best, where = float(starts[i] + ends[j]), (int(i), j)
    margin = best - float(tokens[0].sum())
    return encoded.offsets[where[0]][0], encoded.offsets[where[1]][1], margin
