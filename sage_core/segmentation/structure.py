"""What must not be torn: tables, lists with their lead-in, clauses, definitions, dialogue, blocks of code.

Before the model has a say. A unit is a range of sentences; one that fits into a chunk becomes uncuttable, an
outer one before those inside it. A heading goes with what follows it whatever the size.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from sage_core.segmentation.boundaries import GLUED
from sage_core.segmentation.layout import NEXT_MEETING, QUOTES, Sentences
from sage_core.text.lines import FINISHED, MAX_TITLE_CHARS, Line, number_of

HELD = 1.2 * GLUED
"""Log-odds for "same chunk" inside a unit that fits; less than between a heading and its text."""

_SPEECH = re.compile(r"[,!?][\"”“»«]\s")  # a title or a term in quotes is no speech
_ASKED = re.compile(r"[?][\"”“»«]")
_DEFINITION = re.compile(r"[*_]{0,2}[^\W_][^.:!?|\n]{0,40}:[*_]{0,2}\s+\S")
_QUESTION_LINE = re.compile(r"(?<=\n\n)[^\n]{2,120}[?？](?:\*\*|__)?[ \t\r]*\n[ \t]*\S")
_ANSWER = re.compile(r"(?:A|Answer|Antwort|R)[.:]\s", re.IGNORECASE)
_QUESTION = re.compile(r"(?:Q|Question|F|Frage)\s?\d{0,3}[.:]\s", re.IGNORECASE)
_ITEM_STYLE = re.compile(r"\W*(\d|[ivx]{1,4}(?=[.)])|[IVX]{1,4}(?=[.)])|[a-z]|[A-Z]|\W)")
_SHORT_SECTION = 8.0  # log-odds against a chunk of two short sections, beside those of the heading
_LEAST_SECTION = 12  # tokens, heading included; "4. Other business. None." goes with its neighbor
_FEW = 2  # sentences of a last item, "Any other business: none", which may keep the date of the next meeting
_CODE_PREFACE = ("#", "//", "@", "/*", "*", "--", ";")
_CODE_GOES_ON = re.compile(r"[\])}]|(?:else|elif|except|finally|catch|end)\b")

_STRUCTURED = frozenset(("item", "table", "clause", "code"))
_UnitOfLines = Callable[[int, int], tuple[int, int]]
_HEADING, _CLAUSE, _ITEM = 0, 100, 200  # ranks: an outer one ends what an inner one opened


def hold_units(keep: list[float], sentences: Sentences, lengths: Sequence[int], limit: int) -> list[float]:
    """``keep``, log-odds for "same chunk", raised to `HELD` within every unit of ``limit`` tokens at most."""
    ends = [0, *itertools.accumulate(lengths)]
    held = list(keep)
    done = 0  # sentences before this one are in a unit that was held whole
    for first, last in sorted(set(_units(sentences)), key=lambda unit: (unit[0], -unit[1])):
        if last < done or last <= first or ends[last + 1] - ends[first] > limit:
            continue
        outer_first, outer_last = first, last
        while outer_first and held[outer_first - 1] >= GLUED:
            outer_first -= 1
        while outer_last < len(held) and held[outer_last] >= GLUED:
            outer_last += 1
        if ends[outer_last + 1] - ends[outer_first] > limit:
            continue  # no room beside the heading above it
        for gap in range(first, last):
            held[gap] = max(held[gap], HELD)
        done = max(done, last)
    return held


def part_sections(keep: list[float], sentences: Sentences, lengths: Sequence[int], limit: int) -> list[float]:
    """``keep``, lowered before the heading of a section that fits, as the one above it does."""
    kinds = sentences.kinds
    if "heading" not in kinds:
        return keep
    starts = [
        i for i, kind in enumerate(kinds) if kind == "heading" and (i == 0 or kinds[i - 1] != "heading")
    ]
    ends = [0, *itertools.accumulate(lengths)]
    parted = list(keep)
    for above, start, stop in zip(starts, starts[1:], [*starts[2:], len(kinds)], strict=False):
        sizes = ends[start] - ends[above], ends[stop] - ends[start]
        if min(sizes) < _LEAST_SECTION or max(sizes) > limit:
            continue
        last = sentences.spans[start - 1].end - 1
        # A short line by itself may be a heading too: then it belongs below.
        if kinds[start - 1] != "text" or sentences.text[last] in FINISHED or sentences.gaps[start - 2] < 2:
            parted[start - 1] -= _SHORT_SECTION
    return parted


def whole_blocks(
    sentences: Sentences, lengths: Sequence[int], limit: int, most: int
) -> list[tuple[int, int]]:
    """First and last sentence of every table and fence of more than ``limit`` and at most ``most`` tokens.

    With the headings, the caption or the lead-in right above it, where all that fits. Not a file of values or
    rows without bars, where they have groups.
    """
    if most <= limit or not {"table", "code"}.intersection(sentences.kinds):
        return []
    ends = [0, *itertools.accumulate(lengths)]
    result: list[tuple[int, int]] = []
    blocks = [(first, end, bool(groups)) for first, end, _, groups in sentences.tables]
    blocks += [(a, b, False) for a, b in _code_blocks(sentences.lines) if b - a < len(sentences.lines)]
    for first, end, is_grouped in sorted(blocks):
        start = bisect.bisect_left(sentences.at, first)
        last = bisect.bisect_left(sentences.at, end) - 1
        # Values alone, as of a database, are read by their groups; a table that somebody set, as a whole.
        bare = first == 0 or sentences.lines[first].text[0] not in "|+="
        if last < start or (bare and is_grouped):
            continue
        above = start
        while above and sentences.kinds[above - 1] == "lead":
            above -= 1
        while above and sentences.kinds[above - 1] == "heading":
            above -= 1
        if not sentences.lines[first].spaced and above == start and above:
            above -= 1  # the line right above it names it
        free = result[-1][1] + 1 if result else 0
        start = max(above, free) if ends[last + 1] - ends[max(above, free)] <= most else start
        if limit < ends[last + 1] - ends[start] <= most:
            result.append((start, last))
    return result


def _units(sentences: Sentences) -> Iterator[tuple[int, int]]:
    """First and last sentence of everything that should stay in one piece."""
    first_in: dict[int, int] = {}
    last_in: dict[int, int] = {}
    for index, line in enumerate(sentences.at):
        first_in.setdefault(line, index)
        last_in[line] = index

    def unit(first: int, last: int) -> tuple[int, int]:
        """First and last sentence of a range of lines; (0, 0), which is no unit, where none begins there."""
        members = [line for line in range(first, last + 1) if line in first_in]
        return (first_in[members[0]], last_in[members[-1]]) if members else (0, 0)

    heads: list[tuple[int, int]] = []  # what a line that ends with a colon may lead in
    yield from _table_units(sentences, unit, heads)
    yield from _code_units(sentences, unit, heads)
    outline = _Outline(sentences)
    yield from outline.units
    yield from outline.lists
    heads += outline.lists
    yield from _dialogue(sentences)
    yield from _mail(sentences, unit)
    starts = dict(heads)
    for index in range(len(sentences.kinds) - 1):
        leads = sentences.kinds[index] == "lead" or (
            sentences.kinds[index] == "item"
            and sentences.text[sentences.spans[index].end - 1] in ":："
            and index + 1 in starts
        )
        if leads and sentences.kinds[index + 1] != "heading":
            # With all of what it introduces, or else with the beginning.
            yield index, starts.get(index + 1, index + 1)
            yield index, index + 1


def _table_units(
    sentences: Sentences, unit: _UnitOfLines, heads: list[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Tables with their caption, groups of rows, names of columns with the first rows."""
    for first, end, head, groups in sentences.tables:
        if not (whole := unit(first, end - 1))[1]:
            continue
        if whole[0] and not sentences.lines[first].spaced:
            yield whole[0] - 1, whole[1]
        yield whole
        for start, stop in groups:
            yield unit(start, stop - 1)
            yield unit(max(start, stop - 2), stop - 1)
        # The names of columns with the first group, or two rows, or one; and no row left alone at the end.
        if groups:
            yield unit(first, groups[0][1] - 1)
        for rows in (2, 1):
            yield unit(first, min(end, max(head, first + 1) + rows) - 1)
        if not groups:
            yield unit(max(first, end - 2), end - 1)
        heads.append(whole)


