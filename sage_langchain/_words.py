"""Vector stores whose documents can be read back, and how to search those by words."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from sage_core.errors import InputError
from sage_core.text.links import document_names
from sage_core.word_index.words import Rereading, WordIndex
from sage_langchain._private import chroma_count, docstore_of
from sage_langchain.compressor import texts_of, titled, without_header

Scored = list[tuple[Document, float]]


def plain(scored: Sequence[tuple[Document, Any]]) -> Scored:
    """A store's results with Python's floats for scores; FAISS and others report NumPy's."""
    return [(document, float(score)) for document, score in scored]


class ReadableStore(Protocol):
    """A vector store that gives back what was put into it."""

    name: str

    def texts(self) -> Mapping[str, str]:
        """Every document's text, by id."""
        ...

    def documents(self, ids: Sequence[str]) -> list[Document]:
        """The documents of these ids, as far as they are still there."""
        ...

    def passing(self, ids: Sequence[str], limits: Mapping[str, Any]) -> Collection[str]:
        """Which of these documents a search with these arguments may return."""
        ...

    def near(self, vector: list[float], k: int, limits: Mapping[str, Any]) -> Scored | None:
        """The store's search by a vector, with its raw scores; None where it has none."""
        ...

    def scores(self, vector: list[float], ids: Sequence[str]) -> dict[str, float]:
        """Raw scores of these documents, as `near` gives them; without those that are not known."""
        ...


class WordSearch:
    """Searches the documents of a store by the words of a question, header and text.

    Args:
        store: The documents.
        path: A file that keeps the index of words; None for memory.
    """

    def __init__(self, store: ReadableStore, path: Path | str | None) -> None:
        self.store = store
        self.index = WordIndex(path)
        self._seen: dict[str, int] = {}
        self._versions: dict[str, str] = {}

    def search(self, question: str, n: int, limits: Mapping[str, Any]) -> list[str]:
        """Ids of the ``n`` documents that words find first; what has changed is read again."""
        texts = self.store.texts()
        # Python keeps the hash of a text with it; it is another one in the next process, unlike the version.
        seen = {key: hash(text) for key, text in texts.items()}
        if seen != self._seen:
            self._versions = {key: _digest(text) for key, text in texts.items()}
            self._seen = seen
        self.index.update(self._versions, self._read, self._documents)
        if not limits:
            return self.index.search(question, n)
        return self.index.search(question, n, allowed=lambda ids: self.store.passing(ids, limits))

    def passing(self, ids: Sequence[str], limits: Mapping[str, Any]) -> list[Document]:
        """The documents of these ids that a search with these arguments may return."""
        allowed = self.store.passing(ids, limits) if limits and ids else ids
        return self.store.documents([key for key in ids if key in allowed])

    def _documents(self, ids: Sequence[str]) -> list[tuple[str, list[str]] | None]:
        known = {document.id: titled(without_header(document)) for document in self.store.documents(ids)}
        some = [known.get(key) for key in ids]
        return [
            (t.document, document_names(t.title, t.source, t.text if t.first else ""))
            if t is not None and t.document is not None
            else None
            for t in some
        ]

    def _read(self, ids: Sequence[str]) -> list[str]:
        documents = {document.id: document for document in self.store.documents(ids)}
        there = [key for key in ids if key in documents]
        _, headed = texts_of([documents[key] for key in there])
        texts = dict(zip(there, headed, strict=True))
        return [texts.get(key, "") for key in ids]


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class InMemory:
    """LangChain's `InMemoryVectorStore`."""

    name = "in-memory store"

    def __init__(self, store: InMemoryVectorStore) -> None:
        self._store = store

    def texts(self) -> Mapping[str, str]:
        """See `ReadableStore`."""
        return {key: entry["text"] for key, entry in self._store.store.items()}

    def documents(self, ids: Sequence[str]) -> list[Document]:
        """See `ReadableStore`."""
        return self._store.get_by_ids(ids)

    def passing(self, ids: Sequence[str], limits: Mapping[str, Any]) -> Collection[str]:
        """See `ReadableStore`."""
        passes = limits.get("filter")
        return {str(d.id) for d in self.documents(ids) if passes is None or passes(d)}

    def near(self, vector: list[float], k: int, limits: Mapping[str, Any]) -> Scored | None:
        """See `ReadableStore`."""
        return plain(self._store.similarity_search_with_score_by_vector(vector, k, **limits))

    def scores(self, vector: list[float], ids: Sequence[str]) -> dict[str, float]:
        """See `ReadableStore`."""
        there = [key for key in ids if key in self._store.store]
        if not there:
            return {}
        rows = np.asarray([self._store.store[key]["vector"] for key in there], dtype=np.float64)
        query_vector = np.asarray(vector, dtype=np.float64)
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query_vector)
        with np.errstate(divide="ignore", invalid="ignore"):
            cosines = np.nan_to_num(rows @ query_vector / lengths, posinf=0.0, neginf=0.0)
        return dict(zip(there, cosines.tolist(), strict=True))


