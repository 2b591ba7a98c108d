"""Dense retrieval: pieces near the question in an embedding space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError
from sage_core.evaluation.protocols import ProgressCallback
from sage_core.evaluation.records import Hit, Piece
from sage_core.evaluation.retrievers.ranking import check_k
from sage_core.evaluation.retrievers.vectors import NumpyStore, VectorStore
from sage_core.selection.cut import Scale
from sage_core.text.tokens import without_lone_surrogates

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
        """See `PieceIndex.build`."""
        self._pieces = tuple(pieces)
        self._store.fill(self._embed([piece.text for piece in pieces], progress))

    def search(self, question: str, k: int) -> list[Hit]:
        """See `PieceIndex.search`."""
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
