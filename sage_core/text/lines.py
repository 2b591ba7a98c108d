"""Lines of light markup: where they stand, and what each of them is by its own marks.

The one reading of lines that sentences, headings and the layout of chunks share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

LineKind = Literal[
    "text", "item", "clause", "heading", "table", "rule", "fence", "code", "underline", "overline"
]
"""What a line is: ``fence`` opens or closes a block of ``code``; ``underline`` and ``overline`` are the marks
of a title between or above them; ``rule`` is a line of marks that is neither."""

MAX_TITLE_CHARS = 80
"""A longer line is no title, where nothing but its look speaks for one."""

WIDE = "\u2e80"
"""From this code point on (CJK) a character says about as much as a syllable, and may end a line."""

WIDEST_WRAP = 160
"""Nobody wraps lines longer than this: what follows a longer one is a paragraph of its own."""

BULLETS = "-*+•‣◦▪●·–—"

ATX = re.compile(r"(#{1,6})(?:\s+|\Z)")
EXPLICIT = re.compile(r"\.\. (?:_[^\n]+:|[\w:+.-]+::(?:[^\n]*[^\s.!?])?)")
"""A label or a directive of reStructuredText that is no sentence of its own."""
FENCE = re.compile(r"(?:`{3,}(?=[^`]*\Z)|~{3,})")
RULE = re.compile(r"(?:[-=_*~+]\s?){3,}\Z")
STEP = r"(?:[Ss]tep|[Ss]chritt|[Éé]tape|[Pp]aso) \d{1,2}"  # "Step 3. Close the lid."
ITEM = re.compile(
    rf"(?:[{BULLETS}]|\(?(?:\d{{1,3}}|[A-Za-z]|[ivxIVX]{{2,5}})[.)]|\[[\w^]{{1,8}}\]:?"
    rf"|{STEP}[.:)]|\.{{1,3}}(?= [^\s.]))\s+\S"
)
CONTENTS_ENTRY = re.compile(r"(?:\.{3,}|…|(?:\.\s){3,}|\s{3,}|\t)\s*(?:\d+|[ivxlc]+)\Z")
"""The end of a line of a table of contents."""

# The marks that underline titles in reStructuredText; Markdown has the first two.
ADORNMENT_MARKS = frozenset("-=~^\"'#*+.:_`")
_MARKED = frozenset("#|=_~`([.0123456789ivxIVX" + BULLETS)


class Line(NamedTuple):
    """A line that is not blank.

    Attributes:
        start: First character that is not white space.
        end: Just after the last one.
        text: The line without the white space at its ends.
        indent: Columns before it; a tab goes to the next multiple of four.
        spaced: Whether a blank line, or nothing at all, stands before it.
        kind: What it is.
        quote: How deep it is quoted (``>``); the marks are then no part of ``text``.
    """

    start: int
    end: int
    text: str
    indent: int
    spaced: bool
    kind: LineKind
    quote: int = 0


def read_lines(text: str) -> list[Line]:
    """Lines of ``text`` that are not blank, each by its own marks alone. Linear in ``len(text)``."""
    lines: list[Line] = []
    offset = 0
    spaced = True
    for raw in text.splitlines(keepends=True):
        bare = raw.strip()
        if not bare:
            spaced = True
        else:
            lead = indent = 0
            length = len(bare)
            if raw[0].isspace():
                lead = len(raw) - len(raw.lstrip())
                indent = len(raw[:lead].expandtabs(4))
            start = offset + lead
            if raw[0] == "\ufeff":  # a byte order mark belongs to the line, and is none of its words
                bare = bare[1:].lstrip() or bare
            # "b. Oars" is an item; "B. Oars" may be a name.
            lettered = bare[1:2] == ")" or (bare[1:2] == "." and bare[0].islower())
            marked = bare[0] in _MARKED or lettered or (bare[0] in "SsÉéPp" and " " in bare[4:8])
            kind = kind_of_line(bare) if marked else "text"
            lines.append(Line(start, start + length, bare, indent, spaced, kind))
            spaced = raw[-1] in "\f\x1c\x1d\x1e\u2029"  # a page or a paragraph ends here
        offset += len(raw)
    return lines


def kind_of_line(line: str) -> LineKind:
    """What a line is by its own marks."""
    mark = line[0]
    if mark == "|":
        return "table"
    if mark in "`~" and FENCE.match(line):
        return "fence"
    if mark == "#" and ATX.match(line):
        return "heading"
    if mark in "-=_*~+" and RULE.match(line):
        return "rule"
    return "item" if ITEM.match(line) and not EXPLICIT.match(line) else "text"


def ruler(line: str, marks: frozenset[str] = ADORNMENT_MARKS) -> str:
    """The mark of which a line consists, where it is three or more of the same."""
    mark = line[0]
    return mark if mark in marks and len(line) >= 3 and not line.strip(mark) else ""


def classify(text: str) -> list[Line]:
    """Lines of ``text`` that are not blank, with what those around them say: titles, code, tables, clauses.

    Unmarked headings are not told from prose here: `sage_core.text.headings` does.
    """
    lines = unquoted(read_lines(text))
    if is_code(lines):
        return [line._replace(kind="code") for line in lines]
    opened: int | None = None
    for index, line in enumerate(lines):
        if opened is not None:
            if line.kind == "fence":
                _mark(lines, range(opened + 1, index), "code")
                opened = None
            continue
        if _underlines(lines, index):
            lines[index] = line._replace(kind="underline")
            lines[index - 1] = lines[index - 1]._replace(kind="heading")
            if index > 1 and not lines[index - 1].spaced and lines[index - 2].text == line.text:
                lines[index - 2] = lines[index - 2]._replace(kind="overline")
        elif line.kind == "fence" and not _overlines(lines, index):
            opened = index
    _mark_blocks(lines)
    _mark_clauses(lines)
    return lines


_QUOTATION = re.compile(r"(?:>[ \t]?)+")


def unquoted(lines: list[Line]) -> list[Line]:
    """Lines without quotation marks, each with its depth; a line of marks alone is a blank line.

    Such a line belongs to the next one of its quotation, or else to the line above: nothing is lost. Lines
    that begin with ``>>>`` where nothing else is quoted are Python's prompt.
    """
    if not any(line.text[0] == ">" for line in lines):
        return lines
    result: list[Line] = []
    blank: Line | None = None
    for line in lines:
        marks = _QUOTATION.match(line.text)
        depth = marks[0].count(">") if marks else 0
        if marks is None or (line.text.startswith(">>> ") and not (result and result[-1].quote > 1)):
            if blank is not None and result:
                result[-1] = result[-1]._replace(end=blank.end)
            elif blank is not None:
                result.append(blank)
            blank = None
            result.append(line)
            continue
        words = line.text[marks.end() :]
        bare = words.strip()
        if not bare:
            blank = line if blank is None else blank._replace(end=line.end)
            continue
        spaced = line.spaced or blank is not None
        start = line.start if blank is None else blank.start
        kind = kind_of_line(bare)
        kind = "text" if kind == "heading" else kind
        result.append(Line(start, line.end, bare, len(words) - len(words.lstrip()), spaced, kind, depth))
        blank = None
    if blank is not None:
        if result:
            result[-1] = result[-1]._replace(end=blank.end)
        else:
            result.append(blank)
    return result


def _mark(lines: list[Line], indices: range, kind: LineKind) -> None:
    for index in indices:
        lines[index] = lines[index]._replace(kind=kind)


# --- Code that no fence marks --------------------------------------------------------

_CODE_LINE = re.compile(
    r"(?:async\s+)?def\s+\w+\s*\(|class\s+\w+.*[:{]\Z|(?:from\s+[\w.]+\s+)?import\s+[\w.{*\"']+(?:\s|;|,|\Z)"
    r"|@\w[\w.]*(?:\(.*)?\Z|(?:if|elif|for|while|with|except)\b.*:\Z|(?:else|try|finally):\Z|return\b(?!.*\.\Z)"
    r"|raise\s+\w+|[\w.\[\]\"'$]+(?:\s*:\s*[\w.\[\], |]+)?\s*(?:[-+*/|&]?=|:=|=>)\s*\S"
    r"|\"[^\"]*\"\s*:\s*\S|(?:[\w.]+: )?[\w.]+: [\w.]+\Z"
    r"|(?:- )?[a-z_][\w.-]*:(?: +(?:\[.*\]|[\w./-]+))?\Z|[\]})>]+[;,]?\Z|//|/\*|#include|<[/!?\w][^>]*>\Z"
    r"|[\w.]+\(.*\)[;:]?\Z|[{\[(]\Z|(?![(\d]).*(?:[{}]|\)\s*;|\w\s*=\s*[^=]+;)\Z"
)
_CODE_SHARE = 0.5  # of the lines, from which on a text is taken for source code
_CODE_SAMPLE = 400  # lines that are looked at
_LEAST_CODE = 4
_DOCSTRING = ('"""', "'''")