class Docstore:
    """A store with LangChain's in-memory docstore beside its vectors, as FAISS has."""

    name = "docstore"

    def __init__(self, store: Any) -> None:
        self._store = store

    def texts(self) -> Mapping[str, str]:
        """See `ReadableStore`."""
        return {key: document.page_content for key, document in self._all().items()}

    def _all(self) -> dict[str, Document]:
        known = docstore_of(self._store) or {}
        return {key: known[key] for key in self._store.index_to_docstore_id.values() if key in known}

    def documents(self, ids: Sequence[str]) -> list[Document]:
        """See `ReadableStore`."""
        known = docstore_of(self._store) or {}
        return [known[key].model_copy(update={"id": key}) for key in ids if key in known]

    def passing(self, ids: Sequence[str], limits: Mapping[str, Any]) -> Collection[str]:
        """See `ReadableStore`."""
        return _passing(self.documents(ids), limits.get("filter"))

    def near(self, vector: list[float], k: int, limits: Mapping[str, Any]) -> Scored | None:
        """See `ReadableStore`."""
        return plain(self._store.similarity_search_with_score_by_vector(vector, k, **limits))

    def scores(self, vector: list[float], ids: Sequence[str]) -> dict[str, float]:
        """See `ReadableStore`."""
        return {}


class Chroma:
    """A Chroma collection, which keeps the texts of its documents."""

    name = "Chroma collection"

    def __init__(self, store: Any) -> None:
        self._store = store
        self._known = Rereading(self._all)

    def texts(self) -> Mapping[str, str]:
        """See `ReadableStore`."""
        return self._known.read(chroma_count(self._store))

    def _all(self) -> dict[str, str]:
        stored = self._store.get(include=["documents"])
        return {key: text or "" for key, text in zip(stored["ids"], stored["documents"], strict=True)}

    def documents(self, ids: Sequence[str]) -> list[Document]:
        """See `ReadableStore`."""
        if not ids:
            return []
        known = {document.id: document for document in self._store.get_by_ids(list(ids))}
        return [known[key] for key in ids if key in known]

    def passing(self, ids: Sequence[str], limits: Mapping[str, Any]) -> Collection[str]:
        """See `ReadableStore`."""
        where = {"where": limits.get("filter"), "where_document": limits.get("where_document")}
        return set(self._store.get(ids=list(ids), include=[], **where)["ids"])

    def near(self, vector: list[float], k: int, limits: Mapping[str, Any]) -> Scored | None:
        """See `ReadableStore`."""
        return plain(self._store.similarity_search_by_vector_with_relevance_scores(vector, k, **limits))

    def scores(self, vector: list[float], ids: Sequence[str]) -> dict[str, float]:
        """See `ReadableStore`."""
        # A search within ids of which the collection lacks one is an error in Chroma.
        there = self._store.get(ids=list(ids), include=[])["ids"] if ids else []
        scored = self.near(vector, len(there), {"ids": there}) if there else []
        return {str(document.id): score for document, score in scored or ()}


class GivenDocuments:
    """Documents that the caller handed over."""

    name = "documents given"

    def __init__(self, documents: Sequence[Document], beside: ReadableStore | None = None) -> None:
        own = {document.id for document in documents}
        # A position is no id where a document has it for its own.
        free = (key for key in map(str, count()) if key not in own)
        self._documents = {d.id or next(free): d for d in documents}
        self._in_memory = isinstance(beside, InMemory)  # Its filters are given the document.

    def texts(self) -> Mapping[str, str]:
        """See `ReadableStore`."""
        return {key: document.page_content for key, document in self._documents.items()}

    def documents(self, ids: Sequence[str]) -> list[Document]:
        """See `ReadableStore`."""
        known = self._documents
        return [known[key].model_copy(update={"id": key}) for key in ids if key in known]

    def passing(self, ids: Sequence[str], limits: Mapping[str, Any]) -> Collection[str]:
        """See `ReadableStore`."""
        passes = limits.get("filter")
        if self._in_memory and callable(passes):
            return {str(d.id) for d in self.documents(ids) if passes(d)}
        return _passing(self.documents(ids), passes)

    def near(self, vector: list[float], k: int, limits: Mapping[str, Any]) -> Scored | None:
        """See `ReadableStore`."""
        return None

    def scores(self, vector: list[float], ids: Sequence[str]) -> dict[str, float]:
        """See `ReadableStore`."""
        return {}


def readable(store: VectorStore) -> ReadableStore | None:
    """How to read the documents of a vector store; None where its kind is not known."""
    if isinstance(store, InMemoryVectorStore):
        return InMemory(store)
    if any(base.__name__ == "Chroma" for base in type(store).__mro__) and store.embeddings is not None:
        return Chroma(store)
    if docstore_of(store) is not None:
        return Docstore(store)
    return None


def searches_words_itself(store: VectorStore) -> bool:
    """Whether the store's own search is one by words too, as it was made."""
    mode = getattr(store, "retrieval_mode", None)  # Qdrant
    if str(getattr(mode, "value", mode)).lower() == "hybrid":
        return True
    # Postgres' and Elasticsearch's.
    return getattr(store, "hybrid_search_config", None) is not None


def _passing(documents: Sequence[Document], condition: Any) -> Collection[str]:
    """Ids of the documents whose metadata pass: a function of the metadata, or values to be equal to."""
    if condition is None:
        return {str(d.id) for d in documents}
    if callable(condition):
        return {str(d.id) for d in documents if condition(d.metadata)}
    plain = isinstance(condition, Mapping) and not any(
        str(key).startswith("$") or isinstance(value, Mapping) for key, value in condition.items()
    )
    if not plain:
        raise InputError(
            f"the search by words cannot apply the filter {condition!r:.80}: use a function of the metadata, "
            "or words='off'"
        )
    return {
        str(d.id)
        for d in documents
        if all(_equal(d.metadata.get(key), value) for key, value in condition.items())
    }


def _equal(value: Any, expected: Any) -> bool:
    return value in expected if isinstance(expected, list | tuple | set) else bool(value == expected)
