"""A bounded cache of what was computed of texts."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from sage_core.errors import InputError

V = TypeVar("V")


class LRUCache(Generic[V]):
    """The values computed of the texts used last. Safe across threads; pickles empty.

    Args:
        size: Most texts; 0 keeps none.

    Raises:
        InputError: For a negative size.
    """

    def __init__(self, size: int) -> None:
        if size < 0:
            raise InputError(f"cache_size must be at least 0, not {size}")
        self._size = size
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
            cached.update(zip(missing, make(missing), strict=True))
            with self._lock:
                self._values.update((keys[text], cached[text]) for text in missing)
                while len(self._values) > self._size:
                    self._values.popitem(last=False)
        return cached


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