def is_code(lines: Sequence[Line]) -> bool:
    """Whether a whole text is source code, JSON or a configuration file, by the look of its first lines."""
    if len(lines) < _LEAST_CODE:
        return False
    alike = prose = 0
    docstring = ""
    fenced = False
    for left, line in zip(range(min(len(lines), _CODE_SAMPLE), 0, -1), lines, strict=False):
        if prose > alike + left:
            return False  # whatever the rest is
        bare = line.text
        fenced ^= line.kind == "fence"
        if fenced or line.kind == "fence":
            continue  # of a text about code
        if docstring:
            docstring = "" if docstring in bare else docstring
            continue
        opener = next((mark for mark in _DOCSTRING if bare.lstrip("rbuf").startswith(mark)), "")
        if opener:
            docstring = "" if opener in bare[bare.index(opener) + 3 :] else opener
        elif bare[0] == "#" and (bare[1:2] in " !") and alike:
            continue  # a comment or a Markdown heading
        elif _CODE_LINE.match(bare):
            alike += 1
        else:
            prose += 1
    return alike >= _LEAST_CODE and alike >= _CODE_SHARE * (alike + prose)


# --- Tables and code that other marks open -------------------------------------------

_DELIMITER_ROW = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)+\|?\Z|\|[ \t]*:?-+:?[ \t]*\|?\Z")
_SIMPLE_TABLE = re.compile(r"=+(?: +=+)+\Z")
_GRID_ROW = re.compile(r"\+(?:[-=]+\+)+\Z")
_CODE_DIRECTIVE = re.compile(r"\.\. (?:code-block|code|sourcecode|highlight|literalinclude)::")
_MOST_ROWS = 1000  # that a simple table of reStructuredText is looked through for its end
# "Rope ..... 1.40"; a whole number may be that of a page.
_LEADER_ROW = re.compile(r"\w.*?[^.] ?\.{3,} ?\S{0,3} ?\d[\d,.]*[.,]\d\d(?: ?\S{1,3})?\Z")
_LEAST_TABBED = 3  # lines with equally many tabs or commas that make a table
_LONGEST_ROW = 2000  # of commas
_IN_QUOTES = re.compile(r'"[^"]*"')


