"""The headings of a document that comes from somebody else's loader, for the metadata of its chunks.

Both frameworks keep them under the same two keys: ``title``, and ``header_path``, the headings above a chunk
as LlamaIndex's ``MarkdownNodeParser`` writes them: ``"/Harbor rules/Dues/"``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import Any, NamedTuple

from sage_core.text.continuations import Continuations
from sage_core.text.header import MAX_HEADER_TOKENS, SEPARATOR, fitted_header, header_parts
from sage_core.text.headings import Heading, Markup, find_headings, find_title, heading_paths
from sage_core.text.tokens import TokenCounter, get_counter

TITLE_KEY = "title"
PATH_KEY = "header_path"
"""A line that stands before the text, and is no part of it."""
PATH_SEPARATOR = "/"

_MARKUPS: dict[str, Markup] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".rst": "rst",
    ".rest": "rst",
}
# "#" begins a comment there, and a short line is no heading.
_CODE = re.compile(
    r"\.(?:[ch](?:pp)?|cc|cfg|cs[sv]?|go|ini|ipynb|java|jsx?|jsonl?|kt|log|php|pl|ps1|py|rb?|rs|scala|sh|sql|swift"
    r"|toml|tsv|tsx?|xml|ya?ml)"
)
# What a ``header_path_separator`` may be made of.
_MARKS = " \t/>|\\:.#-–—→»•"
_FILE_KEYS = ("file_name", "file_path", "source")
# A page is not the beginning of its document, so that its first heading is not the title.
_PAGE_KEYS = ("page_label", "page_number", "page")
# What LangChain's Markdown and HTML splitters write, under names that each user chooses: "Header 1", "h2".
_LEVEL_KEY = re.compile(r"(?:header|heading|h)[ _-]?([1-6])", re.IGNORECASE)


class Context(NamedTuple):
    """Where a chunk stands in its document.

    Attributes:
        title: The document's title; None if it is not known.
        headings: Headings above the chunk, outermost first; not those with which the chunk begins. The names
            of the columns, the lead-in or the scope of code follow, where the chunk begins in the middle of a
            table, a list or a block (`sage_core.text.continuations`).
        own: Headings with which the chunk begins.
    """

    title: str | None = None
    headings: tuple[str, ...] = ()
    own: tuple[str, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        """The headings, without a first one that repeats the title."""
        return self.headings[self.title is not None and _same(self.title, self.headings[:1]) :]

    @property
    def parts(self) -> tuple[str, ...]:
        """Title and headings, each once; no title where the chunk begins with it."""
        if self.title is None or (not self.headings and _same(self.title, self.own[:1])):
            return self.headings
        return (self.title, *self.path)


class Outline:
    r"""Title and headings of one text, with what its metadata says of them.

    A ``title`` and a ``header_path`` in the metadata stand: headings found in the text go below that path.
    The levels that LangChain's header splitters write ("Header 1") are read too.

    Examples:
        >>> text = "# Rules\n\nAll pay.\n\n## Boats\n\nOars only."
        >>> outline = Outline(text, {})
        >>> outline.contexts([(text.index("Oars"), len(text))])[0].headings
        ('Rules', 'Boats')

    Args:
        text: The text.
        metadata: Of the document or of the section that the text is.
        whole: Whether the text is a whole document, whose first heading may be its title.

    Attributes:
        title: The document's title; None if it is not known.
        found_title: Whether the text says it, and not the metadata.
        found_path: Whether the metadata have a ``header_path``.
        separator: Of that path.
    """

    def __init__(self, text: str, metadata: Mapping[Any, Any], *, whole: bool = True) -> None:
        self._text = text
        self._headings = _headings_of(text, metadata)
        self._continuations = Continuations(text)
        self.separator, self._known = _known_path(metadata)
        self.found_path = isinstance(metadata.get(PATH_KEY), str)
        own_title = _text_under(metadata, TITLE_KEY)
        paged = any(key in metadata for key in _PAGE_KEYS)
        self.title = own_title
        if own_title is None and whole and not paged and not self._known:
            self.title = find_title(text, self._headings)
        self.found_title = own_title is None and self.title is not None
        first = self._headings[0] if self._headings else None
        starts = first is not None and not text[: first.start].strip()
        # A header splitter may leave the heading in the text whose path it wrote.
        if starts and first is not None and _same(first.text, self._known[-1:]):
            self._known = self._known[:-1]

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return bool(self.title or self._known or self._headings or self._continuations.parts)

    def contexts(self, spans: Sequence[tuple[int, int]]) -> list[Context]:
        """Where each of these parts of the text stands."""
        whole = heading_paths(self._text, self._headings, spans)
        above = heading_paths(self._text, self._headings, spans, own=False)
        inner = self._continuations.above(spans)
        return [
            Context(self.title, (*self._known, *some, *parts), every[len(some) :])
            for every, some, parts in zip(whole, above, inner, strict=True)
        ]

    def longest(self, counter: TokenCounter) -> int:
        """Tokens of the longest header that a chunk of the text can have, `MAX_HEADER_TOKENS` at most."""
        paths = heading_paths(self._text, self._headings, [(h.start, h.end) for h in self._headings])
        inner = max(self._continuations.parts, key=lambda parts: sum(map(len, parts)), default=())
        contexts = {Context(self.title, (*self._known, *path, *inner)).parts for path in [(), *paths]}
        lines = [SEPARATOR.join(parts) for parts in contexts if parts]
        return min(max(counter.count_many(lines), default=0), MAX_HEADER_TOKENS)


def join_path(headings: Sequence[str], separator: str = PATH_SEPARATOR) -> str:
    r"""Headings as the value of ``header_path``: ``"/Harbor rules/Dues/"``; ``"/"`` for none.

    A separator within a heading has a backslash before it; backslashes before a separator are doubled.

    Examples:
        >>> join_path(["Harbor rules", "Dues"])
        '/Harbor rules/Dues/'
        >>> print(join_path(["Input/output"]))
        /Input\/output/
    """
    before = re.compile(rf"(\\+)(?={re.escape(separator)}|\Z)")
    escaped = (before.sub(r"\1\1", h).replace(separator, "\\" + separator) for h in headings)
    return separator + "".join(h + separator for h in escaped)


def split_path(path: str) -> tuple[str, tuple[str, ...]]:
    """The separator of a ``header_path`` and its headings. One without separators is a heading by itself.

    Examples:
        >>> split_path("/Harbor rules/Dues/")
        ('/', ('Harbor rules', 'Dues'))
        >>> split_path(" > Harbor rules > Dues > ")
        (' > ', ('Harbor rules', 'Dues'))
    """
    if not path.strip():
        return PATH_SEPARATOR, ()
    marks = len(path) - len(path.lstrip(_MARKS))
    for length in range(marks, 0, -1):
        mark = path[:length]
        if path == mark:
            return mark, ()
        if path.endswith(mark) and len(path) > 2 * length:
            return mark, tuple(part for part in _parts(path[length:], mark) if part.strip())
    return PATH_SEPARATOR, (path.strip(),)


def _parts(path: str, mark: str) -> Iterator[str]:
    """The headings of a path, each with a separator behind it, as `join_path` wrote them."""
    part, end = "", 0
    for found in re.finditer(rf"(\\*){re.escape(mark)}", path):
        pairs, escaped = divmod(len(found[1]), 2)
        part += path[end : found.start()] + "\\" * pairs
        end = found.end()
        if escaped:
            part += mark
        else:
            yield part
            part = ""
    yield part + path[end:]  # of others, who escape nothing, something may be left


def header_of(text: str, metadata: Mapping[Any, Any]) -> str:
    """The header of a chunk by its metadata, `MAX_HEADER_TOKENS` at most; empty where they say nothing."""
    return _header(header_parts(text, title_of(metadata), _known_path(metadata)[1]))


@lru_cache(maxsize=8_192)  # chunks of a section have the same
def _header(parts: tuple[str, ...]) -> str:
    return fitted_header(parts, MAX_HEADER_TOKENS, get_counter("bert"))


def title_of(metadata: Mapping[Any, Any]) -> str | None:
    """The title of a document by its metadata: that of its loader, or of LlamaIndex's ``TitleExtractor``."""
    return _text_under(metadata, TITLE_KEY) or _text_under(metadata, "document_title")


