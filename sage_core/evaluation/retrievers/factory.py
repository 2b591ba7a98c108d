"""Retrievers, embedding models and rerankers from JSON-like configurations."""

from __future__ import annotations

from collections.abc import Mapping

from sage_core.embedding import Embedder
from sage_core.evaluation.protocols import PieceIndex
from sage_core.ranking import Reranker

Spec = str | Mapping[str, object]
"""A name, or a mapping with the name under ``kind`` and its settings beside it."""


def index_names() -> tuple[str, ...]:
    """The kinds `make_index` knows."""
    return ("bm25", "dense", "sbert", "dpr", "openai", "hybrid", "reranked")


def make_index(
    spec: Spec,
    *,
    embedder: Embedder | None = None,
    reranker: Reranker | None = None,
    cache_dir: str | None = None,
) -> PieceIndex:
    """A retriever from its configuration.

    A string is short for ``{"kind": string}``. Kinds and their settings (all optional but where said):

    - ``bm25``: ``k1``, ``b``.
    - ``dense``: ``embedder`` (see `make_embedder`; the shared one where left out), ``store`` (``"numpy"``,
      ``"faiss"`` or ``"chroma"``).
    - ``sbert``, ``dpr``, ``openai``: ``dense`` with that kind of embedder; its settings stand beside
      ``store``.
    - ``hybrid``: ``parts`` (at least two configurations; BM25 and ``dense`` where left out), ``k`` (60),
      ``depth`` (100).
    - ``reranked``: ``first`` (a configuration; required), ``candidates`` (50), ``reranker`` (see
      `make_reranker`; the shared one where left out).

    Args:
        spec: The configuration.
        embedder: Used where a configuration names none.
        reranker: Used where a configuration names none.
        cache_dir: Folder where embeddings are kept between runs; None keeps them in memory only.

    Raises:
        InputError: For an unknown kind or setting, or a value out of range.
        MissingExtraError: Where an optional dependency is not installed.
    """
    raise NotImplementedError


def make_embedder(spec: Spec, *, cache_dir: str | None = None) -> Embedder:
    """An embedding model from its configuration.

    A string is the name of a sentence-transformers model. Kinds and their settings:

    - ``sbert``: ``model`` (all-MiniLM-L6-v2), ``device``.
    - ``dpr``: ``question_model`` and ``context_model``, ``device``.
    - ``openai``: ``model`` (text-embedding-3-small), ``base_url``, ``dimensions``, ``batch_size``.
    - ``projected``: ``projection`` (a file made by `train_projection`; required), ``of`` (an embedder).
    """
    raise NotImplementedError


def make_reranker(spec: Spec, *, embedder: Embedder | None = None) -> Reranker:
    """A reranker: ``"hybrid"``, or ``{"kind": "cross-encoder", "model": ..., "device": ...}``."""
    raise NotImplementedError
