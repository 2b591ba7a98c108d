"""A small BERT that reads two texts together: one logit for the pair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.encoder import load_encoder
from sage_core.embedding.ops import linear
from sage_core.errors import ModelError
from sage_core.text.wordpiece import TOKENIZER_FILE

PAIR_TOKENS = 256
"""Word pieces of a pair, as in training; beyond, the longer of the two is read by its beginning."""
SHORTEST_PAIR = 5
"""Word pieces of the shortest pair: three marks, and one of each text."""
_PAIRS = 256  # Whose word pieces are in memory at a time.


class PairEncoder:
    """A packed model with one linear head. Runs on the CPU; safe across threads.

    Args:
        folder: A model's folder.
        head: Name of the head's tensors.
        outputs: Logits of the head.
        max_tokens: Most word pieces of a pair.

    Raises:
        ModelError: Where the files are missing, damaged or of another kind.
    """

    def __init__(self, folder: Path, head: str, outputs: int = 1, max_tokens: int = PAIR_TOKENS) -> None:
        from tokenizers import Tokenizer

        model = load_encoder(folder)
        self.config = model.config
        self._encoder = model.encoder
        self._head_name, self._head = head, model.head(head, outputs)
        self._tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
        longest = min(max_tokens, self._encoder.max_tokens)
        if longest < SHORTEST_PAIR or self._encoder.kinds < 2:
            raise ModelError(
                f"the model in {folder} reads no pairs: it has {self._encoder.max_tokens} positions "
                f"and tells {self._encoder.kinds} texts apart"
            )
        self._tokenizer.enable_truncation(longest, strategy="longest_first")

    def logits(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """The head's first logit over the pooled first position, shape ``(len(pairs),)``."""
        result = np.zeros(len(pairs), np.float32)
        order = np.argsort([len(first) + len(second) for first, second in pairs], kind="stable")
        for at in range(0, len(order), _PAIRS):
            portion = order[at : at + _PAIRS]
            encoded = self._tokenizer.encode_batch([pairs[i] for i in portion])
            ids, kinds = [one.ids for one in encoded], [one.type_ids for one in encoded]
            for rows, first, _ in self._encoder.passes(ids, kinds, first_only=True):
                result[portion[rows]] = linear(self._encoder.pooled(first), self._head, self._head_name)[:, 0]
        return result
