"""Data mining for Algorithm 1: which pairs of sentences to learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sage_core.errors import InputError
from sage_train.corpus import Corpus


@dataclass(frozen=True, slots=True)
class NegativeMix:
    """Relative shares of the three kinds of negative pair.

    Attributes:
        other_document: The second sentence is drawn from another document (what the paper's accuracy
            measures).
        same_document: It is drawn from another paragraph of the same document.
        neighbors: The two sentences follow each other across a paragraph break (the task at run time).
    """

    other_document: float = 0.0
    same_document: float = 0.0
    neighbors: float = 1.0

    def __post_init__(self) -> None:
        shares = (self.other_document, self.same_document, self.neighbors)
        if min(shares) < 0 or not sum(shares) > 0:
            raise InputError("shares of negatives must not be negative, and one must be above zero")


def mine_pairs(
    corpus: Corpus, mix: NegativeMix, rng: np.random.Generator, *, positive_share: float | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Sentence pairs of Algorithm 1, line 1.

    Every pair of neighbors in a paragraph is a positive. Negatives are drawn to the mix; as many as there
    are paragraph breaks times ``1 / mix.neighbors``, or as ``positive_share`` asks.

    Args:
        corpus: Where to mine.
        mix: Shares of the kinds of negative.
        rng: Source of every random choice.
        positive_share: Wanted share of positives in the result, reached by drawing fewer of the larger class;
            None keeps all.

    Returns:
        (P, 2) sentence indices and (P,) labels: 1 for the same paragraph. Shuffled.
    """
    gaps = corpus.gaps
    same = gaps[~corpus.starts[gaps]]
    breaks = gaps[corpus.starts[gaps]]
    total = mix.other_document + mix.same_document + mix.neighbors
    wanted = len(breaks) / (mix.neighbors / total) if mix.neighbors else float(len(same))
    kinds = [
        np.stack([breaks - 1, breaks], 1)[: round(wanted * mix.neighbors / total)],
        _random_pairs(corpus, round(wanted * mix.same_document / total), rng, same_document=True),
        _random_pairs(corpus, round(wanted * mix.other_document / total), rng, same_document=False),
    ]
    negative = np.concatenate(kinds)
    positive = np.stack([same - 1, same], 1)
    if positive_share is not None:
        size = min(len(positive) / positive_share, len(negative) / (1 - positive_share))
        positive = rng.permutation(positive)[: round(size * positive_share)]
        negative = rng.permutation(negative)[: round(size * (1 - positive_share))]
    pairs = np.concatenate([positive, negative])
    labels = np.concatenate([np.ones(len(positive), np.float32), np.zeros(len(negative), np.float32)])
    order = rng.permutation(len(pairs))
    return pairs[order], labels[order]


def _random_pairs(
    corpus: Corpus, count: int, rng: np.random.Generator, *, same_document: bool
) -> NDArray[np.int64]:
    """``count`` pairs from different paragraphs of one document, or from two documents."""
    total = len(corpus.starts)
    if not count or total < 2:
        return np.zeros((0, 2), np.int64)
    owner = np.repeat(np.arange(len(corpus.documents) - 1), np.diff(corpus.documents))
    first_of = np.zeros(total, bool)
    first_of[corpus.documents[:-1][np.diff(corpus.documents) > 0]] = True
    paragraph = np.cumsum(corpus.starts | first_of)
    left = rng.integers(0, total, 2 * count)
    if same_document:
        low, high = corpus.documents[owner[left]], corpus.documents[owner[left] + 1]
        right = low + rng.integers(0, 2**31, 2 * count) % (high - low)
        fits = paragraph[left] != paragraph[right]
    else:
        right = rng.integers(0, total, 2 * count)
        fits = owner[left] != owner[right]
    return np.stack([left[fits], right[fits]], 1)[:count]
