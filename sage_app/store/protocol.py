"""What a `Sage` needs of a store. `FolderStore` and `ChromaStore` have it; so may a store of your own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sage_app.store.chunks import Found, NewDocument
from sage_app.store.identity import StoreIdentity, StoreInfo
from sage_core.text.links import NameTable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """One document in a store.

    Attributes:
        id: Key of the document, made from ``source`` (`document_id`).
        source: The file's absolute path.
        digest: Digest of the content that is in the store.
        chunks: Number of its chunks.
        title: The title the document gives itself.
        stat: What the file system said of the file when it was read; the file is not read again while that
            is the same. Empty where it is not known, or was too fresh to rely on.
    """

    id: str
    source: str
    digest: str
    chunks: int
    title: str | None = None
    stat: str = ""


@runtime_checkable
class NamedStore(NameTable, Protocol):
    """A store that also finds documents by their names, as `FolderStore` does; others follow no names."""

    def first_chunks(
        self,
        documents: Sequence[str],
        vector: NDArray[np.float32],
        n: int,
        identity: StoreIdentity | None = None,
    ) -> list[Found]:
        """The first ``n`` chunks of documents, with their cosines; none of what is not there.

        Args:
            documents: The documents, by their sources.
            vector: The question's unit vector, shape ``(d,)``.
            n: Most chunks of each.
            identity: The embedding model of ``vector``.
        """
        ...


@runtime_checkable
class Store(Protocol):
    """Documents, their chunks and vectors.

    Replacing a document is atomic: a search returns chunks of the old content or of the new one, never of
    both and never of neither. A writer that dies leaves each document as it was or as it should be.
    """

    @property
    def location(self) -> str:
        """Where the store is, for messages: a folder or an address, without anything secret."""
        ...

    @property
    def exists(self) -> bool:
        """Whether there is anything at that place."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether the store was created completely. An incomplete store is made again by `writing`."""
        ...

    def require_packages(self) -> None:
        """Raise MissingExtraError where a package that the store needs is not installed."""
        ...

    def info(self) -> StoreInfo:
        """What the store holds.

        Raises:
            StoreError: Where there is no store, or it cannot be read.
        """
        ...

    def check(self, identity: StoreIdentity) -> None:
        """Raise StoreError unless the store was made with these models; see `StoreIdentity.difference`."""
        ...

    def documents(self) -> list[DocumentRecord]:
        """The documents in the store, by source."""
        ...

    def writing(self, identity: StoreIdentity, *, rebuild: bool = False) -> AbstractContextManager[None]:
        """Hold the store for writing; makes it where there is none, and clears up after a broken run.

        Args:
            identity: The models that make the chunks and vectors.
            rebuild: Make the store anew, whatever it was made with and however damaged it is. A store of one
                writer keeps the old contents until the new ones are complete.

        Raises:
            StoreError: Where the store cannot be written, or was made with other models.
        """
        ...

    def put(self, documents: Sequence[NewDocument]) -> None:
        """Put documents into the store in place of what it held of them. Only within `writing`.

        Raises:
            StoreError: Where they cannot be written. The store then holds what it held.
        """
        ...

    def put_parts(self, parts: Iterable[NewDocument]) -> None:
        """Put one document that comes in parts, for what is too large for memory. Only within `writing`.

        Nothing of it is visible before the last part is written.

        Args:
            parts: The document again and again, each time with the chunks and vectors that follow.
        """
        ...

    def remove(self, *sources: str) -> None:
        """Take documents out of the store. Only within `writing`."""
        ...

    def touch(self, stats: Mapping[str, str]) -> None:
        """Note `DocumentRecord.stat` of unchanged documents, by source. Only within `writing`."""
        ...

    def search_many(
        self,
        vectors: NDArray[np.float32],
        n: int,
        *,
        questions: Sequence[str] = (),
        words: int = 0,
        identity: StoreIdentity | None = None,
    ) -> list[list[Found]]:
        """For each vector the ``n`` most similar chunks, best first, no text twice.

        Args:
            vectors: Unit vectors of questions, shape ``(questions, d)``.
            n: How many for each; fewer come back where the store holds fewer.
            questions: The questions themselves, one per vector; only needed with ``words``.
            words: How many chunks a search for the question's words may find, where the store has an index
                of words. Those that the search by vector did not find come after it, best first.
            identity: The embedding model of ``vectors``; another process may have made the store anew.

        Raises:
            StoreError: Where there is no store, it cannot be read, or was made with another model.
        """
        ...

    def close(self) -> None:
        """Release files and connections. The store opens again where it is used again."""
        ...


class OpenStore:
    """What the stores here do besides: ``with store`` closes it, and one question may be searched alone."""

    def search(self: Store, vector: NDArray[np.float32], n: int) -> list[Found]:
        """The ``n`` chunks most similar to a unit vector of shape ``(d,)``, best first, no text twice."""
        return self.search_many(vector[None, :], n)[0]

    def __enter__(self: T) -> T:
        return self

    def __exit__(self: Store, *_: object) -> None:
        self.close()
