"""Where vectors lie and how their nearest are found: exactly in numpy or FAISS, nearly in Chroma."""

from __future__ import annotations

import uuid
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sage_core.errors import InputError, MissingExtraError
from sage_core.evaluation.retrievers.ranking import best_positions

Floats = NDArray[np.float32]


class VectorStore(Protocol):
    """Rows of vectors, searched by inner product."""

    name: str

    def fill(self, rows: Floats) -> None:
        """Hold the ``(n, d)`` rows; what was held before is forgotten."""
        ...

    def search(self, vector: Floats, k: int) -> list[tuple[int, float]]:
        """Rows of highest inner product with ``vector``, best first: their numbers and the products."""
        ...


class NumpyStore:
    """One product with the whole matrix: exact, and fast up to some 100,000 rows."""

    name = "numpy"

    def __init__(self) -> None:
        self._rows: Floats = np.zeros((0, 0), np.float32)

    def fill(self, rows: Floats) -> None:
        """See `VectorStore.fill`."""
        self._rows = np.ascontiguousarray(rows, dtype=np.float32)

    def search(self, vector: Floats, k: int) -> list[tuple[int, float]]:
        """See `VectorStore.search`."""
        if not len(self._rows):
            return []
        products = self._rows @ np.asarray(vector, np.float32)
        return [(i, float(products[i])) for i in best_positions(products, k)]


class FaissStore:
    """FAISS ``IndexFlatIP``: exact inner products (the paper's vector database)."""

    name = "faiss"

    def __init__(self) -> None:
        self._faiss = _faiss()
        self._index: Any = None

    def fill(self, rows: Floats) -> None:
        """See `VectorStore.fill`."""
        self._index = None
        if len(rows):
            self._index = self._faiss.IndexFlatIP(rows.shape[1])
            self._index.add(np.ascontiguousarray(rows, dtype=np.float32))

    def search(self, vector: Floats, k: int) -> list[tuple[int, float]]:
        """See `VectorStore.search`."""
        if self._index is None:
            return []
        query = np.ascontiguousarray(vector, dtype=np.float32)[None]
        products, rows = self._index.search(query, min(k, self._index.ntotal))
        found = [(int(i), float(p)) for i, p in zip(rows[0], products[0], strict=True) if i >= 0]
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))


class ChromaVectors:
    """Chroma in memory. Its index is approximate: the other two are exact."""

    name = "chroma"

    def __init__(self) -> None:
        try:
            import chromadb
            from chromadb.config import Settings
        except ImportError as error:
            raise MissingExtraError("the vector store 'chroma'", "chroma") from error
        self._client: Any = chromadb.EphemeralClient(settings=Settings(anonymized_telemetry=False))
        # Clients in memory share one database within a process.
        self._name = f"pieces-{uuid.uuid4().hex}"
        self._collection: Any = None

    def fill(self, rows: Floats) -> None:
        """See `VectorStore.fill`."""
        if self._collection is not None:
            self._client.delete_collection(self._name)
            self._collection = None
        if not len(rows):
            return
        self._collection = self._client.create_collection(
            self._name,
            embedding_function=None,
            configuration={"hnsw": {"space": "ip", "ef_construction": 200, "ef_search": 400}},
        )
        step = int(self._client.get_max_batch_size())
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            ids = [str(start + i) for i in range(len(part))]
            self._collection.add(ids=ids, embeddings=part)

    def search(self, vector: Floats, k: int) -> list[tuple[int, float]]:
        """See `VectorStore.search`."""
        if self._collection is None:
            return []
        k = min(k, int(self._collection.count()))
        found = self._collection.query(query_embeddings=[vector], n_results=k, include=["distances"])
        # Chroma's distance is 1 - product.
        hits = zip(found["ids"][0], found["distances"][0], strict=True)
        return sorted(((int(i), 1.0 - float(d)) for i, d in hits), key=lambda hit: (-hit[1], hit[0]))

    def __del__(self) -> None:
        if getattr(self, "_collection", None) is not None:
            try:
                self._client.delete_collection(self._name)
            except Exception:  # the interpreter may be shutting down
                return


def make_store(name: str) -> VectorStore:
    """The vector store of that name: ``numpy``, ``faiss`` or ``chroma``.

    Raises:
        InputError: For another name.
        MissingExtraError: Where its library is not installed.
    """
    stores: dict[str, type[Any]] = {"numpy": NumpyStore, "faiss": FaissStore, "chroma": ChromaVectors}
    if name not in stores:
        raise InputError(f"unknown vector store {name!r}: one of {', '.join(stores)}")
    store: VectorStore = stores[name]()
    return store


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("the vector store 'faiss'", "eval") from error
    return faiss
