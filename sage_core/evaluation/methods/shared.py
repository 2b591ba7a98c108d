"""What the methods of a table share: models, their embeddings, and the cuts of documents."""

from __future__ import annotations

from pathlib import Path

from sage_core.embedding.protocol import Embedder
from sage_core.evaluation.methods.chunking import SharedSpans
from sage_core.evaluation.retrievers import ModelPool
from sage_core.ranking import Reranker


class SharedWork:
    """Give the same object to every `make_method` of a table.

    A table of eight ablations then loads each model once, and cuts and embeds each document once per way of
    cutting it. On a CPU that is most of the time a table takes.
    """

    def __init__(self) -> None:
        self.spans = SharedSpans()
        self._pools: dict[tuple[object, ...], tuple[ModelPool, object]] = {}

    def models(
        self,
        embedder: Embedder | None,
        reranker: Reranker | None,
        cache_dir: str | Path | None,
        base_url: str | None = None,
    ) -> ModelPool:
        """The pool of these models: the same for the same objects."""
        key = (id(embedder), id(reranker), str(cache_dir), base_url)
        if key not in self._pools:
            pool = ModelPool(embedder=embedder, reranker=reranker, cache_dir=cache_dir, base_url=base_url)
            # The objects are kept too: the id of one that is gone may come again.
            self._pools[key] = (pool, (embedder, reranker))
        return self._pools[key][0]
