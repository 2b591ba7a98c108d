"""No reranking: candidates in the order of the search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sage_core.ranking.protocol import check_request, check_search_scores
from sage_core.selection.scales import Scale


class SimilarityReranker:
    """Gives the scores of the search back: what there is without a reranker.

    By name ``"none"``. Its scores are no probabilities, so that the selection knows less than after the
    hybrid; it is here to compare with.

    Examples:
        >>> SimilarityReranker().score("When does the ferry leave?", ["It leaves at seven.", ""], [0.7, None])
        [0.7, nan]
    """

    scale: Scale = "cosine"
    name = "none"
    takes_scores = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def score(self, query: str, texts: Sequence[str], scores: Sequence[Any] | None = None) -> list[float]:
        """The score of each text, NaN where there is none; see `ScoreAwareReranker.score`."""
        check_request(query, texts)
        known = check_search_scores(scores, texts)
        return [math.nan] * len(texts) if known is None else [math.nan if s is None else s for s in known]
