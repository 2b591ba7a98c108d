"""`ScoredVectorStoreRetriever`: a vector store's search that keeps the scores, higher always better."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import ConfigDict, Field, PrivateAttr, model_validator
from typing_extensions import Self

from sage_core.feedback.drivers import Call, Compute, Steps, adrive, as_many, drive
from sage_core.ranking import Links, link, names_in
from sage_core.ranking.candidates import CANDIDATES, RUNNERS_UP, Hit, join_named, merge, words_of
from sage_core.ranking.features import scores_or_order
from sage_core.selection.scales import Similarities, rises, store_similarities
from sage_core.word_index.search import WordSearch
from sage_langchain._passages import places_of
from sage_langchain._private import docstore_of, relevance_function, tracing_params
from sage_langchain._runnables import CheckedModel
from sage_langchain._words import (
    GivenDocuments,
    ReadableStore,
    Scored,
    entry,
    filters_last,
    plain,
    readable,
    searches_words_itself,
)
from sage_langchain.compressor import titled

logger = logging.getLogger(__name__)

_FETCHED = 1_000
_EUCLIDEAN = frozenset({"Annoy", "PGVector", "PGVectorStore", "QdrantVectorStore", "SQLiteVec"})
"""Stores that give distances of which the squares fall as cosines do; others give those squares."""


class ScoredVectorStoreRetriever(CheckedModel, BaseRetriever):
    """Searches a vector store and keeps what LangChain's own retriever throws away: the scores.

    ``metadata["score"]`` of each result is a similarity: higher is better in every store. Where the store
    reports distances (Chroma does), they are converted by the store's own relevance function and kept raw in
    ``metadata["distance"]``. For a store without scores its order stands. Results are copies: an entry of
    your own under one of these keys is replaced in them (with a warning), unless you choose other keys.

    Examples:
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> embedding = DeterministicFakeEmbedding(size=8)
        >>> store = InMemoryVectorStore.from_texts(["The ferry leaves at seven."], embedding)
        >>> [found] = ScoredVectorStoreRetriever(vectorstore=store, k=5).invoke("When does the ferry leave?")
        >>> found.page_content
        'The ferry leaves at seven.'

    Attributes:
        vectorstore: The store.
        k: Number of documents to fetch.
        search_kwargs: Passed to every search (such as ``filter``).
        similarity: From the store's raw score to a similarity; None takes the store's own relevance function.
            Where it has none, raw scores that rise are distances and count by their negatives, others as they
            are.
        score_key: Metadata key of the similarity.
        distance_key: Metadata key of the raw distance, where there is one.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    vectorstore: VectorStore = Field(repr=False)
    k: int = Field(default=CANDIDATES, ge=1)
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    similarity: Callable[[float], float] | None = Field(default=None, repr=False)
    score_key: str = "score"
    distance_key: str = "distance"

    _named: set[str] = PrivateAttr(default_factory=set)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None, **kwargs: Any
    ) -> list[Document]:
        return drive(self._searching(query, self._arguments(k, kwargs)))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        return await adrive(self._searching(query, self._arguments(k, kwargs)))

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        return tracing_params(VectorStoreRetriever(vectorstore=self.vectorstore), **kwargs)

    def _arguments(self, k: int | None, kwargs: dict[str, Any]) -> dict[str, Any]:
        arguments = {"k": self.k, **self.search_kwargs, **kwargs, **({} if k is None else {"k": k})}
        if arguments.get("filter") is not None and filters_last(self.vectorstore):
            arguments.setdefault("fetch_k", max(_FETCHED, 20 * arguments["k"]))
        return arguments

    def _searching(self, query: str, arguments: dict[str, Any]) -> Steps[list[Document]]:
        scored = yield from self._found(query, arguments)
        read = self._reading(scored)
        return [self._with_score(document, raw, read) for document, raw in scored]

    def _found(self, query: str, arguments: Mapping[str, Any]) -> Steps[Scored]:
        """What the store's search gives, with its raw scores."""
        store = self.vectorstore

        def ask(k: int) -> Steps[Scored]:
            asked, search = {**arguments, "k": k}, store.similarity_search_with_score
            try:
                return plain((yield from Call(search, store.asimilarity_search_with_score, query, **asked)))
            except NotImplementedError:  # `similarity_search` is all that a store must have
                found = yield from Call(store.similarity_search, store.asimilarity_search, query, **asked)
            return _by_order(found)

        return as_many(ask, arguments["k"])

    def _reading(self, scored: Scored) -> Similarities:
        """How to read the store's scores, given in its order."""
        raw = [score for _, score in scored]
        # The user's own reading first, then the store's, else the order says which way is near.
        convert = self.similarity or relevance_function(self.vectorstore)
        roots = any(base.__name__ in _EUCLIDEAN for base in type(self.vectorstore).__mro__)
        if roots and self.similarity is None and rises(raw):
            # Of LangChain's two conversions of distances that of Euclid's gives 0 here.
            convert = convert if convert and abs(convert(math.sqrt(2))) > 1e-9 else _cosine
        return store_similarities(raw, convert)

    def _with_score(self, document: Document, raw: float | None, read: Similarities) -> Document:
        # In-memory stores hand out their own objects; a score must not be left in them.
        metadata = copy.deepcopy(document.metadata)
        entries = {self.score_key: None if raw is None else float(read.convert(raw))}
        # Kept beside the similarity: users who know their store think in its numbers.
        if read.distances and raw is not None:
            entries[self.distance_key] = raw
        self._name_replaced(entries.keys() & metadata.keys())
        metadata.update(entries)
        return document.model_copy(update={"metadata": metadata})

    def _name_replaced(self, keys: set[str]) -> None:
        """Warn once of each key under which the documents have something already."""
        for key in sorted(keys - self._named):
            self._named.add(key)
            setting = "score_key" if key == self.score_key else "distance_key"
            logger.warning(
                "documents have metadata[%r] already; it is replaced in the results. Pass %s= to keep both",
                key,
                setting,
            )


