"""A trained projection of a frozen embedding ("Custom ADA" of The Chronicles of RAG, section 5.1.3)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.protocol import Embedder, unit_rows
from sage_core.errors import InputError, ModelError

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """A vector times a matrix, through a hyperbolic tangent.

    Attributes:
        matrix: Shape ``(d, n)``, float32.
        embedder: Name of the embedding model it was trained on.
    """

    matrix: Floats
    embedder: str

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or not self.matrix.size or not np.isfinite(self.matrix).all():
            raise InputError("a projection is a matrix of finite numbers")

    @property
    def digest(self) -> str:
        """Tells two projections apart."""
        return hashlib.blake2b(np.ascontiguousarray(self.matrix, "<f4").tobytes(), digest_size=4).hexdigest()

    def __call__(self, vectors: Floats) -> Floats:
        """Unit rows of shape ``(n_vectors, n)`` for rows of shape ``(n_vectors, d)``.

        Raises:
            InputError: For vectors of another length than the matrix takes.
        """
        if vectors.shape[-1] != self.matrix.shape[0]:
            raise InputError(
                f"a projection of vectors of {self.matrix.shape[0]} numbers cannot take {vectors.shape[-1]}"
            )
        return unit_rows(np.tanh(vectors @ self.matrix))

    def save(self, path: str | Path) -> None:
        """Write a safetensors file."""
        from safetensors.numpy import save_file

        Path(path).parent.mkdir(parents=True, exist_ok=True)
        about = json.dumps({"embedder": self.embedder})
        save_file({"matrix": np.ascontiguousarray(self.matrix)}, path, metadata={"sage_projection": about})

    @classmethod
    def load(cls, path: str | Path) -> Projection:
        """Read what `save` wrote.

        Raises:
            ModelError: Where the file is missing, damaged or another thing.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                about = json.loads((file.metadata() or {})["sage_projection"])
                return cls(np.asarray(file.get_tensor("matrix"), np.float32), str(about["embedder"]))
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"cannot use the projection {path} ({error}): make it with train_projection"
            ) from error


class ProjectedEmbedder:
    """An `Embedder`: another one's vectors through a `Projection`.

    Args:
        embedder: The frozen model.
        projection: Trained on it.

    Raises:
        InputError: Where the projection was trained on another model.
    """

    def __init__(self, embedder: Embedder, projection: Projection) -> None:
        if projection.embedder != embedder.name:
            raise InputError(
                f"the projection was trained on {projection.embedder!r}, not on {embedder.name!r}"
            )
        self.embedder = embedder
        self.projection = projection

    @property
    def name(self) -> str:
        """The frozen model and the projection."""
        return f"{self.embedder.name}+projection-{self.projection.digest}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        """See `Embedder.embed_documents`."""
        if not texts:
            return np.zeros((0, self.projection.matrix.shape[1]), np.float32)
        return self.projection(self.embedder.embed_documents(texts))

    def embed_query(self, text: str) -> Floats:
        """See `Embedder.embed_query`."""
        row: Floats = self.projection(self.embedder.embed_query(text)[None])[0]
        return row
