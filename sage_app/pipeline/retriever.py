"""From a question to scored and selected chunks; questions of several threads or tasks share the work.

A question alone waits for nobody. Questions that come while others are answered wait for the next batch, in
which they share one forward pass of the embedding model and one search. Rerankers score in the thread of the
question, and share batches or not as they see fit.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sage_app.models import as_vectors
from sage_app.pipeline.batches import BATCH_WINDOW_SECONDS, MicroBatcher
from sage_app.pipeline.ingest import PROBE
from sage_app.pipeline.results import Candidate, NamedBy, Retrieval
from sage_app.pipeline.settings import SageConfig
from sage_app.store.chunks import Chunk, Found
from sage_app.store.identity import StoreIdentity
from sage_app.store.protocol import NamedStore, Store
from sage_core.embedding.protocol import Embedder
from sage_core.errors import StoreError
from sage_core.ranking import (
    HybridReranker,
    Place,
    Reranker,
    ascore_candidates,
    link,
    name_of,
    score_candidates,
    vouch,
)
from sage_core.ranking.candidates import RUNNERS_UP, Hit, merge, words_of
from sage_core.ranking.links import (
    FIRST_CHUNKS,
    MAX_CHUNKS,
    Edge,
    NamedLink,
    link_edges,
    named_links,
    vouch_named,
)
from sage_core.ranking.protocol import takes_scores
from sage_core.selection.scales import rank_order
from sage_core.text.outline import passage_header, source_names
from sage_core.text.tokens import TokenCounter

T = TypeVar("T")

# More would only make the first of a batch wait for the last.
_MAX_BATCH = 64
# Threads of asynchronous callers: they mostly wait for a batch, which is only as large as they are many.
_THREADS = 32


@dataclass(slots=True)
class _Hits:
    """The candidates of a question, and their scores as far as they are known.

    ``scores`` are of the first ``results``; ``links`` lead to documents that the question and the best of
    them name, None if nobody looked yet.
    """

    question: str
    vector: NDArray[np.float32]
    results: list[Found]
    scores: list[float] = field(default_factory=list)
    links: list[NamedLink] | None = None

    @property
    def unscored(self) -> list[Found]:
        """The candidates without a score."""
        return self.results[len(self.scores) :]


@dataclass(frozen=True, slots=True)
class _Query:
    """A question, and its vector where the embedder takes only one question at a time."""

    question: str
    vector: NDArray[np.float32] | None


class Retriever:
    """Retrieval over one store. Safe across threads and tasks.

    Each part is an attribute that may be replaced: the next question is answered with the new one.
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
        self._batcher: MicroBatcher[_Query, _Hits] = MicroBatcher(
            self._search, limit=_MAX_BATCH, delay=BATCH_WINDOW_SECONDS
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
            self._reranker = HybridReranker()
        return self._reranker

    @reranker.setter
    def reranker(self, value: Reranker) -> None:
        self._reranker = value

    def retrieve(self, question: str) -> Retrieval:
        """See `Sage.retrieve`; the question is not blank."""
        hits = self._hits(question)
        while new := self._unscored(hits):
            texts, known, headed = self._texts(new)
            self._take_scores(hits, score_candidates(self.reranker, question, texts, known, headed=headed))
        return self._retrieval(hits)

    async def aretrieve(self, question: str) -> Retrieval:
        """`retrieve` without blocking the event loop."""
        hits = await self._in_thread(lambda: self._hits(question))
        while new := self._unscored(hits):
            texts, known, headed = self._texts(new)
            scores = await ascore_candidates(self.reranker, question, texts, known, headed=headed)
            await self._in_thread(partial(self._take_scores, hits, scores))
        return await self._in_thread(lambda: self._retrieval(hits))

    def store_changed(self) -> None:
        """The store may have been emptied or made anew: check it before the next search."""
        self._checked = None

    def close(self) -> None:
        """End the threads; they start again where they are needed again."""
        with self._pool_lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)

    def _hits(self, question: str) -> _Hits:
        self._check()
        embedder = self.embedder
        if hasattr(embedder, "embed_queries"):
            return self._batcher(_Query(question, None))
        return self._batcher(_Query(question, as_vectors(embedder.name, embedder.embed_query(question), 1)))

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
            identity = StoreIdentity(embedder.name, as_vectors(embedder.name, embedder.embed_query(PROBE), 1))
            store.check(identity)
            self._checked = embedder, identity
            return identity

    def _search(self, queries: Sequence[_Query]) -> list[_Hits]:
        """Candidates for each question, as many as the reranker is given."""
        vectors, n, identity = self._vectors(queries), self.config.candidates, self._check()
        if not self.config.context:
            lists = self.store.search_many(vectors, n, identity=identity)
        else:
            questions = [query.question for query in queries]
            near = self.store.search_many(
                vectors, n + RUNNERS_UP, questions=questions, words=words_of(n), identity=identity
            )
            lists = [_candidates(results, n) for results in near]
        return [
            _Hits(query.question, vector, list(results))
            for query, vector, results in zip(queries, vectors, lists, strict=True)
        ]

    def _unscored(self, hits: _Hits) -> list[Found]:
        """The candidates to score next; for a reranker that looks at the whole list all, where any is new."""
        if hits.unscored and takes_scores(self.reranker):
            hits.scores = []
        return hits.unscored

    def _take_scores(self, hits: _Hits, scores: Sequence[float]) -> None:
        """Scores of what had none yet; the first time, documents that the best name join."""
        hits.scores += scores
        if hits.links is None:
            hits.links = self._named(hits)

    def _named(self, hits: _Hits) -> list[NamedLink]:
        """Links from the question and the best candidates, whose documents' chunks join the candidates."""
        store = self.store
        if not self.config.context or not self.config.links or not isinstance(store, NamedStore):
            return []
        chunks = [r.chunk for r in hits.results]
        scores = vouch(hits.scores, link(_places(hits.results), longest_gap=0), self.reranker.scale)
        links = named_links(
            hits.question,
            [c.text for c in chunks],
            [c.source for c in chunks],
            scores,
            store,
        )
        documents = list(dict.fromkeys(x.document for x in links))
        if documents:
            results = store.first_chunks(documents, hits.vector, FIRST_CHUNKS, self._check())
            hits.results += _joining(results, documents, chunks)
        return links

    def _vectors(self, queries: Sequence[_Query]) -> NDArray[np.float32]:
        """The questions' vectors, shape ``(len(queries), d)``."""
        missing = [q.question for q in queries if q.vector is None]
        embed: Any = getattr(self.embedder, "embed_queries", None)
        embedded = iter(as_vectors(self.embedder.name, list(embed(missing)), 2) if missing else ())
        return np.stack([q.vector if q.vector is not None else next(embedded) for q in queries])

    def _retrieval(self, hits: _Hits) -> Retrieval:
        """Let neighbors and those who name a document vouch, rank, count and select."""
        results, scores, links = hits.results, hits.scores, hits.links or ()
        own: Sequence[float | None] = [None] * len(scores)
        named: dict[int, list[NamedBy]] = {}
        scale = self.reranker.scale
        if self.config.context:
            own = [_known(score) for score in scores]
            vouched = vouch(scores, link(_places(results), longest_gap=0), scale)
            edges = link_edges(links, _positions(results, {x.document for x in links}))
            scores = [math.nan if s is None else s for s in vouch_named(vouched, edges, scale)]
            named = _named_by(links, edges, results, scores)
        order = rank_order(scores)
        tokens = self.counter.count_many([results[i].chunk.text for i in order])
        places = self._passage_headers(results)
        place_tokens = self.counter.count_many(places)
        candidates = tuple(
            Candidate(
                results[i].chunk,
                _known(scores[i]),
                results[i].similarity,
                count,
                own_score=own[i],
                named_by=tuple(named.get(i, ())),
                place=places[i],
                place_tokens=place_tokens[i],
                copies=results[i].copies,
            )
            for i, count in zip(order, tokens, strict=True)
        )
        config = self.config
        selection = config.feedback.selection.select(
            [c.score for c in candidates], scale, [c.tokens_in_prompt for c in candidates]
        )
        names = name_of(self.reranker), self.counter.name
        return Retrieval(hits.question, candidates, selection, scale, *names)

    def _passage_headers(self, results: Sequence[Found]) -> list[str]:
        """What an LLM is told before each text: nothing where `SageConfig.context` is off."""
        if not self.config.context:
            return [""] * len(results)
        places = [(r.chunk, *r.copies[:2]) for r in results]  # more would say less
        names = source_names({(chunk.title, chunk.source) for copies in places for chunk in copies})
        return [
            "; also ".join(filter(None, {passage_header(c.header, names.get(c.source)): 0 for c in copies}))
            for copies in places
        ]

    def _texts(self, results: Sequence[Found]) -> tuple[list[str], list[float], list[str]]:
        """Of each candidate its text, what the search says of it, and its text with its header."""
        texts = [r.chunk.text for r in results]
        headed = [r.chunk.text_for_models for r in results] if self.config.context else texts
        return texts, [r.similarity for r in results], headed

    async def _in_thread(self, work: Callable[[], T]) -> T:
        context = contextvars.copy_context()
        with self._pool_lock:  # `close` may come from another thread
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="sage-retrieve")
            done = asyncio.get_running_loop().run_in_executor(self._pool, lambda: context.run(work))
        return await done


