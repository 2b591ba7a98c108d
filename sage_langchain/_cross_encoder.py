"""LangChain's `BaseCrossEncoder` behind the reranker protocol of the core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sage_core.errors import InputError
from sage_core.selection import Scale


class PairScorer(Protocol):
    """What a LangChain cross-encoder can do."""

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """One score per pair."""
        ...


def is_cross_encoder(value: object) -> bool:
    """Whether ``value`` is one of LangChain's cross-encoders.

    Their base class has lived in three packages, two of which are not to be imported; hence by its name.
    """
    return any(base.__name__ == "BaseCrossEncoder" for base in type(value).__mro__)


class LangChainCrossEncoder:
    """A reranker that asks a LangChain cross-encoder.

    Args:
        model: The cross-encoder. One that gives two columns per pair (no, yes) counts by the second.
        scale: What its scores are.
    """

    def __init__(self, model: PairScorer, scale: Scale) -> None:
        self._model = model
        self.scale: Scale = scale
        self.name = type(model).__name__

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score per text.

        Raises:
            InputError: If the model's answer has another shape.
        """
        if not texts:
            return []
        found = np.asarray(self._model.score([(query, text) for text in texts]), dtype=np.float64)
        if found.ndim == 2 and found.shape[1] in (1, 2):
            found = found[:, -1]
        if found.shape != (len(texts),):
            raise InputError(f"{self.name} gave scores of shape {found.shape} for {len(texts)} texts")
        return [float(value) for value in found]
