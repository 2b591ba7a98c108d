"""The rows of a table of light markup that name its columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

from sage_core.text.lines import Line, is_delimiter_row, separators
from sage_core.text.spans import Span, trim

_RULER = re.compile(r"(?:\|?[-=+:| \t]+\|?|\|===)\Z")
_NUMBER = re.compile(r"[^\w]*\d[\d.,]*[^\w]*\Z")
_BAR = re.compile(r"\\.|\|", re.DOTALL)

Table = tuple[int, int, int, list[tuple[int, int]]]
"""First line and end of a table, `head_of` it and its `row_groups`."""


def tables(lines: Sequence[Line]) -> list[tuple[int, int]]:
    """Where each table begins and ends (exclusive), in indices of ``lines``."""
    result: list[tuple[int, int]] = []
    for index, line in enumerate(lines):
        if line.kind != "table":
            continue
        open_ = bool(result) and result[-1][1] == index
        # A blank line ends a table, except where rulers open and close it (AsciiDoc, reStructuredText).
        if open_ and (not line.spaced or _in_rulers(lines, result[-1][0], index)):
            result[-1] = (result[-1][0], index + 1)
        else:
            result.append((index, index + 1))
    return result


def _in_rulers(lines: Sequence[Line], first: int, index: int) -> bool:
    """Whether the table that ``first`` begins with a ruler is still open at ``index``."""
    ruler = lines[first].text
    if ruler.startswith("|==="):
        return not any(lines[i].text == ruler for i in range(index - 1, first, -1))
    return ruler[0] == "="


def read_tables(lines: Sequence[Line]) -> list[Table]:
    """The tables of a text, each read once."""
    heads = [(first, end, head_of(lines, first, end)) for first, end in tables(lines)]
    return [(first, end, head, row_groups(lines, head, end)) for first, end, head in heads]


def is_ruler(line: str) -> bool:
    """Whether a row is made of marks alone: the delimiter of Markdown, the frame of other tables."""
    return _RULER.match(line) is not None


def head_of(lines: Sequence[Line], first: int, end: int) -> int:
    """Just after the rows of a table that name its columns; ``first`` where no row does.

    The rows above a delimiter are names; without one the first row is, where none of its cells is a number
    and other rows have some.
    """
    start = first + 1 if is_ruler(lines[first].text) else first
    for index in range(start, min(end, start + 6)):
        if is_ruler(lines[index].text):
            # The names and the delimiter; a frame around the whole table has no other row above its end.
            return index + 1 if index > start and index + 1 < end else first
        if lines[first].text.startswith("|===") and index > start and lines[index].spaced:
            return index
    if end - start < 2 or is_delimiter_row(lines[first].text):
        return first
    names = cells_of(lines[start].text)
    if not all(names) or any(_NUMBER.match(cell) for cell in names) or len(names) < 2:
        return first
    rest = [cells_of(lines[index].text) for index in range(start + 1, min(end, start + 6))]
    numbers = any(_NUMBER.match(cell) for row in rest for cell in row)
    return start + 1 if numbers or lines[start].text[0] != "|" else first


_TOTAL = re.compile(r"(?:sub-?|grand )?totals?\b|sums?\b|(?:zwischen)?summe\b|gesamt", re.IGNORECASE)


def row_groups(lines: Sequence[Line], head: int, end: int) -> list[tuple[int, int]]:
    """Groups of rows that belong together, each from its first line to just after its last; [] where none.

    ``head`` is that of `head_of`.

    The rows of a group have the same first cell, or leave it blank below the first row; a total belongs to
    the rows above it. At least half of the groups have two rows or more.
    """
    groups: list[tuple[int, int]] = []
    name = ""
    for index in range(head, end):
        row = lines[index].text
        if is_ruler(row):
            continue
        cell = next(iter(cells_of(row)), "")
        if groups and (not cell or cell == name or _TOTAL.match(cell)):
            groups[-1] = (groups[-1][0], index + 1)
        else:
            groups.append((index, index + 1))
            name = cell
    several = sum(stop - start > 1 for start, stop in groups)
    return groups if len(groups) > 1 and 2 * several >= len(groups) else []


def cells_of(row: str) -> list[str]:
    """The cells of a row, without marks."""
    if "|" in row:
        return [cell_text(row, place) for place in cell_spans(row, Span(0, len(row)))]
    marks = separators(row)
    if "\t" in marks:
        cells = row.split("\t")
    else:
        cells = next(csv.reader([row], delimiter=marks[0])) if marks else re.split(r" {2,}", row.strip())
    return [cell.strip() for cell in cells]


def cell_spans(text: str, row: Span) -> list[Span]:
    """Where the cells of a row between bars stand, without white space; a bar behind a backslash is text.

    One bar at either end is the frame of the table: of ``||2021|`` the first cell is empty.
    """
    start, end = trim(text, row)
    bars = [match.start() for match in _BAR.finditer(text, start, end) if match[0] == "|"]
    if bars and bars[0] == start:
        start = bars.pop(0) + 1
    if bars and bars[-1] == end - 1:
        end = bars.pop()
    edges = zip([start, *(bar + 1 for bar in bars)], [*bars, end], strict=True)
    return [trim(text, Span(first, last)) for first, last in edges]


def cell_text(text: str, cell: Span) -> str:
    """What a cell says: bars without the backslash before them."""
    return cell.of(text).replace("\\|", "|")


def column_names(lines: Sequence[Line], first: int, head_end: int) -> str:
    """The names of a table's columns as one line: ``Farm | Country | 5 kg``; empty where it has none."""
    rows = [cells_of(lines[i].text) for i in range(first, head_end) if not is_ruler(lines[i].text)]
    if not rows:
        return ""
    if len({len(row) for row in rows}) == 1:  # a head of several rows: name by name
        names = [" ".join(part for part in column if part) for column in zip(*rows, strict=True)]
    else:
        names = [cell for row in rows for cell in row]
    return " | ".join(name for name in names if name)
