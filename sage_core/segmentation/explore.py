"""One text, segmented again and again with other settings, the model asked once: for sliders."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.segmentation.models.protocol import BoundaryModel, CountingModel
from sage_core.segmentation.segmenter import Segmenter
from sage_core.segmentation.view import SegmentationView


class Explorer:
    """`Segmenter.explain` with other settings at each call; what the model says of the last texts is kept.

    Safe across threads.

    Examples:
        >>> explorer = Explorer()
        >>> text = "The ferry leaves at seven. It returns at noon. Bees need flowers all summer."
        >>> [len(explorer.explain(text, target_tokens=n, min_tokens=0).spans) for n in (40, 6)]
        [1, 3]

    Args:
        texts: How many texts are kept.
    """

    def __init__(self, texts: int = 8) -> None:
        self._texts = texts
        self._models: dict[str, BoundaryModel] = {}
        self._lock = threading.Lock()

    def segmenter(self, **settings: Any) -> Segmenter:
        """A segmenter with these keywords, the model's answers kept.

        Raises:
            InputError: As `Segmenter`.
            ModelError: Where the model cannot be loaded.
        """
        segmenter = Segmenter(**settings)
        name = str(settings.get("model", "default"))
        with self._lock:
            if name not in self._models:
                self._models[name] = _remembering(segmenter.model, self._texts)
        # Not as an argument: a model by name is known to be English, an object is not.
        segmenter._model = self._models[name]
        return segmenter

    def explain(self, text: str, **settings: Any) -> SegmentationView:
        """See `Segmenter.explain`.

        Raises:
            InputError: For settings out of range.
        """
        return self.segmenter(**settings).explain(text)


def _remembering(model: BoundaryModel, texts: int) -> BoundaryModel:
    return _Counting(model, texts) if isinstance(model, CountingModel) else _Remembering(model, texts)


class _Remembering:
    """A model that keeps what it said of the last documents."""

    def __init__(self, model: Any, size: int) -> None:
        self._model = model
        self._size = size
        self._known: OrderedDict[tuple[str, ...], tuple[NDArray[np.float32], NDArray[np.int64]]] = (
            OrderedDict()
        )
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """See `BoundaryModel`."""
        return str(self._model.fingerprint)

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """See `BoundaryModel`."""
        return [self._of(tuple(document))[0] for document in documents]

    def _of(self, document: tuple[str, ...]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        with self._lock:
            if document in self._known:
                self._known.move_to_end(document)
                return self._known[document]
        found = self._ask(document)
        with self._lock:
            self._known[document] = found
            while len(self._known) > self._size:
                self._known.popitem(last=False)
        return found

    def _ask(self, document: tuple[str, ...]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        return self._model.probabilities([document])[0], np.zeros(0, np.int64)


class _Counting(_Remembering):
    """The same of a model that tells lengths too."""

    @property
    def tokenizer_name(self) -> str:
        """See `CountingModel`."""
        return str(self._model.tokenizer_name)

    def probabilities_and_lengths(
        self, documents: Sequence[Sequence[str]]
    ) -> tuple[list[NDArray[np.float32]], NDArray[np.int64]]:
        """See `CountingModel`."""
        found = [self._of(tuple(document)) for document in documents]
        lengths = [each for _, each in found]
        return [each for each, _ in found], np.concatenate(lengths) if lengths else np.zeros(0, np.int64)

    def _ask(self, document: tuple[str, ...]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        values, lengths = self._model.probabilities_and_lengths([document])
        return values[0], lengths
