"""LangChain's `BaseCrossEncoder` behind the reranker protocol of the core."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sage_core.errors import InputError
from sage_core.selection.cut import Scale

logger = logging.getLogger(__name__)

# Probabilities may miss their bounds by rounding.
_NOISE = 1e-6


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
        self.model = model
        self._warned = False
        self.scale: Scale = scale
        self.name = type(model).__name__

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score per text.

        Raises:
            InputError: If the model's answer has another shape, or cannot be of the scale.
        """
        if not texts:
            return []
        found = np.asarray(self.model.score([(query, text) for text in texts]), dtype=np.float64)
        if found.ndim == 2 and found.shape[1] in (1, 2):
            found = found[:, -1]
        if found.shape != (len(texts),):
            raise InputError(f"{self.name} gave scores of shape {found.shape} for {len(texts)} texts")
        scores = [float(value) for value in found]
        self._check_scale(scores)
        return scores

    def _check_scale(self, scores: Sequence[float]) -> None:
        """Raise for probabilities that are none; warn once of logits that look like probabilities."""
        usable = [score for score in scores if math.isfinite(score)]
        within = all(-_NOISE <= score <= 1 + _NOISE for score in usable)
        if self.scale == "probability" and not within:
            raise InputError(
                f"{self.name} gave scores outside 0..1, which are no probabilities: pass scale='logit'"
            )
        # One logit may well lie there.
        if self.scale == "logit" and within and len(usable) > 1 and not self._warned:
            self._warned = True
            logger.warning(
                "all scores of %s lie in 0..1, as after a sigmoid (the default of sentence-transformers for "
                "models with one output): if they are probabilities, pass scale='probability'",
                self.name,
            )
