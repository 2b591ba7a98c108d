"""Small deterministic models for tests: boundary models, embedders, a reranker, a segmenter at blank lines."""

import hashlib
import itertools
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sage_core.selection import Scale
from sage_core.text.spans import Span, trim


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
        spans = [trim(text, Span(a, b)) for a, b in itertools.pairwise(cuts)]
        return [span for span in spans if span.end > span.start]


class WordReranker:
    """Share of the question's words that a text has."""

    scale: Scale = "probability"

    def __init__(self, name: str = "words") -> None:
        self.name = name
        self.seen: list[str] = []

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        self.seen = list(texts)
        asked = _words(query)
        return [len(asked & _words(t)) / max(len(asked), 1) for t in texts]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


class HashModel:
    """P(same) from a hash of the two sentences: arbitrary, but always the same."""

    fingerprint = "hash-model"

    def __init__(self) -> None:
        self.calls = 0

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        self.calls += 1
        return [np.array([_hash(a + "\n" + b) for a, b in pairwise(d)], np.float32) for d in documents]


class ConstantModel:
    """The same P(same) everywhere, but ``other`` before sentences that contain ``mark``."""

    def __init__(self, value: float, mark: str = "\0", other: float = 0.01) -> None:
        self.fingerprint = f"constant-{value}-{mark}-{other}"
        self.value, self.mark, self.other = value, mark, other

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        return [
            np.array([self.other if self.mark in b else self.value for b in d[1:]], np.float32)
            for d in documents
        ]


def grade(score: int, adjust: int = 0) -> str:
    """A critic's reply."""
    return f'{{"reason": "as scripted", "score": {score}, "passage": 1, "adjust": {adjust}}}'


def _hash(text: str) -> float:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:4], "big") / 2**32