class _Outline:
    """Clauses with what is below them, items with theirs, lists, definitions: one pass over the sentences."""

    def __init__(self, sentences: Sentences) -> None:
        self.sentences = sentences
        self.terms = _terms(sentences)
        words = {index: sentences.spans[index].of(sentences.text) for index in self.terms}
        # "Resolved: ..." in two items; what is the same each time is the foot of a page.
        names = Counter(said.partition(":")[0] for said in set(words.values()))
        self.labels = {index for index, said in words.items() if names[said.partition(":")[0]] > 1}
        levels = sorted(sentences.levels.values())
        self.title = levels[0] if levels and levels.count(levels[0]) == 1 else 0  # the one outermost heading
        self.open: list[tuple[int, int]] = []  # rank and first sentence of what has begun
        self.styles: list[tuple[str, int]] = []  # mark and indentation of the lists that are open
        self.opened = -_FEW  # the last heading or clause
        self.list_start: int | None = None
        self.units: list[tuple[int, int]] = []
        self.lists: list[tuple[int, int]] = []
        for index in range(len(sentences.spans)):
            self._add(index)
        self._close(_HEADING, len(sentences.spans))
        self._end_list(len(sentences.spans))

    def _add(self, index: int) -> None:
        sentences = self.sentences
        begins = sentences.begins_line(index)
        if not begins and sentences.kinds[index] != "heading":
            return
        line = sentences.lines[sentences.at[index]]
        if begins and NEXT_MEETING.match(sentences.text, *sentences.spans[index]):
            if index - self.opened <= _FEW:
                self.units.append((self.opened, index))
            self._close(_HEADING, index)
            self._end_list(index)
            return
        if index in self.terms or (begins and line.kind == "item"):
            rank = _ITEM + (0 if index in self.terms else self._depth(line))
            self._close(rank, index)
            self.open.append((rank, index))
            if self.list_start is None:
                self.list_start = index
            return
        paragraph = begins and line.indent == 0 and (index == 0 or sentences.gaps[index - 1] > 1)
        if sentences.kinds[index] == "heading":
            rank = sentences.levels.get(sentences.at[index], _CLAUSE - 1)
        elif begins and line.kind == "clause":
            rank = _CLAUSE + len(number_of(line.text))
        elif paragraph:
            rank = _ITEM  # the list above it has ended
        else:
            return
        if rank < _ITEM:
            self.opened = index
        self._close(rank, index)
        self._end_list(index)
        if _CLAUSE < rank < _ITEM or (rank < _CLAUSE and rank > self.title):
            self.open.append((rank, index))

    def _depth(self, line: Line) -> int:
        """How deep an item is, by its mark and its indentation."""
        style = (_style(line.text), line.indent)
        known = [
            i for i, (mark, indent) in enumerate(self.styles) if mark == style[0] and line.indent <= indent
        ]
        if style in self.styles:
            del self.styles[self.styles.index(style) + 1 :]
        elif known:
            del self.styles[known[0] + 1 :]
        else:
            self.styles.append(style)
        return len(self.styles)

    def _close(self, rank: int, before: int) -> None:
        while self.open and self.open[-1][0] >= rank:
            inner, first = self.open.pop()
            # A section of nothing but prose may be cut; one with a list, a table or decisions is a whole.
            kinds = (self.sentences.lines[line].kind for line in self.sentences.at[first:before])
            structured = _STRUCTURED.intersection(kinds) or self.labels.intersection(range(first, before))
            if inner > _CLAUSE or structured:
                self.units.append((first, before - 1))

    def _end_list(self, before: int) -> None:
        if self.list_start is not None:
            self.lists.append((self.list_start, before - 1))
        self.list_start = None
        self.styles.clear()


