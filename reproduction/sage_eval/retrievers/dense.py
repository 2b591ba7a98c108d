"""Dense retrieval: pieces near the question in an embedding space."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_app.models import SentenceTransformerEmbedder
from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError
from sage_core.selection import Scale
from sage_core.text.tokens import without_lone_surrogates
from sage_eval.records import Hit, Piece


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


DPR_QUESTION_MODEL = "sentence-transformers/facebook-dpr-question_encoder-single-nq-base"
DPR_CONTEXT_MODEL = "sentence-transformers/facebook-dpr-ctx_encoder-single-nq-base"


class DualEncoder:
    """Two sentence-transformers models with one space. An `Embedder`, but for the length of its vectors.

    DPR was trained on inner products, so vectors keep their length; `DenseIndex` works with either kind.

    Args:
        question_model: Name or folder of the model for questions.
        context_model: Name or folder of the model for passages.
        device: ``"cpu"``, ``"cuda"``, ...; None lets sentence-transformers choose.

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
    ) -> None:
        self._questions = SentenceTransformerEmbedder(question_model, device=device, normalize=False)
        self._contexts = SentenceTransformerEmbedder(context_model, device=device, normalize=False)

    @property
    def name(self) -> str:
        """Both models."""
        return f"dpr({self._questions.name} | {self._contexts.name}, product)"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._questions.name!r}, {self._contexts.name!r})"

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of passages, shape ``(len(texts), d)``."""
        return self._contexts.embed_documents(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Vector of a question, shape ``(d,)``. The array is read-only."""
        return self._questions.embed_query(text)


_STEP = 512  # texts embedded, and kept, at a time


class DenseIndex:
    """Pieces by the inner product of their embedding with the question's: the cosine, for unit vectors.

    The search is exact, as in FAISS's ``IndexFlatIP``, which the paper uses.

    Args:
        embedder: Gives the vectors. Two pieces of one text are embedded once.
    """

    scale: Scale = "cosine"

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._rows: Floats = np.zeros((0, 0), np.float32)
        self._pieces: tuple[Piece, ...] = ()

    @property
    def name(self) -> str:
        """The embedding model."""
        return f"dense({self._embedder.name})"

    def build(self, pieces: Sequence[Piece]) -> None:
        self._pieces = tuple(pieces)
        self._rows = self._embed([piece.text for piece in pieces])

    def search(self, question: str, k: int) -> list[Hit]:
        check_k(k)
        if not self._pieces:
            return []
        vector = self._embedder.embed_query(without_lone_surrogates(question))
        products = self._rows @ np.asarray(vector, np.float32)
        return [Hit(self._pieces[i], float(products[i])) for i in best_positions(products, k)]

    def _embed(self, texts: list[str]) -> Floats:
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
        row_of = {text: i for i, text in enumerate(different)}
        return np.concatenate(parts)[[row_of[without_lone_surrogates(text)] for text in texts]]