class CandidateSearch(ScoredVectorStoreRetriever):
    """Candidates of `SageRetriever`: by vector and keyword search, with neighbors of the best.

    Attributes:
        words: ``"auto"``: keyword search if the store can be read. ``"off"``: none. Or the documents that are
            searched by keyword, for a store that cannot be read.
        words_path: A file that keeps the keyword index; None for memory.
    """

    words: Literal["auto", "off"] | list[Document] = Field(default="auto", repr=False)
    words_path: Path | str | None = None

    _store: ReadableStore | None = PrivateAttr(default=None)
    _search: WordSearch[Document] | None = PrivateAttr(default=None)
    _filtered: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _prepare(self) -> Self:
        self._store = readable(self.vectorstore)
        if self.words != "off":
            searched = self._store if self.words == "auto" else GivenDocuments(self.words, self._store)
            self._search = None if searched is None else WordSearch(searched, entry, self.words_path)
        return self

    @property
    def words_from(self) -> str:
        """What is searched by keyword: ``"none"`` where nothing can be."""
        if self._search is not None:
            return self._search.source.name
        return "the vector store's own hybrid search" if searches_words_itself(self.vectorstore) else "none"

    def _searching(self, query: str, arguments: dict[str, Any]) -> Steps[list[Document]]:
        n, limits = arguments["k"], {name: value for name, value in arguments.items() if name != "k"}
        if self._store is not None and (model := self.vectorstore.embeddings) is not None:
            # Once, for both: the search, and the scores of what only words found.
            vector = yield from Call(model.embed_query, model.aembed_query, query)
            near = yield from Compute(self._store.near, vector, n + RUNNERS_UP, limits)
        else:
            vector, near = None, (yield from self._found(query, {**limits, "k": n + RUNNERS_UP}))
        return (yield from Compute(self._candidates, query, vector, near, n, limits))

    def _candidates(
        self, query: str, vector: list[float] | None, near: Scored, n: int, limits: Mapping[str, Any]
    ) -> list[Document]:
        """The candidates: no text twice, each with its similarity where the store knows it."""
        read, search, store = self._reading(near), self._search, self._store
        self._warn_if_filtered(len(near), n, limits)

        def raw_scores(documents: Sequence[Document]) -> list[float | None]:
            if store is None or vector is None:
                return [None] * len(documents)
            known = store.scores(vector, [str(d.id) for d in documents])
            return [known.get(str(d.id)) for d in documents]

        by_words = search.search(query, words_of(n), limits) if search else []
        hits = merge(
            [_hit(document, raw) for document, raw in near],
            [_hit(document) for document in by_words],
            n,
            links=_links,
            scores=raw_scores,
            similarities=lambda raw: [None if s is None else float(read.convert(s)) for s in raw],
        )
        if search is not None:
            hits = join_named(
                query,
                hits,
                search.index,
                titled=titled,
                links=_links,
                fetch=lambda ids: [_hit(document) for document in search.passing(ids, limits)],
                scores=raw_scores,
            )
        return [self._with_score(hit.item, hit.score, read) for hit in hits]

    def _warn_if_filtered(self, passed: int, n: int, limits: Mapping[str, Any]) -> None:
        """Warn, once, if a store that filters the nearest few has found less than asked for."""
        fetched, stored = limits.get("fetch_k"), len(docstore_of(self.vectorstore) or ())
        if fetched is not None and passed < n and fetched < stored and not self._filtered:
            self._filtered = True
            logger.warning(
                "%s filters the nearest %d of its %d documents only, and %d passed: raise "
                "search_kwargs={'fetch_k': ...}",
                type(self.vectorstore).__name__,
                fetched,
                stored,
                passed,
            )

    def names_in(self, documents: Sequence[Document]) -> list[dict[str, str]]:
        """The sources that each of these documents names; see `sage_core.ranking.names_in`."""
        if self._search is None:
            return [{} for _ in documents]
        limits = {name: value for name, value in self._arguments(None, {}).items() if name != "k"}
        return names_in([titled(d) for d in documents], self._search, titled, limits)


def _cosine(distance: float) -> float:
    """Of two vectors of length 1."""
    return 1 - distance * distance / 2


def _by_order(documents: Sequence[Document]) -> Scored:
    """The documents with scores that stand for their order."""
    return [(d, s or 0.0) for d, s in zip(documents, scores_or_order([None] * len(documents)), strict=True)]


def _hit(document: Document, raw: float | None = None) -> Hit[Document]:
    return Hit(document, document.page_content, document.id, raw)


def _links(documents: Sequence[Document]) -> list[Links]:
    return link(places_of(documents))
