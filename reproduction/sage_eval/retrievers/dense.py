"""Dense retrieval: pieces near the question in an embedding space, and where their vectors lie."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sage_app.models import SentenceTransformerEmbedder
from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError, MissingExtraError
from sage_core.selection import Scale
from sage_core.text.tokens import without_lone_surrogates
from sage_eval.records import Hit, Piece, ProgressCallback


def check_k(k: int) -> None:
    """Raise InputError unless ``k`` is a whole number of at least 1."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"k is a whole number of at least 1, not {k!r}")


def best_positions(scores: NDArray[np.floating[Any]], k: int) -> list[int]:
    """Positions of the ``k`` highest scores, best first; ties keep their order."""
    if k < len(scores):
        # A partial sort first; all that tie with the last place stay in, so that order decides, not luck.
        floor = np.partition(scores, len(scores) - k)[len(scores) - k]
        near = np.flatnonzero(scores >= floor)
        return [int(near[i]) for i in np.argsort(-scores[near], kind="stable")[:k]]
    return [int(i) for i in np.argsort(-scores, kind="stable")]


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
        self._rows = np.ascontiguousarray(rows, dtype=np.float32)

    def search(self, vector: Floats, k: int) -> list[tuple[int, float]]:
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
        self._index = None
        if len(rows):
            self._index = self._faiss.IndexFlatIP(rows.shape[1])
            self._index.add(np.ascontiguousarray(rows, dtype=np.float32))

    def search(self, vector: Floats, k: int) -> list[tuple[int, float]]:
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


DPR_QUESTION_MODEL = "sentence-transformers/facebook-dpr-question_encoder-single-nq-base"
DPR_CONTEXT_MODEL = "sentence-transformers/facebook-dpr-ctx_encoder-single-nq-base"


class DualEncoder:
    """Two sentence-transformers models with one space. An `Embedder`, but for the length of its vectors.

    DPR was trained on inner products, so vectors keep their length; `DenseIndex` works with either kind.

    Args:
        question_model: Name or folder of the model for questions.
        context_model: Name or folder of the model for passages.
        device: ``"cpu"``, ``"cuda"``, ...; None lets sentence-transformers choose.
        normalize: Scale vectors to length 1 (for models trained on cosines).

    Raises:
        InputError: For an empty name.
        MissingExtraError: On first use, where sentence-transformers is not installed.
        ModelError: On first use, where a model cannot be loaded.
    """

    def __init__(
        self,
        question_model: str | Path = DPR_QUESTION_MODEL,
        context_model: str | Path = DPR_CONTEXT_MODEL,
        *,
        device: str | None = None,
        normalize: bool = False,
    ) -> None:
        self._questions = SentenceTransformerEmbedder(question_model, device=device, normalize=normalize)
        self._contexts = SentenceTransformerEmbedder(context_model, device=device, normalize=normalize)
        self._normalize = normalize

    @property
    def name(self) -> str:
        """Both models."""
        kind = "cosine" if self._normalize else "product"
        return f"dpr({self._questions.name} | {self._contexts.name}, {kind})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._questions.name!r}, {self._contexts.name!r})"

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of passages, shape ``(len(texts), d)``."""
        return self._contexts.embed_documents(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Vector of a question, shape ``(d,)``. The array is read-only."""
        return self._questions.embed_query(text)


_STEP = 512  # texts between two reports of progress


class DenseIndex:
    """Pieces by the inner product of their embedding with the question's: the cosine, for unit vectors.

    Args:
        embedder: Gives the vectors. Two pieces of one text are embedded once.
        store: Holds and searches them; exact search in numpy where None.
    """

    scale: Scale = "cosine"

    def __init__(self, embedder: Embedder, store: VectorStore | None = None) -> None:
        self._embedder = embedder
        self._store: VectorStore = store if store is not None else NumpyStore()
        self._pieces: tuple[Piece, ...] = ()

    @property
    def name(self) -> str:
        """The embedding model and the store."""
        return f"dense({self._embedder.name}, {self._store.name})"

    def build(self, pieces: Sequence[Piece], *, progress: ProgressCallback | None = None) -> None:
        self._pieces = tuple(pieces)
        self._store.fill(self._embed([piece.text for piece in pieces], progress))

    def search(self, question: str, k: int) -> list[Hit]:
        check_k(k)
        if not self._pieces:
            return []
        vector = self._embedder.embed_query(without_lone_surrogates(question))
        return [Hit(self._pieces[i], score) for i, score in self._store.search(vector, k)]

    def _embed(self, texts: list[str], progress: ProgressCallback | None) -> NDArray[np.float32]:
        """A row per text; each different text is embedded once."""
        different = list(dict.fromkeys(map(without_lone_surrogates, texts)))
        if not different:
            return np.zeros((0, 0), np.float32)
        parts: list[NDArray[np.float32]] = []
        for start in range(0, len(different), _STEP):
            part = different[start : start + _STEP]
            rows = self._embedder.embed_documents(part)
            if len(rows) != len(part):
                raise InputError(f"{self._embedder.name} gave {len(rows)} vectors for {len(part)} texts")
            parts.append(rows)
            if progress is not None:
                progress("index", min(start + _STEP, len(different)), len(different))
        row_of = {text: i for i, text in enumerate(different)}
        return np.concatenate(parts)[[row_of[without_lone_surrogates(text)] for text in texts]]
