"""Searching a store as it was at one moment, several questions at once."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.protocol import TextVectors
from sage_core.store.chroma_client import chroma_errors
from sage_core.store.chunks import Chunk, Found
from sage_core.store.identity import StoreIdentity
from sage_core.store.manifest import DocumentRecord, Manifest
from sage_core.store.vector_files import VectorFiles

# Chunks kept in memory, with their texts: some 2 KB each.
_KEPT_CHUNKS = 8_192


@dataclass(frozen=True, slots=True)
class _Row:
    """A chunk as it stands in Chroma.

    Attributes:
        chunk: The chunk.
        document: Key of its document.
        version: The version of the document that it belongs to.
        words: Its text with single spaces, by which repeated texts are told.
        reference: Where its text vectors are; empty for none.
    """

    chunk: Chunk
    document: str
    version: str
    words: str
    reference: str


class Snapshot:
    """One generation of a store. What it read once it keeps, because within a generation nothing changes.

    Args:
        generation: Which one; see `Manifest.generation`.
        identity: The models that it was made with.
        collection: The Chroma collection.
        manifest: Which versions count.
        vector_files: Text vectors.
        path: The store's folder, for messages.
    """

    def __init__(
        self,
        generation: str,
        identity: StoreIdentity,
        collection: Any,
        manifest: Manifest,
        vector_files: VectorFiles,
        path: Path,
    ) -> None:
        self.generation = generation
        self.identity = identity
        self._collection = collection
        self._manifest = manifest
        self._vector_files = vector_files
        self._path = path
        self._rows: dict[str, _Row] = {}
        self._records: dict[str, DocumentRecord | None] = {}
        self._lock = threading.Lock()
        self._empty: bool | None = None

    def search(self, vectors: NDArray[np.float32], n: int, maker: str | None) -> list[list[Found]]:
        """For each row of ``vectors``, the ``n`` nearest chunks that count; see `ChromaStore.search_many`."""
        if self._empty is None:
            self._empty = not self._manifest.counts()[1]
        found: dict[int, list[Found]] = {}
        todo, fetch = list(range(len(vectors))), n
        while todo and not self._empty:
            short = []
            for i, hits in zip(todo, self._nearest(vectors[todo], fetch), strict=True):
                found[i] = self._found(hits, maker)
                # Chunks that no longer count, and repeated texts, took places: ask for more.
                if len(found[i]) < n and len(hits) >= fetch:
                    short.append(i)
            todo, fetch = short, 2 * fetch
        return [found.get(i, [])[:n] for i in range(len(vectors))]

    def _nearest(self, vectors: NDArray[np.float32], fetch: int) -> list[list[tuple[str, float]]]:
        """Ids and distances. Texts are not asked for: reading them takes longer than the search."""
        with chroma_errors(self._path):
            result = self._collection.query(
                query_embeddings=vectors.astype(np.float32), n_results=fetch, include=["distances"]
            )
        return [
            list(zip(ids, distances, strict=True))
            for ids, distances in zip(result["ids"], result["distances"], strict=True)
        ]

    def _found(self, hits: Sequence[tuple[str, float]], maker: str | None) -> list[Found]:
        """The hits that count, no text twice."""
        rows = self._rows_of([chunk_id for chunk_id, _ in hits])
        records = self._records_of({row.document for row in rows.values()})
        found: dict[str, Found] = {}
        for chunk_id, distance in hits:
            row = rows.get(chunk_id)
            if row is None or row.words in found:
                continue
            record = records.get(row.document)
            if record is not None and record.version == row.version:
                found[row.words] = Found(row.chunk, 1.0 - float(distance), self._vectors(row, maker))
        return list(found.values())

    def _rows_of(self, ids: Sequence[str]) -> dict[str, _Row]:
        """Chunks by id, without those that another process deletes at this moment."""
        with self._lock:
            rows = {i: self._rows[i] for i in ids if i in self._rows}
        missing = [i for i in ids if i not in rows]
        if missing:
            with chroma_errors(self._path):
                got = self._collection.get(ids=missing, include=["documents", "metadatas"])
            new = {
                i: _row(i, text, meta)
                for i, text, meta in zip(got["ids"], got["documents"], got["metadatas"], strict=True)
                if text is not None and meta is not None
            }
            rows.update(new)
            with self._lock:
                if len(self._rows) + len(new) > _KEPT_CHUNKS:
                    self._rows.clear()
                self._rows.update(new)
        return rows

    def _records_of(self, documents: Iterable[str]) -> dict[str, DocumentRecord | None]:
        """The documents that count, by key."""
        wanted = set(documents)
        with self._lock:
            missing = wanted - self._records.keys()
        if missing:
            known = self._manifest.by_id(missing)
            with self._lock:
                self._records.update((key, known.get(key)) for key in missing)
        with self._lock:
            return {key: self._records[key] for key in wanted}

    def _vectors(self, row: _Row, maker: str | None) -> TextVectors | None:
        if maker is None or not row.reference:
            return None
        return self._vector_files.read(maker, row.reference)


def metadata(chunk: Chunk, record: DocumentRecord, reference: str) -> dict[str, str | int]:
    """What Chroma keeps beside a chunk's text."""
    return {
        "document": record.id,
        "version": record.version,
        "source": record.source,
        "start": chunk.start,
        "end": chunk.end,
        "page": chunk.page or 0,
        # What is missing takes no room.
        **({"vectors": reference} if reference else {}),
        **({"after": chunk.after} if chunk.after else {}),
    }


def _row(chunk_id: str, text: str, meta: dict[str, Any]) -> _Row:
    page, after, reference = meta["page"] or None, meta.get("after") or "", meta.get("vectors") or ""
    chunk = Chunk(chunk_id, text, meta["source"], meta["start"], meta["end"], page, after)
    return _Row(chunk, meta["document"], meta["version"], " ".join(text.split()), reference)