def _places(results: Sequence[Found]) -> list[Place]:
    return [Place(r.chunk.source, r.chunk.position, r.chunk.position + 1) for r in results]


def _candidates(results: Sequence[Found], n: int) -> list[Found]:
    """The ``n`` of highest cosine, neighbors having vouched, and all that have the question's words."""
    near = sorted(results, key=lambda hit: -hit.similarity)
    hits = [Hit(found, found.chunk.text, found.chunk.id, found.similarity) for found in near]
    by_words = [hit for hit in hits if hit.item.by_words is not None]
    merged = merge(hits, by_words, n, links=lambda items: link(_places(items), longest_gap=0))
    return [hit.item for hit in merged]


def _joining(results: Sequence[Found], documents: Sequence[str], known: Sequence[Chunk]) -> list[Found]:
    """The chunks of named documents that are no candidates yet, all first ones before any second."""
    texts = {chunk.text for chunk in known}

    def place(hit: Found) -> tuple[int, int]:
        return hit.chunk.position, documents.index(hit.chunk.source)

    new: list[Found] = []
    for hit in sorted(results, key=place):
        if hit.chunk.text not in texts and len(new) < MAX_CHUNKS:
            texts.add(hit.chunk.text)
            new.append(hit)
    return new


def _positions(results: Sequence[Found], documents: Collection[str]) -> dict[str, list[tuple[int, int]]]:
    """By document, the places of its chunks among the candidates, with their numbers."""
    positions: dict[str, list[tuple[int, int]]] = {}
    for i, hit in enumerate(results):
        if hit.chunk.source in documents:
            positions.setdefault(hit.chunk.source, []).append((i, hit.chunk.position))
    return positions


def _named_by(
    links: Sequence[NamedLink], edges: Sequence[Edge], results: Sequence[Found], scores: Sequence[float]
) -> dict[int, list[NamedBy]]:
    """For each candidate what names its document, the question first, then by score."""
    names = {(x.source, x.document): x.name for x in links}
    named: dict[int, list[NamedBy]] = {}
    for edge in sorted(edges, key=lambda e: -math.inf if e.source is None else -scores[e.source]):
        name = names[edge.source, results[edge.target].chunk.source]
        source = None if edge.source is None else results[edge.source].chunk.id
        named.setdefault(edge.target, []).append(NamedBy(name, source))
    return named


def _known(score: float) -> float | None:
    """A score as a Python float; None for NaN."""
    value = float(score)
    return None if value != value else value
