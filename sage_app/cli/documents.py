"""`sage-rag list` and `sage-rag remove`: the documents of a store."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_app.cli import options as cli
from sage_core._checks import counted
from sage_core.errors import InputError
from sage_core.text.sanitize import one_line

if TYPE_CHECKING:
    from sage_app.store import Store
    from sage_app.store.protocol import DocumentRecord

LIST_EXAMPLES = """
\b
Examples:
  sage-rag list --store .sage
  sage-rag list "*.pdf" --json
"""

REMOVE_EXAMPLES = """
\b
Examples:
  sage-rag remove old.pdf --store .sage
  sage-rag remove "drafts/*" --yes
"""

EXIT_DECLINED = 1
# Documents that the question before a removal names.
_MOST_SHOWN = 20
_NAMES = "A document's id, path or file name, a folder, or a pattern such as '*.pdf'."


def list_documents(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help=_NAMES, show_default=False)
    ] = None,
    store: cli.StoreOption = ".sage",
    as_json: cli.JsonOption = False,
) -> None:
    """List the documents of a store: id, chunks, path and title."""
    cli.require_packages(store=store)
    with _opened(store) as opened:
        records = _named(opened, names) if names else opened.documents()
        location = opened.location
    if as_json:
        cli.print_json({"store": location, "documents": [_to_dict(record) for record in records]})
        return
    rows = [("id", "chunks", "document")] if records else []
    for record in records:
        title = f" ({one_line(record.title)})" if record.title else ""
        rows.append((record.id, f"{record.chunks:,}", f"{one_line(record.source)}{title}"))
    wide = [max(len(row[column]) for row in rows) for column in (0, 1)] if rows else []
    # A line for each: a path that is broken over lines can be neither copied nor searched for
    for row in rows:
        line = f"{row[0]:{wide[0]}} {row[1]:>{wide[1]}} {row[2]}"
        cli.console().print(line, soft_wrap=True, markup=False, highlight=False)
    chunks = counted(sum(record.chunks for record in records), "chunk")
    cli.say(f"{counted(len(records), 'document')}, {chunks} in {location}")


def remove(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help=_NAMES)],
    store: cli.StoreOption = ".sage",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: cli.JsonOption = False,
) -> int:
    """Take documents out of a store; files on disk stay.

    Asks before. A file that still lies in a folder comes back when that folder is ingested again.
    """
    from sage_app.store.identity import StoreIdentity

    cli.require_packages(store=store)
    with _opened(store) as opened:
        records = _named(opened, names)
        if not yes:
            if as_json or not sys.stdin.isatty():
                raise InputError(f"{counted(len(records), 'document')} would be removed: say so with --yes")
            for record in records[:_MOST_SHOWN]:
                cli.complain(one_line(record.source), "")
            if len(records) > _MOST_SHOWN:
                cli.complain(f"... and {len(records) - _MOST_SHOWN:,} more", "")
            question = f"Remove {counted(len(records), 'document')} from {opened.location}?"
            if not typer.confirm(question, err=True):
                return EXIT_DECLINED
        with opened.writing(StoreIdentity(opened.info().embedder)):
            opened.remove(*(record.source for record in records))
        info = opened.info()
    if as_json:
        counts = {"documents": info.documents, "chunks": info.chunks}
        cli.print_json({"removed": [_to_dict(record) for record in records], "store": counts})
        return 0
    left = f"{counted(info.chunks, 'chunk')} of {counted(info.documents, 'document')}"
    cli.say(f"{counted(len(records), 'document')} removed; {info.path} holds {left}")
    return 0


def _opened(store: str) -> closing[Store]:
    from sage_app.store import open_store

    return closing(open_store(store))


def _to_dict(record: DocumentRecord) -> dict[str, object]:
    return {"id": record.id, "source": record.source, "title": record.title, "chunks": record.chunks}


def _named(store: Store, names: Sequence[str]) -> list[DocumentRecord]:
    """The documents with these names, in the store's order; InputError for a name of none, or of several."""
    records = store.documents()
    ids: set[str] = set()
    for name in names:
        matches = _matches(records, name)
        if not matches:
            raise InputError(f"{store.location} has no document {name!r}: `sage-rag list` shows what it has")
        ids.update(record.id for record in matches)
    return [record for record in records if record.id in ids]


def _matches(records: Sequence[DocumentRecord], name: str) -> list[DocumentRecord]:
    from sage_app.documents.discovery import is_below, source_of

    exact = [record for record in records if name in (record.id, record.source)]
    if exact or not name.strip():
        return exact
    if below := [r for r in records if is_below(r.source, source_of(name))]:
        return below
    by_name = [record for record in records if Path(record.source).name == name]
    if len(by_name) > 1:
        raise InputError(
            f"{len(by_name)} documents have the file name {name!r}: name one by its path or id, or all "
            f"of them by the pattern '*/{name}'"
        )
    # A pattern is of the whole path, of its end, or of the file name.
    return by_name or [
        r for r in records if any(fnmatch.fnmatchcase(r.source, p) for p in (name, f"*/{name}"))
    ]