def is_delimiter_row(line: str) -> bool:
    """Whether a line is the one between the header and the rows of a Markdown table."""
    return _DELIMITER_ROW.match(line) is not None


def _mark_blocks(lines: list[Line]) -> None:
    """Find the tables without outer bars and the code that no fence marks."""
    index = 0
    while index < len(lines):
        stop = index + 1
        if lines[index].kind in ("text", "rule", "item"):
            if end := _end_of_table(lines, index):
                _mark(lines, range(index, end), "table")
                stop = end
            elif end := _end_of_indented_code(lines, index):
                _mark(lines, range(stop, end), "code")
                stop = end
        index = stop


def _end_of_table(lines: Sequence[Line], first: int) -> int:
    """Just after the last row of a table that begins at a line; 0 where none does."""
    row, stop = lines[first].text, first + 1
    if row[0] == "=" and _SIMPLE_TABLE.match(row):
        return _end_of_simple_table(lines, first)
    if row[0] == "+" and _GRID_ROW.match(row):
        return stop

    def follows(mark: str) -> bool:
        return stop < len(lines) and not lines[stop].spaced and mark in lines[stop].text

    if "..." in row and _LEADER_ROW.match(row):
        while follows("...") and _LEADER_ROW.match(lines[stop].text):
            stop += 1
        return stop if stop - first > 1 else 0
    if "|" in row:
        if not (follows("|") and is_delimiter_row(lines[stop].text)):
            return 0
        while follows("|"):
            stop += 1
        return stop
    if marks := separators(row):
        while follows(marks[0]) and separators(lines[stop].text) == marks:
            stop += 1
        return stop if stop - first >= _LEAST_TABBED else 0
    return 0


def separators(row: str) -> str:
    """The tabs, commas or semicolons that part the cells of a row; no commas where a space follows one."""
    if "\t" in row or len(row) > _LONGEST_ROW:
        return "\t" * row.count("\t")
    bare = _IN_QUOTES.sub("", row) if '"' in row else row
    mark = "," if "," in bare else ";"
    return mark * bare.count(mark) if mark + " " not in bare and bare.count(mark) > 1 else ""


