"""Cross-encoders as small folders: a BERT whose matrices are 8-bit rows, unpacked when loaded; numpy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.encoder import MINILM, load_encoder
from sage_core.embedding.ops import linear
from sage_core.embedding.storage import CONFIG_FILE
from sage_core.errors import InputError, ModelError
from sage_core.text.wordpiece import TOKENIZER_FILE

BUNDLED = MINILM.name
"""Name of the cross-encoder that comes with this package."""

BUNDLED_FOLDER = MINILM

KIND = "cross-encoder"
_LONGEST = 256  # Word pieces of a pair, where nobody says.
_PAIRS = 256  # Whose word pieces are in memory at a time.


def is_packed(folder: Path) -> bool:
    """Whether a folder holds what `sage_train.folders.pack` writes."""
    try:
        config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and config.get("kind") == KIND


class PackedCrossEncoder:
    """A packed cross-encoder, unpacked and ready. It runs on the CPU.

    Args:
        folder: What `sage_train.folders.pack` wrote.
        device: ``"cpu"`` or None.
        max_length: Most word pieces of a pair; beyond, the longer of the two is read by its beginning. None
            for 256.

    Raises:
        InputError: For another device.
        ModelError: Where the folder does not hold such a model.
    """

    def __init__(self, folder: Path, *, device: str | None = None, max_length: int | None = None) -> None:
        if device not in (None, "cpu"):
            raise InputError(
                f"the packed cross-encoder {folder.name!r} runs on the CPU, not on {device!r}: leave "
                "device out, or give the name of a cross-encoder that sentence-transformers loads"
            )
        from tokenizers import Tokenizer

        model = load_encoder(folder)
        if model.config.get("kind") != KIND:
            raise ModelError(f"{folder} does not hold a packed cross-encoder")
        self._encoder = model.encoder
        self._head = model.head("classifier", 1)
        self._tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
        longest = min(max_length or _LONGEST, self._encoder.max_tokens)
        self._tokenizer.enable_truncation(longest, strategy="longest_first")

    def predict(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """One raw logit per pair of question and text, shape ``(len(pairs),)``."""
        logits = np.zeros(len(pairs), dtype=np.float32)
        order = np.argsort([len(query) + len(text) for query, text in pairs], kind="stable")
        for at in range(0, len(order), _PAIRS):
            portion = order[at : at + _PAIRS]
            encoded = self._tokenizer.encode_batch([pairs[i] for i in portion])
            ids, kinds = [one.ids for one in encoded], [one.type_ids for one in encoded]
            for rows, first, _ in self._encoder.passes(ids, kinds, first_only=True):
                pooled = self._encoder.pooled(first)
                logits[portion[rows]] = linear(pooled, self._head, "classifier")[:, 0]
        return logits
