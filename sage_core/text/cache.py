"""A bounded cache of what was computed of texts, and a file beneath it."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from sage_core._version import __version__
from sage_core.errors import InputError

_warn = cache(logging.getLogger(__name__).warning)  # once each

V = TypeVar("V")

CACHE_DIR = "SAGE_CACHE_DIR"
"""The environment variable with a folder for what the next process need not compute again."""
_ROWS = 131_072  # Of a kind in the file: vectors of 200 MB.
_VERSION = __version__.encode()[: hashlib.blake2b.MAX_KEY_SIZE]


@dataclass(frozen=True, slots=True)
class Kept(Generic[V]):
    """What is computed of texts in a file of the folder `CACHE_DIR`; nothing if that is not set.

    Another version of the package computes its own. A file that cannot be used costs a warning.

    Attributes:
        kind: The table.
        write: A value as bytes.
        read: A value of these bytes.
    """

    kind: str
    write: Callable[[V], bytes]
    read: Callable[[bytes], V]

    def get(self, keys: Sequence[bytes]) -> dict[bytes, V]:
        """The values of these keys, as far as they are there."""
        found = self._run(f"SELECT key, value FROM {self.kind} WHERE key = ?", [(key,) for key in keys])
        return {key: self.read(value) for key, value in found}

    def put(self, values: Mapping[bytes, V]) -> None:
        """Keep these; the oldest go once there are too many."""
        rows = ((key, self.write(value)) for key, value in values.items())
        self._run(f"INSERT OR IGNORE INTO {self.kind} (key, value) VALUES (?, ?)", rows)
        oldest = f"(SELECT MAX(row) - {_ROWS} FROM {self.kind})"
        self._run(f"DELETE FROM {self.kind} WHERE row <= {oldest}", [()])

    def _run(self, statement: str, rows: Iterable[Sequence[Any]]) -> list[tuple[bytes, bytes]]:
        if not (folder := os.environ.get(CACHE_DIR)):
            return []
        try:
            path = Path(folder).expanduser() / "passages.sqlite3"
            path.parent.mkdir(parents=True, exist_ok=True)
            # Opened for each: it belongs to no thread and to no forked process.
            opened = sqlite3.connect(path)
            with closing(opened), opened as file:
                file.execute(
                    f"CREATE TABLE IF NOT EXISTS {self.kind}"
                    " (row INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, value BLOB NOT NULL)"
                )
                return [found for row in rows for found in file.execute(statement, row)]
        except (OSError, RuntimeError, sqlite3.Error) as error:
            _warn(f"nothing is kept in {CACHE_DIR}={folder}: {error}")
            return []


class LRUCache(Generic[V]):
    """The values computed of the texts used last. Safe across threads; pickles empty.

    Args:
        size: Most texts; 0 keeps none.
        kept: Where values are looked for before they are computed.

    Raises:
        InputError: For a negative size.
    """

    def __init__(self, size: int, kept: Kept[V] | None = None) -> None:
        if size < 0:
            raise InputError(f"cache_size must be at least 0, not {size}")
        self._size, self._kept = size, kept
        self._values: OrderedDict[bytes, V] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"size": self._size}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["size"])  # type: ignore[misc]  # the cache is not saved

    def get_many(self, texts: Iterable[str], make: Callable[[Sequence[str]], Sequence[V]]) -> dict[str, V]:
        """The value of each text; ``make`` gives all that are not there, each text once, in one call."""
        keys = {text: _key(text) for text in texts}
        cached: dict[str, V] = {}
        with self._lock:
            for text, key in keys.items():
                if key in self._values:
                    self._values.move_to_end(key)
                    cached[text] = self._values[key]
        missing = [text for text in keys if text not in cached]
        if missing:
            kept = self._kept.get([keys[text] for text in missing]) if self._kept else {}
            cached.update((text, kept[keys[text]]) for text in missing if keys[text] in kept)
            new = [text for text in missing if text not in cached]
            cached.update(zip(new, make(new) if new else (), strict=True))
            if self._kept and new:
                self._kept.put({keys[text]: cached[text] for text in new})
            with self._lock:
                self._values.update((keys[text], cached[text]) for text in missing)
                while len(self._values) > self._size:
                    self._values.popitem(last=False)
        return cached


def _key(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16, key=_VERSION).digest()
