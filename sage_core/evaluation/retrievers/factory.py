"""Retrievers, embedding models and rerankers from JSON-like configurations."""

from __future__ import annotations

from pathlib import Path

from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError
from sage_core.evaluation.protocols import PieceIndex
from sage_core.evaluation.retrievers.bm25 import BM25Index
from sage_core.evaluation.retrievers.dense import DenseIndex
from sage_core.evaluation.retrievers.fusion import HybridIndex, RerankedIndex
from sage_core.evaluation.retrievers.models import EMBEDDERS, ModelPool
from sage_core.evaluation.retrievers.vectors import make_store
from sage_core.evaluation.specs import Settings, Spec
from sage_core.ranking import Reranker


def index_names() -> tuple[str, ...]:
    """The kinds `make_index` knows."""
    return ("bm25", "dense", *EMBEDDERS, "hybrid", "reranked")


def make_index(
    spec: Spec,
    *,
    embedder: Embedder | None = None,
    reranker: Reranker | None = None,
    cache_dir: str | Path | None = None,
    models: ModelPool | None = None,
) -> PieceIndex:
    """A retriever from its configuration.

    A string is short for ``{"kind": string}``. Kinds and their settings (all optional):

    - ``bm25``: ``k1`` (1.5), ``b`` (0.75), ``english`` (True; False takes words as they are).
    - ``dense``: ``embedder`` (see `make_embedder`; the shared one where left out), ``store`` (``"numpy"``,
      ``"faiss"`` or ``"chroma"``).
    - ``sbert``, ``dpr``, ``openai``, ``projected``: ``dense`` with that kind of embedder, whose settings
      stand beside ``store``.
    - ``hybrid``: ``parts`` (at least two configurations; BM25 and ``dense`` where left out), ``k`` (60),
      ``depth`` (100).
    - ``reranked``: ``first`` (a configuration; BM25 where left out), ``candidates`` (50), ``reranker`` (see
      `make_reranker`; the shared one where left out).

    Args:
        spec: The configuration.
        embedder: Used where a configuration names none; all-MiniLM-L6-v2 where None.
        reranker: Used where a configuration names none; `HybridReranker` over ``embedder`` where None.
        cache_dir: Folder where embeddings are kept between runs; None keeps them in memory only.
        models: Where several indexes share models; takes the place of the three arguments before.

    Raises:
        InputError: For an unknown kind or setting, or a value out of range.
        MissingExtraError: Where an optional dependency is not installed.
    """
    if models is None:
        models = ModelPool(embedder=embedder, reranker=reranker, cache_dir=cache_dir)
    settings = Settings(spec, "index")
    index: PieceIndex
    if settings.kind == "bm25":
        index = BM25Index(
            k1=settings.take("k1", float, 1.5),
            b=settings.take("b", float, 0.75),
            english=settings.take("english", bool, True),
        )
    elif settings.kind == "dense":
        store = make_store(settings.take("store", str, "numpy"))
        index = DenseIndex(models.embedder(settings.spec("embedder")), store)
    elif settings.kind in EMBEDDERS:
        store = make_store(settings.take("store", str, "numpy"))
        index = DenseIndex(models.embedder({**settings.rest(), "kind": settings.kind}), store)
    elif settings.kind == "hybrid":
        index = _hybrid(settings, models)
    elif settings.kind == "reranked":
        first = make_index(settings.spec("first", "bm25"), models=models)
        second = models.reranker(settings.spec("reranker"))
        index = RerankedIndex(first, second, candidates=settings.take("candidates", int, 50))
    else:
        raise InputError(f"unknown index {settings.kind!r}: one of {', '.join(index_names())}")
    settings.end()
    return index


def make_embedder(spec: Spec, *, cache_dir: str | Path | None = None) -> Embedder:
    """An embedding model from its configuration; what it has embedded is kept (`CachedEmbedder`).

    A string is a kind, or else the name or folder of a sentence-transformers model. Kinds and their settings:

    - ``sbert``: ``model`` (all-MiniLM-L6-v2), ``device``.
    - ``dpr``: ``question_model``, ``context_model`` (Facebook's), ``device``, ``normalise`` (False).
    - ``openai``: ``model`` (text-embedding-3-small), ``base_url``, ``dimensions``, ``batch_size`` (256).
    - ``projected``: ``projection`` (a file of `Projection.save`; required), ``of`` (an embedder; ``sbert``).

    Args:
        spec: The configuration.
        cache_dir: See `make_index`.

    Raises:
        InputError: For an unknown setting, or a value out of range.
        ModelError: For a projection that cannot be used.
    """
    return ModelPool(cache_dir=cache_dir).embedder(spec)


def make_reranker(spec: Spec, *, embedder: Embedder | None = None) -> Reranker:
    """A reranker from its configuration.

    Kinds and their settings:

    - ``hybrid``: the offline default, over ``embedder``.
    - ``cross-encoder``: ``model`` (a name or folder; required), ``device``, ``batch_size`` (32),
      ``max_length``.

    Args:
        spec: The configuration; a string that is not ``"hybrid"`` is the name of a cross-encoder.
        embedder: For ``hybrid``; all-MiniLM-L6-v2 where None.

    Raises:
        InputError: For an unknown kind or setting, or a value out of range.
    """
    return ModelPool(embedder=embedder).reranker(spec)


def _hybrid(settings: Settings, models: ModelPool) -> HybridIndex:
    """The ``hybrid`` kind."""
    parts = settings.raw("parts")
    if parts is None:
        parts = ["bm25", "dense"]
    if not isinstance(parts, list | tuple):
        raise InputError(f"index 'hybrid': parts is a list of configurations, not {parts!r}")
    made = [make_index(part, models=models) for part in parts]
    return HybridIndex(made, k=settings.take("k", float, 60.0), depth=settings.take("depth", int, 100))
