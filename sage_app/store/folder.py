"""A store in one folder: documents and chunks in SQLite, vectors in append-only files.

Safe for one writer and any number of readers, in threads or processes of their own. SQLite's write-ahead
log gives every search the store as it was at one moment; vector files only grow, and a search looks no
further into them than that moment's count of rows. A writer puts vectors on the disk first, and then makes
them visible in the transaction that replaces their documents. What a writer that died left behind is written
over by the next. A rebuild writes a database of its own, which takes the old one's place in one transaction.

A row number names a chunk in both places. Rows are never used twice: those of replaced documents are dead
until most of their file is; then the rest moves to the end and the file goes.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sage_app.store.chunks import Chunk, Found, NewDocument, document_id, version_of
from sage_app.store.identity import Setting, StoreIdentity, StoreInfo
from sage_app.store.protocol import DocumentRecord, OpenStore
from sage_app.store.segments import ROWS, Index, Segment, SegmentMissingError, write_rows
from sage_core.errors import InputError, StoreError
from sage_core.paths import as_path, kind_of
from sage_core.text.keywords import index_terms
from sage_core.text.links import document_names
from sage_core.word_index.names import (
    LISTED,
    NameTables,
    create_names,
    delete_names,
    insert_names,
    listed,
)
from sage_core.word_index.words import WORD_TABLE, WORDS_VERSION, insert_words, renew_words, rows_with_terms

logger = logging.getLogger(__name__)

T = TypeVar("T")

SCHEMA = 3
DATABASE = "store.sqlite3"
# What a rebuild writes until it is complete.
_DRAFT = "rebuild.sqlite3"
_VECTORS = "vectors"
_LOCK = "writer.lock"
_CHROMA = "chroma.sqlite3"

_TABLES = (
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value NOT NULL)",
    # One row. token: random, another one after the store was emptied. change: number of changes. rows: number
    # of rows given out.
    "CREATE TABLE state (token TEXT NOT NULL, change INTEGER NOT NULL, rows INTEGER NOT NULL)",
    # Chunks of a document have the rows from `first` on, in the order of the text. `after` is unused.
    "CREATE TABLE documents (key INTEGER PRIMARY KEY, source TEXT NOT NULL UNIQUE, digest TEXT NOT NULL,"
    " first INTEGER NOT NULL, chunks INTEGER NOT NULL, title TEXT, stat TEXT NOT NULL)",
    "CREATE TABLE chunks (row INTEGER PRIMARY KEY, document INTEGER NOT NULL, start INTEGER NOT NULL,"
    " stop INTEGER NOT NULL, page INTEGER, after TEXT NOT NULL, headings TEXT NOT NULL, header TEXT NOT NULL,"
    " text TEXT NOT NULL)",
    WORD_TABLE,
    "CREATE TABLE segments (number INTEGER PRIMARY KEY, file TEXT NOT NULL, rows INTEGER NOT NULL)",
    # Dead rows, from `first` up to `stop`, since this change.
    "CREATE TABLE dead (first INTEGER NOT NULL, stop INTEGER NOT NULL, change INTEGER NOT NULL)",
    "CREATE INDEX dead_by_change ON dead (change)",
)
# Rows with `Chunk.text_for_models`.
_INDEXED = "SELECT row, CASE header WHEN '' THEN text ELSE header || char(10) || text END FROM chunks"
# Chunks kept in memory, some 2 KB each.
_MOST_CACHED = 8_192
# SQLite forbids a forked child to use or close a connection of its parent
# (https://www.sqlite.org/howtocorrupt.html, "across a fork"): they are kept from the garbage collector here.
_PARENT_CONNECTIONS: list[object] = []
# No store has so many rows.
_MOST_ROWS = 1 << 48
# A file's rest moves where fewer of its rows are alive, and at least this many are dead.
_LEAST_ALIVE, _LEAST_DEAD = 0.5, 2_048


@dataclass(frozen=True, slots=True)
class _View:
    """The vectors of a store at one moment."""

    token: str
    change: int
    identity: StoreIdentity
    index: Index
    # What was read of rows lately: a row's text with single spaces, and its chunk. Shared with later views.
    chunks: dict[int, tuple[str, Chunk]] = field(default_factory=dict)


@dataclass(slots=True)
class _Writer:
    """What one run of `FolderStore.writing` holds."""

    connection: sqlite3.Connection
    token: str
    change: int
    # The next row that nobody has; beyond `state.rows` while something is being written.
    rows: int
    dimension: int
    # Whether this is a rebuild, which readers do not see yet.
    draft: bool


class FolderStore(OpenStore, NameTables):
    """A store in a folder: one process may write while any number search.

    A search compares the signs of all vectors with those of the question and ranks the best few thousand
    exactly (`sage_app.store.segments`); up to 2,048 chunks it is exact. Safe across threads and forks.
    Has the methods of `Store`.

        with FolderStore("my-store") as store:
            print(store.info().chunks)

    Examples:
        >>> import tempfile
        >>> with FolderStore(tempfile.mkdtemp()) as store:
        ...     store.exists
        False

    Args:
        path: The folder, on a local disk. It is made by `writing`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = as_path(path)
        self._database = self.path / DATABASE
        self._writer: _Writer | None = None
        self._init_runtime_state()

    def _init_runtime_state(self) -> None:
        """Create locks and caches; called again in a forked child, whose connections belong to its parent."""
        # SQLite's connections must not be closed in a forked child either.
        _PARENT_CONNECTIONS.extend(getattr(self, "_idle", ()))
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: list[tuple[tuple[int, int], sqlite3.Connection]] = []
        self._view: _View | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def __getstate__(self) -> dict[str, Path]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Path]) -> None:
        self.__init__(state["path"])  # type: ignore[misc]

    # -- what it is -----------------------------------------------------------------------------------

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def exists(self) -> bool:
        return kind_of(self._database) == "file"

    @property
    def is_complete(self) -> bool:
        if not self.exists:
            return False
        with self._reading() as connection:
            return _has_tables(connection)

    def require_packages(self) -> None:
        """Do nothing: SQLite comes with Python."""

    def info(self) -> StoreInfo:
        with self._reading() as connection:
            identity = self._identity(connection)
            documents, chunks = connection.execute("SELECT COUNT(*), SUM(chunks) FROM documents").fetchone()
        return identity.info(self.location, documents, chunks or 0)

    def check(self, identity: StoreIdentity) -> None:
        with self._reading() as connection:
            self._identity(connection).require(identity, self.location)

    def _identity(self, connection: sqlite3.Connection) -> StoreIdentity:
        if not _has_tables(connection):
            if self._has_vectors():
                raise self._damaged(f"{DATABASE} is empty")
            raise StoreError(
                f"the store at {self.path} is being made, or was never finished: run `sage-rag ingest` again"
            )
        settings: dict[str, Setting] = dict(connection.execute("SELECT name, value FROM settings"))
        schema = settings.get("schema")
        if schema != SCHEMA:
            raise StoreError(
                f"the store at {self.path} has format {schema!r}, this version reads {SCHEMA}: make it anew "
                "with `sage-rag ingest --rebuild`"
            )
        try:
            return StoreIdentity.from_settings(settings)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise self._damaged(f"what it was made with cannot be read ({error!r})") from error

    def documents(self) -> list[DocumentRecord]:
        with self._reading() as connection:
            self._identity(connection)
            rows = connection.execute(
                "SELECT source, digest, chunks, title, stat FROM documents ORDER BY source"
            ).fetchall()
            return [DocumentRecord(document_id(row[0]), *row) for row in rows]

    # -- connections ----------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees the store as it is at its first statement, until the block ends."""
        with self._errors():
            connection, file = self._borrow_connection()
            done = False
            try:
                connection.execute("BEGIN")
                yield connection
                connection.execute("COMMIT")
                done = True
            finally:
                if not done:
                    connection.close()
            with self._lock:
                self._idle.append((file, connection))

    def _borrow_connection(self) -> tuple[sqlite3.Connection, tuple[int, int]]:
        """An idle connection, or a new one, to the file that lies there now."""
        if self._process != os.getpid():
            self._init_runtime_state()
        try:
            status = self._database.stat()
        except OSError:
            raise self._missing() from None
        file = status.st_dev, status.st_ino
        with self._lock:
            while self._idle:
                opened, connection = self._idle.pop()
                if opened == file:
                    return connection, file
                connection.close()  # another file by now: the store was deleted and made again
                self._view = None
        return self._connect(), file

    def _missing(self) -> StoreError:
        # First of all: `kind_of` raises an error in words for a path that cannot be looked at.
        if kind_of(self.path) == "file":
            return StoreError(f"no store at {self.path}: it is a file, and a store is a folder; name that")
        if self._has_vectors():
            return self._damaged(f"{DATABASE} is missing")
        return StoreError(
            f"no store at {self.path}: make one with `sage-rag ingest docs/ --store {self.path}`"
        )

    def _connect(self, name: str = DATABASE) -> sqlite3.Connection:
        mode = "rw"
        if not os.access(self.path, os.W_OK):
            # The log of a store that nobody can write to is empty, and cannot be opened either.
            log = self.path / f"{name}-wal"
            mode = "ro" if kind_of(log) == "file" and log.stat().st_size else "ro&immutable=1"
        connection = sqlite3.connect(
            f"{(self.path / name).absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=30,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA synchronous = FULL")
        if mode == "rw" and _has_tables(connection):
            schema = connection.execute("SELECT value FROM settings WHERE name = 'schema'").fetchone()
            if schema == (SCHEMA,):
                renew_words(connection, _INDEXED)
        return connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError, json.JSONDecodeError) as error:  # of damaged bytes
            raise StoreError(
                f"the store at {self.path} cannot be used: {error}. If it is damaged, make it anew with "
                "`sage-rag ingest --rebuild`"
            ) from error

    # -- writing --------------------------------------------------------------------------------------

    @contextmanager
    def writing(self, identity: StoreIdentity, *, rebuild: bool = False) -> Iterator[None]:
        """Hold the store for writing; makes it where there is none, and clears up after a broken run.

        Args:
            identity: The models that make the chunks and vectors.
            rebuild: Make the store anew, whatever it was made with and however damaged it is. Searches find
                the old contents until the block ends, and go on finding them where it ends with an error.

        Raises:
            StoreError: Where another process writes, or the store was made with other models.
        """
        try:
            (self.path / _VECTORS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot make a store at {self.path}: {error.strerror or error}; name another "
                "folder, or make this one writable"
            ) from error
        with self._writer_lock(), self._errors():
            self._refuse_chroma()
            self._delete(_DRAFT)  # of a rebuild that died
            draft = rebuild and kind_of(self._database) == "file"
            with closing(self._created(identity, draft=draft, rebuild=rebuild)) as connection:
                try:
                    self._identity(connection).require(identity, self.location)
                    token, change, rows = _state(connection)
                    dimension = self._identity(connection).probe.size
                    self._writer = _Writer(connection, token, change, rows, dimension, draft)
                    self._clear_up()
                    yield
                    self._compact()
                    if draft:
                        self._publish()
                finally:
                    self._writer = None
                    if draft:
                        connection.close()
                        self._delete(_DRAFT)

    @contextmanager
    def _writer_lock(self) -> Iterator[None]:
        """Held by the one process that writes; released by the system where that process dies."""
        try:
            opened = sqlite3.connect(self.path / _LOCK, timeout=0, isolation_level=None)
        except sqlite3.OperationalError as error:  # another user's, or a folder
            raise StoreError(f"cannot write to the store at {self.path}: {_LOCK}: {error}") from None
        with closing(opened) as connection:
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.DatabaseError as error:
                if "locked" not in str(error):
                    raise StoreError(f"cannot write to the store at {self.path}: {_LOCK}: {error}") from None
                raise StoreError(
                    f"another process is writing to the store at {self.path}: wait until it has ended"
                ) from None
            yield

    def _refuse_chroma(self) -> None:
        if kind_of(self.path / _CHROMA) == "file":
            raise StoreError(
                f"{self.path} holds a Chroma database: choose another folder, or run `chroma run` over it "
                "and name the server as http://host:8000/collection"
            )

    def _has_vectors(self) -> bool:
        try:
            return any((self.path / _VECTORS).glob("*.vec"))
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror or error}") from error

    def _damaged(self, what: str) -> StoreError:
        return StoreError(
            f"the store at {self.path} is damaged: {what}. Make it anew with `sage-rag ingest --rebuild`"
        )

    def _delete(self, name: str) -> None:
        for part in (name, f"{name}-wal", f"{name}-shm"):
            try:
                (self.path / part).unlink(missing_ok=True)
            except OSError as error:
                reason = error.strerror or error
                raise StoreError(f"{self.path / part} cannot be deleted: {reason}; move it away") from error

    def _created(self, identity: StoreIdentity, *, draft: bool, rebuild: bool) -> sqlite3.Connection:
        """A connection to a database that has tables: the store's, or that of a rebuild."""
        name = _DRAFT if draft else DATABASE
        if not rebuild and kind_of(self._database) != "file" and self._has_vectors():
            raise self._missing()
        try:
            (self.path / name).touch()
        except OSError as error:
            raise StoreError(
                f"cannot write to the store at {self.path}: {error.strerror or error}"
            ) from error
        connection = self._connect(name)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            if not _has_tables(connection):
                if not rebuild and self._has_vectors():
                    raise self._damaged(f"{DATABASE} is empty")
                for statement in _TABLES:
                    connection.execute(statement)
                settings = {**identity.to_settings(), "schema": SCHEMA, "words": WORDS_VERSION}
                connection.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())
                connection.execute("INSERT INTO state VALUES (?, 0, 0)", (secrets.token_hex(8),))
            create_names(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _publish(self) -> None:
        """Put what a rebuild wrote in the store's place: a search sees the old contents or the new."""
        writer = self._require_writer()
        try:
            with closing(self._connect()) as target:
                # One transaction: it writes the pages of the new database over those of the old.
                writer.connection.backup(target)
                target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            logger.info("the old database at %s cannot be written over: %s", self.path, error)
            writer.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            writer.connection.close()
            self._delete(DATABASE)
            (self.path / _DRAFT).rename(self._database)
            writer.connection = self._connect()
        writer.draft = False
        self._delete_files()
        writer.connection.close()

    def _clear_up(self) -> None:
        """Remove what an interrupted run left, and see that the vector files are whole."""
        writer = self._require_writer()
        segments = self._segments(writer.connection, writer.dimension)
        self._require_vectors(writer.connection, segments, _masks(writer.connection, segments, None))
        [(end,)] = writer.connection.execute("SELECT COALESCE(MAX(first + chunks), 0) FROM documents")
        if end > writer.rows:
            raise self._damaged(f"it has {end:,} rows, but counts {writer.rows:,}")
        with self._transaction():
            _delete_chunks(writer.connection, writer.rows)
        self._delete_files()

    def _delete_files(self) -> None:
        """Delete vector files that nothing refers to."""
        if self._require_writer().draft:
            return  # those of the old store are still searched
        known = {row[0] for row in self._require_writer().connection.execute("SELECT file FROM segments")}
        for path in (self.path / _VECTORS).iterdir():
            if path.name not in known and path.suffix in {".vec", ".npy", ".part"}:
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:  # Windows, another process reads; or a folder of that name
                    logger.info("%s cannot be deleted: %s", path, error)

    def _require_writer(self) -> _Writer:
        if self._writer is None:
            raise InputError("documents are written within `with store.writing(...)` only")
        return self._writer

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._require_writer().connection
        with self._errors():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def put(self, documents: Sequence[NewDocument]) -> None:
        """Put documents into the store in place of what it held of them; see `Store.put`.

        All become visible at once. One call costs a few writes to disk, whatever number of documents it
        brings.
        """
        writer = self._require_writer()
        for document in documents:
            _check_lengths(document)
        new = [d for d in {d.source: d for d in documents}.values() if len(d.chunks)]
        if not new:
            return
        begin = writer.rows
        written = self._append(np.concatenate([d.vectors for d in new]))
        try:
            with self._transaction() as connection:
                first = begin
                for document in new:
                    key = self._replace(connection, document, first, len(document.chunks))
                    insert_names(connection, key, _names_of(document, document.chunks))
                    _insert_chunks(connection, key, first, document.chunks)
                    first += len(document.chunks)
                self._commit_change(connection, written)
        except BaseException:
            writer.rows = begin
            raise

    def put_parts(self, parts: Iterable[NewDocument]) -> None:
        writer = self._require_writer()
        begin = writer.rows
        written: dict[int, tuple[str, int]] = {}
        [(key,)] = writer.connection.execute("SELECT COALESCE(MAX(key), 0) + 1 FROM documents")
        document: NewDocument | None = None
        names: Sequence[str] = []
        try:
            for document in parts:
                _check_lengths(document)
                names = names or _names_of(document, document.chunks)
                first = writer.rows
                written.update(self._append(document.vectors))
                with self._transaction() as connection:  # rows that no search looks at yet
                    _insert_chunks(connection, key, first, document.chunks)
            if document is None or writer.rows == begin:
                return
            with self._transaction() as connection:
                self._replace(connection, document, begin, writer.rows - begin, key)
                insert_names(connection, key, names)
                self._commit_change(connection, written)
        except BaseException:
            with suppress(sqlite3.Error, StoreError), self._transaction() as connection:
                _delete_chunks(connection, begin)
            writer.rows = begin
            raise

    def _append(self, vectors: NDArray[np.float32]) -> dict[int, tuple[str, int]]:
        """Write vectors from the next row on; returns name and length of every file that grew, by number."""
        writer = self._require_writer()
        if vectors.shape[1:] != (writer.dimension,):
            raise InputError(f"vectors of {vectors.shape[1:]} in a store of {writer.dimension} dimensions")
        files = dict(writer.connection.execute("SELECT number, file FROM segments"))
        touched: dict[int, tuple[str, int]] = {}
        done = 0
        try:
            while done < len(vectors):
                number, start = divmod(writer.rows, ROWS)
                part = np.asarray(vectors[done : done + ROWS - start], dtype=np.float32)
                name = files.setdefault(number, f"{number:06d}-{writer.token[:8]}.vec")
                write_rows(self.path / _VECTORS / name, start, part)
                touched[number] = (name, start + len(part))
                writer.rows += len(part)
                done += len(part)
        except OSError as error:
            raise StoreError(f"cannot write to {self.path / _VECTORS}: {error.strerror or error}") from error
        return touched

    def _replace(
        self,
        connection: sqlite3.Connection,
        document: NewDocument,
        first: int,
        chunks: int,
        key: int | None = None,
    ) -> int:
        """Let a document have these rows in place of those it had; returns its key."""
        self._mark_dead(connection, document.source)
        cursor = connection.execute(
            "INSERT INTO documents (key, source, digest, first, chunks, title, stat)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (key, document.source, document.digest, first, chunks, document.title, document.stat),
        )
        return int(cursor.lastrowid or 0)

    def _mark_dead(self, connection: sqlite3.Connection, source: str) -> None:
        """Take a document and its chunks out, where they are in the store."""
        row = connection.execute("SELECT key, first, chunks FROM documents WHERE source = ?", (source,))
        if (document := row.fetchone()) is None:
            return
        key, first, chunks = document
        _delete_chunks(connection, first, first + chunks)
        connection.execute("DELETE FROM documents WHERE key = ?", (key,))
        delete_names(connection, key)
        change = self._require_writer().change + 1
        connection.execute("INSERT INTO dead VALUES (?, ?, ?)", (first, first + chunks, change))

    def _commit_change(self, connection: sqlite3.Connection, written: Mapping[int, tuple[str, int]]) -> None:
        """Make a change visible: the last statement of its transaction."""
        writer = self._require_writer()
        connection.executemany(
            "INSERT OR REPLACE INTO segments VALUES (?, ?, ?)",
            [(number, name, rows) for number, (name, rows) in written.items()],
        )
        writer.change += 1
        connection.execute("UPDATE state SET change = ?, rows = ?", (writer.change, writer.rows))

    def remove(self, *sources: str) -> None:
        self._require_writer()
        with self._transaction() as connection:
            for source in sources:
                self._mark_dead(connection, source)
            self._commit_change(connection, {})

    def touch(self, stats: Mapping[str, str]) -> None:
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE documents SET stat = ? WHERE source = ?", [(s, name) for name, s in stats.items()]
            )

    def _compact(self) -> None:
        """Move what counts out of files that mostly hold dead rows, and delete those files."""
        writer = self._require_writer()
        dead = _dead(writer.connection)
        if not dead:
            return
        segments = writer.connection.execute("SELECT number, rows FROM segments ORDER BY number").fetchall()
        gone = {number: 0 for number, _ in segments}
        most = max(gone, default=-1)
        for first, stop in dead:
            for number in range(first // ROWS, min((stop - 1) // ROWS, most) + 1):
                if number in gone:
                    gone[number] += min(stop, (number + 1) * ROWS) - max(first, number * ROWS)
        sparse = [
            number
            for number, rows in segments
            if gone[number] == rows
            or (gone[number] > _LEAST_DEAD and rows - gone[number] < _LEAST_ALIVE * rows)
        ]
        if not sparse:
            return
        # What moves goes to a new file, so that the last one may be among those that go.
        if sparse[-1] == segments[-1][0]:
            writer.rows = -(-writer.rows // ROWS) * ROWS
        for number in sparse:
            self._move_out(number)
        self._delete_files()

    def _move_out(self, number: int) -> None:
        """Move the documents that have rows in a segment to the end; drop the segment where none is left."""
        writer = self._require_writer()
        low, high = number * ROWS, (number + 1) * ROWS
        documents = writer.connection.execute(
            "SELECT key, first, chunks FROM documents WHERE first < ? AND first + chunks > ?", (high, low)
        ).fetchall()
        if any(chunks > ROWS for _, _, chunks in documents):
            return  # it would move far more than it frees
        begin = first = writer.rows
        written: dict[int, tuple[str, int]] = {}
        if documents:
            segments = {s.first // ROWS: s for s in self._segments(writer.connection, writer.dimension)}
            vectors = np.concatenate([_rows_of(segments, f, n) for _, f, n in documents])
            written = self._append(vectors.astype(np.float32))
        try:
            with self._transaction() as connection:
                for key, old, chunks in documents:
                    for table, row in (("chunks", "row"), ("words", "rowid")):
                        connection.execute(
                            f"UPDATE {table} SET {row} = {row} + ? WHERE {row} >= ? AND {row} < ?",
                            (first - old, old, old + chunks),
                        )
                    connection.execute("UPDATE documents SET first = ? WHERE key = ?", (first, key))
                    connection.execute(
                        "INSERT INTO dead VALUES (?, ?, ?)", (old, old + chunks, writer.change + 1)
                    )
                    first += chunks
                self._drop(connection, number)
                self._commit_change(connection, written)
        except BaseException:
            writer.rows = begin
            raise

    @staticmethod
    def _drop(connection: sqlite3.Connection, number: int) -> None:
        connection.execute("DELETE FROM segments WHERE number = ?", (number,))
        connection.execute(
            "DELETE FROM dead WHERE first >= ? AND stop <= ?", (number * ROWS, (number + 1) * ROWS)
        )

    # -- searching ------------------------------------------------------------------------------------

    def search_many(
        self,
        vectors: NDArray[np.float32],
        n: int,
        *,
        questions: Sequence[str] = (),
        words: int = 0,
        identity: StoreIdentity | None = None,
    ) -> list[list[Found]]:
        """`search` for several questions, all answered from one moment's store; see `Store.search_many`."""
        if n < 1:
            raise InputError(f"the number of candidates must be at least 1, not {n}")
        if not len(vectors):
            return []
        n, words = min(n, _MOST_ROWS), min(words, _MOST_ROWS)
        queries = np.asarray(vectors, dtype=np.float32)

        def search(connection: sqlite3.Connection, view: _View) -> list[list[Found]]:
            if vectors.shape[1] != view.identity.probe.size:
                raise InputError(
                    f"a question of {vectors.shape[1]} dimensions, but the store's have "
                    f"{view.identity.probe.size}"
                )
            nearest = [_nearest(connection, view, query, n) for query in queries]
            if not words:
                return [list(near.values()) for near in nearest]
            return [
                _with_words(connection, view, query, near, question, words)
                for query, near, question in zip(queries, nearest, questions, strict=True)
            ]

        return self._at_one_moment(search, identity)

    def _at_one_moment(
        self, work: Callable[[sqlite3.Connection, _View], T], identity: StoreIdentity | None
    ) -> T:
        """Work on documents and vectors of one moment; see `search_many` for ``identity``."""
        seen: list[object] = []
        while True:
            with self._reading() as connection:
                try:
                    view = self._viewed(connection)
                except SegmentMissingError:
                    # A writer may have deleted the file since this connection's moment: look again, once for
                    # every change.
                    state = _state(connection)
                    if state in seen:
                        raise
                    seen.append(state)
                    continue
                if identity is not None:
                    view.identity.require(identity, self.location)
                return work(connection, view)

    # -- names ----------------------------------------------------------------------------------------

    def _count_chunks(self, connection: sqlite3.Connection) -> int:
        return _state(connection)[2]

    def first_chunks(
        self,
        documents: Sequence[str],
        vector: NDArray[np.float32],
        n: int,
        identity: StoreIdentity | None = None,
    ) -> list[Found]:
        """The first ``n`` chunks of documents, with their cosines; see `NamedStore.first_chunks`."""
        query = np.asarray(vector, dtype=np.float32)

        def read(connection: sqlite3.Connection, view: _View) -> list[Found]:
            statement = f"SELECT source, first, chunks FROM documents WHERE source IN {LISTED}"
            places = {row[0]: row[1:] for row in connection.execute(statement, listed(documents))}
            rows = [
                row
                for source in dict.fromkeys(documents)
                for first, chunks in [places.get(source, (0, 0))]
                for row in range(first, first + min(chunks, n))
            ]
            chunks = _chunks_of(connection, view, rows)
            cosines = view.index.cosines(query, rows)
            return [Found(chunks[row][1], cosine) for row, cosine in zip(rows, cosines, strict=True)]

        return self._at_one_moment(read, identity)

    def _viewed(self, connection: sqlite3.Connection) -> _View:
        """The vectors that belong to what the connection sees."""
        with self._lock:
            known = self._view
        if known is None and not _has_tables(connection):
            self._identity(connection)  # says what is wrong
        token, change, _ = _state(connection)
        if known is not None and (known.token, known.change) == (token, change):
            for segment in known.index.segments:
                segment.check()
            return known
        if known is not None and (known.token != token or known.change > change):
            known = None
        identity = known.identity if known is not None else self._identity(connection)
        segments = self._segments(connection, identity.probe.size, known.index.segments if known else ())
        masks = _masks(connection, segments, known)
        self._require_vectors(connection, segments, masks)
        view = _View(token, change, identity, Index(segments, masks), known.chunks if known else {})
        with self._lock:
            if self._view is None or self._view.token != token or self._view.change < change:
                self._view = view
        return view

    def _require_vectors(
        self,
        connection: sqlite3.Connection,
        segments: Sequence[Segment],
        masks: Sequence[NDArray[np.bool_] | None],
    ) -> None:
        """Raise StoreError where chunks have no vectors: nothing else would say why they are not found."""
        [(chunks,)] = connection.execute("SELECT COALESCE(SUM(chunks), 0) FROM documents")
        alive = sum(len(s.vectors) for s in segments)
        alive -= sum(int(np.count_nonzero(mask)) for mask in masks if mask is not None)
        if alive < chunks:
            raise self._damaged(f"it has vectors of {alive:,} of {chunks:,} chunks")

    def _segments(
        self, connection: sqlite3.Connection, dimension: int, opened: Sequence[Segment] = ()
    ) -> list[Segment]:
        """The vector files, those that are open and as long as before taken over."""
        known = {segment.path.name: segment for segment in opened}
        segments = []
        for number, file, rows in connection.execute(
            "SELECT number, file, rows FROM segments ORDER BY number"
        ):
            # A store may come from elsewhere, and this name is written to.
            if Path(file).name != file or not 0 < rows <= ROWS:
                raise self._damaged(f"table segments has ({number}, {file!r}, {rows})")
            segment = known.get(file)
            if segment is None:
                segment = Segment.open(self.path / _VECTORS / file, number * ROWS, rows, dimension)
            elif len(segment.vectors) != rows:
                segment = segment.with_rows(rows)
            segments.append(segment)
        return segments

    def close(self) -> None:
        with self._lock:
            idle, self._idle, self._view = self._idle, [], None
        if self._process == os.getpid():
            for _, connection in idle:
                connection.close()


def _has_tables(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'settings'").fetchone())


def _state(connection: sqlite3.Connection) -> tuple[str, int, int]:
    """Token, change and rows."""
    [(token, change, rows)] = connection.execute("SELECT token, change, rows FROM state")
    return token, change, rows


def _dead(connection: sqlite3.Connection, since: int = -1) -> list[tuple[int, int]]:
    """The ranges of dead rows that came after the change ``since``."""
    return connection.execute("SELECT first, stop FROM dead WHERE change > ?", (since,)).fetchall()


def _check_lengths(document: NewDocument) -> None:
    chunks = len(document.chunks)
    if chunks != len(document.vectors):
        raise InputError(f"{chunks} chunks, but {len(document.vectors)} vectors")


def _names_of(document: NewDocument, chunks: Sequence[Chunk]) -> Sequence[str]:
    # The first chunk may be no more than the title.
    return document_names(document.title, document.source, "\n".join(c.text for c in chunks[:2]))


def _insert_chunks(connection: sqlite3.Connection, key: int, first: int, chunks: Sequence[Chunk]) -> None:
    connection.executemany(
        "INSERT INTO chunks (row, document, start, stop, page, after, headings, header, text)"
        " VALUES (?, ?, ?, ?, ?, '', ?, ?, ?)",
        [
            (first + i, key, c.start, c.end, c.page, json.dumps(c.headings), c.header, c.text)
            for i, c in enumerate(chunks)
        ],
    )
    insert_words(connection, enumerate((c.text_for_models for c in chunks), first))


def _delete_chunks(connection: sqlite3.Connection, first: int, stop: int | None = None) -> None:
    """Delete the rows from ``first`` on, up to ``stop``."""
    rows = (first, 1 << 62 if stop is None else stop)
    connection.execute("DELETE FROM chunks WHERE row >= ? AND row < ?", rows)
    connection.execute("DELETE FROM words WHERE rowid >= ? AND rowid < ?", rows)


def _rows_of(segments: Mapping[int, Segment], first: int, count: int) -> NDArray[np.int16]:
    """Vectors of rows that may lie in two files."""
    parts = []
    row, stop = first, first + count
    while row < stop:
        number, start = divmod(row, ROWS)
        parts.append(segments[number].vectors[start : start + stop - row])
        row += len(parts[-1])
    return np.concatenate(parts)


def _masks(
    connection: sqlite3.Connection, segments: Sequence[Segment], known: _View | None
) -> list[NDArray[np.bool_] | None]:
    """Which rows of each segment are dead; only what changed since ``known`` is read."""
    pairs = zip(known.index.segments, known.index.dead, strict=True) if known is not None else ()
    old = {segment.first: mask for segment, mask in pairs}
    masks: dict[int, NDArray[np.bool_]] = {}
    sizes = {s.first: len(s.vectors) for s in segments}
    for first, size in sizes.items():
        mask = old.get(first)
        if mask is not None:
            # A copy: others may be searching with the old one.
            masks[first] = np.concatenate([mask, np.zeros(size - len(mask), dtype=bool)])
    end = max((first + size for first, size in sizes.items()), default=0)
    for low, high in _dead(connection, since=known.change if known else -1):
        for start in range(low // ROWS * ROWS, min(high, end), ROWS):
            if start in sizes:
                mask = masks.setdefault(start, np.zeros(sizes[start], dtype=bool))
                mask[max(low - start, 0) : high - start] = True
    return [masks.get(s.first) for s in segments]


def _nearest(
    connection: sqlite3.Connection, view: _View, query: NDArray[np.float32], n: int
) -> dict[str, Found]:
    """The ``n`` hits of highest cosine and different texts, by their words."""
    fetch = n
    while True:
        hits = view.index.nearest(query, fetch)
        distinct = _distinct(connection, view, hits, n)
        # Repeated texts took places: ask for more.
        if len(distinct) == n or len(hits) < fetch:
            return distinct
        fetch *= 2


def _distinct(
    connection: sqlite3.Connection, view: _View, hits: Sequence[tuple[int, float]], n: int
) -> dict[str, Found]:
    """The first ``n`` hits of different texts, by their words."""
    chunks = _chunks_of(connection, view, [row for row, _ in hits])
    distinct: dict[str, Found] = {}
    for row, cosine in hits:
        words, chunk = chunks[row]
        if (first := distinct.get(words)) is not None:
            distinct[words] = replace(first, copies=(*first.copies, chunk))
        elif len(distinct) < n:
            distinct[words] = Found(chunk, cosine)
    return distinct


def _chunks_of(
    connection: sqlite3.Connection, view: _View, rows: Sequence[int]
) -> dict[int, tuple[str, Chunk]]:
    """The chunks of these rows, and their texts with single spaces.

    A row never changes and its number is never used again, so that what questions ask for again and again is
    read once, whatever else of the store changes.
    """
    known = view.chunks
    chunks = {row: both for row in rows if (both := known.get(row)) is not None}
    missing = [row for row in rows if row not in chunks]
    if missing:
        new = {}
        for row, *rest in connection.execute(_CHUNKS, listed(missing)):
            chunk = _chunk(rest)
            new[row] = (" ".join(chunk.text.split()), chunk)
        lost = next((row for row in missing if row not in new), None)
        if lost is not None:
            raise StoreError(f"the store is damaged: row {lost} is missing. Make it anew with `--rebuild`")
        if len(known) + len(new) > _MOST_CACHED:
            known.clear()
        known.update(new)
        chunks.update(new)
    return chunks


def _with_words(
    connection: sqlite3.Connection,
    view: _View,
    query: NDArray[np.float32],
    near: Mapping[str, Found],
    question: str,
    n: int,
) -> list[Found]:
    """``near``, then what only the word index finds; both know their place in the word index."""
    total = _state(connection)[2]
    rows = rows_with_terms(connection, index_terms(question), total, n=n, below=total)
    hits = list(zip(rows, view.index.cosines(query, rows), strict=True))
    by_words = _distinct(connection, view, hits, n)
    places = {words: place for place, words in enumerate(by_words)}
    # Those that are near come first, in their order; the others follow.
    return [replace(f, by_words=places.get(words)) for words, f in {**near, **by_words, **near}.items()]


_CHUNKS = (
    "SELECT c.row, d.source, d.digest, c.start, c.stop, c.page, c.text, c.row - d.first, d.title,"
    f" c.headings, c.header FROM chunks c JOIN documents d ON d.key = c.document WHERE c.row IN {LISTED}"
)


def _chunk(row: Sequence[Any]) -> Chunk:
    source, digest, start, stop, page, text, position, title, headings, header = row
    name = f"{version_of(source, digest)}-{start}-{stop}"
    above = tuple(json.loads(headings))
    return Chunk(name, text, source, start, stop, page, position, title, above, header)
