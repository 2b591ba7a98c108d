"""Small real models for tests of the store: an embedder of hashed words, a segmenter at blank lines."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sage_core.text.spans import Span, trimmed


class HashEmbedder:
    """Counts hashed words. Deterministic, and near texts share words, which is all these tests need."""

    def __init__(self, name: str = "hash", dimension: int = 64, salt: str = "") -> None:
        self.name = name
        self.dimension = dimension
        self.salt = salt
        self.texts_embedded = 0

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts_embedded += len(texts)
        rows = np.full((len(texts), self.dimension), 1e-3, dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                digest = hashlib.md5((self.salt + word).encode()).digest()
                row[int.from_bytes(digest[:4], "big") % self.dimension] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self.embed_documents([text])[0]


class BlankLineSegmenter:
    """One chunk per paragraph."""

    def __init__(self, fingerprint: str = "blank-lines") -> None:
        self.fingerprint = fingerprint

    def segment_many(self, texts: Iterable[str]) -> list[list[Span]]:
        return [self._segment(text) for text in texts]

    def _segment(self, text: str) -> list[Span]:
        cuts = [0, *(m.end() for m in re.finditer(r"\n\s*\n", text)), len(text)]
        return list(trimmed(text, (Span(a, b) for a, b in itertools.pairwise(cuts))))
