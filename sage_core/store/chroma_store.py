"""Chunks on disk: vectors and texts in Chroma, what counts and how it was made in a `Manifest`.

Replacing a document is atomic. Its new chunks are written under a version of their own, one transaction in
the manifest makes that version the one that counts, and only then are the old chunks deleted. A process
that dies in between leaves the store as it was or as it should be, plus some chunks that no search
returns; the next `ChromaStore.writing` deletes those.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.documents.discovery import as_path, kind_of
from sage_core.errors import InputError, StoreError
from sage_core.store import protocol
from sage_core.store.chroma_client import (
    DATABASE,
    check_process,
    chroma_errors,
    open_collection,
    require_chroma,
)
from sage_core.store.chunks import Found, NewDocument, document_id, version_of
from sage_core.store.identity import StoreIdentity, StoreInfo
from sage_core.store.manifest import SCHEMA, DocumentRecord, Manifest
from sage_core.store.snapshot import Snapshot, metadata
from sage_core.store.vector_files import VectorFiles

logger = logging.getLogger(__name__)

_SWEEP = 200  # versions deleted in one go
_TRIES = 8  # searches that a writer came between, before one is taken as it is


class ChromaStore:
    """A folder with a Chroma database and a manifest. Opened on first use; safe across threads.

    One process may write while others search; what was written is found by the next search of any of them.

    Examples:
        >>> import tempfile
        >>> with ChromaStore(tempfile.mkdtemp()) as store:
        ...     store.exists
        False

    Args:
        path: The folder. It is made by `writing`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = as_path(path)
        self._manifest = Manifest(self.path / "manifest.sqlite3")
        self._vector_files = VectorFiles(self.path / "vectors")
        self._collection: Any = None
        self._most_rows = 1
        self._snapshot: Snapshot | None = None
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    # -- what it is -----------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether a store has been made there."""
        return kind_of(self._manifest.path) == "file"

    @property
    def finished(self) -> bool:
        """Whether the store's making got to its end. One that did not is made again by `writing`."""
        return self.exists and "schema" in self._manifest.settings()

    def info(self) -> StoreInfo:
        """What the store holds; does not load Chroma.

        Raises:
            StoreError: Where there is no store, or it cannot be read.
        """
        identity = self._identity()
        documents, chunks = self._manifest.counts()
        return StoreInfo(
            str(self.path),
            documents,
            chunks,
            identity.embedder,
            identity.probe.shape[0],
            identity.segmenter,
            self._vector_files.size(),
        )

    def check(self, identity: StoreIdentity) -> None:
        """Raise StoreError unless the store was made with these models; see `StoreIdentity.difference`."""
        self._check(self._identity(), identity)

    def _check(self, mine: StoreIdentity, given: StoreIdentity) -> None:
        difference = mine.difference(given)
        if difference is not None:
            raise StoreError(
                f"the store at {self.path} was made with {difference}: use the same, ingest into another "
                "folder, or make it anew with `sage-rag ingest --rebuild`"
            )

    def _identity(self) -> StoreIdentity:
        settings = self._manifest.settings()
        schema = settings.get("schema")
        if schema is None:
            raise StoreError(
                f"the store at {self.path} is being made, or was never finished: run `sage-rag ingest` again"
            )
        if schema != SCHEMA:
            raise StoreError(
                f"the store at {self.path} has format {schema!r}, this version reads {SCHEMA}: make it anew "
                "with `sage-rag ingest --rebuild`"
            )
        return StoreIdentity.from_settings(settings)

    # -- writing --------------------------------------------------------------------------------------

    @contextmanager
    def writing(self, identity: StoreIdentity, *, rebuild: bool = False) -> Iterator[None]:
        """Hold the store for writing; makes it where there is none, and clears up after a broken run.

        Args:
            identity: The models that make the chunks and vectors.
            rebuild: Empty an existing store first, whatever it was made with.

        Raises:
            StoreError: Where another process writes, or the store was made with other models.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make a store at {self.path}: {error.strerror or error}") from error
        with self._manifest.writer_lock():
            if rebuild and self.exists:
                self._clear()
            if self.finished:
                self._manifest.create()  # tables that a store of an earlier version does not have
            else:
                self._create(identity)
            self.check(identity)
            self._sweep()
            self._vector_files.keep_only(self._manifest.vector_files())
            yield

    def _create(self, identity: StoreIdentity) -> None:
        if not self.exists and (self.path / DATABASE).exists():
            raise StoreError(
                f"{self.path} holds a Chroma database that sage-rag did not make: choose another folder"
            )
        self._manifest.create()
        self._open(create=True)
        # The schema is what makes it a store: without it, the next run starts over.
        self._manifest.put_settings({**identity.to_settings(), "schema": SCHEMA})

    def _clear(self) -> None:
        """Empty the manifest, then delete the Chroma files, and nothing else in the folder."""
        self._manifest.empty()
        with self._lock:  # no thread that searches opens what is about to go
            self._collection = self._snapshot = None
            for path in self.path.iterdir():
                if path.name.startswith(DATABASE):
                    path.unlink()
                elif path.is_dir() and (path / "header.bin").is_file():
                    shutil.rmtree(path)
        self._vector_files.clear()

    @staticmethod
    def require_packages() -> None:
        """Raise MissingExtraError where Chroma is not installed."""
        require_chroma()

    @property
    def location(self) -> str:
        """The folder."""
        return str(self.path)

    def documents(self) -> list[protocol.DocumentRecord]:
        """The documents in the store, by source."""
        return [
            protocol.DocumentRecord(r.id, r.source, r.digest, r.chunks, r.title)
            for r in self._manifest.documents()
        ]

    def put_parts(self, parts: Iterable[NewDocument], *, maker: str = "") -> None:
        """Put one document that comes in parts."""
        made = list(parts)
        if made:
            self.put(
                [
                    dataclasses.replace(
                        made[0],
                        chunks=[c for part in made for c in part.chunks],
                        vectors=np.concatenate([part.vectors for part in made]),
                        text_vectors=[v for part in made for v in part.text_vectors],
                    )
                ],
                maker=maker,
            )

    def touch(self, stats: Mapping[str, str]) -> None:
        """Do nothing: what the file system says of files is not kept here."""

    def put(self, documents: Sequence[NewDocument], *, maker: str = "") -> None:
        """Put documents into the store in place of what it held of them. Only within `writing`.

        All of them count from the same moment on. One call costs a few writes to disk, whatever number of
        documents it brings.

        Args:
            documents: The documents.
            maker: Name of what made their ``text_vectors``.

        Raises:
            StoreError: Where they cannot be written. The store then holds what it held.
        """
        known = self._manifest.by_id(document_id(d.source) for d in documents)
        records = {d.source: _record(d) for d in documents}
        new = [d for d in documents if records[d.source] != known.get(document_id(d.source))]
        chunks = [(c, records[d.source]) for d in new for c in d.chunks]
        if not chunks:
            return
        vectors = np.concatenate([d.vectors for d in new]).astype(np.float32)
        collection = self._open()
        file, references = self._write_text_vectors(new, maker)
        self._manifest.begin((records[d.source].version for d in new), file)
        with chroma_errors(self.path):
            step = self._most_rows
            for start in range(0, len(chunks), step):
                part = chunks[start : start + step]
                collection.upsert(
                    ids=[c.id for c, _ in part],
                    embeddings=vectors[start : start + step],
                    documents=[c.text for c, _ in part],
                    metadatas=[
                        metadata(c, record, reference)
                        for (c, record), reference in zip(part, references[start : start + step], strict=True)
                    ],
                )
        self._manifest.commit(records[d.source] for d in new)
        self._sweep()

    def _write_text_vectors(
        self, documents: Sequence[NewDocument], maker: str
    ) -> tuple[str | None, list[str]]:
        """The file with the text vectors of these documents, and where in it those of each chunk are."""
        vectors = [v for d in documents for v in d.text_vectors]
        chunks = sum(len(d.chunks) for d in documents)
        if not vectors:
            return None, [""] * chunks
        if len(vectors) != chunks:
            raise InputError(f"{chunks} chunks, but text vectors of {len(vectors)}")
        return self._vector_files.write(maker, vectors)

    def remove(self, *sources: str) -> None:
        """Take documents out of the store. Only within `writing`."""
        for source in sources:
            self._manifest.remove(document_id(source))
        self._sweep()

    def _sweep(self) -> None:
        """Delete chunks that do not count: replaced, removed, or left by a run that was broken off."""
        leftovers = self._manifest.leftovers()
        if not leftovers:
            return
        collection = self._open()
        with chroma_errors(self.path):
            for start in range(0, len(leftovers), _SWEEP):
                collection.delete(where={"version": {"$in": leftovers[start : start + _SWEEP]}})
        self._manifest.swept(leftovers)
        self._vector_files.keep_only(self._manifest.vector_files())

    # -- searching ------------------------------------------------------------------------------------

    def search(self, vector: NDArray[np.float32], n: int) -> list[Found]:
        """The ``n`` chunks of the most similar vectors, best first, no text twice.

        Args:
            vector: The question's unit vector, shape ``(d,)``.
            n: How many; fewer come back where the store holds fewer.

        Raises:
            StoreError: Where there is no store, or it cannot be read.
        """
        return self.search_many(vector[None, :], n)[0]

    def search_many(
        self,
        vectors: NDArray[np.float32],
        n: int,
        *,
        maker: str | None = None,
        identity: StoreIdentity | None = None,
    ) -> list[list[Found]]:
        """`search` for several questions at once, which takes less time than one after the other.

        Args:
            vectors: Unit vectors, shape ``(questions, d)``.
            n: How many for each.
            maker: Give text vectors made by this (`VectorReranker.vectors_name`), where they are there.
            identity: The embedding model of ``vectors``; another process may have made the store anew.

        Raises:
            StoreError: As `search`, and where the store was made with another model.
        """
        if n < 1:
            raise InputError(f"the number of candidates must be at least 1, not {n}")
        if not len(vectors):
            return []
        for _ in range(_TRIES):
            snapshot = self._current()
            if identity is not None:
                self._check(snapshot.identity, identity)
            found = snapshot.search(vectors, n, maker)
            if self._manifest.generation() == snapshot.generation:
                break  # else: a document that was replaced meanwhile may be missing
        return found

    # -- Chroma ---------------------------------------------------------------------------------------

    def _open(self, *, create: bool = False) -> Any:
        """The Chroma collection.

        Args:
            create: Make it where it does not exist.
        """
        with self._lock:
            return self._opened(create)

    def _opened(self, create: bool) -> Any:
        if self._collection is None:
            self._collection, self._most_rows = open_collection(self.path, create=create)
        return self._collection

    def _current(self) -> Snapshot:
        """The store as it is now: Chroma's index in memory does not notice what another process writes."""
        check_process()
        with self._lock:
            generation = self._manifest.generation()
            if self._snapshot is None or generation != self._snapshot.generation:
                # Not closed: another thread may be searching it. It goes when nobody holds it any more.
                self._collection = None
                self._snapshot = Snapshot(
                    generation,
                    self._identity(),
                    self._opened(create=False),
                    self._manifest,
                    self._vector_files,
                    self.path,
                )
            return self._snapshot

    def close(self) -> None:
        """Release the files. The store opens again where it is used again."""
        with self._lock:
            self._collection = self._snapshot = None

    def __enter__(self) -> ChromaStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _record(document: NewDocument) -> DocumentRecord:
    if len(document.chunks) != len(document.vectors):
        raise InputError(f"{len(document.chunks)} chunks, but {len(document.vectors)} vectors")
    return DocumentRecord(
        document_id(document.source),
        document.source,
        document.digest,
        version_of(document.source, document.digest),
        len(document.chunks),
        document.title,
    )
