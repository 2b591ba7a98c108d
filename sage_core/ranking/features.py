"""What the offline reranker sees of a question and its candidates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sage_core.text.keywords import bm25_share, gram_share, words

FEATURES = ("cosine", "bm25", "grams")


def feature_matrix(
    query: str,
    texts: Sequence[str],
    cosines: Sequence[float],
    text_words: Sequence[Sequence[str]] | None = None,
    text_grams: Sequence[NDArray[np.uint16]] | None = None,
) -> NDArray[np.float64]:
    """The numbers the logistic model joins, shape ``(len(texts), len(FEATURES))``.

    One compares meanings, the cosine of the question and the text. Two compare words (`bm25_share`) and parts
    of words (`gram_share`). The cosine does not depend on the list; the shares do, in that words which few
    candidates have weigh more.

    Args:
        query: The question.
        texts: Candidates that are not blank, at least one.
        cosines: Of the question's embedding and each text's.
        text_words: `words` of each, where known.
        text_grams: `gram_codes` of each, where known.
    """
    asked, found = words(query), text_words if text_words is not None else [words(t) for t in texts]
    columns = (cosines, bm25_share(asked, found), gram_share(asked, found, text_grams))
    return np.stack([np.asarray(c, dtype=np.float64) for c in columns], axis=1)
