"""Candidates from a vector store: its own search, with the scores, and a search by words."""

from __future__ import annotations

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
from sage_core.passages import plain_copy
from sage_core.ranking import Links, link, names_in
from sage_core.ranking.candidates import CANDIDATES, RUNNERS_UP, Hit, join_named, merge, words_of
from sage_core.ranking.features import scores_or_order
from sage_core.selection.scales import rises, store_similarities
from sage_core.word_index.search import WordSearch
from sage_langchain._passages import SCORE_KEY, places_of, titled
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

logger = logging.getLogger(__name__)

_FETCHED = 1_000
_EUCLIDEAN = frozenset({"Annoy", "PGVector", "PGVectorStore", "QdrantVectorStore", "SQLiteVec"})
"""Stores that give distances of which the squares fall as cosines do; others give those squares."""


class CandidateSearch(CheckedModel, BaseRetriever):
    """Candidates of `SageRetriever`: by vector and keyword search, with neighbors of the best.

    ``metadata["relevance_score"]`` of each is a similarity: higher is better in every store; distances are
    converted by the store's own relevance function. Results are copies. For a store without scores its
    order stands.

    Attributes:
        vectorstore: The store.
        k: Number of candidates.
        words: ``"auto"``: keyword search if the store can be read. ``"off"``: none. Or the documents that are
            searched by keyword, for a store that cannot be read.
        words_path: A file that keeps the keyword index; None for memory.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    vectorstore: VectorStore = Field(repr=False)
    k: int = Field(default=CANDIDATES, ge=1)
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

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return drive(self._searching(query, **kwargs))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return await adrive(self._searching(query, **kwargs))

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        return tracing_params(VectorStoreRetriever(vectorstore=self.vectorstore), **kwargs)

    def _found(self, query: str, n: int, limits: Mapping[str, Any]) -> Steps[Scored]:
        """What the store's search gives, with its raw scores."""
        store = self.vectorstore

        def ask(k: int) -> Steps[Scored]:
            asked, search = {**limits, "k": k}, store.similarity_search_with_score
            try:
                return plain((yield from Call(search, store.asimilarity_search_with_score, query, **asked)))
            except NotImplementedError:  # `similarity_search` is all that a store must have
                found = yield from Call(store.similarity_search, store.asimilarity_search, query, **asked)
            # Their places stand for the scores that they lack.
            return [(d, s or 0.0) for d, s in zip(found, scores_or_order([None] * len(found)), strict=True)]

        return as_many(ask, n)

    def _similarity(self, scored: Scored) -> Callable[[float], float]:
        """From a raw score of the store, whose results are given in its order, to a similarity."""
        raw = [score for _, score in scored]
        # The store's own reading first, else the order says which way is near.
        convert = relevance_function(self.vectorstore)
        if rises(raw) and any(base.__name__ in _EUCLIDEAN for base in type(self.vectorstore).__mro__):
            # Of LangChain's two conversions of distances that of Euclid's gives 0 here.
            convert = convert if convert and abs(convert(math.sqrt(2))) > 1e-9 else _cosine
        return store_similarities(raw, convert)

    @property
    def words_from(self) -> str:
        """What is searched by keyword: ``"none"`` where nothing can be."""
        if self._search is not None:
            return self._search.source.name
        return "the vector store's own hybrid search" if searches_words_itself(self.vectorstore) else "none"

    def _searching(self, query: str, k: int | None = None, **limits: Any) -> Steps[list[Document]]:
        n = k or self.k
        if limits.get("filter") is not None and filters_last(self.vectorstore):
            limits.setdefault("fetch_k", max(_FETCHED, 20 * n))
        if self._store is not None and (model := self.vectorstore.embeddings) is not None:
            # Once, for both: the search, and the scores of what only words found.
            vector = yield from Call(model.embed_query, model.aembed_query, query)
            near = yield from Compute(self._store.near, vector, n + RUNNERS_UP, limits)
        else:
            vector, near = None, (yield from self._found(query, n + RUNNERS_UP, limits))
        return (yield from Compute(self._candidates, query, vector, near, n, limits))

    def _candidates(
        self, query: str, vector: list[float] | None, near: Scored, n: int, limits: Mapping[str, Any]
    ) -> list[Document]:
        """The candidates: no text twice, each with its similarity where the store knows it."""
        similarity, search, store = self._similarity(near), self._search, self._store
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
            similarities=lambda raw: [None if s is None else float(similarity(s)) for s in raw],
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
        return [_with_score(h.item, None if h.score is None else float(similarity(h.score))) for h in hits]

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

    def names_in(self, documents: Sequence[Document], limits: Mapping[str, Any]) -> list[dict[str, str]]:
        """The sources that each of these documents names; see `sage_core.ranking.names_in`."""
        if self._search is None:
            return [{} for _ in documents]
        return names_in([titled(d) for d in documents], self._search, titled, limits)


def _with_score(document: Document, score: float | None) -> Document:
    # In-memory stores hand out their own objects; a score must not be left in them.
    metadata = {**plain_copy(document.metadata), SCORE_KEY: score}
    return document.model_copy(update={"metadata": metadata})


def _cosine(distance: float) -> float:
    """Of two vectors of length 1."""
    return 1 - distance * distance / 2


def _hit(document: Document, raw: float | None = None) -> Hit[Document]:
    return Hit(document, document.page_content, document.id, raw)


def _links(documents: Sequence[Document]) -> list[Links]:
    return link(places_of(documents))
