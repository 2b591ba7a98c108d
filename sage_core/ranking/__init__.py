"""Rerankers: what scores candidates against a question."""

from sage_core.passages import Place
from sage_core.ranking.hybrid import HybridReranker
from sage_core.ranking.links import Titled, names_in
from sage_core.ranking.neighbors import Links, link, vouch
from sage_core.ranking.protocol import Reranker, ascore_candidates, name_of, score_candidates

__all__ = [
    "HybridReranker",
    "Links",
    "Place",
    "Reranker",
    "Titled",
    "ascore_candidates",
    "link",
    "name_of",
    "names_in",
    "score_candidates",
    "vouch",
]
