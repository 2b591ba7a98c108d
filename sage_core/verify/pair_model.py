"""The model of the local judge: a BERT that reads a pair of texts, with three heads.

It is the bundled cross-encoder (``ranking/weights/sage-minilm``), whose file also holds the heads of the
judge.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Spans:
    """Where an answer may stand in a text.

    Attributes:
        start: First character of the best one.
        end: Behind its last character.
        margin: Its two logits less those of "no answer".
        places: Characters of each word piece, shape ``(n, 2)``.
        odds: Logits that an answer begins and ends there, less those of "no answer", shape ``(n, 2)``.
    """

    start: int
    end: int
    margin: float
    places: NDArray[np.int64]
    odds: NDArray[np.float32]


_NOWHERE = Spans(0, 0, float("-inf"), np.zeros((0, 2), np.int64), np.zeros((0, 2), np.float32))


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

    def spans(self, pairs: Sequence[tuple[str, str]]) -> tuple[NDArray[np.float32], list[Spans]]:
        """As `logits`, and where in each second text the answer may stand."""
        return self._run(pairs, spans=True)

    def _run(
        self, pairs: Sequence[tuple[str, str]], *, spans: bool
    ) -> tuple[NDArray[np.float32], list[Spans]]:
        encoded = self._tokenizer.encode_batch(list(pairs))
        logits = np.zeros((len(pairs), 3), np.float32)
        places = [_NOWHERE] * len(pairs)
        ids, kinds = [one.ids for one in encoded], [one.type_ids for one in encoded]
        for rows, states, starts in self._encoder.passes(ids, kinds, first_only=not spans):
            pooled = self._encoder.pooled(states[starts])
            logits[rows, :RELEVANT] = linear(pooled, self._heads, "heads")
            logits[rows, RELEVANT:] = linear(pooled, self._heads, "classifier")
            if spans:
                tokens = linear(states, self._heads, "span")
                for i, start in zip(rows, starts, strict=True):
                    places[i] = _spans(tokens[start : start + len(ids[i])], encoded[i])
        return logits, places


def _spans(tokens: NDArray[np.float32], encoded: Any, longest: int = 30) -> Spans:
    inside = np.flatnonzero((np.array(encoded.type_ids) == 1) & (np.array(encoded.special_tokens_mask) == 0))
    if not inside.size:
        return _NOWHERE
    odds = tokens[inside] - tokens[0]
    best, where = -np.inf, (0, 0)
    for i in np.argsort(-odds[:, 0])[:20]:
        j = int(i + np.argmax(odds[i : i + longest, 1]))
        if odds[i, 0] + odds[j, 1] > best:
            best, where = float(odds[i, 0] + odds[j, 1]), (int(i), j)
    places = np.array(encoded.offsets)[inside]
    return Spans(int(places[where[0], 0]), int(places[where[1], 1]), best, places, odds)
