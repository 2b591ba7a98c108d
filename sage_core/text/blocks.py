"""Layout of plain or Markdown text: which line breaks only wrap; which sentences are headings or items."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sage_core.text.headings import MAX_HEADING_CHARS, all_headings
from sage_core.text.lines import EXPLICIT, FINISHED, MAX_TITLE_CHARS, WIDE, WIDEST_WRAP, Line, classify
from sage_core.text.mail import messages
from sage_core.text.spans import Span

# How English sentences begin that mean little without the one before: pronouns, demonstratives, connectives.
_BACK_REFERENCE = re.compile(
    r"(?:(?:s?he|it|they|his|hers?|its|theirs?|him|them|this|that|these|those|such|both|neither|nor|but|and|so"
    r"|yet|then|thus|hence|also|too|however|therefore|moreover|furthermore|besides|instead|otherwise|likewise"
    r"|similarly|consequently|accordingly|nevertheless|nonetheless|meanwhile|conversely|afterwards?)\b"
    r"|(?:in (?:contrast|addition|turn|other words|this case|both cases)|as a result"
    r"|for (?:example|instance|this reason)|on the (?:other hand|contrary)|the (?:latter|former|same|other)"
    r"|at (?:that|the same) (?:time|point)|after (?:this|that))\b)",
    re.IGNORECASE,
)


class Block(NamedTuple):
    """A run of text in which a line break, if any, only wraps.

    Attributes:
        start: First character, never white space.
        end: Just after the last character that is not white space.
        verbatim: A line of fenced code, with the fence beside it, a table row or a heading:
            no sentences to look for.
    """

    start: int
    end: int
    verbatim: bool


def classified(text: str) -> tuple[list[Line], dict[int, int]]:
    """Lines of ``text``, unmarked headings among them, and the level of each heading by its first line.

    The head of a message has level 0.
    """
    lines = classify(text)
    levels: dict[int, int] = {}
    if lines and lines[0].kind == "code" and lines[-1].kind == "code":
        return lines, levels
    index = 0
    for heading in all_headings(text, [line for line in lines if not line.quote]):
        while index < len(lines) and lines[index].start < heading.start:
            index += 1
        if index < len(lines) and lines[index].kind not in ("code", "fence", "table"):
            levels[index] = heading.level
        while index < len(lines) and lines[index].start < heading.end:
            if lines[index].kind in ("text", "item", "clause"):
                lines[index] = lines[index]._replace(kind="heading")
            index += 1
    if ".. " in text:
        _mark_labels(lines, levels)
    for number, (first, end, *_) in enumerate(messages(lines)):
        for index in range(first, end):
            lines[index] = lines[index]._replace(kind="heading")
            levels.pop(index, None)
        if number and lines[first - 1].kind == "heading" and lines[first - 1].text.replace(" ", "").isalpha():
            # A name below the message before, and no subject.
            lines[first - 1] = lines[first - 1]._replace(kind="text")
            levels.pop(first - 1, None)
        while first and lines[first - 1].kind == "heading":  # its subject, as a title above the fields
            first -= 1
        levels[first] = 0
    return lines, levels


def _mark_labels(lines: list[Line], levels: dict[int, int]) -> None:
    """A label of reStructuredText, or a directive, right above a heading belongs to it."""
    for index in range(len(lines) - 2, -1, -1):
        line, below = lines[index], lines[index + 1]
        if line.kind == "text" and below.kind in ("heading", "overline") and EXPLICIT.fullmatch(line.text):
            lines[index] = line._replace(kind="heading")
            if index + 1 in levels:
                levels[index] = levels[index + 1]


def blocks(text: str, lines: Sequence[Line] | None = None) -> Iterator[Block]:
    """Blocks of ``text`` in order; together they hold every character that is not white space.

    A line break parts two blocks at a blank line, at a heading, list item, table row or fence, and where the
    next word would still have fitted on the line above, so that nobody wrapped it there. Linear in
    ``len(text)``. ``lines`` are those of `classified`, where the caller has them.
    """
    lines = classified(text)[0] if lines is None else lines
    index = 0
    while index < len(lines):
        line = lines[index]
        stop = index + 1
        if line.kind in ("fence", "code"):
            # A fence is no sentence: it goes with the line of code beside it.
            if line.kind == "fence" and stop < len(lines) and lines[stop].kind in ("fence", "code"):
                stop += 1
            if lines[stop - 1].kind == "code" and stop < len(lines) and lines[stop].kind == "fence":
                stop += 1
            yield Block(line.start, lines[stop - 1].end, True)
        elif (title := index + (line.kind == "overline")) + 1 < len(lines) and (
            lines[title + 1].kind == "underline"
        ):
            stop = title + 2
            yield Block(line.start, lines[stop - 1].end, True)
        elif line.kind == "table" or (line.kind == "heading" and len(line.text) <= MAX_HEADING_CHARS):
            yield Block(line.start, line.end, True)
        else:
            while stop < len(lines) and _may_continue(lines[stop - 1], lines[stop]):
                stop += 1
            yield from _wrapped(text, lines[index:stop])
        index = stop


def _may_continue(above: Line, line: Line) -> bool:
    """Whether ``line`` may be the same paragraph or list item as the line above it."""
    if line.spaced or line.quote != above.quote or above.kind in ("heading", "rule", "fence"):
        return False
    return line.kind == "text" or (line.kind == "rule" and above.kind == "text")


def _wrapped(text: str, lines: Sequence[Line]) -> Iterator[Block]:
    """Part a paragraph where its line breaks are not those of wrapping."""
    if len(lines) == 1:
        yield Block(lines[0].start, lines[0].end, False)
        return
    width = max(len(line.text) for line in lines)
    # Nobody wraps prose, but in capitals, so that most lines begin with one or a number: these are records.
    firsts = [line.text[0] for line in lines if not line.text.isupper()]
    capitals = sum(first.isupper() or first.isdigit() for first in firsts)
    are_records = len(lines) > 3 and capitals >= 0.75 * len(lines)

    def block(last: Line) -> Block:
        # "tel." ends no sentence in a record.
        record = are_records and start == last.start and len(last.text) <= WIDEST_WRAP
        return Block(start, last.end, record and last.text[-1] not in ".!?")

    start = lines[0].start
    for above, line in itertools.pairwise(lines):
        wraps = line.text[0].islower() if are_records else _is_wrap(above, line, width)
        if line.kind != "rule" and not wraps:
            yield block(above)
            start = line.start
    yield block(lines[-1])


def _is_wrap(above: Line, line: Line, width: int) -> bool:
    """Whether the first word of ``line`` would not have fitted on the line above, or plainly continues it."""
    first = line.text[0]
    if first.islower():
        return True
    if first >= WIDE:
        word = 1
    else:
        stop = line.text.find(" ", 0, width)
        word = stop if stop >= 0 else len(line.text)
    length = len(above.text)
    return length <= WIDEST_WRAP and length + 1 + word > width


def line_breaks(text: str, spans: Sequence[Span]) -> list[int]:
    """Line breaks between neighboring sentences: 0, 1, or 2 for a blank line."""
    return [
        0
        if (gap := text[end:start]) == " "
        else 2
        if text[start] == ">" and _BLANK_QUOTE.match(text, start)
        else _count_breaks(gap)
        for (_, end), (start, _) in itertools.pairwise(spans)
    ]


_BLANK_QUOTE = re.compile(r">[> \t]*\r?\n")  # a line of marks alone parts paragraphs of a quotation


def _count_breaks(gap: str) -> int:
    """0, 1, or 2 for a blank line (a form feed or paragraph separator counts as one)."""
    if "\x0c" in gap or "\u2029" in gap:
        return 2
    return min(2, gap.count("\n") or gap.count("\r") or gap.count("\u2028"))


def sentence_lines(lines: Sequence[Line], spans: Sequence[Span]) -> list[int]:
    """Index of the line in which each sentence begins."""
    result: list[int] = []
    index = 0
    for start, _ in spans:
        while index + 1 < len(lines) and lines[index + 1].start <= start:
            index += 1
        result.append(index)
    return result


def sentence_kinds(
    text: str,
    spans: Sequence[Span],
    gaps: Sequence[int],
    lines: Sequence[Line] | None = None,
    at: Sequence[int] | None = None,
) -> list[str]:
    """Kind of every sentence: heading, item, lead (ends with a colon), table, code or text.

    ``gaps`` are those of `line_breaks`, ``lines`` those of `classified`, ``at`` is of `sentence_lines`, where
    the caller has them.
    """
    if not spans:
        return []
    if lines is None:
        lines = classified(text)[0]
    kinds: list[str] = []
    for index, place in enumerate(at or sentence_lines(lines, spans)):
        span, line = spans[index], lines[place]
        begins = line.start == span.start
        kind = _KINDS.get(line.kind, "text")
        if kind == "item" and not (begins or kinds[-1:] == ["item"]):
            kind = "text"
        if kind == "text" and begins and _stands_alone(text, spans, index, gaps):
            kind = "heading"
        # A comment of Markdown is about what follows, too.
        announces = text[span.end - 1] in ":：" or text.endswith("-->", *span)
        if kind == "text" and (announces or _announces(lines, place, span.end)):
            kind = "lead"
        kinds.append(kind)
    return kinds


def _announces(lines: Sequence[Line], place: int, end: int) -> bool:
    """Whether a line that ends at ``end`` names a table or fence below, or what is indented there."""
    line, *below = lines[place : place + 2]
    if end != line.end or not below:
        return False
    if below[0].kind in ("table", "fence"):
        return len(line.text) <= MAX_TITLE_CHARS and not line.text.endswith(FINISHED)
    heads = not below[0].spaced or EXPLICIT.fullmatch(line.text) is not None
    return heads and below[0].indent > line.indent


_KINDS: dict[str, str] = {
    "heading": "heading",
    "overline": "heading",
    "item": "item",
    "table": "table",
    "code": "code",
    "fence": "code",
}


def _stands_alone(text: str, spans: Sequence[Span], index: int, gaps: Sequence[int]) -> bool:
    """Whether a plain sentence that has its lines for itself is a title, and not a short paragraph."""
    span = spans[index]
    if index == len(gaps) or gaps[index] == 0:
        return False
    title = text[span.start : span.end]
    if title.startswith(("**", "__")) and title.endswith(title[:2]) and len(title) <= MAX_TITLE_CHARS:
        return True  # a bold line, as Word files have
    begins = title[0].isalnum() and not title[0].islower()
    if not begins or len(title) > MAX_TITLE_CHARS or title.endswith(FINISHED) or _ASSIGNMENT.match(title):
        return False
    below = spans[index + 1]
    stands_out = index == 0 or gaps[index - 1] > 1 or gaps[index] > 1
    prose = below.end - below.start > MAX_TITLE_CHARS or text.endswith(FINISHED, below.start, below.end)
    return stands_out and prose


_ASSIGNMENT = re.compile(r"[\w.]+\s*[:+*-]?=\s*\S")


def points_back(text: str, span: Span) -> bool:
    """Whether a sentence begins with a pronoun, a demonstrative or a connective that needs the one before."""
    return _BACK_REFERENCE.match(text, span.start, span.end) is not None
