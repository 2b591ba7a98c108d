"""Chunks on disk: vectors and texts in Chroma, what counts and how it was made in a `Manifest`.

Replacing a document is atomic. Its new chunks are written under a version of their own, one transaction in
the manifest makes that version the one that counts, and only then are the old chunks deleted. A process
that dies in between leaves the store as it was or as it should be, plus some chunks that no search
returns; the next `ChromaStore.writing` deletes those.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.chunks import Chunk, Found, document_id, version_of
from sage_core.errors import InputError, MissingExtraError, StoreError
from sage_core.identity import StoreIdentity, StoreInfo
from sage_core.manifest import SCHEMA, DocumentRecord, Leftover, Manifest

logger = logging.getLogger(__name__)

_COLLECTION = "chunks"
_DATABASE = "chroma.sqlite3"
# Recall at 30 neighbours is measurably below 1 with Chroma's default (100) on real text.
_INDEX = {"hnsw": {"space": "cosine", "ef_search": 200}}


class ChromaStore:
    """A folder with a Chroma database and a manifest. Opened on first use; safe across threads.

    One process may write while others search. A process that searched before sees what another one wrote
    since only after opening the store anew.

    Args:
        path: The folder. It is made by `writing`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self._manifest = Manifest(self.path / "manifest.sqlite3")
        self._client: Any = None
        self._collection: Any = None
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    # -- what it is -----------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether a store has been made there."""
        return self._manifest.path.is_file()

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
        )

    def check(self, identity: StoreIdentity) -> None:
        """Raise StoreError unless the store was made with these models; see `StoreIdentity.difference`."""
        difference = self._identity().difference(identity)
        if difference is not None:
            raise StoreError(
                f"the store at {self.path} was made with {difference}: use the same model, ingest into "
                "another folder, or make it anew with `sage-rag ingest --rebuild`"
            )

    def _identity(self) -> StoreIdentity:
        settings = self._manifest.settings()
        schema = settings.get("schema")
        if schema is None:
            raise StoreError(f"the store at {self.path} was never finished: run `sage-rag ingest` again")
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
            if not self.finished:
                self._create(identity)
            self.check(identity)
            self._sweep()
            yield

    def _create(self, identity: StoreIdentity) -> None:
        if not self.exists and (self.path / _DATABASE).exists():
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
        self.close()
        for path in self.path.iterdir():
            if path.name.startswith(_DATABASE):
                path.unlink()
            elif path.is_dir() and (path / "header.bin").is_file():
                shutil.rmtree(path)

    def documents(self) -> list[DocumentRecord]:
        """The documents in the store, by source."""
        return self._manifest.documents()

    def replace(
        self,
        source: str,
        digest: str,
        chunks: Sequence[Chunk],
        vectors: NDArray[np.float32],
        *,
        title: str | None = None,
    ) -> None:
        """Put a document into the store in place of what it held of it. Only within `writing`.

        Args:
            source: The document's absolute path.
            digest: Digest of its content.
            chunks: Its chunks, with ids from `chunk_ids`.
            vectors: Their unit vectors, shape ``(len(chunks), d)``.
            title: The title the document gives itself.

        Raises:
            StoreError: Where it cannot be written. The store then holds what it held.
        """
        if len(chunks) != len(vectors):
            raise InputError(f"{len(chunks)} chunks, but {len(vectors)} vectors")
        record = DocumentRecord(document_id(source), source, digest, version_of(digest), len(chunks), title)
        before = self._manifest.by_id([record.id]).get(record.id)
        if before is not None and before.version == record.version:
            return
        collection = self._open()
        self._manifest.begin(record.id, record.version)
        with self._errors():
            step = self._client.get_max_batch_size()
            for start in range(0, len(chunks), step):
                part = slice(start, start + step)
                collection.upsert(
                    ids=[c.id for c in chunks[part]],
                    embeddings=np.ascontiguousarray(vectors[part], dtype=np.float32),
                    documents=[c.text for c in chunks[part]],
                    metadatas=[_metadata(c, record) for c in chunks[part]],
                )
        self._manifest.commit(record)
        if before is not None:
            self._delete(Leftover(before.id, before.version))

    def remove(self, source: str) -> None:
        """Take a document out of the store. Only within `writing`."""
        record = self._manifest.by_id([document_id(source)]).get(document_id(source))
        if record is not None:
            self._manifest.remove(record.id)
            self._delete(Leftover(record.id, record.version))

    def _sweep(self) -> None:
        """Delete what a broken run left."""
        for leftover in self._manifest.leftovers():
            logger.info("deleting unfinished chunks of document %s", leftover.id)
            self._delete(leftover)

    def _delete(self, leftover: Leftover) -> None:
        collection = self._open()
        with self._errors():
            collection.delete(where={"$and": [{"document": leftover.id}, {"version": leftover.version}]})
        self._manifest.swept(leftover)

    # -- searching ------------------------------------------------------------------------------------

    def search(self, vector: NDArray[np.float32], n: int) -> list[Found]:
        """The ``n`` chunks of the most similar vectors, best first, no text twice.

        Args:
            vector: The question's unit vector, shape ``(d,)``.
            n: How many; fewer come back where the store holds fewer.

        Raises:
            StoreError: Where there is no store, or it cannot be read.
        """
        if n < 1:
            raise InputError(f"the number of candidates must be at least 1, not {n}")
        if not self._manifest.counts()[1]:
            return []
        collection = self._open()
        with self._errors():
            total = int(collection.count())
        fetch = min(n, total)
        while True:
            found = self._search(collection, vector, fetch)
            # Chunks that no longer count, and repeated texts, took places: ask for more.
            if len(found) >= n or fetch >= total:
                return found[:n]
            fetch = min(2 * fetch, total)

    def _search(self, collection: Any, vector: NDArray[np.float32], fetch: int) -> list[Found]:
        with self._errors():
            result = collection.query(
                query_embeddings=vector[None, :].astype(np.float32),
                n_results=fetch,
                include=["documents", "metadatas", "distances"],
            )
        columns = (result[key][0] for key in ("ids", "documents", "metadatas", "distances"))
        rows = list(zip(*columns, strict=True))
        counting = self._manifest.by_id(row[2]["document"] for row in rows)
        found: dict[str, Found] = {}
        for chunk_id, text, meta, distance in rows:
            record = counting.get(meta["document"])
            if record is not None and record.version == meta["version"]:
                page = meta["page"] or None
                chunk = Chunk(chunk_id, text, record.source, meta["start"], meta["end"], page)
                found.setdefault(" ".join(text.split()), Found(chunk, 1.0 - float(distance)))
        return list(found.values())

    # -- Chroma ---------------------------------------------------------------------------------------

    def _open(self, *, create: bool = False) -> Any:
        """The Chroma collection, opened once."""
        with self._lock:
            if self._collection is None:
                self.require_packages()
                import chromadb
                from chromadb.config import Settings

                settings = Settings(anonymized_telemetry=False)
                with self._errors():
                    try:
                        client = chromadb.PersistentClient(path=str(self.path), settings=settings)
                    except Exception:
                        # What failed to open would be handed out again at the next try.
                        _forget_system(str(self.path))
                        raise
                    self._client = client
                    if create:
                        self._collection = client.get_or_create_collection(
                            _COLLECTION, embedding_function=None, configuration=_INDEX
                        )
                    else:
                        self._collection = client.get_collection(_COLLECTION, embedding_function=None)
            return self._collection

    @staticmethod
    def require_packages() -> None:
        """Raise MissingExtraError where Chroma is not installed."""
        try:
            import chromadb  # noqa: F401
        except ImportError:
            raise MissingExtraError("A store on disk", "chroma") from None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Chroma's errors as ours."""
        from chromadb.errors import ChromaError

        try:
            yield
        except (ChromaError, OSError) as error:
            raise StoreError(
                f"the store at {self.path} cannot be used: {error}. If it is damaged, make it anew with "
                "`sage-rag ingest --rebuild`"
            ) from error

    def close(self) -> None:
        """Release the files. The store opens again where it is used again."""
        with self._lock:
            close = getattr(self._client, "close", None)
            if close is not None:
                close()
            elif self._client is not None:  # older releases of Chroma
                _forget_system(str(self.path))
            self._client = self._collection = None

    def __enter__(self) -> ChromaStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _forget_system(path: str) -> None:
    """Drop what Chroma keeps of a folder in this process; it has no public way to do so for one folder."""
    from chromadb.api.shared_system_client import SharedSystemClient

    for kept in ("_identifier_to_system", "_identifier_to_refcount"):
        getattr(SharedSystemClient, kept, {}).pop(path, None)


def _metadata(chunk: Chunk, record: DocumentRecord) -> dict[str, str | int]:
    return {
        "document": record.id,
        "version": record.version,
        "source": record.source,
        "start": chunk.start,
        "end": chunk.end,
        "page": chunk.page or 0,
    }
