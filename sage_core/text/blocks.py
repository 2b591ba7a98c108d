"""Layout of plain or Markdown text: which line breaks only wrap; which sentences are headings or items."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sage_core.text.spans import Span

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

_LIST_ITEM = re.compile(r"(?:[-*+•‣◦▪●·–—]|\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{2,5})[.)])\s+\S")
_MARKDOWN_HEADING = re.compile(r"#{1,6}\s")
# One line of the marks that reStructuredText takes for titles; Markdown has the first two.
_ADORNMENT = re.compile(r"([-=~^\"'#*+.:_`])\1{2,}\Z")
_ADORNMENT_MARKS = frozenset("-=~^\"'#*+.:_`")
_BREAK = rf"(?:\r\n|[{_BREAKS}])[ \t]*"
_UNDERLINED = re.compile(
    rf"(?:([-=~^\"'#*+.:_`])\1+[ \t]*{_BREAK})?[^{_BREAKS}]+{_BREAK}([-=~^\"'#*+.:_`])\2{{2,}}\Z"
)
_NUMBERED_HEADING = re.compile(
    r"(?:\d{1,3}(?:\.\d{1,3})+\.?|§\s?\d+|(?:Chapter|Section|Article|Part|Appendix|ARTICLE|SECTION)\s\w+)\b"
)
_DIRECTIVE = re.compile(r"\.\. [\w:+.-]+::|\[[A-Za-z][^\]\n]{0,40}\]\Z")  # reStructuredText; AsciiDoc
_NUMBERED_TITLE = re.compile(r"(?:\d{1,3}|[A-Z])[.)]\s+[^\W\d_]")
_SENTENCE_MARKS = frozenset("#|-*+•‣◦▪●·–—(`~0123456789§.[")
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
_HEADING_CHARS = 80
_SENTENCE_ENDS = (".", "!", "?", ":", ";", ",", "…", "。", "！", "？", "।", "؟", "۔", '"', "”", ")", "|")


class Block(NamedTuple):
    """A run of text in which a line break, if any, only wraps.

    Attributes:
        start: First character, never white space.
        end: Just after the last character that is not white space.
        verbatim: A line of fenced code, with the fence beside it, a table row or a title with its underline:
            no sentences to look for.
    """

    start: int
    end: int
    verbatim: bool


class _Line(NamedTuple):
    start: int
    end: int
    kind: str  # "text", "item", "heading", "table", "rule", "fence", "underline", "overline"
    spaced: bool  # a blank line stands before it


def blocks(text: str) -> Iterator[Block]:
    """Blocks of ``text`` in order; together they hold every character that is not white space.

    A line break parts two blocks at a blank line, at a heading, list item, table row or fence, and where the
    next word would still have fitted on the line above, so that nobody wrapped it there. Linear in
    ``len(text)``.
    """
    lines, code = _with_titles(text, list(_lines(text)))
    index = 0
    while index < len(lines):
        line = lines[index]
        if index in code:
            # A fence is no sentence: it goes with the line of code beside it.
            stop = index + 1
            if line.kind == "fence" and code.get(stop) == code[index]:
                stop += 1
            if (
                lines[stop - 1].kind != "fence"
                and code.get(stop) == code[index]
                and lines[stop].kind == "fence"
            ):
                stop += 1
            yield Block(line.start, lines[stop - 1].end, True)
            index = stop
            continue
        title = index + (line.kind == "overline")
        if title + 1 < len(lines) and lines[title + 1].kind == "underline":
            yield Block(line.start, lines[title + 1].end, True)
            index = title + 2
            continue
        if line.kind == "table":
            yield Block(line.start, line.end, True)
            index += 1
            continue
        stop = index + 1
        while stop < len(lines) and stop not in code and _may_continue(lines[stop - 1], lines[stop]):
            stop += 1
        yield from _wrapped(text, lines[index:stop])
        index = stop


def _with_titles(text: str, lines: list[_Line]) -> tuple[list[_Line], dict[int, int]]:
    """The lines, with the marks above and below titles known for what they are, and the lines of fenced code.

    Returns:
        The lines; and from the index of each line of code to the number of its block.
    """
    code: dict[int, int] = {}
    opened: int | None = None
    for index, line in enumerate(lines):
        if opened is not None:
            if line.kind == "fence":
                code.update(dict.fromkeys(range(opened, index + 1), opened))
                opened = None
            continue
        if _underlines(text, lines, index):
            lines[index] = line._replace(kind="underline")
            above = lines[index - 2] if index > 1 and not lines[index - 1].spaced else None
            if above is not None and text[above.start : above.end] == text[line.start : line.end]:
                lines[index - 2] = above._replace(kind="overline")
        elif line.kind == "fence" and not _overlines(text, lines, index):
            opened = index
    return lines, code


def _underlines(text: str, lines: Sequence[_Line], index: int) -> bool:
    """Whether a line is nothing but marks, and at least as long as the title right above it."""
    line = lines[index]
    if index == 0 or line.spaced or text[line.start] not in _ADORNMENT_MARKS:
        return False
    above, length = lines[index - 1], line.end - line.start
    return (
        above.kind in ("text", "item")
        and above.end - above.start <= min(length, _HEADING_CHARS)
        # "~~~" and "```" are fences; of titles as short as that there are few.
        and length > (3 if line.kind == "fence" else 2)
        and (above.spaced or index == 1 or _overlines(text, lines, index - 2))
        and _ADORNMENT.match(text, line.start, line.end) is not None
        and _ADORNMENT.match(text, above.start, above.end) is None
    )


def _overlines(text: str, lines: Sequence[_Line], index: int) -> bool:
    """Whether a line is repeated below the title after it."""
    if index + 2 >= len(lines) or lines[index + 1].spaced or lines[index + 2].spaced:
        return False
    line, title, below = lines[index : index + 3]
    length = line.end - line.start
    return (
        title.kind in ("text", "item")
        and length > (3 if line.kind == "fence" else 2)
        and title.end - title.start <= min(length, _HEADING_CHARS)
        and text[line.start : line.end] == text[below.start : below.end]
        and _ADORNMENT.match(text, line.start, line.end) is not None
    )


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


def line_breaks(text: str, spans: Sequence[Span]) -> list[int]:
    """Line breaks between neighbouring sentences: 0, 1, or 2 for a blank line."""
    between = [text[end:start] for (_, end), (start, _) in itertools.pairwise(spans)]
    return [0 if gap == " " else _count_breaks(gap) for gap in between]


def _count_breaks(gap: str) -> int:
    """0, 1, or 2 for a blank line (a form feed or paragraph separator counts as one)."""
    if "\x0c" in gap or "\u2029" in gap:
        return 2
    return min(2, gap.count("\n") or gap.count("\r") or gap.count("\u2028"))


def are_headings(text: str, spans: Sequence[Span]) -> list[bool]:
    """Which of the sentences of ``text`` are headings; a heading goes with what follows it."""
    return [kind == "heading" for kind in sentence_kinds(text, spans, line_breaks(text, spans))]


def sentence_kinds(text: str, spans: Sequence[Span], gaps: Sequence[int]) -> list[str]:
    """Kind of every sentence: heading, item, lead (ends with a colon), table, code or text.

    Args:
        text: The source.
        spans: Its sentences.
        gaps: What `line_breaks` gave for them.
    """
    kinds: list[str] = []
    code = False
    for index, span in enumerate(spans):
        at_line_start = index == 0 or gaps[index - 1] > 0
        first = text[span.start]
        kind = "code" if code else "text"
        underlined = at_line_start and not code and _is_underlined(text, span)
        if at_line_start and first in "`~" and not underlined and _FENCE.match(text, span.start, span.end):
            # A fence with a line of code, or alone where the code or its end is missing.
            code = not code and not _closes(text, span)
            kind = "code"
        elif code:
            code = not _closes(text, span)
        elif underlined:
            kind = "heading"
        else:
            alone = at_line_start and (index == len(gaps) or gaps[index] > 0)
            if at_line_start and first in _SENTENCE_MARKS:
                kind = _marked(text, span, alone)
            if kind == "text" and alone:
                kind = _alone(text, spans, index, gaps)
            if kind == "text" and text[span.end - 1] in ":：":
                kind = "lead"
            elif kind == "text" and kinds and kinds[-1] == "item" and not at_line_start:
                kind = "item"  # a further sentence of the same item
        kinds.append(kind)
    for index in range(len(kinds) - 1):
        if kinds[index] == "item" and _is_numbered_title(text, spans, gaps, kinds, index):
            kinds[index] = "heading"
    return kinds


def _is_underlined(text: str, span: Span) -> bool:
    """Whether a sentence is a title of one line with its underline."""
    mark = text[span.end - 1]
    return (
        mark in _ADORNMENT_MARKS
        and text.endswith(mark * 3, span.start, span.end)
        and _UNDERLINED.match(text, span.start, span.end) is not None
    )


def _closes(text: str, span: Span) -> bool:
    """Whether a sentence ends with the closing fence of a block of code, on a line of its own."""
    if text[span.end - 1] not in "`~":
        return False
    line = text[span.start : span.end].splitlines()
    return len(line) > 1 and _FENCE.match(line[-1].lstrip()) is not None


def _is_numbered_title(
    text: str, spans: Sequence[Span], gaps: Sequence[int], kinds: Sequence[str], index: int
) -> bool:
    """Whether the line "3. Dues" is a title with prose below it, and not an item of a list."""
    span = spans[index]
    return (
        (index == 0 or (gaps[index - 1] > 0 and kinds[index - 1] not in ("item", "lead")))
        and gaps[index] > 0
        and kinds[index + 1] in ("text", "lead")
        and span.end - span.start <= _HEADING_CHARS
        and not text.endswith(_SENTENCE_ENDS, span.start, span.end)
        and _NUMBERED_TITLE.match(text, span.start, span.end) is not None
        and _is_prose(text, spans[index + 1])
    )


def _is_prose(text: str, span: Span) -> bool:
    return span.end - span.start > _HEADING_CHARS or text.endswith(_SENTENCE_ENDS, span.start, span.end)


def _marked(text: str, span: Span, alone: bool) -> str:
    """Kind of a sentence that starts a line with one of the marks."""
    if text[span.start] == "|":
        return "table"
    if text[span.start] in ".[":
        return "heading" if alone and _DIRECTIVE.match(text, span.start, span.end) else "text"
    if _MARKDOWN_HEADING.match(text, span.start, span.end):
        return "heading"
    if span.end - span.start <= _HEADING_CHARS and _NUMBERED_HEADING.match(text, span.start, span.end):
        return "heading"
    return "item" if _LIST_ITEM.match(text, span.start, span.end) else "text"


def _alone(text: str, spans: Sequence[Span], index: int, gaps: Sequence[int]) -> str:
    """Kind of a plain sentence that has its lines for itself: a title, or just a short paragraph."""
    span = spans[index]
    if index == len(gaps):
        return "text"
    if span.end - span.start > _HEADING_CHARS or text.endswith(_SENTENCE_ENDS, span.start, span.end):
        return "text"
    if not text[span.start].isalnum() or text[span.start].islower():
        return "text"
    below = spans[index + 1]
    stands_out = index == 0 or gaps[index - 1] > 1 or gaps[index] > 1
    return "heading" if stands_out and _is_prose(text, below) else "text"


def points_back(text: str, span: Span) -> bool:
    """Whether a sentence begins with a pronoun, a demonstrative or a connective that needs the one before."""
    return _BACK_REFERENCE.match(text, span.start, span.end) is not None
