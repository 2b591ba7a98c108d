"""The model of the local judge: a BERT that reads a pair of texts, with three heads.

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

from sage_core.embedding.encoder import MINILM, load_encoder
from sage_core.embedding.ops import linear
from sage_core.text.wordpiece import TOKENIZER_FILE

FOLDER = MINILM
ANSWERABLE, SUPPORTED, RELEVANT = 0, 1, 2
_LONGEST = 144  # Word pieces of a pair, as in training.
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

    Raises:
        ModelError: Where the files are missing, damaged or of another kind.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        from tokenizers import Tokenizer

        model = load_encoder(folder)
        self._encoder = model.encoder
        self._heads = {**model.head("heads", 2), **model.head("classifier", 1), **model.head("span", 2)}
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
        return self._run(pairs, spans=True)

    def _run(
        self, pairs: Sequence[tuple[str, str]], *, spans: bool
    ) -> tuple[NDArray[np.float32], list[tuple[int, int, float]]]:
        encoded = self._tokenizer.encode_batch(list(pairs))
        logits = np.zeros((len(pairs), 3), np.float32)
        places: list[tuple[int, int, float]] = [(0, 0, 0.0)] * len(pairs)
        ids, kinds = [one.ids for one in encoded], [one.type_ids for one in encoded]
        for rows, states, starts in self._encoder.passes(ids, kinds, first_only=not spans):
            pooled = self._encoder.pooled(states[starts])
            logits[rows, :RELEVANT] = linear(pooled, self._heads, "heads")
            logits[rows, RELEVANT:] = linear(pooled, self._heads, "classifier")
            if spans:
                tokens = linear(states, self._heads, "span")
                for i, start in zip(rows, starts, strict=True):
                    places[i] = _best_span(tokens[start : start + len(ids[i])], encoded[i])
        return logits, places


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