def _end_of_indented_code(lines: Sequence[Line], first: int) -> int:
    """Just after the indented block that a line of reStructuredText opens; 0 where it opens none."""
    line, stop = lines[first], first + 1
    if not (line.text.endswith("::") or _CODE_DIRECTIVE.match(line.text)):
        return 0
    while stop < len(lines) and lines[stop].indent > line.indent:
        stop += 1
    return stop if stop > first + 1 and lines[first + 1].spaced else 0


def _end_of_simple_table(lines: Sequence[Line], first: int) -> int:
    """Just after the last ruler of a simple table of reStructuredText; 0 where there is none."""
    rulers = [
        index
        for index in range(first, min(len(lines), first + _MOST_ROWS))
        if lines[index].text == lines[first].text
    ]
    return rulers[min(2, len(rulers) - 1)] + 1 if len(rulers) > 1 else 0


# --- Numbered clauses ----------------------------------------------------------------

_DECIMAL = re.compile(r"(\d{1,3}(?:\.\d{1,3}){0,5})[.)]?\s+[^\W\d_]|(\d{1,3}(?:\.\d{1,3}){1,5})[.)]?\s+\S")
_KEYWORD_NUMBER = re.compile(
    r"(?:article|section|clause|part|chapter|§{1,2})\s*(\d{1,3}(?:\.\d{1,3})*)\b", re.IGNORECASE
)
_NUMBERED_FIRST = frozenset("0123456789ascpASCP§")
FINISHED = (".", "!", "?", ":", ";", ",", "…", "。", "！", "？", "।", "؟", "۔", '"', "”", ")", "|")
"""How a line ends after which a new item may begin."""


def number_of(line: str) -> tuple[int, ...]:
    """The number with which a line begins: (7, 1) of "7.1 Claims" and of "Article 7.1"; () for none."""
    match = _DECIMAL.match(line) if line[0].isdigit() else _KEYWORD_NUMBER.match(line)
    if match is None:
        return ()
    return tuple(int(part) for part in (match.group(1) or match.group(2)).split("."))


def _mark_clauses(lines: list[Line]) -> None:
    """Tell numbers of clauses from other numbers at the start of a line: they continue a series."""
    labels = {
        index: number
        for index, line in enumerate(lines)
        if line.text[0] in _NUMBERED_FIRST
        and line.kind in ("text", "item", "heading")
        and (number := number_of(line.text))
    }
    known = set(labels.values())
    for index, number in labels.items():
        line = lines[index]
        if line.kind == "heading" or not line.text[0].isdigit():
            continue
        *parent, last = number
        in_series = any((*parent, last + step) in known for step in (-1, 1)) or last <= 1
        if parent:
            if (in_series or tuple(parent) in known) and last > 0:
                lines[index] = line._replace(kind="clause")
        elif line.kind == "item" and not in_series and not line.spaced and (*number, 1) not in known:
            above = lines[index - 1]
            if above.kind == "text" and not above.text.endswith(FINISHED):
                # "... the price was" and, wrapped, "25. Nobody paid."
                lines[index] = line._replace(kind="text")


def _underlines(lines: Sequence[Line], index: int) -> bool:
    """Whether a line is nothing but marks, and at least as long as the title right above it."""
    line = lines[index]
    if index == 0 or line.spaced or not ruler(line.text):
        return False
    above = lines[index - 1]
    return (
        above.kind in ("text", "item")
        and len(above.text) <= min(len(line.text), MAX_TITLE_CHARS)
        # "~~~" and "```" are fences; of titles as short as that there are few.
        and len(line.text) > (3 if line.kind == "fence" else 2)
        and (above.spaced or _overlines(lines, index - 2))
        and not ruler(above.text)
    )


def _overlines(lines: Sequence[Line], index: int) -> bool:
    """Whether a line is repeated below the title after it."""
    if index < 0 or index + 2 >= len(lines) or lines[index + 1].spaced or lines[index + 2].spaced:
        return False
    line, title, below = lines[index : index + 3]
    return (
        title.kind in ("text", "item")
        and len(line.text) > (3 if line.kind == "fence" else 2)
        and len(title.text) <= min(len(line.text), MAX_TITLE_CHARS)
        and line.text == below.text
        and ruler(line.text) != ""
    )
