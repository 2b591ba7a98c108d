"""Names and links of documents in a store's database, so that a text which mentions one leads there.

One row for each name of a document, and one for each path that a link of it may mean, written and deleted
with it. Whose name a text mentions, and whether a linked file is in the store, is found when the text is
among the best for a question: no text is read again when a document comes or goes.
"""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress

from sage_core.text.keywords import index_terms
from sage_core.text.links import Hyperlink, document_names, heading_key, link_target, rarest

NAME_TABLES = (
    "CREATE TABLE IF NOT EXISTS names (key TEXT NOT NULL, document INTEGER NOT NULL,"
    " PRIMARY KEY (key, document)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS names_by_document ON names (document)",
)
LINK_TABLE = (
    "CREATE TABLE IF NOT EXISTS links (document INTEGER NOT NULL, start INTEGER NOT NULL,"
    " stop INTEGER NOT NULL, target TEXT NOT NULL, anchor TEXT NOT NULL,"
    " PRIMARY KEY (document, start, target, anchor)) WITHOUT ROWID"
)


LISTED = "(SELECT value FROM json_each(?))"
"""A list of values in one parameter of a statement; `listed` makes it."""


def listed(values: Iterable[str | int]) -> tuple[str]:
    """The parameters of a statement with `LISTED`."""
    return (json.dumps(list(values), ensure_ascii=False),)


def create_names(connection: sqlite3.Connection) -> None:
    """Make the tables where a store has none yet, with the names of its documents."""
    connection.execute(LINK_TABLE)
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


def insert_links(
    connection: sqlite3.Connection, document: int, source: str, links: Iterable[Hyperlink]
) -> None:
    """Note where a document's links may lead."""
    rows = [
        (document, link.start, link.end, path, anchor)
        for link in links
        for paths, anchor in [link_target(link.target, source)]
        for path in paths
    ]
    connection.executemany("INSERT OR IGNORE INTO links VALUES (?, ?, ?, ?, ?)", rows)


def delete_names(connection: sqlite3.Connection, document: int) -> None:
    """Forget a document's names and links."""
    connection.execute("DELETE FROM names WHERE document = ?", (document,))
    connection.execute("DELETE FROM links WHERE document = ?", (document,))


def term_counts(connection: sqlite3.Connection, terms: Iterable[str]) -> dict[str, int]:
    """How many chunks have each term; those of no chunk are missing."""
    return dict(
        connection.execute(f"SELECT term, doc FROM word_counts WHERE term IN {LISTED}", listed(terms))
    )


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

    def frequencies(self, keys: Sequence[str]) -> dict[str, tuple[int, int]]:
        """For each key how many chunks have its rarest word, and how many there are."""
        terms = {key: index_terms(key) for key in keys}
        with self._reading() as connection:
            counts = term_counts(connection, {term for some in terms.values() for term in some})
            return rarest(terms, counts, self._count_chunks(connection))


def linked_sections(
    connection: sqlite3.Connection, places: Sequence[tuple[str, int, int]]
) -> Iterator[tuple[int, tuple[int, int], str, int]]:
    """Where the links in some places lead: see `sage_app.store.protocol.NamedStore.linked`."""
    links: list[tuple[int, int, int, str, int, int, str]] = []
    with suppress(sqlite3.OperationalError):  # as for names
        links = connection.execute(
            "SELECT p.key, l.start, l.stop, d.source, d.first, d.chunks, l.anchor FROM json_each(?) p"
            " CROSS JOIN documents own ON own.source = json_extract(p.value, '$[0]')"
            " CROSS JOIN links l ON l.document = own.key AND l.start >= json_extract(p.value, '$[1]')"
            " AND l.start < json_extract(p.value, '$[2]')"
            " CROSS JOIN documents d ON d.source = l.target ORDER BY p.key, l.start",
            (json.dumps(list(places), ensure_ascii=False),),
        ).fetchall()
    sections: dict[int, dict[str, int]] = {}
    for place, start, stop, source, first, chunks, anchor in links:
        if anchor and first not in sections:
            sections[first] = _sections(connection, first, chunks)
        yield place, (start, stop), source, sections[first].get(anchor, 0) if anchor else 0


def _sections(connection: sqlite3.Connection, first: int, chunks: int) -> dict[str, int]:
    """The number of the first chunk below each heading."""
    paths = connection.execute(
        "SELECT headings, MIN(row) - ?1 AS number FROM chunks WHERE row >= ?1 AND row < ?2 GROUP BY headings"
        " ORDER BY number",
        (first, first + chunks),
    )
    numbers: dict[str, int] = {}
    for headings, number in paths:
        for heading in json.loads(headings):
            numbers.setdefault(heading_key(heading), number)
    return numbers