def _style(item: str) -> str:
    """What kind of mark an item has: "1", "a", "A" or its bullet, with or without a bracket."""
    match = _ITEM_STYLE.match(item)
    mark = match.group(1) if match else ""
    if mark.isdigit():
        mark = "1"
    elif mark.isalpha():
        mark = "a" if mark.islower() else "A"
    return mark + (")" if ")" in item[:6] else "")


def _terms(sentences: Sentences) -> set[int]:
    """Sentences that begin a definition or a question with its answer: at least two lines are made alike."""
    places = [
        index
        for index, span in enumerate(sentences.spans)
        if sentences.begins_line(index)
        and sentences.lines[sentences.at[index]].kind == "text"
        and (_DEFINITION.match(sentences.text, *span) or _QUESTION_LINE.match(sentences.text, span.start))
    ]
    if len(places) < 2:
        return set()
    result: set[int] = set()
    in_question = False
    for index in places:
        start = sentences.spans[index].start
        if in_question and _ANSWER.match(sentences.text, start):
            continue
        in_question = _QUESTION.match(sentences.text, start) is not None
        result.add(index)
    return result


def _dialogue(sentences: Sentences) -> Iterator[tuple[int, int]]:
    """Paragraphs in which somebody speaks; a question with its reply, and short replies in a row."""
    first = question = 0
    asks = spoke = False
    for index in range(1, len(sentences.spans) + 1):
        if index < len(sentences.spans) and sentences.gaps[index - 1] == 0:
            continue
        start, end = sentences.spans[first].start, sentences.spans[index - 1].end
        speaks = sentences.text[start] in QUOTES
        short = end - start <= MAX_TITLE_CHARS
        replies = speaks and (asks or (spoke and short))
        if replies:
            yield question, index - 1
        if index - first > 1:
            begins = any(sentences.text[span.start] in QUOTES for span in sentences.spans[first:index])
            if begins or _SPEECH.search(sentences.text, start, end):
                yield first, index - 1
        asks = _ASKED.search(sentences.text, start, end) is not None
        spoke = speaks and short
        question, first = first, index


