"""Rerankers by name, for command lines and what a framework serializes."""

from __future__ import annotations

from sage_core.errors import InputError
from sage_core.ranking.hybrid import HybridReranker
from sage_core.ranking.protocol import Reranker
from sage_core.ranking.similarity import SimilarityReranker

HYBRID = "hybrid"
NONE = "none"


def named_reranker(name: str) -> Reranker:
    """The reranker of a name: ``"hybrid"``, the default, or ``"none"``, the scores of the search.

    Raises:
        InputError: For any other name.
    """
    if name == HYBRID:
        return HybridReranker()
    if name == NONE:
        return SimilarityReranker()
    raise InputError(
        f"no reranker {str(name)[:80]!r}: there are {HYBRID!r} and {NONE!r}; any other is an object with "
        "score(query, texts), such as a reranker of your framework"
    )
