"""A keyword index over chunks that are kept elsewhere: in a vector store, or in the docstore beside it.

Vector search misses names, numbers and rare words. `Sage` has words in its own store; inside a framework
the chunks are somebody else's, and this index stands beside them. SQLite's FTS5 cuts and ranks (BM25):
nothing needs to be installed, and an index can be a file.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from sage_core.errors import StoreError
from sage_core.text.keywords import index_terms, indexed
from sage_core.word_index.names import LISTED, NAME_TABLES, NameTables, listed, term_counts

# English endings are cut off. Marks are parts of words: without vowel signs Hindi is other words.
_TOKENIZER = "tokenize = \"porter unicode61 remove_diacritics 2 categories 'L* N* M* Co' tokenchars '_'\""
# Header and text of each row, as `indexed` writes them.
WORD_TABLE = f"CREATE VIRTUAL TABLE words USING fts5(terms, {_TOKENIZER})"
# The same without the texts, which a file or the memory would hold once more. No row can be deleted.
_BARE_TABLE = f"CREATE VIRTUAL TABLE words USING fts5(terms, content='', {_TOKENIZER})"
# Words in more than this share of the chunks, and in this many at least, are not searched for.
COMMON, COMMON_LEAST = 0.05, 2_000
# Rows that are scored for a question, some 10 ms, and words of one that is a whole text.
_MOST_SCORED, _MAX_TERMS = 10_000, 64
# Raised with a change of the tables or of `indexed`: an index made before is made again.
WORDS_VERSION = 7
# Ids that a filter is asked about at once.
_FILTERED = 128
# Chunks that are read and written at once: no store takes many more ids in one call.
PAGE = 5_000
_WAIT_SECONDS = 30.0


class Entry(NamedTuple):
    """What the index holds of a chunk.

    Attributes:
        id: Its id.
        text: Its text, with its header before it.
        document: What its document is known by; None for none.
        names: The keys of that document's names, from `sage_core.text.links.document_names`.
    """

    id: str
    text: str
    document: str | None = None
    names: Collection[str] = ()


class WordIndex(NameTables):
    r"""Finds chunks by the words of a question (BM25), as `Sage` does. Safe across threads.

    Examples:
        >>> texts = {"a": "Ferry\nIt leaves at seven.", "b": "Bees fly."}
        >>> index = WordIndex()
        >>> index.update({"a": "1", "b": "1"}, lambda ids: [Entry(i, texts[i]) for i in ids])
        2
        >>> index.search("When does the ferry leave?", 5)
        ['a']

    Args:
        path: A file that keeps the index from one process to the next; None keeps it in memory. A pickle
            holds the path alone.

    Raises:
        StoreError: For a file that is no word index.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._connection = self._open()
        # Counting reads all of them; a question must not.
        [(self._chunks,)] = self._connection.execute("SELECT COUNT(*) FROM entries")

    def __len__(self) -> int:
        """Number of chunks."""
        return int(self._chunks)

    @property
    def state(self) -> str | None:
        """The state of the store in which the index is in step with it; None if it is in none."""
        with self._reading() as connection:
            [(state,)] = connection.execute("SELECT MAX(state) FROM step")
            return None if state is None else str(state)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"])  # type: ignore[misc]  # a connection belongs to its process

    def __deepcopy__(self, memo: object) -> WordIndex:
        return self  # as a connection to one index

    def _open(self) -> sqlite3.Connection:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self.path or ":memory:", check_same_thread=False, isolation_level=None, timeout=_WAIT_SECONDS
        )
        try:
            [(version,)] = connection.execute("PRAGMA user_version")
            if version != WORDS_VERSION:
                self._create(connection)
        except sqlite3.DatabaseError as error:
            connection.close()
            raise StoreError(
                f"{self.path} is no word index ({error}): give the path of a file that does not exist, or "
                "delete this one"
            ) from None
        return connection

    def _create(self, connection: sqlite3.Connection) -> None:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if tables and "entries" not in tables:
            raise StoreError(f"{self.path} is a database of something else: give the path of a new file")
        with _transaction(connection):
            for table in ("entries", "words", "names", "documents", "step"):
                connection.execute(f"DROP TABLE IF EXISTS {table}")
            connection.execute("CREATE TABLE step (row INTEGER PRIMARY KEY, state TEXT NOT NULL)")
            connection.execute(
                "CREATE TABLE entries"
                " (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, version TEXT NOT NULL, document INTEGER)"
            )
            connection.execute("CREATE INDEX entries_by_document ON entries (document)")
            connection.execute(
                "CREATE TABLE documents (key INTEGER PRIMARY KEY, source TEXT NOT NULL UNIQUE)"
            )
            for table in (_BARE_TABLE, *NAME_TABLES):
                connection.execute(table)
            # A page is written at once, and what was written is not written again to be in order.
            connection.execute(
                "INSERT INTO words (words, rank) VALUES ('automerge', 0), ('hashsize', 1 << 26)"
            )
            connection.execute(f"PRAGMA user_version = {WORDS_VERSION}")

    def update(
        self,
        versions: Mapping[str, str],
        read: Callable[[Sequence[str]], Iterable[Entry]],
        state: str | None = None,
        pages: Callable[[range], Iterable[int]] = iter,
    ) -> int:
        """Hold exactly these chunks; only what is new or has another version is read.

        A page after the other is read and kept, so that an update that was ended goes on with the next.

        Args:
            versions: A chunk's version by its id: a hash of its text, or whatever changes with it.
            read: Gives chunks by their ids, in any order, as far as they are still there.
            state: What `state` is then to say.
            pages: Goes through the first chunk of each page, as a progress bar does.

        Returns:
            How many chunks were read.
        """
        with self._reading() as connection:
            own = dict(connection.execute("SELECT id, version FROM entries"))
            if gone := [key for key, version in own.items() if versions.get(key) != version]:
                own = self._without(gone)
            new = [key for key in versions if key not in own]
            for begin in pages(range(0, len(new), PAGE)):
                page = new[begin : begin + PAGE]
                entries = {entry.id: entry for entry in read(page)}
                # What went between the list and the reading counts as read, or it would be read for ever.
                self._insert([entries.get(key, Entry(key, "")) for key in page], versions)
            [(self._chunks,)] = self._connection.execute("SELECT COUNT(*) FROM entries")
            if state is not None and state != self.state:
                self._connection.execute("INSERT OR REPLACE INTO step VALUES (0, ?)", (state,))
            return len(new)

    def _without(self, gone: Sequence[str]) -> dict[str, str]:
        """Drop these chunks, and say which are left."""
        # The words of a row without a chunk find nothing. Once most rows are such, all is made anew.
        if self._next_row() > 2 * (len(self) - len(gone)) + PAGE:
            self._create(self._connection)
        else:
            with _transaction(self._connection):
                self._connection.execute("DELETE FROM step")
                self._connection.execute(f"DELETE FROM entries WHERE id IN {LISTED}", listed(gone))
                unused = "SELECT key FROM documents WHERE key NOT IN (SELECT document FROM entries"
                unused += " WHERE document IS NOT NULL)"
                self._connection.execute(f"DELETE FROM names WHERE document IN ({unused})")
                self._connection.execute(f"DELETE FROM documents WHERE key IN ({unused})")
        return dict(self._connection.execute("SELECT id, version FROM entries"))

    def _next_row(self) -> int:
        last = self._connection.execute("SELECT rowid FROM words ORDER BY rowid DESC LIMIT 1").fetchone()
        return 1 + (last or (0,))[0]

    def _insert(self, entries: Sequence[Entry], versions: Mapping[str, str]) -> None:
        names: dict[str, dict[str, None]] = {}
        for entry in entries:
            if entry.document is not None:
                names.setdefault(entry.document, {}).update(dict.fromkeys(entry.names))
        with _transaction(self._connection):
            write, first = self._connection.executemany, self._next_row()
            write("INSERT OR IGNORE INTO documents (source) VALUES (?)", [(document,) for document in names])
            stored = f"SELECT source, key FROM documents WHERE source IN {LISTED}"
            documents = dict(self._connection.execute(stored, listed(names)))
            pairs = [(name, documents[d]) for d, own in names.items() for name in own]
            write("INSERT OR IGNORE INTO names VALUES (?, ?)", pairs)
            # Another process may have added some to the same file.
            write(
                "INSERT OR REPLACE INTO entries (row, id, version, document) VALUES (?, ?, ?, ?)",
                [
                    (first + i, e.id, versions[e.id], None if e.document is None else documents[e.document])
                    for i, e in enumerate(entries)
                ],
            )
            insert_words(self._connection, enumerate((entry.text for entry in entries), first))

    def search(
        self, question: str, n: int, *, allowed: Callable[[Sequence[str]], Collection[str]] | None = None
    ) -> list[str]:
        """Ids of the ``n`` chunks of highest BM25 for any word of the question, best first.

        Args:
            question: The question. Its common words are not searched for.
            n: Most chunks.
            allowed: Which of some ids may be returned, as by a filter on metadata; None for all.
        """
        with self._reading() as connection:
            rows = rows_with_terms(connection, index_terms(question), len(self))
            stored = (connection.execute("SELECT id FROM entries WHERE row = ?", (row,)) for row in rows)
            ids = (key for found in stored for (key,) in found)
            results: list[str] = []
            while len(results) < n and (some := list(islice(ids, _FILTERED))):
                passing = some if allowed is None else allowed(some)
                results += [key for key in some if key in passing]
            return results[:n]

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._process != os.getpid():  # a connection must not be used by a forked process
                self.__init__(self.path)  # type: ignore[misc]
            yield self._connection

    def _count_chunks(self, connection: sqlite3.Connection) -> int:
        return len(self)

    def chunks_of(self, documents: Sequence[str], n: int) -> list[str]:
        """Ids of the first ``n`` chunks of each document, all first ones before any second."""
        statement = (
            "SELECT e.id FROM entries e JOIN documents d ON d.key = e.document WHERE d.source = ?"
            " ORDER BY e.row LIMIT ?"
        )
        with self._reading() as connection:
            chunks = [[row[0] for row in connection.execute(statement, (d, n))] for d in documents]
        places = range(max(map(len, chunks), default=0))
        return [some[i] for i in places for some in chunks if i < len(some)]


