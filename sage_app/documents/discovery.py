"""Which files there are to read, below a folder or as people name them, and what reading one gives."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from sage_core._checks import shortened
from sage_core.errors import InputError
from sage_core.paths import TEXT_HINT, PathArgument, as_path, kind_of
from sage_core.text.headings import Heading

Kind = Literal[
    "text", "markdown", "rst", "html", "pdf", "docx", "code", "json", "csv", "notebook", "email",
    "xlsx", "pptx", "captions",
    "epub", "odt", "rtf", "org", "latex", "docbook", "jats", "mediawiki", "typst", "fb2",
]  # fmt: skip

_SUFFIXES: dict[Kind, str] = {
    "text": ".txt .text .adoc .asciidoc .asc",
    "rst": ".rst .rest",
    "markdown": ".md .markdown .mdx",
    "html": ".html .htm .xhtml",
    "pdf": ".pdf",
    "docx": ".docx",
    "code": ".py",
    "json": ".json",
    "csv": ".csv .tsv",
    "notebook": ".ipynb",
    "email": ".eml .mbox",
    "xlsx": ".xlsx",
    "pptx": ".pptx",
    "epub": ".epub",
    "odt": ".odt",
    "rtf": ".rtf",
    "org": ".org",
    "latex": ".tex .latex",
    "docbook": ".dbk .docbook",
    "jats": ".jats .nxml",
    "mediawiki": ".wiki .mediawiki",
    "typst": ".typ",
    "fb2": ".fb2",
    "captions": ".srt .vtt",
}
KINDS: dict[str, Kind] = {suffix: kind for kind, listed in _SUFFIXES.items() for suffix in listed.split()}
PANDOC: frozenset[Kind] = frozenset(
    ("epub", "odt", "rtf", "org", "latex", "docbook", "jats", "mediawiki", "typst", "fb2")
)
"""Kinds that pandoc reads, by its names for them."""
ISOLATED: frozenset[Kind] = PANDOC | frozenset[Kind](("pdf", "docx", "xlsx", "pptx", "email"))
"""Kinds whose bytes are no text, and which are read in a process of their own."""

REMEDIES = {
    **dict.fromkeys((".xls", ".ods"), "save it as .xlsx"),
    **dict.fromkeys((".ppt", ".odp"), "save it as .pptx"),
    ".doc": "save it as .docx",
    ".msg": "save it as .eml",
}
"""What to do about files that people have and that are not read, by suffix."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something below a folder that was left out, and why.

    Attributes:
        source: A file that could not be read, a folder that could not be opened, or a link to a folder.
        reason: Why, and what to do about it.
        unopened: It could not even be opened, so that nobody knows what is below it, or a package that reads
            it is not installed. What the store has of it stays.
    """

    source: str
    reason: str
    unopened: bool = False


class Parsed(NamedTuple):
    """What was read of a file or page.

    Examples:
        >>> from sage_app.documents import read_html
        >>> page = read_html("<title>Ferry</title><h2>Times</h2><p>It leaves at <b>seven</b>.</p>")
        >>> page.title, page.headings[0].text
        ('Ferry', 'Times')

    Attributes:
        text: Its text.
        title: The title that it gives itself, if any.
        headings: The headings in ``text``.
        page_starts: For a PDF, where each page starts.
    """

    text: str
    title: str | None = None
    headings: Sequence[Heading] = ()
    page_starts: Sequence[int] = ()


def as_paths(paths: PathArgument | Iterable[PathArgument]) -> list[Path]:
    """One path or any iterable of them, each by `as_path`."""
    if isinstance(paths, str | os.PathLike):
        return [as_path(paths)]
    if not isinstance(paths, Iterable):
        raise InputError(f"paths are files and folders, not {paths!r}")
    return [as_path(path) for path in paths]


def _is_prose(text: str) -> bool:
    return "\n" in text or (len(text.split()) > 5 and text.rstrip().endswith((".", "!", "?")))


def source_of(path: PathArgument) -> str:
    """The name under which a file is known: its absolute path, symbolic links resolved."""
    return _storable(os.path.realpath(as_path(path)))


def _storable(name: str) -> str:
    """A file name that can be written as UTF-8: those of Linux are bytes."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def is_below(source: str, scope: str) -> bool:
    """Whether ``source`` is ``scope`` or lies below it; both from `source_of`."""
    return source == scope or source.startswith(scope.rstrip(os.sep) + os.sep)


