"""A bounded memory of what was computed of texts."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from sage_core.errors import InputError

V = TypeVar("V")


class KeptByText(Generic[V]):
    """Remembers a value per text, the last used ones. Safe across threads; pickles empty.

    Args:
        size: Most texts; 0 remembers nothing.

    Raises:
        InputError: For a negative size.
    """

    def __init__(self, size: int) -> None:
        if size < 0:
            raise InputError(f"cache_size must be at least 0, not {size}")
        self._size = size
        self._kept: OrderedDict[bytes, V] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"size": self._size}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["size"])  # type: ignore[misc]  # it has nothing else

    def of(self, texts: Iterable[str], make: Callable[[Sequence[str]], Sequence[V]]) -> dict[str, V]:
        """The value of each text; ``make`` gives all that are not there, each text once, in one call."""
        keys = {text: _key(text) for text in texts}
        found: dict[str, V] = {}
        with self._lock:
            for text, key in keys.items():
                if key in self._kept:
                    self._kept.move_to_end(key)
                    found[text] = self._kept[key]
        missing = [text for text in keys if text not in found]
        if missing:
            found.update(zip(missing, make(missing), strict=True))
            with self._lock:
                self._kept.update((keys[text], found[text]) for text in missing)
                while len(self._kept) > self._size:
                    self._kept.popitem(last=False)
        return found


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