def insert_words(connection: sqlite3.Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Index texts, each under its row."""
    connection.executemany(
        "INSERT INTO words (rowid, terms) VALUES (?, ?)", ((row, indexed(text)) for row, text in rows)
    )


def rows_with_terms(
    connection: sqlite3.Connection, terms: Sequence[str], total: int, *, n: int = -1, below: int = 1 << 62
) -> list[int]:
    """Rows of ``words`` by BM25 (SQLite's: k1 1.2, b 0.75) for any of `index_terms`, best first.

    ``total`` is how many rows there are, ``n`` the most that are returned (-1 for all), of numbers below
    ``below``.
    """
    # A common word tells little, and every row that has it must be scored.
    most = min(max(COMMON_LEAST, int(COMMON * total)), _MOST_SCORED)
    distinct = list(dict.fromkeys(terms))
    counts = term_counts(connection, distinct, most) if total > most else dict.fromkeys(distinct, 0)
    rare = sorted((term for term in distinct if counts[term] <= most), key=counts.__getitem__)[:_MAX_TERMS]
    while sum(counts[term] for term in rare) > _MOST_SCORED:
        rare.pop()
    if not rare:
        return []
    query = " OR ".join(f'"{term}"' for term in rare)
    rows = connection.execute(
        "SELECT rowid FROM words WHERE words MATCH ? AND rowid < ? ORDER BY rank LIMIT ?", (query, below, n)
    )
    return [row for (row,) in rows]


def renew_words(connection: sqlite3.Connection, texts: str) -> None:
    """Make a store's keyword index anew, once, where a version with other `index_terms` made it.

    ``texts`` is a query for the rows and what is indexed under each; the version stands in ``settings``.
    """
    known = connection.execute("SELECT value FROM settings WHERE name = 'words'").fetchone()
    if known == (WORDS_VERSION,):
        return
    with _transaction(connection):
        connection.execute("DROP TABLE IF EXISTS words")
        connection.execute(WORD_TABLE)
        insert_words(connection, connection.execute(texts))
        connection.execute("INSERT OR REPLACE INTO settings VALUES ('words', ?)", (WORDS_VERSION,))


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
