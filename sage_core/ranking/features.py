"""What the offline reranker sees of a question and its candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sage_core.ranking.lexical import bm25_share, words

FEATURES = ("chunk_cosine", "sentence_cosine", "bm25", "chunk_gap", "sentence_gap", "bm25_gap")


@dataclass(frozen=True, slots=True)
class TextVectors:
    """Embeddings of one candidate.

    Attributes:
        chunk: Of the whole text, shape ``(d,)``, length 1.
        sentences: Of its sentences, shape ``(n, d)``, rows of length 1, n at least 1.
    """

    chunk: NDArray[np.float32]
    sentences: NDArray[np.float32]


def feature_matrix(
    query: str, query_vector: NDArray[np.float32], texts: Sequence[str], vectors: Sequence[TextVectors]
) -> NDArray[np.float64]:
    """The numbers the logistic model joins, shape ``(len(texts), len(FEATURES))``.

    The three similarities say how well a candidate fits. The three gaps are its distance to the best
    candidate of the list, which tells a question that all candidates half fit from one that a single
    candidate fits. They are constant shifts within a list, so they move the probability and never the order,
    beyond what the similarities themselves say; in a list of one they are 0.

    Args:
        query: The question.
        query_vector: Its embedding, shape ``(d,)``, length 1.
        texts: Candidates that are not blank, at least one.
        vectors: Embeddings of each.
    """
    chunk = np.array([float(v.chunk @ query_vector) for v in vectors])
    sentence = np.array([float((v.sentences @ query_vector).max()) for v in vectors])
    bm25 = bm25_share(words(query), [words(t) for t in texts])
    base = np.stack([chunk, sentence, bm25], axis=1)
    return np.concatenate([base, base.max(axis=0, keepdims=True) - base], axis=1)
