"""What an embedding model is to the rest of the library, and the shape of what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors whose dot product is their cosine similarity.

    Examples:
        >>> class OneAxis:
        ...     name = "one-axis"
        ...     def embed_documents(self, texts):
        ...         return unit_rows(np.ones((len(texts), 1)))
        ...     def embed_query(self, text):
        ...         return self.embed_documents([text])[0]
        >>> isinstance(OneAxis(), Embedder)
        True
    """

    @property
    def name(self) -> str:
        """Identifies the model, on every machine alike: stores and calibrations are keyed on it."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages: an array of shape ``(len(texts), d)`` with rows of length 1."""
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Embed one question: an array of shape ``(d,)`` and length 1."""
        ...


def unit_rows(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Rows scaled to length 1 in float32; rows of zeros, or with a value that is not finite, become zeros."""
    rows = np.asarray(vectors, dtype=np.float32)
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    usable = np.isfinite(norms) & (norms > 0)
    scaled: NDArray[np.float32] = np.where(usable, rows, np.float32(0)) / np.where(
        usable, norms, np.float32(1)
    )
    return scaled
