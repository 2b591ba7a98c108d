"""Names of documents in a store's database, so that a text which mentions one leads there.

One row for each name of a document, written and deleted with it. Whose name a text mentions is found when the
text is among the best for a question: no text is read again when a document comes or goes.
"""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress

from sage_core.text.links import document_names

NAME_TABLES = (
    "CREATE TABLE IF NOT EXISTS names (key TEXT NOT NULL, document INTEGER NOT NULL,"
    " PRIMARY KEY (key, document)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS names_by_document ON names (document)",
)
LISTED = "(SELECT value FROM json_each(?))"
"""A list of values in one parameter of a statement; `listed` makes it."""


def listed(values: Iterable[str | int]) -> tuple[str]:
    """The parameters of a statement with `LISTED`."""
    return (json.dumps(list(values), ensure_ascii=False),)


def create_names(connection: sqlite3.Connection) -> None:
    """Make the tables where a store has none yet, with the names of its documents."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'names'").fetchone():
        return
    for statement in NAME_TABLES:
        connection.execute(statement)
    documents = connection.execute(
        "SELECT d.key, d.title, d.source, c.text FROM documents d LEFT JOIN chunks c ON c.row = d.first"
    ).fetchall()
    for key, title, source, beginning in documents:
        insert_names(connection, key, document_names(title, source, beginning or ""))


def insert_names(connection: sqlite3.Connection, document: int, names: Iterable[str]) -> None:
    """Name a document."""
    connection.executemany("INSERT OR IGNORE INTO names VALUES (?, ?)", [(name, document) for name in names])


def delete_names(connection: sqlite3.Connection, document: int) -> None:
    """Forget a document's names."""
    connection.execute("DELETE FROM names WHERE document = ?", (document,))


def term_counts(connection: sqlite3.Connection, terms: Iterable[str], most: int) -> dict[str, int]:
    """How many chunks have each term; of one that more than ``most`` have, no more are counted."""
    query = "SELECT COUNT(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    return {term: connection.execute(query, (f'"{term}"', most + 1)).fetchone()[0] for term in terms}


class NameTables(ABC):
    """Documents by their names: what `FolderStore` and `WordIndex` both answer from these tables."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """A connection for the length of a block."""

    @abstractmethod
    def _count_chunks(self, connection: sqlite3.Connection) -> int:
        """How many chunks there are."""

    def known(self, keys: Sequence[str]) -> set[str]:
        """Those of ``keys`` that are names of documents; see `sage_core.text.links.NameTable`."""
        return self._those("n.key = k.value", keys)

    def beginnings(self, keys: Sequence[str]) -> set[str]:
        """Those of ``keys``, of two words or more, with which a name begins or that are one."""
        # No character of a word comes between a space and "!".
        return self._those("n.key >= k.value AND n.key < k.value || '!'", keys)

    def _those(self, condition: str, keys: Sequence[str]) -> set[str]:
        # A store of an earlier version, not written to since, has no table of names.
        with self._reading() as connection, suppress(sqlite3.OperationalError):
            rows = connection.execute(
                f"SELECT k.value FROM json_each(?) k WHERE EXISTS (SELECT 1 FROM names n WHERE {condition})",
                listed(keys),
            )
            return {key for (key,) in rows}
        return set()

    def named(self, keys: Sequence[str], limit: int) -> dict[str, list[str]]:
        """For each key up to ``limit`` documents of that name, by their sources."""
        statement = (
            "SELECT d.source FROM names n JOIN documents d ON d.key = n.document WHERE n.key = ?"
            " ORDER BY d.key LIMIT ?"
        )
        with self._reading() as connection:
            sources = {key: [row[0] for row in connection.execute(statement, (key, limit))] for key in keys}
        return {key: some for key, some in sources.items() if some}

    def counts(self, terms: Sequence[str]) -> tuple[dict[str, int], int]:
        """In how many chunks each of these `index_terms` stands, and how many chunks there are.

        Of a term that more than a hundredth of them have, and more than 100, it counts no more.
        """
        with self._reading() as connection:
            total = self._count_chunks(connection)
            return term_counts(connection, terms, max(100, total // 100)), total
