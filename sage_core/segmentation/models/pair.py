"""The paper's model: P(same) from two sentences, and what every boundary model does with its logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.ops import Floats, Tensors, linear, relu, sigmoid
from sage_core.embedding.storage import require
from sage_core.segmentation.models.encoder import EncoderConfig, StaticEncoder, tokenize

_GAPS_A_BLOCK = 1024


class PairHead:
    """The MLP over features (x1, x2, x1 - x2, x1 * x2), in numpy.

    Args:
        tensors: Weights, among others.
        size: Width of a sentence vector.
        hidden: Width of the MLP.

    Raises:
        ModelError: Where weights are missing or do not fit.
    """

    def __init__(self, tensors: Tensors, size: int, hidden: int) -> None:
        require(
            tensors,
            {
                "hidden.weight": (4 * size, hidden),
                "hidden.bias": (hidden,),
                "output.weight": (hidden, 1),
                "output.bias": (1,),
            },
        )
        self._tensors = tensors
        # W [x1, x2, x1 - x2, x1 * x2] = (Wa + Wc) x1 + (Wb - Wc) x2 + Wd (x1 * x2)
        first, second, difference, product = np.split(tensors["hidden.weight"], 4)
        self._folded = np.concatenate([first + difference, second - difference, product])

    def logits(self, left: Floats, right: Floats) -> Floats:
        """(p,) logits, before calibration, of p pairs of vectors."""
        result = np.empty(len(left), np.float32)
        for start in range(0, len(left), _GAPS_A_BLOCK):
            rows = slice(start, start + _GAPS_A_BLOCK)
            features = np.concatenate([left[rows], right[rows], left[rows] * right[rows]], axis=1)
            hidden = relu(features @ self._folded + self._tensors["hidden.bias"])
            result[rows] = linear(hidden, self._tensors, "output")[:, 0]
        return result


class PairModel:
    """P(same) from two sentences: the paper's figure 4.

    Args:
        config: ``encoder`` (see ``EncoderConfig``), ``hidden``, ``calibration`` (``scale`` and ``shift`` of
            the logit).
        tensors: Weights.
        fingerprint: Identifies them.

    Raises:
        ModelError: Where weights and configuration do not fit.
    """

    kind = "pair"
    tokenizer_name = "bert"

    def __init__(self, config: dict[str, Any], tensors: Tensors, fingerprint: str) -> None:
        self.config = config
        self.fingerprint = fingerprint
        self.encoder = StaticEncoder(encoder_config(config), tensors)
        self._calibration = calibration(config)
        self._head = PairHead(tensors, self.encoder.size, int(config["hidden"]))

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """P(same) for every pair of neighbors; see ``protocol.BoundaryModel``."""
        return self.probabilities_and_lengths(documents)[0]

    def probabilities_and_lengths(
        self, documents: Sequence[Sequence[str]]
    ) -> tuple[list[NDArray[np.float32]], NDArray[np.int64]]:
        """Also the number of tokens of every sentence; see ``protocol.CountingModel``."""
        sentences = [text for document in documents for text in document]
        tokens = tokenize(sentences, self.encoder.config.max_tokens)
        vectors, _ = self.encoder.encode_tokens(tokens)
        values = probability(self._head.logits(vectors[:-1], vectors[1:]), self._calibration)
        return split_gaps(values, [len(document) for document in documents]), tokens.full_lengths


def encoder_config(config: dict[str, Any]) -> EncoderConfig:
    """The encoder's part of a model's configuration."""
    return EncoderConfig(**{name: int(value) for name, value in config["encoder"].items()})


def calibration(config: dict[str, Any]) -> tuple[float, float]:
    """``(scale, shift)`` such that P(same) = sigmoid(scale * logit + shift)."""
    values = config.get("calibration", {"scale": 1.0, "shift": 0.0})
    return float(values["scale"]), float(values["shift"])


def probability(logits: Floats, calibrated: tuple[float, float]) -> NDArray[np.float32]:
    """P(same) from logits."""
    return sigmoid(logits * np.float32(calibrated[0]) + np.float32(calibrated[1]))


def split_gaps(values: NDArray[np.float32], sizes: Sequence[int]) -> list[NDArray[np.float32]]:
    """Values of all neighbors of one long row of sentences, by document; none between documents."""
    ends = np.cumsum(sizes)
    return [values[end - size : max(end - 1, end - size)] for end, size in zip(ends, sizes, strict=True)]
