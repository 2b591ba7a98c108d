"""From a question to scored and selected chunks; questions of several threads or tasks share the work.

A question alone waits for nobody. Questions that come while others are answered wait for the next batch, in
which they share one forward pass of the embedding model, one search, and, where the reranker computes on
stored vectors (`VectorReranker`), its scoring. Other rerankers, which may wait for a server, score in the
thread of the question, and share batches or not as they see fit.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sage_core._microbatch import BATCH_WINDOW_SECONDS, MicroBatcher
from sage_core.embedding.protocol import Embedder
from sage_core.errors import StoreError
from sage_core.pipeline.config import SageConfig
from sage_core.pipeline.ingest import PROBE
from sage_core.pipeline.results import Candidate, Retrieval
from sage_core.ranking import HybridReranker, Reranker, VectorRequest, VectorReranker, ascore
from sage_core.ranking.protocol import checked_scores
from sage_core.selection.scales import rank_order
from sage_core.store.chunks import Found
from sage_core.store.identity import StoreIdentity
from sage_core.store.protocol import Store
from sage_core.text.tokens import TokenCounter

T = TypeVar("T")

# More would only make the first of a batch wait for the last.
_MAX_BATCH = 64
# Threads of asynchronous callers: they mostly wait for a batch, which is only as large as they are many.
_THREADS = 32


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question, and its vector where the embedder takes only one question at a time."""

    question: str
    vector: NDArray[np.float32] | None


class Retriever:
    """Retrieval over one store. Safe across threads and tasks.

    Each part is an attribute that may be replaced: the next question is answered with the new one.

    Args:
        store: Where chunks are searched.
        embedder: Embeds questions; the model that the store was made with.
        reranker: Scores what the store finds; None for a `HybridReranker` over ``embedder``.
        counter: Counts the tokens of chunks.
        config: Settings.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        reranker: Reranker | None,
        counter: TokenCounter,
        config: SageConfig,
    ) -> None:
        self.store = store
        self.embedder = embedder
        self._reranker = reranker
        self.counter = counter
        self.config = config
        self._batcher: MicroBatcher[_Asked, Retrieval | list[Found]] = MicroBatcher(
            self._batch, limit=_MAX_BATCH, delay=BATCH_WINDOW_SECONDS
        )
        # Held while a model loads, so never by the event loop's thread.
        self._check_lock = threading.Lock()
        self._checked: tuple[Embedder, StoreIdentity] | None = None
        self._pool_lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    @property
    def reranker(self) -> Reranker:
        """Scores what the store finds."""
        if self._reranker is None:
            self._reranker = HybridReranker(self.embedder)
        return self._reranker

    @reranker.setter
    def reranker(self, value: Reranker) -> None:
        self._reranker = value

    def retrieve(self, question: str) -> Retrieval:
        """See `Sage.retrieve`; the question is not blank."""
        found = self._found(question)
        if isinstance(found, Retrieval):
            return found
        reranker = self.reranker
        scores = reranker.score(question, _texts(found)) if found else []
        return self._retrieval(question, found, checked_scores(reranker.name, scores, len(found)))

    async def aretrieve(self, question: str) -> Retrieval:
        """`retrieve` without blocking the event loop."""
        found = await self._in_thread(lambda: self._found(question))
        if isinstance(found, Retrieval):
            return found
        scores = await ascore(self.reranker, question, _texts(found)) if found else []
        return await self._in_thread(lambda: self._retrieval(question, found, scores))

    def store_changed(self) -> None:
        """The store may have been emptied or made anew: check it before the next search."""
        self._checked = None

    def close(self) -> None:
        """End the threads; they start again where they are needed again."""
        with self._pool_lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)

    def _found(self, question: str) -> Retrieval | list[Found]:
        self._check()
        embedder = self.embedder
        alone = None if hasattr(embedder, "embed_queries") else embedder.embed_query(question)
        return self._batcher(_Asked(question, alone))

    def _check(self) -> StoreIdentity:
        """See that the store was made with this embedding model, by its name before the model loads.

        Done once for each model: afterwards every search compares what is returned here.
        """
        with self._check_lock:
            store, embedder = self.store, self.embedder
            if self._checked is not None and self._checked[0] is embedder:
                return self._checked[1]
            store.check(StoreIdentity(embedder.name))
            if not store.info().chunks:
                raise StoreError(f"the store at {store.location} is empty: run `sage-rag ingest` first")
            identity = StoreIdentity(embedder.name, embedder.embed_query(PROBE))
            store.check(identity)
            self._checked = embedder, identity
            return identity

    def _batch(self, asked: Sequence[_Asked]) -> list[Retrieval | list[Found]]:
        """Search for several questions; score and select too where the reranker works on vectors."""
        reranker = self.reranker
        found = self.store.search_many(
            self._vectors(asked),
            self.config.candidates,
            vector_model=reranker.vectors_name if isinstance(reranker, VectorReranker) else None,
            identity=self._check(),
        )
        if not isinstance(reranker, VectorReranker):
            return list(found)
        scores = reranker.score_many(
            [
                VectorRequest(a.question, _texts(f), [x.vectors for x in f])
                for a, f in zip(asked, found, strict=True)
            ]
        )
        return [
            self._retrieval(a.question, f, checked_scores(reranker.name, s, len(f)))
            for a, f, s in zip(asked, found, scores, strict=True)
        ]

    def _vectors(self, asked: Sequence[_Asked]) -> NDArray[np.float32]:
        """The questions' vectors, shape ``(len(asked), d)``."""
        todo = [a.question for a in asked if a.vector is None]
        embed: Any = getattr(self.embedder, "embed_queries", None)
        made = iter(embed(todo) if todo else ())
        return np.stack([a.vector if a.vector is not None else next(made) for a in asked])

    def _retrieval(self, question: str, found: Sequence[Found], scores: Sequence[float]) -> Retrieval:
        """Rank, count and select."""
        order = rank_order(scores)
        tokens = self.counter.count_many([found[i].chunk.text for i in order])
        candidates = tuple(
            Candidate(found[i].chunk, _known(scores[i]), found[i].similarity, count)
            for i, count in zip(order, tokens, strict=True)
        )
        config, reranker = self.config, self.reranker
        max_chunks = _max_chunks(tokens, config.max_context_tokens)
        settings = config.feedback.selection.capped(max_chunks)
        selection = settings.select([c.score for c in candidates], reranker.scale)
        if settings is not config.feedback.selection and selection.cut == max_chunks:
            said = f"{selection.reason} (max_context_tokens={config.max_context_tokens})"
            selection = replace(selection, reason=said)
        return Retrieval(
            question,
            candidates,
            selection,
            reranker.scale,
            reranker.name,
            config.baseline_top_k,
            self.counter.name,
            config.order,
            max_chunks,
        )

    async def _in_thread(self, work: Callable[[], T]) -> T:
        context = contextvars.copy_context()
        with self._pool_lock:  # `close` may come from another thread
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="sage-retrieve")
            done = asyncio.get_running_loop().run_in_executor(self._pool, lambda: context.run(work))
        return await done


def _max_chunks(tokens: Sequence[int], budget: int | None) -> int | None:
    """How many of the first texts fit the budget, at least one; None for no budget."""
    if budget is None:
        return None
    return max(sum(total <= budget for total in accumulate(tokens)), 1)


def _texts(found: Sequence[Found]) -> list[str]:
    return [f.chunk.text for f in found]


def _known(score: float) -> float | None:
    """A score as a Python float; None for NaN."""
    value = float(score)
    return None if value != value else value
