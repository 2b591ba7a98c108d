"""Opening a Chroma database, and its errors as ours."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sage_core.errors import MissingExtraError, StoreError

DATABASE = "chroma.sqlite3"

_COLLECTION = "chunks"
# The index is approximate. Against exact search for 30 neighbours, 100 chunks that are much alike: Chroma's
# defaults find 94% of them, these all; 2,000 such chunks: 69% and 90%; 20,000 ordinary ones: all, in 4 ms.
_INDEX = {"hnsw": {"space": "cosine", "max_neighbors": 48, "ef_construction": 200, "ef_search": 400}}
# The process that opened databases, where any did.
_opened_in: int | None = None


def require_chroma() -> None:
    """Raise MissingExtraError where Chroma is not installed."""
    try:
        import chromadb  # noqa: F401
    except ImportError:
        raise MissingExtraError("A store on disk", "chroma") from None


def check_process() -> None:
    """Raise StoreError in the child of a process that used Chroma: it would wait for its threads in vain."""
    if _opened_in not in (None, os.getpid()):
        raise StoreError(
            "a store was opened in this process before it forked, which Chroma does not survive: open stores "
            "after the fork, or start processes with multiprocessing's 'spawn'"
        )


def open_collection(path: Path, *, create: bool = False) -> tuple[Any, int]:
    """The collection of chunks, from a client of its own, and the most rows that it takes at once.

    The database is closed when the collection is no longer in use.

    Args:
        path: Folder of the database.
        create: Make the collection where it does not exist.

    Raises:
        MissingExtraError: Without Chroma.
        StoreError: Where the database is missing or damaged, or the process was forked from one that used it.
    """
    global _opened_in
    require_chroma()
    import chromadb
    from chromadb.config import Settings

    check_process()
    if not create and not (path / DATABASE).is_file():  # Chroma would make it, at times in a writer's way
        raise StoreError(
            f"the store at {path} has no {DATABASE}: make it anew with `sage-rag ingest --rebuild`"
        )
    settings = Settings(anonymized_telemetry=False)
    with chroma_errors(path):
        _opened_in = os.getpid()
        try:
            client = chromadb.PersistentClient(path=str(path), settings=settings)
        finally:
            system = _forget_system(str(path))
        if create:
            collection = client.get_or_create_collection(
                _COLLECTION, embedding_function=None, configuration=_INDEX
            )
        else:
            collection = client.get_collection(_COLLECTION, embedding_function=None)
        # Its parts refer to each other: left to the garbage collector, dozens of clients with a dozen open
        # files each pile up.
        if system is not None:
            weakref.finalize(collection, system.stop).atexit = False
        return collection, int(client.get_max_batch_size())


@contextmanager
def chroma_errors(path: Path) -> Iterator[None]:
    """Chroma's errors as StoreError."""
    from chromadb.errors import ChromaError

    try:
        yield
    except UnicodeEncodeError as error:  # bytes in the folder's name that are no UTF-8
        raise StoreError(f"Chroma cannot keep a store at {str(path)!a}: choose another folder") from error
    except (ChromaError, OSError) as error:
        raise StoreError(
            f"the store at {path} cannot be used: {error}. If it is damaged, make it anew with "
            "`sage-rag ingest --rebuild`"
        ) from error


def _forget_system(path: str) -> Any:
    """Keep Chroma from handing the same open database to the next client of this folder in this process.

    It would do so even where opening failed, or another process has written since, and has no public way
    to drop it for one folder. Returns the open database; None for none.
    """
    from chromadb.api.shared_system_client import SharedSystemClient

    getattr(SharedSystemClient, "_identifier_to_refcount", {}).pop(path, None)
    return getattr(SharedSystemClient, "_identifier_to_system", {}).pop(path, None)
