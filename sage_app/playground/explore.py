"""One text, segmented again and again with other settings, the model asked once: for sliders."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.segmentation.models.load import load_model
from sage_core.segmentation.models.protocol import BoundaryModel, CountingModel
from sage_core.segmentation.segmenter import Segmenter

_TEXTS = 8


def exploring_segmenter(**settings: Any) -> Segmenter:
    """A segmenter with a bundled model, whose answers for the last texts are kept.

    Examples:
        >>> text = "The ferry leaves at seven. It returns at noon. Bees need flowers all summer."
        >>> [len(exploring_segmenter(target_tokens=n, min_tokens=0).segment(text)) for n in (40, 6)]
        [1, 3]

    Raises:
        InputError: As `Segmenter`.
        ModelError: Where the model cannot be loaded.
    """
    segmenter = Segmenter(**settings)
    # Not as an argument: a model by name is known to be English, an object is not.
    segmenter._model = _remembering(str(settings.get("model", "default")))
    return segmenter


@cache
def _remembering(name: str) -> CountingModel:
    return _Remembering(load_model(name))


class _Remembering:
    """A model that keeps what it said of the last documents."""

    def __init__(self, model: BoundaryModel) -> None:
        assert isinstance(model, CountingModel)  # the bundled ones are
        self.fingerprint, self.tokenizer_name = model.fingerprint, model.tokenizer_name
        self._ask = lru_cache(_TEXTS)(lambda document: model.probabilities_and_lengths([document]))

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        return self.probabilities_and_lengths(documents)[0]

    def probabilities_and_lengths(
        self, documents: Sequence[Sequence[str]]
    ) -> tuple[list[NDArray[np.float32]], NDArray[np.int64]]:
        parts = [self._ask(tuple(document)) for document in documents]
        lengths = [part_lengths for _, part_lengths in parts] or [np.zeros(0, np.int64)]
        return [values for part, _ in parts for values in part], np.concatenate(lengths)
