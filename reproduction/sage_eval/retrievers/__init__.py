"""Retrievers for evaluations: indexes of pieces, the embedding models under them, and what makes both."""

from sage_app.models import OpenAIEmbedder
from sage_eval.retrievers.bm25 import BM25Index
from sage_eval.retrievers.cached import CachedEmbedder
from sage_eval.retrievers.dense import (
    DenseIndex,
    DualEncoder,
)
from sage_eval.retrievers.factory import (
    ModelPool,
    index_names,
    make_index,
)
from sage_eval.retrievers.fusion import HybridIndex, RerankedIndex, reciprocal_rank_fusion

__all__ = [
    "BM25Index",
    "CachedEmbedder",
    "DenseIndex",
    "DualEncoder",
    "HybridIndex",
    "ModelPool",
    "OpenAIEmbedder",
    "RerankedIndex",
    "index_names",
    "make_index",
    "reciprocal_rank_fusion",
]
