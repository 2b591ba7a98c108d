"""Rerankers: what scores candidates against a question."""

from sage_core.ranking.calibration import Calibration
from sage_core.ranking.cross_encoder import CrossEncoderReranker
from sage_core.ranking.hybrid import HybridReranker
from sage_core.ranking.named import named_reranker
from sage_core.ranking.neighbors import Links, Place, link, link_ids, vouch
from sage_core.ranking.protocol import (
    BatchReranker,
    CosineRequest,
    CosineReranker,
    Ranked,
    Request,
    Reranker,
    arank,
    ascore,
    rank,
)
from sage_core.ranking.remote import RemoteReranker
from sage_core.ranking.similarity import SimilarityReranker

__all__ = [
    "BatchReranker",
    "Calibration",
    "CosineRequest",
    "CosineReranker",
    "CrossEncoderReranker",
    "HybridReranker",
    "Links",
    "Place",
    "Ranked",
    "RemoteReranker",
    "Request",
    "Reranker",
    "SimilarityReranker",
    "arank",
    "ascore",
    "link",
    "link_ids",
    "named_reranker",
    "rank",
    "vouch",
]
