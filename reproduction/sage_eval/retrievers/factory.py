"""Retrievers, embedding models and rerankers from JSON-like configurations, each model made once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sage_app.models import OpenAIEmbedder, named_embedder
from sage_core.embedding import DEFAULT_EMBEDDER
from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError
from sage_core.ranking import HybridReranker, Reranker
from sage_eval.records import PieceIndex
from sage_eval.retrievers.bm25 import BM25Index
from sage_eval.retrievers.cached import CachedEmbedder
from sage_eval.retrievers.cross_encoder import CrossEncoderReranker
from sage_eval.retrievers.custom import CustomEmbedder
from sage_eval.retrievers.dense import (
    DPR_CONTEXT_MODEL,
    DPR_QUESTION_MODEL,
    DenseIndex,
    DualEncoder,
)
from sage_eval.retrievers.fusion import HybridIndex, RerankedIndex
from sage_eval.retrievers.seq2seq import Seq2SeqReranker
from sage_eval.specs import Settings, Spec

EMBEDDERS = ("sbert", "dpr", "openai", "custom")

T = TypeVar("T")


class ModelPool:
    """Makes each model once, and keeps what it has embedded.

    Args:
        embedder: Used where a configuration names none; all-MiniLM-L6-v2 where None.
        reranker: Used where a configuration names none; `HybridReranker` where None.
        cache_dir: Folder where embeddings are kept between runs; None keeps them in memory only.
        base_url: Server of OpenAI-compatible embeddings where a configuration names none; None for
            ``OPENAI_BASE_URL``, else OpenAI's own.
        language: Of the texts, for keyword indexes.
    """

    def __init__(
        self,
        *,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
        cache_dir: str | Path | None = None,
        base_url: str | None = None,
        language: str = "en",
    ) -> None:
        self.language = language
        self._cache_dir = cache_dir
        self._base_url = base_url
        self._made: dict[str, object] = {}
        self._shared = self._kept(embedder) if embedder is not None else None
        self._reranker = reranker

    def embedder(self, spec: Spec | None = None) -> Embedder:
        """The embedding model of a configuration, or the shared one; what it has embedded is kept.

        A string is a kind, or else the name or folder of a sentence-transformers model. Kinds and settings:

        - ``sbert``: ``model`` (all-MiniLM-L6-v2), ``device``.
        - ``dpr``: ``question_model``, ``context_model`` (Facebook's), ``device``.
        - ``openai``: ``model`` (text-embedding-3-small), ``base_url``, ``dimensions``, ``batch_size`` (256).
        - ``custom``: ``matrix`` (what ``train-embedding`` wrote), ``base`` (an embedder; the shared one).

        Raises:
            InputError: For an unknown setting, or a value out of range.
        """
        if spec is None:
            if self._shared is None:
                self._shared = self.embedder("sbert")
            return self._shared
        if isinstance(spec, str) and spec not in EMBEDDERS:
            spec = {"kind": "sbert", "model": spec}
        if isinstance(spec, str):
            spec = {"kind": spec}
        return self._once("embedder", spec, lambda: self._make(spec))

    def reranker(self, spec: Spec | None = None) -> Reranker:
        """The reranker of a configuration, or the shared one.

        ``hybrid`` is the offline default; ``cross-encoder`` takes ``model`` (a name or folder; required) and
        ``device``; ``seq2seq`` (monoT5, mT5) these and ``words`` (["true", "false"]). Another string is the
        name of a cross-encoder.

        Raises:
            InputError: For an unknown kind or setting, or a value out of range.
        """
        if spec is None:
            if self._reranker is None:
                self._reranker = self.reranker("hybrid")
            return self._reranker
        if isinstance(spec, str):
            spec = _reranker_spec(spec)
        return self._once("reranker", spec, lambda: self._make_reranker(spec))

    def _once(self, what: str, spec: Spec, make: Callable[[], T]) -> T:
        """What was made of an equal configuration before, or a new one."""
        try:
            key = f"{what} {json.dumps(spec, sort_keys=True)}"
        except TypeError as error:
            raise InputError(f"an {what} is configured with what JSON can hold, not {spec!r}") from error
        if key not in self._made:
            self._made[key] = make()
        found: T = self._made[key]  # type: ignore[assignment]
        return found

    def _kept(self, embedder: Embedder) -> Embedder:
        return embedder if isinstance(embedder, CachedEmbedder) else CachedEmbedder(embedder, self._cache_dir)

    def _make(self, spec: Spec) -> Embedder:
        settings = Settings(spec, "embedder")
        model: Embedder
        if settings.kind == "sbert":
            name, device = settings.take("model", str, DEFAULT_EMBEDDER), settings.take("device", str)
            if self._shared is not None and self._shared.name == name and device is None:
                model = self._shared
            else:
                model = named_embedder(name, device=device)
        elif settings.kind == "dpr":
            model = DualEncoder(
                settings.take("question_model", str, DPR_QUESTION_MODEL),
                settings.take("context_model", str, DPR_CONTEXT_MODEL),
                device=settings.take("device", str),
            )
        elif settings.kind == "openai":
            model = OpenAIEmbedder(
                settings.take("model", str, "text-embedding-3-small"),
                base_url=settings.take("base_url", str) or self._base_url,
                dimensions=settings.take("dimensions", int),
                batch_size=settings.take("batch_size", int, 256),
            )
        elif settings.kind == "custom":
            model = CustomEmbedder(self.embedder(settings.spec("base")), settings.need("matrix", str))
        else:
            raise InputError(f"unknown embedder {settings.kind!r}: one of {', '.join(EMBEDDERS)}")
        settings.end()
        return self._kept(model)

    def _make_reranker(self, spec: Spec) -> Reranker:
        settings = Settings(spec, "reranker")
        reranker: Reranker
        if settings.kind == "hybrid":
            reranker = HybridReranker()
        elif settings.kind == "cross-encoder":
            name = settings.need("model", str)
            reranker = CrossEncoderReranker(name, device=settings.take("device", str))
        elif settings.kind == "seq2seq":
            name, device = settings.need("model", str), settings.take("device", str)
            yes, no = settings.take("words", list, ["true", "false"])
            reranker = Seq2SeqReranker(name, words=(str(yes), str(no)), device=device)
        else:
            raise InputError(f"unknown reranker {settings.kind!r}: one of hybrid, cross-encoder, seq2seq")
        settings.end()
        return reranker


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

    - ``bm25``: ``k1`` (1.5), ``b`` (0.75), ``language`` (the run's: "en", "pt", ..., or "plain").
    - ``dense``: ``embedder`` (see `ModelPool.embedder`; the shared one where left out).
    - ``sbert``, ``dpr``, ``openai``, ``custom``: ``dense`` with that kind of embedder, whose settings stand
      beside it.
    - ``hybrid``: ``parts`` (at least two configurations; BM25 and ``dense`` where left out), ``k`` (60),
      ``depth`` (100).
    - ``reranked``: ``first`` (a configuration; BM25 where left out), ``candidates`` (50), ``reranker`` (see
      `ModelPool.reranker`; the shared one where left out).

    Args:
        spec: The configuration.
        embedder: Used where a configuration names none; all-MiniLM-L6-v2 where None.
        reranker: Used where a configuration names none; `HybridReranker` where None.
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
            language=settings.take("language", str, models.language),
        )
    elif settings.kind == "dense":
        index = DenseIndex(models.embedder(settings.spec("embedder")))
    elif settings.kind in EMBEDDERS:
        index = DenseIndex(models.embedder({**settings.rest(), "kind": settings.kind}))
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


def _hybrid(settings: Settings, models: ModelPool) -> HybridIndex:
    """The ``hybrid`` kind."""
    parts = settings.raw("parts")
    if parts is None:
        parts = ["bm25", "dense"]
    if not isinstance(parts, list | tuple):
        raise InputError(f"index 'hybrid': parts is a list of configurations, not {parts!r}")
    made = [make_index(part, models=models) for part in parts]
    return HybridIndex(made, k=settings.take("k", float, 60.0), depth=settings.take("depth", int, 100))


def _reranker_spec(name: str) -> dict[str, str]:
    """The configuration that a reranker's name is short for."""
    if name == "hybrid":
        return {"kind": name}
    return {"kind": "cross-encoder", "model": name}
