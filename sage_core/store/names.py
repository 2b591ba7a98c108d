"""The names of documents in a store's database, so that a text which mentions one leads there.

One row for each name of a document, written and deleted with it. Where a text mentions a name is found when
the text is among the best for a question: no text is read again when a document comes or goes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress

from sage_core.text.keywords import index_terms
from sage_core.text.links import document_names, rarest

NAME_TABLES = (
    "CREATE TABLE IF NOT EXISTS names (key TEXT NOT NULL, document INTEGER NOT NULL,"
    " PRIMARY KEY (key, document)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS names_by_document ON names (document)",
)


def create_names(connection: sqlite3.Connection) -> None:
    """Make the table where a store has none yet, with the names of its documents."""
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


def known_names(connection: sqlite3.Connection, keys: Sequence[str]) -> set[str]:
    """Those of ``keys`` that are names."""
    return _those(connection, "n.key = k.value", keys)


def name_beginnings(connection: sqlite3.Connection, keys: Sequence[str]) -> set[str]:
    """Those of ``keys``, of two words or more, with which a name begins or that are one."""
    # No character of a word comes between a space and "!".
    return _those(connection, "n.key >= k.value AND n.key < k.value || '!'", keys)


def _those(connection: sqlite3.Connection, condition: str, keys: Sequence[str]) -> set[str]:
    # A store of an earlier version, not written to since, has no table of names.
    with suppress(sqlite3.OperationalError):
        rows = connection.execute(
            f"SELECT k.value FROM json_each(?) k WHERE EXISTS (SELECT 1 FROM names n WHERE {condition})",
            (json.dumps(list(keys), ensure_ascii=False),),
        )
        return {key for (key,) in rows}
    return set()


def documents_named(connection: sqlite3.Connection, keys: Sequence[str], limit: int) -> dict[str, list[str]]:
    """For each key up to ``limit`` documents of that name, by their sources."""
    statement = (
        "SELECT d.source FROM names n JOIN documents d ON d.key = n.document WHERE n.key = ? ORDER BY d.key"
        " LIMIT ?"
    )
    found = {key: [source for (source,) in connection.execute(statement, (key, limit))] for key in keys}
    return {key: sources for key, sources in found.items() if sources}


def name_frequencies(
    connection: sqlite3.Connection, keys: Sequence[str], total: int
) -> dict[str, tuple[int, int]]:
    """For each key how many chunks have its rarest word, and ``total``; keys without words are left out."""
    terms = {key: index_terms(key) for key in keys}
    words = json.dumps(list({term for some in terms.values() for term in some}), ensure_ascii=False)
    counts = connection.execute(
        "SELECT term, doc FROM word_counts WHERE term IN (SELECT value FROM json_each(?))", (words,)
    )
    return rarest(terms, dict(counts), total)
