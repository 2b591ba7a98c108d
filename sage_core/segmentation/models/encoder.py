"""The bundled sentence encoder: token tables and a weighted mean, numpy only.

``StaticEncoder``: x = relu(norm(W [m, l, s] + b)), where m is the weighted mean of the sentence's token
vectors, l the vectors (of a second, small table) of its first and last tokens in order, and s its surface
features. The mean holds what it is about; the first tokens hold what tells an opening sentence from a later
one: pronouns, connectives, dates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log1p

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.ops import Floats, Tensors, layer_norm, linear, relu
from sage_core.embedding.storage import require
from sage_core.text.wordpiece import shared_wordpiece

MEAN_PRIOR = 0.3  # weight of a zero vector in every mean: short sentences of common words stay near zero
SURFACE_SIZE = 8
_OPENERS = frozenset("\"'“‘«([")
_MARKS = frozenset("-*•–—·+#|>")
_BLOCK = 64  # sentences padded together: their token vectors stay in the processor's cache


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """Sizes of a ``StaticEncoder``.

    Attributes:
        vocabulary: Rows of the two tables.
        mean_size: Width of the table that is averaged.
        edge_size: Width of the table of first and last tokens.
        lead: How many first tokens are seen in order.
        tail: How many last ones.
        size: Width of the sentence vector.
        max_tokens: Only so many first tokens of a sentence are read.
    """

    vocabulary: int = 30522
    mean_size: int = 128
    edge_size: int = 48
    lead: int = 8
    tail: int = 2
    size: int = 192
    max_tokens: int = 96

    @property
    def inputs(self) -> int:
        """Width of [m, l, s]."""
        return self.mean_size + self.edge_size * (self.lead + self.tail) + SURFACE_SIZE

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors."""
        return {
            "mean.table": (self.vocabulary, self.mean_size),
            "mean.weight": (self.vocabulary,),
            "edge.table": (self.vocabulary, self.edge_size),
            "input.weight": (self.inputs, self.size),
            "input.bias": (self.size,),
            "input_norm.weight": (self.size,),
            "input_norm.bias": (self.size,),
        }


ENCODER_TABLES = ("mean.table", "edge.table")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Sentences as a model reads them.

    Attributes:
        ids: Token ids of all sentences, one after the other.
        lengths: (n,) number of ids of each, at most the model's ``max_tokens``.
        surface: (n, ``SURFACE_SIZE``), see `surface_features`.
        full_lengths: (n,) tokens of each as the counter ``bert`` counts them: before the rest of long
            sentences was left out, and with unknown runs counted by their length.
    """

    ids: NDArray[np.int32]
    lengths: NDArray[np.int64]
    surface: Floats
    full_lengths: NDArray[np.int64]

    @property
    def offsets(self) -> NDArray[np.int64]:
        """(n + 1,) where each sentence starts in ``ids``."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths)])


def tokenize(sentences: Sequence[str], max_tokens: int) -> Tokens:
    """Token ids and surface features of sentences, only the first ``max_tokens`` ids of each."""
    ids, full, counted = shared_wordpiece().encode(sentences)
    lengths = np.minimum(full, max_tokens)
    if len(full) and int(full.max()) > max_tokens:
        position = np.arange(len(ids)) - np.repeat(np.cumsum(full) - full, full)
        ids = ids[position < max_tokens]
    return Tokens(ids, lengths, surface_features(sentences), counted)


def surface_features(sentences: Sequence[str]) -> NDArray[np.float32]:
    """Surface features of sentences.

    Args:
        sentences: Any strings.

    Returns:
        (n, ``SURFACE_SIZE``) float32: log length; share of words with a capital (the first left out); and
        whether the first character is lower case, a digit, a quote or bracket, or a list mark; whether the
        last one is a colon, or a question or exclamation mark. A first character that is neither cased nor
        any of these leaves all of them 0.
    """
    rows = [_features(text) for text in sentences]
    return np.array(rows, np.float32).reshape(len(rows), SURFACE_SIZE)


