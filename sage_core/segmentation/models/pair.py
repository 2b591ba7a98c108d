"""The paper's model: P(same) from two sentences, and what every bundled boundary model is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.ops import Floats, Tensors, linear, relu, sigmoid
from sage_core.embedding.storage import require
from sage_core.segmentation.models.encoder import EncoderConfig, StaticEncoder, Tokens, tokenize

_GAPS_A_BLOCK = 1024


class EncodedModel(ABC):
    """A boundary model over the bundled sentence encoder: a `CountingModel`.

    Args:
        config: ``encoder`` (see ``EncoderConfig``) and ``calibration``, such that P(same) is
            sigmoid(``scale`` * logit + ``shift``).
        tensors: Weights.
        fingerprint: Identifies them.

    Raises:
        ModelError: Where weights and configuration do not fit.
    """

    kind: str
    tokenizer_name = "bert"

    def __init__(self, config: dict[str, Any], tensors: Tensors, fingerprint: str) -> None:
        self.config = config
        self.fingerprint = fingerprint
        self.encoder = StaticEncoder(encoder_config(config), tensors)
        self._tensors = tensors
        calibration = config.get("calibration", {"scale": 1.0, "shift": 0.0})
        self._scale, self._shift = (np.float32(calibration[name]) for name in ("scale", "shift"))

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """P(same) for every pair of neighbors; see ``protocol.BoundaryModel``."""
        return self.probabilities_and_lengths(documents)[0]

    def probabilities_and_lengths(
        self, documents: Sequence[Sequence[str]]
    ) -> tuple[list[NDArray[np.float32]], NDArray[np.int64]]:
        """Also the number of tokens of every sentence; see ``protocol.CountingModel``."""
        sentences = [text for document in documents for text in document]
        tokens = tokenize(sentences, self.encoder.config.max_tokens)
        logits = self._logits(tokens, [len(document) for document in documents])
        return [sigmoid(values * self._scale + self._shift) for values in logits], tokens.full_lengths

    @abstractmethod
    def _logits(self, tokens: Tokens, sizes: Sequence[int]) -> list[Floats]:
        """Logits of the gaps of each document, of ``sizes`` sentences."""


class PairModel(EncodedModel):
    """P(same) from two sentences: the paper's figure 4, an MLP over features (x1, x2, x1 - x2, x1 * x2).

    Its width is ``hidden`` of the configuration.
    """

    kind = "pair"

    def __init__(self, config: dict[str, Any], tensors: Tensors, fingerprint: str) -> None:
        super().__init__(config, tensors, fingerprint)
        size, hidden = self.encoder.size, int(config["hidden"])
        shapes = {"hidden.weight": (4 * size, hidden), "hidden.bias": (hidden,)}
        require(tensors, {**shapes, "output.weight": (hidden, 1), "output.bias": (1,)})
        # W [x1, x2, x1 - x2, x1 * x2] = (Wa + Wc) x1 + (Wb - Wc) x2 + Wd (x1 * x2)
        first, second, difference, product = np.split(tensors["hidden.weight"], 4)
        self._folded = np.concatenate([first + difference, second - difference, product])

    def _logits(self, tokens: Tokens, sizes: Sequence[int]) -> list[Floats]:
        vectors, _ = self.encoder.encode_tokens(tokens)
        left, right = vectors[:-1], vectors[1:]
        values = np.empty(len(left), np.float32)
        for start in range(0, len(left), _GAPS_A_BLOCK):
            rows = slice(start, start + _GAPS_A_BLOCK)
            features = np.concatenate([left[rows], right[rows], left[rows] * right[rows]], axis=1)
            hidden = relu(features @ self._folded + self._tensors["hidden.bias"])
            values[rows] = linear(hidden, self._tensors, "output")[:, 0]
        return by_document(values, sizes)


def by_document(values: Floats, sizes: Sequence[int]) -> list[Floats]:
    """Of all neighbors of all sentences those in each document, of ``sizes`` sentences."""
    # None between the last sentence of a document and the first of the next.
    ends = np.cumsum(sizes)
    return [values[end - size : max(end - 1, end - size)] for end, size in zip(ends, sizes, strict=True)]


def encoder_config(config: dict[str, Any]) -> EncoderConfig:
    """The encoder's part of a model's configuration."""
    return EncoderConfig(**{name: int(value) for name, value in config["encoder"].items()})