def _mail(sentences: Sentences, unit: _UnitOfLines) -> Iterator[tuple[int, int]]:
    """Signatures; what is quoted, from its last paragraph on, with the first of the reply."""
    for first, last in sentences.signatures:
        yield unit(first, last)
    for index in range(1, len(sentences.spans) - 1 if 0 in sentences.levels.values() else 0):
        greets = sentences.text[sentences.spans[index].end - 1] in ",，"
        if greets and sentences.kinds[index] == "text" and sentences.kinds[index - 1] == "heading":
            last = index + 1  # "Dear all," and the first paragraph
            while last + 1 < len(sentences.spans) and sentences.gaps[last] < 2:
                last += 1
            yield index, last
    depths = [sentences.lines[line].quote for line in sentences.at]
    for index, (above, below) in enumerate(itertools.pairwise(depths)):
        if above <= below or sentences.kinds[index + 1] == "heading":
            continue
        first, last = index, index + 1
        while first and depths[first - 1] == above and sentences.gaps[first - 1] < 2:
            first -= 1
        while last + 1 < len(depths) and depths[last + 1] == below and sentences.gaps[last] < 2:
            last += 1
        yield first, last
        yield index, index + 1


def _code_units(
    sentences: Sentences, unit: _UnitOfLines, heads: list[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Fenced blocks; and functions, classes, records by the indentation of their lines."""
    lines = sentences.lines
    for index, stop in _code_blocks(lines):
        if stop - index < len(lines):
            heads.append(unit(index, stop - 1))
            yield heads[-1]
        for first, last in (*_nested(lines, index, stop), *_statements(lines, index, stop)):
            yield unit(first, last)


def _code_blocks(lines: Sequence[Line]) -> Iterator[tuple[int, int]]:
    """Where each fenced or unmarked block of code begins and ends (exclusive)."""
    stop = 0
    for index, line in enumerate(lines):
        if index < stop or line.kind not in ("code", "fence"):
            continue
        stop = index + 1
        while stop < len(lines) and lines[stop].kind == "code":
            stop += 1
        if line.kind == "fence" and stop < len(lines) and lines[stop].kind == "fence":
            stop += 1
        yield index, stop


def _nested(lines: Sequence[Line], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Blocks of code by indentation, and the head of each, down to its docstring or its first inner block."""
    open_: list[tuple[int, int]] = []  # first line, first inner block
    preamble = True
    for index in range(start, stop + 1):
        line = lines[index] if index < stop else None
        while open_:
            first, inner = open_[-1]
            head = lines[first]
            if line is not None and (
                line.indent > head.indent
                or (line.indent == head.indent and not line.spaced and _CODE_GOES_ON.match(line.text))
            ):
                break
            open_.pop()
            block = _preface(lines, start, first)
            yield block, index - 1
            if open_ and open_[-1][1] == block:  # a class with the first of its functions
                yield _preface(lines, start, open_[-1][0]), index - 1
            if inner:
                yield block, inner - 1
        if line is None:
            break
        if index + 1 < stop and lines[index + 1].indent > line.indent and not _CODE_GOES_ON.match(line.text):
            if open_ and not open_[-1][1]:
                open_[-1] = (open_[-1][0], _preface(lines, start, index))
            open_.append((index, 0))
            block = _preface(lines, start, index)
            if preamble and block > start:
                yield start, block - 1  # imports and constants
            preamble = False
            yield block, _end_of_docstring(lines, index + 1, stop)


def _statements(lines: Sequence[Line], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Lines of code with the comments above them, and those between which there is no blank line."""
    run = start
    for index in range(start, stop):
        line = lines[index]
        if not line.text.startswith(_CODE_PREFACE) and (preface := _preface(lines, start, index)) < index:
            yield preface, index
        if line.spaced or index == start:
            run = index
        elif (index + 1 == stop or lines[index + 1].spaced) and line.indent <= lines[start].indent:
            yield run, index


def _preface(lines: Sequence[Line], start: int, index: int) -> int:
    """First of the comments and decorators right above a line of code."""
    while (
        index > start
        and not lines[index].spaced
        and lines[index - 1].indent == lines[index].indent
        and lines[index - 1].text.startswith(_CODE_PREFACE)
    ):
        index -= 1
    return index


def _end_of_docstring(lines: Sequence[Line], index: int, stop: int) -> int:
    """Last line of the docstring that begins here; the line itself where none does."""
    mark = lines[index].text.lstrip("rbuf")[:3]
    if mark not in ('"""', "'''") or mark in lines[index].text.lstrip("rbuf")[3:]:
        return index
    return next((i for i in range(index + 1, stop) if mark in lines[i].text), index)
