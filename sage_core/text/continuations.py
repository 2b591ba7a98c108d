"""What a chunk needs to know that begins in the middle of something: columns, the lead-in, the scope of code.

A chunk of table rows without the row that names the columns says nothing; nor does an item without the line
that introduces the list. These words go where the headings above a chunk go: into its context, never into
its text.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence

from sage_core.text.blocks import classified
from sage_core.text.lines import Line
from sage_core.text.tables import column_names, head_of, tables

_MAX_LEAD_CHARS = 160  # a longer line that ends with a colon is a paragraph
_SCOPE = re.compile(
    r"(?:export\s+|default\s+|public\s+|private\s+|protected\s+|static\s+|abstract\s+|async\s+|pub\s+)*"
    r"((?:class|def|function|func|fn|interface|struct|enum|trait|impl|module|namespace)\s+\w[\w.<>]*)"
)
_SENTENCE_START = re.compile(r"[.!?]\s+(?=\S)")

Region = tuple[int, int, tuple[str, ...]]


class Continuations:
    r"""What a text says above the places where it may be cut.

    Examples:
        >>> text = "| Farm | 5 kg |\n|---|---|\n| Alba | 29.00 |\n| Norte | 21.00 |"
        >>> Continuations(text).above([(0, 40), (text.index("| Norte"), len(text))])
        [(), ('Farm | 5 kg',)]

    Args:
        text: The text.
    """

    def __init__(self, text: str) -> None:
        lines, _ = classified(text)
        regions = sorted([*_tables(lines), *_lists(lines), *_scopes(lines)], key=lambda r: (r[0], -r[1]))
        self.parts = {parts for _, _, parts in regions}
        self._starts: list[int] = []
        self._parts: list[tuple[str, ...]] = []
        open_: list[Region] = []
        for region in [*regions, (len(text) + 1, len(text) + 1, ())]:
            while open_ and open_[-1][1] <= region[0]:
                end = open_.pop()[1]
                self._mark(end, open_[-1][2] if open_ else ())
            self._mark(region[0], region[2])
            open_.append(region)

    def _mark(self, start: int, parts: tuple[str, ...]) -> None:
        if self._starts and self._starts[-1] >= start:
            self._parts[-1] = parts
        else:
            self._starts.append(start)
            self._parts.append(parts)

    def above(self, spans: Sequence[tuple[int, int]]) -> list[tuple[str, ...]]:
        """For each span, what stands above its beginning, outermost first; () where nothing is missing."""
        result = []
        for start, _ in spans:
            index = bisect.bisect_right(self._starts, start) - 1
            result.append(self._parts[index] if index >= 0 else ())
        return result


def _tables(lines: Sequence[Line]) -> Iterator[Region]:
    for first, end in tables(lines):
        head = head_of(lines, first, end)
        if first < head < end and (names := column_names(lines, first, head)):
            yield lines[head].start, lines[end - 1].end, (names,)


def _lists(lines: Sequence[Line]) -> Iterator[Region]:
    for index in range(len(lines) - 1):
        lead = lines[index]
        if lead.kind not in ("text", "item", "clause") or lead.text[-1] not in ":：":
            continue
        first = lines[index + 1]
        if first.kind != "item" or (
            lead.kind == "item"
            and first.indent <= lead.indent
            and first.text.lstrip("([")[:1] not in ("1", "a", "i")  # the first of its list, by its mark
        ):
            continue
        words = _SENTENCE_START.split(lead.text)[-1]
        if len(words) <= _MAX_LEAD_CHARS:
            yield first.start, _end_of_list(lines, index + 1), (words,)


def _end_of_list(lines: Sequence[Line], first: int) -> int:
    """Where the list ends whose first item is given: at a heading, clause, table or paragraph of its own."""
    last = first
    for index in range(first + 1, len(lines)):
        line = lines[index]
        if line.kind not in ("item", "text") or (line.kind == "text" and line.spaced and not line.indent):
            break
        last = index
    return lines[last].end


def _scopes(lines: Sequence[Line]) -> Iterator[Region]:
    """Bodies of classes and functions, with the names of all that they are in."""
    open_: list[tuple[Line, tuple[str, ...]]] = []
    inside = 0  # end of the last line of code
    for index in range(len(lines) + 1):
        line = lines[index] if index < len(lines) and lines[index].kind == "code" else None
        while open_ and (line is None or line.indent <= open_[-1][0].indent):
            if line is not None and line.indent == open_[-1][0].indent and line.text[0] in ")]}":
                break
            head, names = open_.pop()
            if inside > head.end:
                yield head.end, inside, names
        if line is None:
            continue
        inside = line.end
        if match := _SCOPE.match(line.text):
            names = (*(open_[-1][1] if open_ else ()), " ".join(match.group(1).split()))
            open_.append((line, names))
