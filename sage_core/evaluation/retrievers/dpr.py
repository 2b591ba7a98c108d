"""Dense Passage Retrieval: one encoder for questions, another for passages (Karpukhin et al., 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.sentence_transformer import SentenceTransformerEmbedder

DPR_QUESTION_MODEL = "sentence-transformers/facebook-dpr-question_encoder-single-nq-base"
DPR_CONTEXT_MODEL = "sentence-transformers/facebook-dpr-ctx_encoder-single-nq-base"


class DualEncoder:
    """Two sentence-transformers models with one space. An `Embedder`, but for the length of its vectors.

    DPR was trained on inner products, so vectors keep their length; `DenseIndex` works with either kind.

    Args:
        question_model: Name or folder of the model for questions.
        context_model: Name or folder of the model for passages.
        device: ``"cpu"``, ``"cuda"``, ...; None lets sentence-transformers choose.
        normalise: Scale vectors to length 1 (for models trained on cosines).

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
        normalise: bool = False,
    ) -> None:
        self._questions = SentenceTransformerEmbedder(question_model, device=device, normalise=normalise)
        self._contexts = SentenceTransformerEmbedder(context_model, device=device, normalise=normalise)
        self._normalise = normalise

    @property
    def name(self) -> str:
        """Both models."""
        kind = "cosine" if self._normalise else "product"
        return f"dpr({self._questions.name} | {self._contexts.name}, {kind})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._questions.name!r}, {self._contexts.name!r})"

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of passages, shape ``(len(texts), d)``."""
        return self._contexts.embed_documents(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Vector of a question, shape ``(d,)``. The array is read-only."""
        return self._questions.embed_query(text)
