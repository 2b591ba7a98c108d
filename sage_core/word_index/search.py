"""Keyword search over the chunks of a framework's own store, in an index that follows their changes."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from sage_core.errors import SageError
from sage_core.word_index.words import PAGE, Entry, WordIndex

logger = logging.getLogger(__name__)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Limits = Mapping[str, Any]
"""Which chunks a search may return, in the words of whoever keeps them; empty for all."""
FEW = 500
"""So many chunks are compared with the index before every question."""


class WordSource(Protocol[T_co]):
    """Chunks of type ``T`` that can be read one by one."""

    name: str
    """What is searched, in words for users, such as ``"docstore"``."""

    def state(self) -> object:
        """Changes if a chunk is added or deleted, as far as the store tells without listing all."""

    def versions(self) -> Mapping[str, str]:
        """By id, what changes with a chunk's text."""

    def chunks(self, ids: Sequence[str]) -> Sequence[T_co]:
        """The chunks of these ids, in their order, as far as they are still there."""

    def passing(self, ids: Sequence[str], limits: Limits) -> Collection[str]:
        """Which of these chunks may be returned."""


class WordSearch(Generic[T]):
    """Searches the chunks of a source by the words of a question, header and text.

    Before a question, an index of few chunks is compared with the source; a larger one only if the source's
    state is another one, so that no question lists them.

    Args:
        source: The chunks.
        entry: What the index is to hold of a chunk.
        path: A file that keeps the keyword index; None for memory.
        pages: As of `WordIndex.update`.
    """

    def __init__(
        self,
        source: WordSource[T],
        entry: Callable[[T], Entry],
        path: Path | str | None,
        pages: Callable[[range], Iterable[int]] = iter,
    ) -> None:
        self.source = source
        self.index = WordIndex(path)
        self._pages = pages
        self._entry = entry
        self._warned = False

    def search(self, question: str, n: int, limits: Limits | None = None) -> list[T]:
        """The ``n`` chunks that words find first."""
        allowed = partial(self.source.passing, limits=limits) if limits else None

        def found() -> Sequence[T]:
            state = repr(self.source.state())
            if state != self.index.state or len(self.index) <= FEW:
                self.index.update(self.source.versions(), self._read, state, self._pages)
            return self.source.chunks(self.index.search(question, n, allowed=allowed))

        return self._unless_it_fails(found)

    def passing(self, ids: Sequence[str], limits: Limits | None = None) -> list[T]:
        """The chunks of these ids that may be returned."""

        def found() -> Sequence[T]:
            allowed = self.source.passing(ids, limits) if limits and ids else ids
            return self.source.chunks([i for i in ids if i in allowed])

        return self._unless_it_fails(found)

    def _unless_it_fails(self, found: Callable[[], Sequence[T]]) -> list[T]:
        """What is found; of a source that cannot be read nothing, with one warning."""
        try:
            return list(found())
        except SageError:
            raise
        # Whatever a store raises: the search by vectors has found something, and that is an answer.
        except Exception as error:
            if not self._warned:
                logger.warning("words are not searched: the %s cannot be read: %s", self.source.name, error)
            self._warned = True
            return []

    def _read(self, ids: Sequence[str]) -> list[Entry]:
        return [self._entry(chunk) for chunk in self.source.chunks(ids)]


def text_versions(texts: Mapping[str, str]) -> dict[str, str]:
    """Versions of texts that come without any: their hashes."""
    return {
        key: hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        for key, text in texts.items()
    }


def cosines(rows: Mapping[str, Any], vector: Any) -> dict[str, float]:
    """Of a vector and each of these; 0 of one without a length, which has no direction."""
    if not rows:
        return {}
    # In float64, as lists of floats are: the scores must be equal to those that a store reports.
    matrix, vector = np.asarray([*rows.values()], dtype=np.float64), np.asarray(vector, dtype=np.float64)
    lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(vector)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.nan_to_num(matrix @ vector / lengths, posinf=0.0, neginf=0.0)
    return dict(zip(rows, found.tolist(), strict=True))


class ChromaCollection:
    """A collection of Chroma's, which keeps the texts of its chunks."""

    name = "Chroma collection"
    collection: Any

    def state(self) -> object:
        """How many chunks there are, and the last one: among many, to look for that takes long."""
        n = self.collection.count()
        return n, self.collection.get(include=[], limit=1, offset=n - 1)["ids"] if 0 < n <= PAGE else None

    def versions(self) -> Mapping[str, str]:
        """By id, what changes with a chunk's text.

        To read the texts of many takes seconds: their ids alone are listed, so that one which is replaced
        under its id counts as the old one.
        """
        found: dict[str, str] = {}
        for begin in range(0, total := self.collection.count(), PAGE):
            include = ["documents"] if total <= FEW else []
            page = self.collection.get(include=include, limit=PAGE, offset=begin)
            texts = page["documents"] or [""] * len(page["ids"])
            found |= zip(page["ids"], (text or "" for text in texts), strict=True)
        return text_versions(found)

    def distances(self, vector: Sequence[float], ids: Sequence[str]) -> dict[str, float]:
        """Distances of a vector and these chunks, by its own formula; without what is gone."""
        if not ids:
            return {}
        # Its search within ids takes longer the larger the collection is, and refuses ids that it lacks.
        found = self.collection.get(ids=list(ids), include=["embeddings"])
        settings = self.collection.configuration_json
        rows = dict(zip(found["ids"], np.asarray(found["embeddings"], dtype=np.float64), strict=True))
        space = (settings.get("hnsw") or settings["spann"])["space"]
        if space == "cosine":
            return {key: 1 - value for key, value in cosines(rows, vector).items()}
        square = space == "l2"
        return {k: float(((r - vector) ** 2).sum() if square else 1 - r @ vector) for k, r in rows.items()}
