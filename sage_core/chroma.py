"""Opening a Chroma database, and its errors as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sage_core.errors import MissingExtraError, StoreError

_COLLECTION = "chunks"
# The index is approximate. Against exact search for 30 neighbours, 100 chunks that are much alike: Chroma's
# defaults find 94% of them, these all; 2,000 such chunks: 69% and 90%; 20,000 ordinary ones: all, in 4 ms.
_INDEX = {"hnsw": {"space": "cosine", "max_neighbors": 48, "ef_construction": 200, "ef_search": 400}}


def require_chroma() -> None:
    """Raise MissingExtraError where Chroma is not installed."""
    try:
        import chromadb  # noqa: F401
    except ImportError:
        raise MissingExtraError("A store on disk", "chroma") from None


def open_collection(path: Path, *, create: bool = False) -> tuple[Any, Any]:
    """A client of its own and the collection of chunks.

    Args:
        path: Folder of the database.
        create: Make the collection where it does not exist.

    Raises:
        MissingExtraError: Without Chroma.
        StoreError: Where the database is missing or damaged.
    """
    require_chroma()
    import chromadb
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False)
    with chroma_errors(path):
        try:
            client = chromadb.PersistentClient(path=str(path), settings=settings)
        finally:
            _forget_system(str(path))
        if create:
            collection = client.get_or_create_collection(
                _COLLECTION, embedding_function=None, configuration=_INDEX
            )
        else:
            collection = client.get_collection(_COLLECTION, embedding_function=None)
    return client, collection


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


def _forget_system(path: str) -> None:
    """Keep Chroma from handing the same open database to the next client of this folder in this process.

    It would do so even where opening failed, or another process has written since, and has no public way
    to drop it for one folder.
    """
    from chromadb.api.shared_system_client import SharedSystemClient

    for kept in ("_identifier_to_system", "_identifier_to_refcount"):
        getattr(SharedSystemClient, kept, {}).pop(path, None)
