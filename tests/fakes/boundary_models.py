"""Small deterministic boundary models for tests."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


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


def _hash(text: str) -> float:
    return int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:4], "big") / 2**32
