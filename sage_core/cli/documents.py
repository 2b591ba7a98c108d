"""`sage-rag list` and `sage-rag remove`: the documents of a store."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_core.cli.options import JsonOption, StoreOption, console, print_json, require_packages
from sage_core.errors import InputError

if TYPE_CHECKING:
    from sage_core.store import Store
    from sage_core.store.protocol import DocumentRecord

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
    store: StoreOption = ".sage",
    as_json: JsonOption = False,
) -> None:
    """List the documents of a store: id, chunks, path and title."""
    from rich.table import Table
    from rich.text import Text

    from sage_core.rendering.sanitize import one_line
    from sage_core.rendering.wording import counted

    require_packages(store=store)
    with _opened(store) as opened:
        records = _named(opened, names) if names else opened.documents()
        location = opened.location
    if as_json:
        print_json({"store": location, "documents": [_to_dict(record) for record in records]})
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("id", no_wrap=True)
    table.add_column("chunks", justify="right", no_wrap=True)
    table.add_column("document", overflow="fold")
    for record in records:
        title = f" ({one_line(record.title)})" if record.title else ""
        table.add_row(record.id, f"{record.chunks:,}", Text(f"{one_line(record.source)}{title}"))
    out = console()
    if records:
        out.print(table)
    chunks = counted(sum(record.chunks for record in records), "chunk")
    out.print(f"{counted(len(records), 'document')}, {chunks} in {location}", markup=False)


def remove(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help=_NAMES)],
    store: StoreOption = ".sage",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Take documents out of a store; files on disk stay.

    Asks before. A file that still lies in a folder comes back when that folder is ingested again.
    """
    from sage_core.rendering.sanitize import one_line
    from sage_core.rendering.wording import counted
    from sage_core.store.identity import StoreIdentity

    require_packages(store=store)
    with _opened(store) as opened:
        records = _named(opened, names)
        if not yes:
            if as_json or not sys.stdin.isatty():
                raise InputError(f"{counted(len(records), 'document')} would be removed: say so with --yes")
            for record in records[:_MOST_SHOWN]:
                console(stderr=True).print(one_line(record.source), markup=False, soft_wrap=True)
            if len(records) > _MOST_SHOWN:
                console(stderr=True).print(f"... and {len(records) - _MOST_SHOWN:,} more", markup=False)
            question = f"Remove {counted(len(records), 'document')} from {opened.location}?"
            if not typer.confirm(question, err=True):
                return EXIT_DECLINED
        with opened.writing(StoreIdentity(opened.info().embedder)):
            opened.remove(*(record.source for record in records))
        info = opened.info()
    if as_json:
        counts = {"documents": info.documents, "chunks": info.chunks}
        print_json({"removed": [_to_dict(record) for record in records], "store": counts})
        return 0
    left = f"{counted(info.chunks, 'chunk')} of {counted(info.documents, 'document')}"
    console().print(f"{counted(len(records), 'document')} removed; {info.path} holds {left}", markup=False)
    return 0


@contextmanager
def _opened(store: str) -> Iterator[Store]:
    from sage_core.store import open_store

    opened = open_store(store)
    try:
        yield opened
    finally:
        opened.close()


def _to_dict(record: DocumentRecord) -> dict[str, object]:
    return {"id": record.id, "source": record.source, "title": record.title, "chunks": record.chunks}


def _named(store: Store, names: Sequence[str]) -> list[DocumentRecord]:
    """The documents with these names, in the store's order.

    Raises:
        InputError: Where a name names none, or a file name several: which of them is meant is not clear.
    """
    records = store.documents()
    found: dict[str, DocumentRecord] = {}
    for name in names:
        those = _matches(records, name)
        if not those:
            raise InputError(f"{store.location} has no document {name!r}: `sage-rag list` shows what it has")
        found.update((record.id, record) for record in those)
    return [record for record in records if record.id in found]


def _matches(records: Sequence[DocumentRecord], name: str) -> list[DocumentRecord]:
    from sage_core.documents.discovery import source_of, within

    exact = [record for record in records if name in (record.id, record.source)]
    if exact or not name.strip():
        return exact
    if "://" not in name and (below := [r for r in records if within(r.source, source_of(name))]):
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
