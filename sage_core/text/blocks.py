"""Lines of plain or Markdown text, gathered into blocks: which line breaks part and which only wrap."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

_BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_ONE_BREAK = frozenset(["", "\n", "\r", "\r\n", "\x0b", "\x85", "\u2028"])
_LINE = re.compile(rf"[^{_BREAKS}]+")
_FENCE = re.compile(r"(?:`{3,}|~{3,})")
# A line with one of these stands for itself whatever surrounds it.
_HEADING = re.compile(r"#{1,6}(?:\s|\Z)")
_ITEM = re.compile(r"(?:[-*+•‣◦▪●·–—]|\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{2,5})[.)]|\[[\w^]{1,8}\]:?)\s+\S")
_RULE = re.compile(r"(?:[-=_*~+]\s?){3,}\Z")
_MARKED = frozenset("#|-*+•‣◦▪●·–—([=_~`0123456789ivxIVX")
_WIDEST_WRAP = 160  # nobody wraps lines longer than this
_WIDE = "\u2e80"
"""From this code point on (CJK), a line can be wrapped after any character."""


class Block(NamedTuple):
    """A run of text in which a line break, if any, only wraps.

    Attributes:
        start: First character, never white space.
        end: Just after the last character that is not white space.
        verbatim: A line of fenced code or a table row: no sentences to look for.
    """

    start: int
    end: int
    verbatim: bool


class _Line(NamedTuple):
    start: int
    end: int
    kind: str  # "text", "item", "heading", "table", "rule", "fence"
    spaced: bool  # a blank line stands before it


def blocks(text: str) -> Iterator[Block]:
    """Blocks of ``text`` in order; together they hold every character that is not white space.

    A line break parts two blocks at a blank line, at a heading, list item, table row or fence, and where the
    next word would still have fitted on the line above, so that nobody wrapped it there. Linear in
    ``len(text)``.
    """
    lines = list(_lines(text))
    fences = [i for i, line in enumerate(lines) if line.kind == "fence"]
    code: set[int] = set()
    for opened, closed in zip(fences[::2], fences[1::2], strict=False):
        code.update(range(opened, closed + 1))
    index = 0
    while index < len(lines):
        line = lines[index]
        if index in code or line.kind == "table":
            yield Block(line.start, line.end, True)
            index += 1
            continue
        stop = index + 1
        while stop < len(lines) and stop not in code and _may_continue(lines[stop - 1], lines[stop]):
            stop += 1
        yield from _wrapped(text, lines[index:stop])
        index = stop


def _lines(text: str) -> Iterator[_Line]:
    """Lines that are not blank, without the white space at their ends."""
    previous = 0
    spaced = False
    for match in _LINE.finditer(text):
        line = match.group()
        bare = line.strip()
        start = match.start()
        spaced = spaced or text[previous:start] not in _ONE_BREAK
        previous = match.end()
        if not bare:
            spaced = True
            continue
        start += line.index(bare[0])
        kind = _kind(bare) if bare[0] in _MARKED else "text"
        yield _Line(start, start + len(bare), kind, spaced)
        spaced = False


def _kind(line: str) -> str:
    if line[0] == "|":
        return "table"
    if _FENCE.match(line):
        return "fence"
    if _HEADING.match(line):
        return "heading"
    if _RULE.match(line):
        return "rule"
    return "item" if _ITEM.match(line) else "text"


def _may_continue(above: _Line, line: _Line) -> bool:
    """Whether ``line`` may be the same paragraph or list item as the line above it."""
    if line.spaced or above.kind in ("heading", "rule", "fence"):
        return False
    return line.kind == "text" or (line.kind == "rule" and above.kind == "text")


def _wrapped(text: str, lines: list[_Line]) -> Iterator[Block]:
    """Part a paragraph where its line breaks are not those of wrapping."""
    if len(lines) == 1:
        yield Block(lines[0].start, lines[0].end, False)
        return
    width = max(line.end - line.start for line in lines)
    start = lines[0].start
    for above, line in itertools.pairwise(lines):
        if line.kind != "rule" and not _is_wrap(text, above, line, width):
            yield Block(start, above.end, False)
            start = line.start
    yield Block(start, lines[-1].end, False)


def _is_wrap(text: str, above: _Line, line: _Line, width: int) -> bool:
    """Whether the first word of ``line`` would not have fitted on the line above, or plainly continues it."""
    first = text[line.start]
    if first.islower():
        return True
    if first >= _WIDE:
        word = 1
    else:
        stop = text.find(" ", line.start, min(line.end, line.start + width))
        word = (stop if stop >= 0 else line.end) - line.start
    length = above.end - above.start
    return length <= _WIDEST_WRAP and length + 1 + word > width
