"""Vector stores whose documents can be read back, and how to search those by words."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from sage_core.errors import InputError
from sage_core.word_index.search import ChromaCollection, Limits, WordSource, cosines, text_versions
from sage_core.word_index.words import Entry
from sage_langchain._passages import headed, titled
from sage_langchain._private import chroma_collection, docstore_of

Scored = list[tuple[Document, float]]


def plain(scored: Sequence[tuple[Document, Any]]) -> Scored:
    """A store's results with Python's floats for scores; FAISS and others report NumPy's."""
    # JSON and traces take no NumPy numbers.
    return [(document, float(score)) for document, score in scored]


def entry(document: Document) -> Entry:
    """What the keyword index holds of a document."""
    about, key = titled(document), str(document.id)
    return Entry(key, headed(document), about.document, about.names)


class ReadableStore(WordSource[Document]):
    """A vector store that gives back what was put into it."""

    filters_documents = False
    """Whether its filters are given the document, not its metadata."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def passing(self, ids: Sequence[str], limits: Limits) -> Collection[str]:
        """Which of these documents a search with these arguments may return."""
        return _passing(self.chunks(ids), limits.get("filter"), self.filters_documents)

    def near(self, vector: list[float], k: int, limits: Limits) -> Scored:
        """The store's search by a vector, with its raw scores."""
        return plain(self._store.similarity_search_with_score_by_vector(vector, k, **limits))

    def scores(self, vector: list[float], ids: Sequence[str]) -> dict[str, float]:
        """Raw scores of these documents, as `near` gives them; without those that are not known."""
        return {}


class InMemory(ReadableStore):
    """LangChain's `InMemoryVectorStore`."""

    name = "in-memory store"
    filters_documents = True

    def state(self) -> object:
        return len(self._store.store), next(reversed(self._store.store), None)

    def versions(self) -> Mapping[str, str]:
        return text_versions({key: entry["text"] for key, entry in self._store.store.items()})

    def chunks(self, ids: Sequence[str]) -> list[Document]:
        return list(self._store.get_by_ids(ids))

    def scores(self, vector: list[float], ids: Sequence[str]) -> dict[str, float]:
        known = self._store.store
        return cosines({key: known[key]["vector"] for key in ids if key in known}, vector)


class Docstore(ReadableStore):
    """A store with LangChain's in-memory docstore beside its vectors, as FAISS has."""

    name = "docstore"

    def state(self) -> object:
        ids = self._store.index_to_docstore_id.values()
        return len(ids), next(reversed(ids), None)

    def versions(self) -> Mapping[str, str]:
        known = docstore_of(self._store) or {}
        # The docstore may still hold what was deleted from the index.
        ids = [key for key in self._store.index_to_docstore_id.values() if key in known]
        return text_versions({key: known[key].page_content for key in ids})

    def chunks(self, ids: Sequence[str]) -> list[Document]:
        known = docstore_of(self._store) or {}
        some = [(key, known[key]) for key in ids if key in known]
        return [d if d.id == key else d.model_copy(update={"id": key}) for key, d in some]


class Chroma(ChromaCollection, ReadableStore):
    """LangChain's store over a Chroma collection."""

    @property
    def collection(self) -> Any:
        return chroma_collection(self._store)

    def chunks(self, ids: Sequence[str]) -> list[Document]:
        if not ids:
            return []
        # LangChain's own reading refuses a text without metadata.
        found = self.collection.get(ids=list(ids), include=["documents", "metadatas"])
        rows = zip(found["ids"], found["documents"], found["metadatas"], strict=True)
        known = {key: Document(text or "", id=key, metadata=about or {}) for key, text, about in rows}
        return [known[key] for key in ids if key in known]

    def passing(self, ids: Sequence[str], limits: Limits) -> Collection[str]:
        # Chroma filters by itself, in its own language.
        where = {"where": limits.get("filter"), "where_document": limits.get("where_document")}
        return set(self._store.get(ids=list(ids), include=[], **where)["ids"])

    def near(self, vector: list[float], k: int, limits: Limits) -> Scored:
        return plain(self._store.similarity_search_by_vector_with_relevance_scores(vector, k, **limits))

    def scores(self, vector: list[float], ids: Sequence[str]) -> dict[str, float]:
        return self.distances(vector, ids)


class GivenDocuments(ReadableStore):
    """Documents that the caller handed over."""

    name = "documents given"

    def __init__(self, documents: Sequence[Document], beside: ReadableStore | None = None) -> None:
        super().__init__(beside)
        own = {document.id for document in documents}
        # A position is no id where a document has it for its own.
        free = (key for key in map(str, count()) if key not in own)
        keys = [d.id or next(free) for d in documents]
        self._documents = {
            key: d.model_copy(update={"id": key}) for key, d in zip(keys, documents, strict=True)
        }
        self.filters_documents = isinstance(beside, InMemory)

    def state(self) -> object:
        return len(self._documents)

    def versions(self) -> Mapping[str, str]:
        return text_versions({key: document.page_content for key, document in self._documents.items()})

    def chunks(self, ids: Sequence[str]) -> list[Document]:
        return [self._documents[key] for key in ids if key in self._documents]


def readable(store: VectorStore) -> ReadableStore | None:
    """How to read the documents of a vector store; None if its kind is not known."""
    if isinstance(store, InMemoryVectorStore):
        return InMemory(store)
    # By name: two packages have a class of it, and neither is to be imported for this.
    if any(base.__name__ == "Chroma" for base in type(store).__mro__) and store.embeddings is not None:
        return Chroma(store)
    if docstore_of(store) is not None:
        return Docstore(store)
    return None


def filters_last(store: VectorStore) -> bool:
    """Whether its search filters the nearest ``fetch_k`` documents only: FAISS takes 20 by default."""
    return "fetch_k" in inspect.signature(store.similarity_search_with_score).parameters


def searches_words_itself(store: VectorStore) -> bool:
    """Whether the store's own search is one by words too, as it was made."""
    # Such a store's results hold both searches already; ours beside it would count words twice.
    mode = getattr(store, "retrieval_mode", None)  # Qdrant
    if str(getattr(mode, "value", mode)).lower() == "hybrid":
        return True
    # Postgres' and Elasticsearch's.
    return getattr(store, "hybrid_search_config", None) is not None


def _passing(documents: Sequence[Document], condition: Any, whole: bool) -> Collection[str]:
    """Ids of the documents that pass: a function of them or their metadata, or values to be equal to."""
    if condition is None:
        return {str(d.id) for d in documents}
    if callable(condition):
        return {str(d.id) for d in documents if condition(d if whole else d.metadata)}
    # Operators ("$in", "$and") are each store's own; applied wrongly they would show hidden documents.
    plain = isinstance(condition, Mapping) and not any(
        str(key).startswith("$") or isinstance(value, Mapping) for key, value in condition.items()
    )
    if not plain:
        raise InputError(
            f"the keyword search cannot apply the filter {condition!r:.80}: use a function of the metadata, "
            "or words='off'"
        )
    return {
        str(d.id)
        for d in documents
        if all(_equal(d.metadata.get(key), value) for key, value in condition.items())
    }


def _equal(value: Any, expected: Any) -> bool:
    return value in expected if isinstance(expected, list | tuple | set) else bool(value == expected)
