"""What a store holds and how it was made: a small SQLite file beside the vectors.

It is the authority: a document's chunks count from the moment its row names their version, so replacing a
document is one transaction whatever happens to the process around it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sage_core.documents.discovery import kind_of
from sage_core.errors import StoreError
from sage_core.store.identity import Setting

SCHEMA = 1

_TABLES = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value NOT NULL);
CREATE TABLE IF NOT EXISTS documents (
    id TEXT PRIMARY KEY, source TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, version TEXT NOT NULL,
    chunks INTEGER NOT NULL, title TEXT
);
CREATE TABLE IF NOT EXISTS leftovers (version TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS vector_files (version TEXT PRIMARY KEY, file TEXT NOT NULL);
"""
_MOST_PARAMETERS = 500
# Written with every change that a search could notice. Random, so that it never comes back.
_TOUCH = "INSERT OR REPLACE INTO settings VALUES ('generation', hex(randomblob(8)))"


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """One document in a store.

    Attributes:
        id: Key of the document in the vector store, made from ``source``.
        source: The file's absolute path.
        digest: Digest of the content that is in the store.
        version: The key of its chunks that count; no two documents share one.
        chunks: How many there are.
        title: The title the document gives itself.
    """

    id: str
    source: str
    digest: str
    version: str
    chunks: int
    title: str | None = None


class Manifest:
    """The SQLite file of one store. A connection per call, so it may be used from any thread.

    Args:
        path: The file; `create` makes it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        """Make the tables where they are missing."""
        with self._connect(create=True) as connection:
            connection.executescript(_TABLES)

    def empty(self) -> None:
        """Forget everything, in one step; a damaged file is replaced."""
        try:
            self.create()
            with self._connect() as connection:
                for table in ("settings", "documents", "leftovers", "vector_files"):
                    connection.execute(f"DELETE FROM {table}")
        except StoreError:
            self.path.unlink(missing_ok=True)
            self.create()

    @contextmanager
    def _connect(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """A connection whose statements commit together, or not at all."""
        if not create and kind_of(self.path) != "file":
            raise StoreError(
                f"no store at {self.path.parent}: make one with "
                f"`sage-rag ingest docs/ --store {self.path.parent}`"
            )
        try:
            with closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
                yield connection
        except sqlite3.Error as error:
            raise StoreError(f"the store at {self.path.parent} cannot be used: {error}") from error

    def settings(self) -> dict[str, Setting]:
        """All settings by name."""
        with self._connect() as connection:
            return dict(connection.execute("SELECT name, value FROM settings"))

    def put_settings(self, settings: dict[str, Setting]) -> None:
        """Write settings, replacing those of the same name."""
        with self._connect() as connection:
            connection.executemany("INSERT OR REPLACE INTO settings VALUES (?, ?)", settings.items())

    def documents(self) -> list[DocumentRecord]:
        """All documents, by source."""
        with self._connect() as connection:
            rows = connection.execute("SELECT id, source, digest, version, chunks, title FROM documents")
            return sorted((DocumentRecord(*row) for row in rows), key=lambda r: r.source)

    def by_id(self, ids: Iterable[str]) -> dict[str, DocumentRecord]:
        """The documents with these ids."""
        wanted = sorted(set(ids))
        found: dict[str, DocumentRecord] = {}
        with self._connect() as connection:
            for start in range(0, len(wanted), _MOST_PARAMETERS):
                part = wanted[start : start + _MOST_PARAMETERS]
                marks = ",".join("?" * len(part))
                rows = connection.execute(
                    f"SELECT id, source, digest, version, chunks, title FROM documents WHERE id IN ({marks})",
                    part,
                )
                found.update((row[0], DocumentRecord(*row)) for row in rows)
        return found

    def generation(self) -> str:
        """Differs from every earlier one after every change; empty where nothing was ever written."""
        with self._connect() as connection:
            row = connection.execute("SELECT value FROM settings WHERE name = 'generation'").fetchone()
        return str(row[0]) if row else ""

    def counts(self) -> tuple[int, int]:
        """Number of documents and of their chunks."""
        with self._connect() as connection:
            documents, chunks = connection.execute("SELECT COUNT(*), SUM(chunks) FROM documents").fetchone()
        return int(documents), int(chunks or 0)

    def begin(self, versions: Iterable[str], vector_file: str | None = None) -> None:
        """Note that chunks of these versions are about to be written: until `commit` they do not count.

        Args:
            versions: The versions.
            vector_file: Name of the file with their text vectors.
        """
        keys = [(version,) for version in versions]
        with self._connect() as connection:
            connection.executemany("INSERT OR IGNORE INTO leftovers VALUES (?)", keys)
            if vector_file is not None:
                connection.executemany(
                    "INSERT OR REPLACE INTO vector_files VALUES (?, ?)", [(*key, vector_file) for key in keys]
                )

    def vector_files(self) -> set[str]:
        """Names of the files that hold vectors of any version."""
        with self._connect() as connection:
            return {row[0] for row in connection.execute("SELECT DISTINCT file FROM vector_files")}

    def commit(self, records: Iterable[DocumentRecord]) -> None:
        """Make ``records`` what counts, all at once; the versions before them become leftovers."""
        with self._connect() as connection:
            for record in records:
                connection.execute(
                    "INSERT OR IGNORE INTO leftovers SELECT version FROM documents WHERE id = ?", (record.id,)
                )
                connection.execute("DELETE FROM leftovers WHERE version = ?", (record.version,))
                connection.execute(
                    "INSERT OR REPLACE INTO documents (id, source, digest, version, chunks, title)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (record.id, record.source, record.digest, record.version, record.chunks, record.title),
                )
            connection.execute(_TOUCH)

    def remove(self, document_id: str) -> None:
        """Forget a document; its chunks become leftovers."""
        with self._connect() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO leftovers SELECT version FROM documents WHERE id = ?", (document_id,)
            )
            connection.execute("DELETE FROM documents WHERE id = ?", (document_id,))
            connection.execute(_TOUCH)

    def leftovers(self) -> list[str]:
        """Versions whose chunks do not count: being written, replaced or removed."""
        with self._connect() as connection:
            return [row[0] for row in connection.execute("SELECT version FROM leftovers")]

    def swept(self, versions: Iterable[str]) -> None:
        """Note that the chunks of these versions are gone."""
        with self._connect() as connection:
            keys = [(version,) for version in versions]
            connection.executemany("DELETE FROM leftovers WHERE version = ?", keys)
            connection.executemany("DELETE FROM vector_files WHERE version = ?", keys)
            connection.execute(_TOUCH)

    @contextmanager
    def writer_lock(self) -> Iterator[None]:
        """Held by the one process that writes; released by the system where that process dies.

        Raises:
            StoreError: Where another process or thread holds it.
        """
        lock = self.path.with_name("writer.lock")
        with closing(sqlite3.connect(lock, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                raise StoreError(
                    f"another process is writing to the store at {self.path.parent}: wait until it has ended"
                ) from None
            yield
