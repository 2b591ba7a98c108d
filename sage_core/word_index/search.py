"""Keyword search over the chunks of a framework's own store, in an index that follows their changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from sage_core.word_index.words import WordIndex

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Limits = Mapping[str, Any]
"""Which chunks a search may return, in the words of whoever keeps them; empty for all."""
NO_LIMITS: Limits = MappingProxyType({})
_PAGE = 5_000


class WordSource(Protocol[T_co]):
    """Chunks of type ``T`` that can be read one by one."""

    @property
    def name(self) -> str:
        """What users are told is searched."""
        ...

    def versions(self) -> Mapping[str, str]:
        """By id, what changes with a chunk's text."""
        ...

    def chunks(self, ids: Sequence[str]) -> Sequence[T_co]:
        """The chunks of these ids, in their order, as far as they are still there."""
        ...

    def passing(self, ids: Sequence[str], limits: Limits) -> Collection[str]:
        """Which of these chunks may be returned."""
        ...


class Entry(NamedTuple):
    """What the index holds of a chunk.

    Attributes:
        id: Its id.
        text: Its text, with its header before it.
        document: What its document is known by; None for none.
        names: The keys of that document's names, from `sage_core.text.links.document_names`.
    """

    id: str
    text: str
    document: str | None = None
    names: Collection[str] = ()


class WordSearch(Generic[T]):
    """Searches the chunks of a source by the words of a question, header and text.

    Args:
        source: The chunks.
        entry: What the index is to hold of a chunk.
        path: A file that keeps the keyword index; None for memory.
    """

    def __init__(self, source: WordSource[T], entry: Callable[[T], Entry], path: Path | str | None) -> None:
        self.source = source
        self.index = WordIndex(path)
        self._entry = entry

    def search(self, question: str, n: int, limits: Limits = NO_LIMITS) -> list[T]:
        """The ``n`` chunks that words find first; those that changed since the last search are read again."""
        entries: dict[str, Entry] = {}

        def texts(ids: Sequence[str]) -> list[str]:
            for page in _pages(ids):
                entries.update((entry.id, entry) for entry in map(self._entry, self.source.chunks(page)))
            return [entries[i].text if i in entries else "" for i in ids]

        def documents(ids: Sequence[str]) -> list[tuple[str, Collection[str]] | None]:
            known = (entries.get(i) for i in ids)
            return [
                (e.document, e.names) if e is not None and e.document is not None else None for e in known
            ]

        self.index.update(self.source.versions(), texts, documents)
        allowed = (lambda ids: self._passing(ids, limits)) if limits else None
        return list(self.source.chunks(self.index.search(question, n, allowed=allowed)))

    def passing(self, ids: Sequence[str], limits: Limits = NO_LIMITS) -> Sequence[T]:
        """The chunks of these ids that may be returned."""
        allowed = self._passing(ids, limits) if limits and ids else ids
        return self.source.chunks([i for i in ids if i in allowed])

    def _passing(self, ids: Sequence[str], limits: Limits) -> Collection[str]:
        return {i for page in _pages(ids) for i in self.source.passing(page, limits)}


def _pages(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Ids as many at a time as a store takes: Chroma's SQLite refuses more than 32,766 in one call."""
    return (ids[i : i + _PAGE] for i in range(0, len(ids), _PAGE))


class TextVersions:
    """Versions of texts that come without any: their hashes, made again where a text has changed."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._versions: dict[str, str] = {}

    def of(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        """The version of each text."""
        # Python keeps the hash of a text with it; it is another one in the next process, unlike the version.
        seen = {key: hash(text) for key, text in texts.items()}
        if seen != self._seen:
            self._seen, self._versions = seen, {key: _digest(text) for key, text in texts.items()}
        return self._versions


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
