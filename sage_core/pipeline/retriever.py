"""From a question to scored and selected chunks; questions of several threads or tasks share the work.

A question alone waits for nobody. Questions that come while others are answered wait for the next batch, in
which they share one forward pass of the embedding model, one search, and, where the reranker computes on
cosines (`CosineReranker`), its scoring. Other rerankers, which may wait for a server, score in the
thread of the question, and share batches or not as they see fit.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
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
from sage_core.ranking import (
    CosineRequest,
    CosineReranker,
    HybridReranker,
    Place,
    Reranker,
    ascore,
    link,
    vouch,
)
from sage_core.ranking.candidates import RUNNERS_UP, choose_candidates, words_of
from sage_core.ranking.hybrid import LRUCache
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
# Token counts of chunks kept in memory, some 150 bytes each.
_MOST_COUNTS = 16_384


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
        self._tokens: tuple[TokenCounter, LRUCache[int]] = counter, LRUCache(_MOST_COUNTS)
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
        scores = reranker.score(question, self._texts(found)) if found else []
        return self._retrieval(question, found, checked_scores(reranker.name, scores, len(found)))

    async def aretrieve(self, question: str) -> Retrieval:
        """`retrieve` without blocking the event loop."""
        found = await self._in_thread(lambda: self._found(question))
        if isinstance(found, Retrieval):
            return found
        scores = await ascore(self.reranker, question, self._texts(found)) if found else []
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
        """Search for several questions; score and select too where the reranker works on cosines."""
        reranker = self.reranker
        found = self._search(asked)
        if not isinstance(reranker, CosineReranker):
            return list(found)
        # Cosines of another model than the reranker's are of no use to it. They know the header; words are
        # compared without it, which measured better and does not mind a wrong title.
        same = reranker.embedder_name == self.embedder.name
        requests = [
            CosineRequest(a.question, [x.chunk.text for x in f], [x.similarity if same else None for x in f])
            for a, f in zip(asked, found, strict=True)
        ]
        return [
            self._retrieval(a.question, f, checked_scores(reranker.name, s, len(f)))
            for a, f, s in zip(asked, found, reranker.score_many(requests), strict=True)
        ]

    def _search(self, asked: Sequence[_Asked]) -> list[list[Found]]:
        """Candidates for each question, as many as the reranker is given."""
        vectors, n, identity = self._vectors(asked), self.config.candidates, self._check()
        if not self.config.context:
            return self.store.search_many(vectors, n, identity=identity)
        near = self.store.search_many(
            vectors,
            n + RUNNERS_UP,
            questions=[a.question for a in asked],
            words=words_of(n),
            identity=identity,
        )
        return [_candidates(found, n) for found in near]

    def _vectors(self, asked: Sequence[_Asked]) -> NDArray[np.float32]:
        """The questions' vectors, shape ``(len(asked), d)``."""
        todo = [a.question for a in asked if a.vector is None]
        embed: Any = getattr(self.embedder, "embed_queries", None)
        made = iter(embed(todo) if todo else ())
        return np.stack([a.vector if a.vector is not None else next(made) for a in asked])

    def _retrieval(self, question: str, found: Sequence[Found], scores: Sequence[float]) -> Retrieval:
        """Let neighbors vouch, rank, count and select."""
        own: Sequence[float | None] = [None] * len(scores)
        if self.config.context:
            own = [_known(score) for score in scores]
            vouched = vouch(scores, link(_places(found), longest_gap=0), self.reranker.scale)
            scores = [math.nan if score is None else score for score in vouched]
        order = rank_order(scores)
        tokens = self._token_counts([found[i].chunk.text for i in order])
        candidates = tuple(
            Candidate(found[i].chunk, _known(scores[i]), found[i].similarity, count, own_score=own[i])
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

    def _token_counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text: those of earlier questions are remembered."""
        counter, cache = self._tokens
        if counter is not self.counter:
            self._tokens = counter, cache = self.counter, LRUCache(_MOST_COUNTS)
        counts = cache.of(dict.fromkeys(texts), counter.count_many)
        return [counts[text] for text in texts]

    def _texts(self, found: Sequence[Found]) -> list[str]:
        """What the reranker reads of each."""
        return [f.chunk.text_for_models if self.config.context else f.chunk.text for f in found]

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


def _places(found: Sequence[Found]) -> list[Place]:
    return [Place(f.chunk.source, f.chunk.position, f.chunk.position + 1) for f in found]


def _candidates(found: Sequence[Found], n: int) -> list[Found]:
    """The ``n`` of highest cosine, neighbors having vouched, and all that have the question's words."""
    links = link(_places(found), longest_gap=0)
    by_words = {i for i, f in enumerate(found) if f.by_words is not None}
    return [found[i] for i in choose_candidates([f.similarity for f in found], by_words, links, n)]


def _known(score: float) -> float | None:
    """A score as a Python float; None for NaN."""
    value = float(score)
    return None if value != value else value
