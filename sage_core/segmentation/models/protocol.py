"""What the segmenter asks of a model: P(same) between neighboring sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class BoundaryModel(Protocol):
    """Judges, between every two neighboring sentences of a document, whether they belong together.

    Examples:
        >>> import numpy as np
        >>> from sage_core import Segmenter
        >>> class NeverTogether:
        ...     fingerprint = "never-together"
        ...     def probabilities(self, documents):
        ...         return [np.zeros(max(len(d) - 1, 0), np.float32) for d in documents]
        >>> Segmenter(NeverTogether(), min_tokens=0).segment("One. Two.")
        [Span(start=0, end=4), Span(start=5, end=9)]
    """

    @property
    def fingerprint(self) -> str:
        """SHA-256 over weights and configuration: equal fingerprints, equal probabilities."""
        ...

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """P(same) for every pair of neighbors, all documents pooled into large batches.

        Args:
            documents: For each document its sentences in order, white space at their ends removed.

        Returns:
            For each document of ``n`` sentences a float32 array of ``max(n - 1, 0)`` values in [0, 1];
            value ``i`` belongs to the gap between sentences ``i`` and ``i + 1``.
        """
        ...


@runtime_checkable
class CountingModel(BoundaryModel, Protocol):
    """A model that also tells how long the sentences are, so that text is tokenized once."""

    @property
    def tokenizer_name(self) -> str:
        """Name of the counter (``sage_core.text.tokens.get_counter``) whose tokens the model reads."""
        ...

    def probabilities_and_lengths(
        self, documents: Sequence[Sequence[str]]
    ) -> tuple[list[NDArray[np.float32]], NDArray[np.int64]]:
        """As ``probabilities``, and the number of tokens of every sentence of all documents, uncut."""
        ...
