"""What embedding models that run here share: loaded once, the last questions remembered."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A question is embedded for the search, the reranker and perhaps the answer: once is enough.
_QUERIES = 512

# Of an embedder: models, locks and what is remembered.
_NOT_PICKLED = ("_lock", "_recent", "_recent_lock")


class LocalEmbedder(ABC):
    """An `Embedder` whose model is in this process. Pickles without its weights, safe across threads."""

    def __init__(self) -> None:
        self._model: Any = None
        self._init_runtime_state()

    def _init_runtime_state(self) -> None:
        """Create locks and the cache; called again after unpickling."""
        # Fast tokenizers cannot be shared by threads, and a forward pass uses every core anyway.
        self._lock = threading.Lock()
        self._recent: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
        self._recent_lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None, **dict.fromkeys(_NOT_PICKLED)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._init_runtime_state()

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages; see `Embedder.embed_documents`."""
        with self._lock:
            return self._encode(list(texts), question=False)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Embed one question; see `Embedder.embed_query`. The array is read-only."""
        return self.embed_queries([text])[0]

    def embed_queries(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """`embed_query` of several questions in as few forward passes as there can be."""
        with self._recent_lock:
            return self._remembered(texts)

    def _remembered(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """One vector per question. Hold the lock of what is remembered."""
        new = [text for text in dict.fromkeys(texts) if text not in self._recent]
        if new:
            with self._lock:
                rows = self._encode(new, question=True)
            rows.setflags(write=False)
            self._recent.update(zip(new, rows, strict=True))
        vectors = [self._recent[text] for text in texts]
        for text in texts:
            self._recent.move_to_end(text)
        while len(self._recent) > _QUERIES:
            self._recent.popitem(last=False)
        return vectors

    def _loaded(self) -> Any:
        """The model, loaded once. Hold the lock."""
        if self._model is None:
            self._model = self._load()
        return self._model

    @property
    @abstractmethod
    def name(self) -> str:
        """The model's name; see `Embedder.name`."""

    @abstractmethod
    def _load(self) -> Any:
        """Load the model."""

    @abstractmethod
    def _encode(self, texts: Sequence[str], *, question: bool) -> NDArray[np.float32]:
        """One row per text. Hold the lock."""
