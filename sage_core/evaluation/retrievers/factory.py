"""Retrievers, embedding models and rerankers from JSON-like configurations."""

from __future__ import annotations

from pathlib import Path

from sage_core.embedding import DEFAULT_EMBEDDER, Embedder, SentenceTransformerEmbedder
from sage_core.errors import InputError
from sage_core.evaluation.protocols import PieceIndex
from sage_core.evaluation.retrievers.bm25 import BM25Index
from sage_core.evaluation.retrievers.cached import CachedEmbedder
from sage_core.evaluation.retrievers.dense import DenseIndex
from sage_core.evaluation.retrievers.dpr import DPR_CONTEXT_MODEL, DPR_QUESTION_MODEL, DualEncoder
from sage_core.evaluation.retrievers.fusion import HybridIndex, RerankedIndex
from sage_core.evaluation.retrievers.openai_embedder import OpenAIEmbedder
from sage_core.evaluation.retrievers.projection import ProjectedEmbedder, Projection
from sage_core.evaluation.retrievers.vectors import make_store
from sage_core.evaluation.specs import Settings, Spec
from sage_core.ranking import CrossEncoderReranker, HybridReranker, Reranker

_EMBEDDERS = ("sbert", "dpr", "openai", "projected")


def index_names() -> tuple[str, ...]:
    """The kinds `make_index` knows."""
    return ("bm25", "dense", *_EMBEDDERS, "hybrid", "reranked")


def make_index(
    spec: Spec,
    *,
    embedder: Embedder | None = None,
    reranker: Reranker | None = None,
    cache_dir: str | Path | None = None,
) -> PieceIndex:
    """A retriever from its configuration.

    A string is short for ``{"kind": string}``. Kinds and their settings (all optional but where said):

    - ``bm25``: ``k1`` (1.5), ``b`` (0.75).
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
        cache_dir: Folder where the embeddings of models that a configuration names are kept between runs;
            None keeps them in memory only. A shared ``embedder`` is used as it is.

    Raises:
        InputError: For an unknown kind or setting, or a value out of range.
        MissingExtraError: Where an optional dependency is not installed.
    """
    settings = Settings(spec, "index")
    index: PieceIndex
    if settings.kind == "bm25":
        index = BM25Index(k1=settings.take("k1", float, 1.5), b=settings.take("b", float, 0.75))
    elif settings.kind == "dense":
        named = settings.spec("embedder")
        model = make_embedder(named, cache_dir=cache_dir) if named is not None else embedder
        store = make_store(settings.take("store", str, "numpy"))
        index = DenseIndex(model if model is not None else make_embedder("sbert", cache_dir=cache_dir), store)
    elif settings.kind in _EMBEDDERS:
        store = make_store(settings.take("store", str, "numpy"))
        index = DenseIndex(
            make_embedder({**settings.rest(), "kind": settings.kind}, cache_dir=cache_dir), store
        )
    elif settings.kind == "hybrid":
        index = _hybrid(settings, embedder, reranker, cache_dir)
    elif settings.kind == "reranked":
        first = settings.spec("first", "bm25") or "bm25"
        found = make_index(first, embedder=embedder, reranker=reranker, cache_dir=cache_dir)
        second = _reranker(settings.spec("reranker"), reranker, embedder)
        index = RerankedIndex(found, second, candidates=settings.take("candidates", int, 50))
    else:
        raise InputError(f"unknown index {settings.kind!r}: one of {', '.join(index_names())}")
    settings.end()
    return index


def make_embedder(spec: Spec, *, cache_dir: str | Path | None = None) -> Embedder:
    """An embedding model from its configuration, as a `CachedEmbedder`.

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
    if isinstance(spec, str) and spec not in _EMBEDDERS:
        spec = {"kind": "sbert", "model": spec}
    settings = Settings(spec, "embedder")
    model: Embedder
    if settings.kind == "sbert":
        model = SentenceTransformerEmbedder(
            settings.take("model", str, DEFAULT_EMBEDDER), device=settings.take("device", str)
        )
    elif settings.kind == "dpr":
        model = DualEncoder(
            settings.take("question_model", str, DPR_QUESTION_MODEL),
            settings.take("context_model", str, DPR_CONTEXT_MODEL),
            device=settings.take("device", str),
            normalise=settings.take("normalise", bool, False),
        )
    elif settings.kind == "openai":
        model = OpenAIEmbedder(
            settings.take("model", str, "text-embedding-3-small"),
            base_url=settings.take("base_url", str),
            dimensions=settings.take("dimensions", int),
            batch_size=settings.take("batch_size", int, 256),
        )
    elif settings.kind == "projected":
        frozen = make_embedder(settings.spec("of", "sbert") or "sbert", cache_dir=cache_dir)
        model = ProjectedEmbedder(frozen, Projection.load(settings.need("projection", str)))
        settings.end()
        return model  # the frozen model's vectors are the costly part, and they are kept
    else:
        raise InputError(f"unknown embedder {settings.kind!r}: one of {', '.join(_EMBEDDERS)}")
    settings.end()
    return CachedEmbedder(model, cache_dir)


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
    if isinstance(spec, str) and spec != "hybrid":
        spec = {"kind": "cross-encoder", "model": spec}
    settings = Settings(spec, "reranker")
    reranker: Reranker
    if settings.kind == "hybrid":
        reranker = HybridReranker(embedder if embedder is not None else make_embedder("sbert"))
    elif settings.kind == "cross-encoder":
        reranker = CrossEncoderReranker(
            settings.need("model", str),
            device=settings.take("device", str),
            batch_size=settings.take("batch_size", int, 32),
            max_length=settings.take("max_length", int),
        )
    else:
        raise InputError(f"unknown reranker {settings.kind!r}: 'hybrid' or 'cross-encoder'")
    settings.end()
    return reranker


def _hybrid(
    settings: Settings, embedder: Embedder | None, reranker: Reranker | None, cache_dir: str | Path | None
) -> HybridIndex:
    """The ``hybrid`` kind."""
    parts = settings.raw("parts")
    if parts is None:
        parts = ["bm25", "dense"]
    if not isinstance(parts, list | tuple):
        raise InputError(f"index 'hybrid': parts is a list of configurations, not {parts!r}")
    made = [make_index(p, embedder=embedder, reranker=reranker, cache_dir=cache_dir) for p in parts]
    return HybridIndex(made, k=settings.take("k", float, 60.0), depth=settings.take("depth", int, 100))


def _reranker(spec: Spec | None, shared: Reranker | None, embedder: Embedder | None) -> Reranker:
    """The reranker of a configuration, or the shared one."""
    if spec is not None:
        return make_reranker(spec, embedder=embedder)
    return shared if shared is not None else make_reranker("hybrid", embedder=embedder)
