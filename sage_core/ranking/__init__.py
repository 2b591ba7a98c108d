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
    Reranker,
    ascore,
    ascore_candidates,
    name_of,
    score_candidates,
    takes_scores,
)

__all__ = [
    "Calibration",
    "Edge",
    "HybridReranker",
    "Links",
    "NameIndex",
    "NamedLink",
    "Place",
    "Reranker",
    "Titled",
    "ascore",
    "ascore_candidates",
    "link",
    "link_edges",
    "link_ids",
    "name_of",
    "named_chunks",
    "named_links",
    "names_in",
    "score_candidates",
    "takes_scores",
    "vouch",
    "vouch_named",
    "vouch_titled",
]
