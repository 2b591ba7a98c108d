"""Rerankers: what scores candidates against a question."""

from sage_core.passages import Place
from sage_core.ranking.calibration import Calibration
from sage_core.ranking.hybrid import HybridReranker
from sage_core.ranking.links import (
    Edge,
    NamedLink,
    NameIndex,
    Titled,
    link_edges,
    named_chunks,
    named_links,
    names_in,
    vouch_named,
    vouch_titled,
)
from sage_core.ranking.neighbors import Links, link, link_ids, vouch
from sage_core.ranking.protocol import (
    Ranked,
    Reranker,
    ScoreAwareReranker,
    ascore,
    ascore_candidates,
    rank,
    score_candidates,
)

__all__ = [
    "Calibration",
    "Edge",
    "HybridReranker",
    "Links",
    "NameIndex",
    "NamedLink",
    "Place",
    "Ranked",
    "Reranker",
    "ScoreAwareReranker",
    "Titled",
    "ascore",
    "ascore_candidates",
    "link",
    "link_edges",
    "link_ids",
    "named_chunks",
    "named_links",
    "names_in",
    "rank",
    "score_candidates",
    "vouch",
    "vouch_named",
    "vouch_titled",
]
