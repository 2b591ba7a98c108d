"""Where token tables start from: what a pretrained sentence model knows of each token, in few dimensions."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.encoder import load_encoder, mean_of_texts
from sage_core.embedding.minilm import WEIGHTS
from sage_core.embedding.ops import Floats
from sage_core.text.wordpiece import TOKENIZER_FILE

_log = logging.getLogger(__name__)
_SPREAD = 0.5  # standard deviation of the tables' entries
_RARE = 1e-3  # tokens above this share of the text weigh little (Arora et al. 2017)
_RAREST, _COMMON = 1e-7, 1.5e-3


def pretrained_features() -> Floats:
    """What the bundled all-MiniLM-L6-v2 knows of each token of the bundled vocabulary.

    Returns:
        (vocabulary, 2 * width): the token's word embedding, and the model's output for the token alone.
    """
    from tokenizers import Tokenizer

    encoder = load_encoder(WEIGHTS).encoder
    tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
    words = encoder.words[np.arange(tokenizer.get_vocab_size())]
    begin, end = tokenizer.encode("").ids
    alone = np.empty_like(words)
    for rows, states, starts in encoder.passes([(begin, i, end) for i in range(len(words))]):
        alone[rows] = mean_of_texts(states, starts)
    _log.info("pretrained features of %d tokens", len(words))
    return np.concatenate([_unit(words), _unit(alone)], axis=1)


def principal_components(features: Floats, size: int) -> Floats:
    """(rows, size) first principal components, scaled to the spread tables start with."""
    centered = (features - features.mean(0)).astype(np.float64)
    _, vectors = np.linalg.eigh(centered.T @ centered / len(centered))
    axes = vectors[:, ::-1][:, :size]
    axes = axes * np.sign(
        axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])]
    )  # a sign that does not depend on LAPACK
    table = centered @ axes
    result: Floats = (table / table.std() * _SPREAD).astype(np.float32)
    return result


def token_shares(ids: NDArray[np.int32], vocabulary: int) -> NDArray[np.float64]:
    """Share of every token in a text."""
    counts = np.bincount(ids, minlength=vocabulary).astype(np.float64)
    shares: NDArray[np.float64] = counts / max(1.0, counts.sum())
    return shares


def start_weights(shares: NDArray[np.float64]) -> Floats:
    """Log weights of tokens in the mean: frequent ones weigh little (smooth inverse frequency)."""
    result: Floats = np.log(_RARE / (_RARE + shares)).astype(np.float32)
    return result


def rarity(shares: NDArray[np.float64]) -> Floats:
    """Weights of tokens where names are compared: 0 for frequent ones, up to 1."""
    values = np.clip(-np.log(shares + _RAREST) + np.log(_COMMON), 0.0, None)
    result: Floats = (values / max(float(values.max()), 1e-9)).astype(np.float32)
    return result


def _unit(rows: Floats) -> Floats:
    centered = rows - rows.mean(0)
    result: Floats = centered / np.maximum(np.linalg.norm(centered, axis=1, keepdims=True), 1e-6)
    return result
