"""What the segmenter asks of a model: P(same) between neighbouring sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class BoundaryModel(Protocol):
    """Judges, between every two neighbouring sentences of a document, whether they belong together."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 over weights and configuration: equal fingerprints, equal probabilities."""
        ...

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """P(same) for every pair of neighbours, all documents pooled into large batches.

        Args:
            documents: For each document its sentences in order, white space at their ends removed.

        Returns:
            For each document of ``n`` sentences a float32 array of ``max(n - 1, 0)`` values in [0, 1];
            value ``i`` belongs to the gap between sentences ``i`` and ``i + 1``.
        """
        ...


@runtime_checkable
class TokenIdModel(BoundaryModel, Protocol):
    """A model that can start from token ids, so that text tokenized once also serves for counting lengths."""

    @property
    def tokenizer_name(self) -> str:
        """Name of the counter (``sage_core.tokens.get_counter``) whose token ids the model reads."""
        ...

    def probabilities_from_ids(
        self, ids: NDArray[np.int32], lengths: NDArray[np.int64], documents: Sequence[int]
    ) -> list[NDArray[np.float32]]:
        """Like ``probabilities``, from token ids.

        Args:
            ids: Ids of all sentences, one after the other: no special tokens, not truncated.
            lengths: Number of ids of each sentence (may be 0).
            documents: Number of sentences of each document; the sum is ``len(lengths)``.

        Returns:
            As ``probabilities``.
        """
        ...
