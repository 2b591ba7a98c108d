"""What the offline reranker sees of a question and its candidates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.protocol import TextVectors
from sage_core.text.keywords import bm25_share, gram_share, words

FEATURES = ("chunk_cosine", "sentence_cosine", "bm25", "grams")


def feature_matrix(
    query: str,
    query_vector: NDArray[np.float32],
    texts: Sequence[str],
    vectors: Sequence[TextVectors],
    text_words: Sequence[Sequence[str]] | None = None,
) -> NDArray[np.float64]:
    """The numbers the logistic model joins, shape ``(len(texts), len(FEATURES))``.

    Two cosines compare meanings: of the question with the whole text, and with its best sentence. Two shares
    compare words (`bm25_share`) and parts of words (`gram_share`). The cosines do not depend on the list;
    the shares do, in that words which few candidates have weigh more.

    Args:
        query: The question.
        query_vector: Its embedding, shape ``(d,)``, length 1.
        texts: Candidates that are not blank, at least one.
        vectors: Embeddings of each.
        text_words: `words` of each, where known.
    """
    chunk = np.stack([v.chunk for v in vectors]).astype(np.float32, copy=False) @ query_vector
    similarity = np.concatenate([v.sentences for v in vectors]).astype(np.float32, copy=False) @ query_vector
    starts = np.cumsum([0, *(len(v.sentences) for v in vectors[:-1])])
    sentence = np.maximum.reduceat(similarity, starts)
    asked, found = words(query), text_words if text_words is not None else [words(t) for t in texts]
    columns = (chunk, sentence, bm25_share(asked, found), gram_share(asked, found))
    return np.stack([np.asarray(c, dtype=np.float64) for c in columns], axis=1)
