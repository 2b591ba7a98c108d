"""Retrievers for evaluations: a piece index from a JSON-like configuration."""

from sage_core.evaluation.retrievers.factory import index_names, make_embedder, make_index, make_reranker

__all__ = ["index_names", "make_embedder", "make_index", "make_reranker"]
