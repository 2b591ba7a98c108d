"""Where documents, chunks and vectors are kept: in a folder, or on a Chroma server."""

from __future__ import annotations

from pathlib import Path

from sage_app.store.chroma import ChromaStore
from sage_app.store.folder import FolderStore
from sage_app.store.protocol import DocumentRecord, Store
from sage_core.errors import InputError

__all__ = ["ChromaStore", "DocumentRecord", "FolderStore", "Store", "open_store"]

_SERVER = ("http://", "https://")


def open_store(place: str | Path | Store) -> Store:
    """The store that a user names.

    Args:
        place: A folder for a `FolderStore`; ``"http://host:8000/collection"`` for a `ChromaStore`; or a
            store, which is returned.

    Raises:
        InputError: For anything else.
    """
    if isinstance(place, str) and place.startswith(_SERVER):
        return ChromaStore(place)
    if isinstance(place, str | Path):
        return FolderStore(place)
    # Not isinstance: it would read the properties, and so ask a server.
    if all(callable(getattr(type(place), name, None)) for name in ("writing", "put", "search_many")):
        return place
    raise InputError(f"a store is a folder or a Store, not {place!r}")
