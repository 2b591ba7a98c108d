"""Whether a text says yes to a question or supports a claim: a small BERT with one logit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.encoder import MINILM, load_encoder
from sage_core.embedding.ops import linear
from sage_core.text.wordpiece import TOKENIZER_FILE

FOLDER = MINILM.with_name("sage-entailment")
"""Weights of its own in the upper layers; the others are those of the bundled cross-encoder."""

_PIECES = 256  # Word pieces of a pair, as in training.


class Entailment:
    """Reads a claim, or a question for yes or no, beside a text. English; no LLM; safe across threads.

    Trained by ``training/train_entailment.py``; see the model card in its folder.

    Args:
        folder: A model's folder.

    Raises:
        ModelError: Where the files are missing or damaged.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        from tokenizers import Tokenizer

        model = load_encoder(folder)
        self._encoder = model.encoder
        self._head = model.head("affirms", 1)
        self._tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
        self._tokenizer.enable_truncation(_PIECES, strategy="longest_first")

    def logits(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Of claim or question, and text: above 0 where the text supports it; shape ``(len(pairs),)``."""
        encoded = self._tokenizer.encode_batch(list(pairs))
        logits = np.zeros(len(pairs), np.float32)
        ids, kinds = [one.ids for one in encoded], [one.type_ids for one in encoded]
        for rows, states, _ in self._encoder.passes(ids, kinds, first_only=True):
            logits[rows] = linear(self._encoder.pooled(states), self._head, "affirms")[:, 0]
        return logits