def _features(text: str) -> tuple[float, ...]:
    words = text.split()
    if not words:
        return (0.0,) * SURFACE_SIZE
    first, last = words[0][0], words[-1][-1]
    capitals = len([word for word in words if word[0].isupper()]) - first.isupper()
    return (
        log1p(len(words)) / 4,
        capitals / len(words),
        first.islower(),
        first.isdigit(),
        first in _OPENERS,
        first in _MARKS,
        last == ":",
        last in "?!",
    )


class StaticEncoder:
    """The bundled encoder: numpy only, some microseconds a sentence.

    Args:
        config: Sizes.
        tensors: Weights by the names of ``EncoderConfig.shapes``; others are ignored.

    Raises:
        ModelError: Where a tensor is missing or of another shape.
    """

    def __init__(self, config: EncoderConfig, tensors: Tensors) -> None:
        require(tensors, config.shapes())
        self.config = config
        self._tensors = tensors

    @property
    def size(self) -> int:
        """Width of the vectors."""
        return self.config.size

    def encode_tokens(self, tokens: Tokens) -> tuple[Floats, Floats]:
        """Sentence vectors (n, size), and the weighted means they were made from (n, mean_size)."""
        means = self._means(tokens)
        inputs = np.concatenate([means, self._edges(tokens), tokens.surface], axis=1)
        x = linear(inputs, self._tensors, "input")
        return relu(layer_norm(x, self._tensors, "input_norm")), means

    @cached_property
    def _weighted(self) -> Floats:
        """The table, each row times its weight and the weight as a last column; a row of zeros below."""
        weights = np.exp(self._tensors["mean.weight"])[:, None]
        return with_zero_row(np.concatenate([self._tensors["mean.table"] * weights, weights], axis=1))

    def _means(self, tokens: Tokens) -> Floats:
        sums = sum_rows(tokens, self._weighted)
        result: Floats = sums[:, :-1] / (sums[:, -1:] + MEAN_PRIOR)
        return result

    def _edges(self, tokens: Tokens) -> Floats:
        """(n, edge_size * (lead + tail)): vectors of the first tokens, then of the last, last one first."""
        where, inside = edge_positions(tokens.offsets, self.config.lead, self.config.tail)
        ids = tokens.ids[where] if len(tokens.ids) else where
        rows = self._tensors["edge.table"][ids]
        rows *= inside[..., None]
        return rows.reshape(len(where), where.shape[1] * rows.shape[-1])


def with_zero_row(table: Floats) -> Floats:
    """The table and one more row, of zeros, below it."""
    return np.concatenate([table, np.zeros((1, table.shape[1]), table.dtype)])


def sum_rows(tokens: Tokens, table: Floats) -> Floats:
    """(n, width) sum of the table's rows of each sentence's tokens.

    The last row of the table is zeros, for padding. Sentences of like length are padded together, so that
    little is summed in vain.
    """
    sums = np.empty((len(tokens.lengths), table.shape[1]), np.float32)
    offsets, order = tokens.offsets, np.argsort(tokens.lengths, kind="stable")
    for start in range(0, len(order), _BLOCK):
        rows = order[start : start + _BLOCK]
        positions = np.arange(max(1, int(tokens.lengths[rows].max())))
        inside = positions < tokens.lengths[rows, None]
        ids = np.full(inside.shape, len(table) - 1, np.int64)
        ids[inside] = tokens.ids[(offsets[rows, None] + positions)[inside]]
        sums[rows] = np.matmul(np.ones((len(rows), 1, len(positions)), np.float32), table[ids])[:, 0]
    return sums


def edge_positions(
    offsets: NDArray[np.int64], lead: int, tail: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Indices into the flat ids of each sentence's first and last tokens, and which of them exist."""
    first, lengths = offsets[:-1, None], np.diff(offsets)[:, None]
    steps = np.concatenate([np.arange(lead), np.arange(1, tail + 1)])
    is_lead = np.arange(lead + tail) < lead
    inside = np.where(is_lead, steps < lengths, steps <= lengths)
    where = np.where(is_lead, first + steps, first + lengths - steps)
    return np.where(inside, where, 0), inside