def page_of(metadata: Mapping[Any, Any]) -> str:
    """The page of a text by its metadata, as the loader numbers it; empty where they say nothing."""
    return next((str(page) for key in _PAGE_KEYS if isinstance(page := metadata.get(key), int | str)), "")


def source_names(documents: Iterable[tuple[str | None, str]]) -> dict[str, str]:
    """Names for the documents that their titles do not tell apart: two leases, two versions of a policy.

    Args:
        documents: Title and source (a path, an address, an id) of each; None for no title.

    Returns:
        By source, the last part of it, or all of it where that repeats. A source whose title no other has is
        missing.

    Examples:
        >>> source_names([("Lease", "a/east.pdf"), ("Lease", "a/west.pdf"), ("Rules", "a/rules.pdf")])
        {'a/east.pdf': 'east.pdf', 'a/west.pdf': 'west.pdf'}
    """
    sources: dict[str, set[str]] = {}
    for title, source in documents:
        sources.setdefault((title or "").casefold(), set()).add(source)
    alike = sorted({source for same in sources.values() if len(same) > 1 for source in same})
    names = Counter(PurePath(source).name for source in alike)
    return {s: PurePath(s).name if PurePath(s).name and names[PurePath(s).name] == 1 else s for s in alike}


def passage_header(header: str, name: str | None = None) -> str:
    """The line that tells an LLM where a passage is from: its header, and the document's name.

    Args:
        header: Title and headings, from `header_of`; may be empty.
        name: From `source_names`; None if the title says enough.

    Examples:
        >>> passage_header("Lease > Rent", "east.pdf")
        'Lease > Rent (east.pdf)'
    """
    if name is None:
        return header
    return f"{header} ({name})" if header else name


def _same(text: str, others: Sequence[str]) -> bool:
    return any(text.casefold() == other.casefold() for other in others)


def _text_under(metadata: Mapping[Any, Any], key: str) -> str | None:
    value = metadata.get(key)
    return " ".join(value.split()) if isinstance(value, str) and value.strip() else None


def _headings_of(text: str, metadata: Mapping[Any, Any]) -> list[Heading]:
    names = (metadata.get(key) for key in _FILE_KEYS)
    suffix = next((PurePath(name).suffix.lower() for name in names if isinstance(name, str)), "")
    return [] if _CODE.fullmatch(suffix) else find_headings(text, _MARKUPS.get(suffix, "auto"))


def _known_path(metadata: Mapping[Any, Any]) -> tuple[str, tuple[str, ...]]:
    path = metadata.get(PATH_KEY)
    if isinstance(path, str):
        return split_path(path)
    headings = (_text_under(metadata, key) for key in _levels(tuple(metadata)))
    return PATH_SEPARATOR, tuple(heading for heading in headings if heading)


@lru_cache(maxsize=1_024)  # the documents of a store have few sets of keys
def _levels(keys: tuple[Any, ...]) -> tuple[str, ...]:
    """Those of ``keys`` that hold headings, the outermost first."""
    levels = ((key, _LEVEL_KEY.fullmatch(key)) for key in keys if isinstance(key, str))
    return tuple(sorted((key for key, level in levels if level), key=lambda key: key[-1]))