def find_files(
    folder: Path, skipped: list[Skipped] | None = None, others: Counter[str] | None = None
) -> Iterator[Path]:
    """Files below ``folder`` with a suffix in `KINDS`, sorted; hidden files and folders are left out.

    Links to files are followed. Links to folders are not, so that no file is read twice and no loop entered.

    Args:
        folder: Where to look.
        skipped: Takes what cannot be opened, which is an error where None, and links to folders.
        others: Counts, by suffix, the files that are left out because their suffix is not in `KINDS`.

    Raises:
        InputError: For a folder that cannot be listed. Passing over it would look as if its files were gone.
    """

    def unreadable(error: OSError) -> None:
        reason = f"{error.filename} cannot be read: {error.strerror}"
        if skipped is None or Path(error.filename) == folder:
            raise InputError(f"{reason}. Make it readable, or name other folders") from error
        skipped.append(Skipped(str(error.filename), reason, unopened=True))

    for here, folders, files in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if skipped is not None:
            skipped += [
                Skipped(str(link), f"{link} is a link to a folder: name it as a path to have it read")
                for link in (Path(here, name) for name in folders)
                if link.is_symlink()
            ]
        for name in sorted(files):
            path = Path(here, name)
            if name.startswith("."):
                continue
            if path.suffix.lower() not in KINDS:
                if others is not None:
                    others[path.suffix.lower()] += 1
                continue
            try:
                if kind_of(path) == "file":
                    yield path
            except InputError as error:  # in a folder that may be listed, but not entered
                if skipped is None:
                    raise
                skipped.append(Skipped(str(path), str(error), unopened=True))


@dataclass(slots=True)
class FoundDocuments:
    """What there is to read.

    Attributes:
        files: By the name under which each is known, `source_of` it.
        named: Names of those that the caller named himself.
        scopes: `source_of` each path.
        skipped: What was left out; a link into a folder that is read anyway is not among them.
        other_types: How many files were left out because of their suffix, by suffix.
    """

    files: dict[str, Path] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    scopes: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    other_types: Counter[str] = field(default_factory=Counter)

    def nothing(self, paths: Iterable[Path]) -> InputError:
        """That there is nothing to read, and why."""
        what = ", ".join(str(p) for p in paths) or "no path was given"
        left = f"; {self.skipped[0].reason}" if self.skipped else ""
        if self.other_types:
            left += f"; there are {named_types(self.other_types)}: name such a file to have it read as text"
        return InputError(
            f"no documents found: {what}; files of these types are read: {', '.join(sorted(KINDS))}{left}"
        )


def find_documents(
    paths: Sequence[Path],
    roots: Sequence[str] | None = None,
    known: Collection[str] = (),
) -> FoundDocuments:
    """The files that paths name, each once: files as given, folders by `find_files`.

    Args:
        paths: Files and folders.
        roots: Folders, from `source_of`. A file that lies in none of them, links resolved, is left out.
        known: Sources in a store. A path that does not exist is passed over where one of these lies below.

    Raises:
        InputError: For a path that does not exist, is neither a file nor a folder, or cannot be read.
    """
    found = FoundDocuments()
    left: list[Skipped] = []
    for path in paths:
        kind, scope = kind_of(path), source_of(path)
        found.scopes.append(scope)
        files: Iterable[Path] = [path] if kind == "file" else []
        if kind == "folder":
            files = find_files(path, left, found.other_types)
        elif kind == "other":
            raise InputError(f"{path} is neither a file nor a folder")
        elif kind == "missing" and not any(is_below(source, scope) for source in known):
            shown = f"{shortened(path)}{TEXT_HINT}" if _is_prose(str(path)) else str(path)
            looked = "" if path.is_absolute() or shown != str(path) else f" (in {Path.cwd()})"
            raise InputError(f"no such file or folder: {shown}{looked}")
        for file in files:
            # No link leads to a file that was found but its own: resolving each path again costs a
            # system call for every folder above it.
            if kind == "file":
                source = scope
            elif file.is_symlink():
                source = source_of(file)
            else:
                source = os.path.join(scope, _storable(os.path.relpath(file, path)))  # noqa: PTH118
            if roots is None or any(is_below(source, root) for root in roots):
                found.files.setdefault(source, file)
                found.named |= {source} if kind == "file" else set()
            else:
                reason = f"{file} is a link to a file outside the folders that may be read"
                found.skipped.append(Skipped(str(file), reason))
    found.skipped += [
        item
        for item in left
        if item.unopened or not any(is_below(source_of(item.source), scope) for scope in found.scopes)
    ]
    return found


def named_types(others: Mapping[str, int], most: int = 5) -> str:
    """``IngestReport.other_types`` in words: "3 files of other types (.json 2, .xyz 1)"."""
    total = sum(others.values())
    shown = [f"{suffix or 'no suffix'} {count}" for suffix, count in list(others.items())[:most]]
    more = ["..."] if len(others) > most else []
    remedies = [f"{suffix}: {REMEDIES[suffix]}" for suffix in others if suffix in REMEDIES][:most]
    named = f"; {'; '.join(remedies)}" if remedies else ""
    return (
        f"{total:,} {'file' if total == 1 else 'files'} of other types ({', '.join([*shown, *more])}){named}"
    )
