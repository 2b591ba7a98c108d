"""Headings of a text and the path of headings above any place in it.

Marked headings (Markdown, reStructuredText) are found by the rules of their language.
Text without marks (plain text, text from a PDF) has numbered headings, chapters, lines in capitals and short
lines that stand alone; these are taken only where their surroundings agree. Linear in the text.
"""

from __future__ import annotations

import bisect
import html
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from sage_core.errors import InputError
from sage_core.text.lexicon import MONTHS, word_set
from sage_core.text.lines import (
    ATX,
    CONTENTS_ENTRY,
    FENCE,
    WIDE,
    WIDEST_WRAP,
    Line,
    is_delimiter_row,
    number_of,
    read_lines,
    ruler,
    unquoted,
)
from sage_core.text.mail import messages

Markup = Literal["auto", "markdown", "rst", "plain"]
"""What the headings of a text look like. ``auto`` finds out; ``plain`` looks for unmarked headings only."""

MAX_HEADING_CHARS = 200
"""A longer "heading" is a paragraph that somebody marked as one: it opens no section."""


class Heading(NamedTuple):
    """A heading, where it stands, and what it says.

    Examples:
        >>> from sage_core.text.headings import find_headings
        >>> find_headings("# Dues ##")
        [Heading(start=0, end=9, level=1, text='Dues')]

    Attributes:
        start: First character, marks and overline included.
        end: Just after the last character, closing marks and underline included.
        level: 1 for the outermost. Levels may skip (1, 3).
        text: The words, without marks, emphasis, link targets and line breaks.
    """

    start: int
    end: int
    level: int
    text: str


def find_headings(text: str, markup: Markup = "auto") -> list[Heading]:
    """The headings of ``text`` that open a section, in order.

    What only looks like a heading is left out: ``#`` in code, comments and front matter, headings within a
    list, a quotation or a table, items of a numbered list, lines of a table of contents, and anything longer
    than `MAX_HEADING_CHARS`.

    Args:
        text: The text.
        markup: Its language. ``auto`` takes Markdown headings where there are any, else those of
            reStructuredText, else unmarked ones.

    Raises:
        InputError: For a ``markup`` that is not known.
    """
    if markup not in ("auto", "markdown", "rst", "plain"):
        raise InputError(f"markup is auto, markdown, rst or plain, not {markup!r}")
    lines = read_lines(text)
    headings = headings_of(text, lines, markup) if text else []
    return _with_messages(text, unquoted(lines), headings) if markup == "auto" else headings


def _with_messages(text: str, lines: Sequence[Line], headings: list[Heading]) -> list[Heading]:
    """Headings and heads of messages (writer, date, subject); without other marks, only these count."""
    heads = [(lines[m.first].start, lines[m.end - 1].end, m.words) for m in messages(lines) if m.depth == 0]
    if not heads:
        return headings
    marked = [h for h in headings if text[h.start] in "#<" and not any(a <= h.start < b for a, b, _ in heads)]
    level = 1 + max((h.level for h in marked), default=0)
    return sorted([*marked, *(Heading(a, b, level, words[:MAX_HEADING_CHARS]) for a, b, words in heads)])


def headings_of(text: str, lines: Sequence[Line], markup: Markup = "auto") -> list[Heading]:
    """`find_headings` of a text whose lines were read."""
    if text.startswith("#!"):  # a script: its "#" lines are comments
        return []
    if markup == "markdown":
        return _markdown(text, lines, strict=False)
    if markup == "rst":
        return _rst(lines)
    if markup == "plain":
        return _plain(lines)
    return _marked(text, lines) or _plain(lines)


def _marked(text: str, lines: Sequence[Line]) -> list[Heading]:
    """Headings by the marks of the language that the text seems to have."""
    marked = _markdown(text, lines, strict=True)
    if any(text[h.start] in "#<" for h in marked):
        return marked
    return (_rst(lines) if _RST_SIGN.search(text) else []) or marked


def all_headings(text: str, lines: Sequence[Line]) -> list[Heading]:
    """`headings_of`, and below marked ones those with a number or a word such as "Part"."""
    if text.startswith("#!"):  # a script
        return []
    plain = _plain(lines)
    if not (marked := _marked(text, lines)):
        return plain
    deepest = max(heading.level for heading in marked)
    starts = {heading.start for heading in marked}
    numbered = (h for h in plain if _NUMBERED.match(h.text) or _KEYWORD.match(h.text))
    return sorted(
        [*marked, *(h._replace(level=h.level + deepest) for h in numbered if h.start not in starts)]
    )


@lru_cache(maxsize=4_096)
def title_on_top(head: str) -> str | None:
    r"""The title that a text gives itself on top of its first lines, some `TOP` characters.

    Examples:
        >>> title_on_top("# The old mill\n\nIt stands by the pier."), title_on_top("## Opening\n\nIn May.")
        ('The old mill', None)
    """
    return find_title(head, [h for h in find_headings(head) if h.level == 1])


def find_title(text: str, headings: Sequence[Heading]) -> str | None:
    """The title that a text gives itself.

    Returns:
        ``title:`` of its front matter; the ``<title>`` of a page that was not read but given as it is; else
        its first heading, where nothing else has that level or stands before it; else up to three lines in
        capitals that stand on top of a text in other letters; else None.
    """
    if _PAGE.match(text) and (page := _PAGE_TITLE.search(text, 0, _PAGE_HEAD)):
        words = " ".join(html.unescape(page.group(1)).split())
        return words[:MAX_HEADING_CHARS] or None
    matter = _FRONT_MATTER.match(text)
    if matter:
        line = _MATTER_TITLE.search(matter.group(2))
        title = _plain_words(line.group(1).strip().strip("\"'")) if line else ""
        if title:
            return title[:MAX_HEADING_CHARS]
    top = matter.end() if matter else 0
    if headings and not any(h.level <= headings[0].level for h in headings[1:]):
        first = headings[0]
        if not text[top : first.start].strip("\ufeff \t\r\n"):
            return first.text
    return _capitals_on_top(text[top : top + _MOST_BEFORE_LOWER])


def _capitals_on_top(text: str) -> str | None:
    """A contract begins "SERVICE AGREEMENT", and then says between whom, which no heading does."""
    lines = text.lstrip("\ufeff \t\r\n").splitlines()
    stripped = (line.strip() for line in lines[:4])
    title = list(
        itertools.takewhile(lambda a: a.upper() == a != a.lower() and _TITLE_LINE.match(a), stripped)
    )
    below = next((line.strip() for line in lines[len(title) :] if line.strip()), "")
    if not 0 < len(title) < 4 or below.upper() == below:
        return None
    return " ".join(" ".join(title).split())


def heading_path(headings: Sequence[Heading], offset: int) -> tuple[str, ...]:
    """Texts of the headings above ``offset``, outermost first; a heading that starts there is among them.

    Args:
        headings: From `find_headings`, in order.
        offset: A character of the same text.
    """
    path: list[str] = []
    level = 1 << 30
    for index in range(bisect.bisect_right(headings, offset, key=lambda h: h.start) - 1, -1, -1):
        if headings[index].level < level:
            level = headings[index].level
            path.append(headings[index].text)
    return tuple(reversed(path))


def heading_paths(
    text: str, headings: Sequence[Heading], spans: Iterable[tuple[int, int]], *, own: bool = True
) -> list[tuple[str, ...]]:
    """The headings above each of ``spans``, outermost first.

    A span that begins with headings stands below them: "## Dues" and the paragraph after it, cut as one
    chunk, has the path ``("Harbour rules", "Dues")``. Headings further inside a span do not count.

    Args:
        text: The text.
        headings: From `find_headings`, in order.
        spans: ``(start, end)`` pairs in any order.
        own: Whether the headings with which a span begins are part of its path. Without them, a path holds
            only what the span itself does not say.
    """
    ordered = sorted((start, end, index) for index, (start, end) in enumerate(spans))
    paths: list[tuple[str, ...]] = [()] * len(ordered)
    stack: list[Heading] = []
    following = 0

    def close(path: list[Heading], level: int) -> None:
        while path and path[-1].level >= level:
            path.pop()

    for start, end, index in ordered:
        while following < len(headings) and headings[following].start < start:
            close(stack, headings[following].level)
            stack.append(headings[following])
            following += 1
        # Spans may overlap or share a start, so the headings inside are walked without being consumed.
        above, begins = list(stack), list[Heading]()
        position, ahead = start, following
        while ahead < len(headings) and headings[ahead].start < end:
            heading = headings[ahead]
            if text[position : heading.start].strip():
                break
            close(above, heading.level)
            close(begins, heading.level)
            begins.append(heading)
            position, ahead = heading.end, ahead + 1
        paths[index] = tuple(h.text for h in (*above, *(begins if own else ())))
    return paths


# --- Words ------------------------------------------------------------------------

# "# The [ferry](ferry.md) **leaves**" says "The ferry leaves". Every pattern stops at the next mark of its
# kind, so that a heading of nothing but brackets takes linear time.
_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])")
_EMPHASIS = re.compile(r"(\*{1,3}|(?<!\w)_{1,3}|~~)(?=\S)([^*_~]+?)(?<=\S)\1(?!\w)")
_CODE_SPAN = re.compile(r"(`+)([^`]+)\1")
# Not any word in angle brackets: "RefCell<T>" is one.
_TAG = re.compile(
    r"</?(?:a|abbr|b|br|center|code|del|div|em|font|i|img|ins|kbd|mark|p|picture|s|small|source|span|strong|sub|sup|u)"
    r"(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_ATTRIBUTES = re.compile(r"\s*\{[#.:][^{}]*\}\s*\Z")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")


def _plain_words(text: str) -> str:
    """``text`` as a person reads it."""
    if len(text) > 4 * MAX_HEADING_CHARS:
        return text
    if not text.isalnum():
        text = _ATTRIBUTES.sub("", text)
        text = _LINK.sub(r"\1", text)
        text = _CODE_SPAN.sub(r"\2", text)
        text = _EMPHASIS.sub(r"\2", text)
        text = _TAG.sub("", text)
        text = _ESCAPED.sub(r"\1", text)
    return " ".join(text.split())


def _heading(start: int, end: int, level: int, words: str) -> Iterator[Heading]:
    """The heading, unless it says nothing or far too much."""
    text = _plain_words(words)
    if text and len(text) <= MAX_HEADING_CHARS:
        yield Heading(start, end, level, text)


def _dense(headings: list[Heading]) -> list[Heading]:
    """The same headings with levels 1, 2, 3, ... in place of whatever ranks they have."""
    ranks = {level: rank for rank, level in enumerate(sorted({h.level for h in headings}), start=1)}
    return [h._replace(level=ranks[h.level]) for h in headings]


# --- Markdown ----------------------------------------------------------------------

_FRONT_MATTER = re.compile(
    r"\ufeff?(---|\+\+\+)[ \t]*\r?\n"
    r"((?:(?!---|\+\+\+|\.\.\.).{0,1000}\r?\n){0,300}?)"
    r"(?:---|\+\+\+|\.\.\.)[ \t]*(?:\r?\n|\Z)"
)
_MATTER_LINE = re.compile(r"\s*(?:[\w\"'-][\w \"'.-]*\s*[:=]|#|-\s|\[|\Z)")
_MATTER_TITLE = re.compile(r"^title[ \t]*[:=][ \t]*(.+)$", re.IGNORECASE | re.MULTILINE)
_ATX_CLOSER = re.compile(r"(?:\A|[ \t])#+\Z")
_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:[ \t]+(?=\S)|\Z)")
_THEMATIC = re.compile(r"(?:[-*_][ \t]*){3,}\Z")
_PAGE = re.compile(r"\ufeff?\s*(?:<\?xml[^<>]*>\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE)
_PAGE_TITLE = re.compile(r"<title\b[^<>]*>([^<>]*)</title", re.IGNORECASE)
_PAGE_HEAD = 20_000  # characters in which a page has its title
TOP = 400
"""Characters that are read for a title alone."""
_MOST_BEFORE_LOWER = 2_000  # characters in which a title in capitals and what is below it stand
_TITLE_LINE = re.compile(r"(?=.*[^\W\d_]{5})[^\W\d_][\w '’&,/()-]{4,68}\Z")
_RAW_HTML = re.compile(r"<(pre|script|style|textarea)\b", re.IGNORECASE)
_HTML_HEADING = re.compile(r"<h([1-6])(?:\s[^<>]*)?>(.+)</h\1\s*>\Z", re.IGNORECASE)


def _front_matter_end(text: str) -> int:
    """Where the text proper starts, after YAML or TOML front matter; 0 without."""
    if not text.startswith(("---", "+++", "\ufeff---", "\ufeff+++")):
        return 0
    matter = _FRONT_MATTER.match(text)
    if matter is None:
        return 0
    filled = [line for line in matter.group(2).splitlines() if line.strip()]
    # Two rules with prose between them are no front matter.
    return matter.end() if not filled or _MATTER_LINE.match(filled[0]) else 0


class _Markdown:
    """The state of a pass over Markdown: CommonMark's block structure as far as headings depend on it."""

    def __init__(self, lines: Sequence[Line], strict: bool) -> None:
        self.lines = lines
        self.strict = strict
        self.fence = ""
        self.fence_list = 0
        self.html_end = ""
        self.list_indent = 0  # column where the text of the current list item starts; 0 outside lists
        self.nested = False  # the line before was paragraph text within a list or a quotation
        self.paragraph: int | None = None  # index of the first line of the paragraph that is open

    def headings(self, first: int) -> Iterator[Heading]:
        for index in range(first, len(self.lines)):
            line = self.lines[index]
            if line.spaced:
                self.paragraph = None
                self.nested = False
            if self.fence and not self._leaves_fence(line):
                continue
            if self.html_end:
                if self.html_end in line.text.lower():
                    self.html_end = ""
                continue
            if self.list_indent and line.indent < self.list_indent and not self.nested:
                self.list_indent = 0
            yield from self._line(index, line)

    def _leaves_fence(self, line: Line) -> bool:
        """Whether a line stands after the fence, its list item having ended. Closes the fence at its end."""
        if line.indent < self.fence_list:
            self.fence = ""
            return True
        bare = line.text
        if bare[0] == self.fence[0] and len(bare) >= len(self.fence) and not bare.strip(self.fence[0]):
            self.fence = ""
        return False

    def _line(self, index: int, line: Line) -> Iterator[Heading]:
        first = line.text[0]
        inside = bool(self.list_indent) and line.indent >= self.list_indent
        if line.indent > 3 and not inside and self.paragraph is None and not self.nested:
            return  # indented code
        if first == "#" and (mark := ATX.match(line.text)):
            yield from self._atx(index, line, mark, inside)
        elif first in "`~" and (mark := FENCE.match(line.text)):
            self._close()
            self.fence = mark.group()
            self.fence_list = self.list_indent if inside else 0
        elif first == "<":
            yield from self._html(line, inside)
        elif first in "=-" and self.paragraph is not None and self._is_underline(line):
            yield from self._setext(index, line)
        elif first in "-*+0123456789_" and self._begins_item(line):
            pass
        elif first == ">" or inside:
            self.paragraph = None
            self.nested = True
        elif first == "|":
            self._close()
        elif self.paragraph is None and not self.nested:
            self.paragraph = index

    def _atx(self, index: int, line: Line, mark: re.Match[str], inside: bool) -> Iterator[Heading]:
        self._close()
        if inside or line.indent > 3 or self._is_table_header(index) or not self._stands_free(index):
            return
        self.list_indent = 0
        words = _ATX_CLOSER.sub("", line.text[mark.end() :])
        yield from _heading(line.start, line.end, len(mark.group(1)), words)

    def _begins_item(self, line: Line) -> bool:
        """Whether a line is a list item or a rule; both end a paragraph."""
        if _THEMATIC.match(line.text):
            self._close()
            return True
        mark = _MARKER.match(line.text)
        if mark is None:
            return False
        self.list_indent = line.indent + mark.end()
        self.paragraph = None
        self.nested = True
        return True

    def _close(self) -> None:
        self.paragraph = None
        self.nested = False

    def _html(self, line: Line, inside: bool) -> Iterator[Heading]:
        lowered = line.text.lower()
        if lowered.startswith("<!--"):
            self.html_end = "" if "-->" in lowered else "-->"
        elif raw := _RAW_HTML.match(line.text):
            end = f"</{raw.group(1).lower()}"
            self.html_end = "" if end in lowered else end
        elif not inside and (heading := _HTML_HEADING.match(line.text)):
            yield from _heading(line.start, line.end, int(heading.group(1)), heading.group(2))
        self._close()

    def _is_underline(self, line: Line) -> bool:
        marks = line.text
        if marks.strip(marks[0]) or line.indent > 3:
            return False
        return len(marks) >= 3 or not self.strict

    def _setext(self, index: int, line: Line) -> Iterator[Heading]:
        above = self.lines[self.paragraph if self.paragraph is not None else index : index]
        self._close()
        if above[-1].end - above[0].start <= MAX_HEADING_CHARS and len(above) <= 4:
            level = 1 if line.text[0] == "=" else 2
            yield from _heading(above[0].start, line.end, level, " ".join(part.text for part in above))

    def _is_table_header(self, index: int) -> bool:
        """Whether a line such as "# | Name" is the header of a table without outer bars."""
        below = self.lines[index + 1] if index + 1 < len(self.lines) else None
        return (
            "|" in self.lines[index].text
            and below is not None
            and not below.spaced
            and is_delimiter_row(below.text)
        )

    def _stands_free(self, index: int) -> bool:
        """In a text that need not be Markdown, a "#" line in the middle of other lines is a comment."""
        if not self.strict or self.lines[index].spaced:
            return True
        above = self.lines[index - 1].text
        return above[0] == "#" or index + 1 == len(self.lines) or self.lines[index + 1].spaced


def _markdown(text: str, lines: Sequence[Line], *, strict: bool) -> list[Heading]:
    after = _front_matter_end(text)
    first = bisect.bisect_left(lines, after, key=lambda line: line.start) if after else 0
    return list(_Markdown(lines, strict).headings(first))


# --- reStructuredText --------------------------------------------------------------

_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
# A directive, a target or a field; or a line of a mark that underlines in no other language.
_RST_SIGN = re.compile(
    r"^(?:\.\. [\w:.+-]+::|\.\. _[^\n:]{1,200}:|:\w[\w -]{0,40}:(?:\s|$)"
    r"|([~^\"'*+.`:_#])\1{3,}[ \t]*\r?$"
    r"|={3,}\r?\n[^\n]+\r?\n={3,}\r?$)",
    re.MULTILINE,
)
_ROLE = re.compile(r":[\w:+.-]+:`([^`<]*?)(?:\s*<[^`<>]*>)?`")


def _rst(lines: Sequence[Line]) -> list[Heading]:
    styles: dict[tuple[str, bool], int] = {}
    headings: list[Heading] = []
    for index in range(1, len(lines)):
        line, title = lines[index], lines[index - 1]
        mark = ruler(line.text, _PUNCTUATION)
        if not mark or line.indent or line.spaced or ruler(title.text, _PUNCTUATION):
            continue
        over = (
            index > 1
            and not title.spaced
            and lines[index - 2].spaced
            and ruler(lines[index - 2].text, _PUNCTUATION) == mark
            and not lines[index - 2].indent
        )
        short = len(line.text) < len(title.text) and len(line.text) < 4
        if (over or (title.spaced and not title.indent)) and not short:
            level = styles.setdefault((mark, over), len(styles) + 1)
            start = lines[index - 2].start if over else title.start
            words = _ROLE.sub(r"\1", title.text)
            headings += _heading(start, line.end, level, words)
    return headings


# --- Text without marks ------------------------------------------------------------

_LONGEST = 90
_NUMBERED = re.compile(
    r"(?:(?P<decimal>\d{1,3}(?:\.\d{1,3}){0,5})(?P<dot>[.)]?)|(?P<roman>[IVXLC]{1,6})[.)]|(?P<letter>[A-Z])[.)])\s+(?P<words>\S.*)\Z"
)
_KEYWORD = re.compile(
    r"(?P<word>(?i:part|book|volume|act|chapter|letter|article|section|scene|appendix|annex|schedule)\b|§{1,2})\s*"
    r"(?P<number>\d{1,3}(?:\.\d{1,3})*|[IVXLC]{1,7}|[A-Z]"
    r"|(?i:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve))"
    r"(?P<rest>\.?\Z|\s*[.:–—-]\s*\S.*|\s+[A-Z\d\"“(].*)\Z"
)
_KEYWORD_RANKS = {"part": 0, "book": 0, "volume": 0, "act": 0, "chapter": 1, "letter": 1}
_KEYWORD_FAMILIES = ("part", "chapter", "article")
_TOP_WORDS = word_set("""
    abstract acknowledgements acknowledgments appendix appendices bibliography conclusion conclusions contents
    discussion foreword glossary index introduction methods preface prologue epilogue references results
    summary
""")
_ENDS = tuple(".!,;:…。！，；：、؟।")
_SENTENCE_END = re.compile(r"[.!?…。！？।؟][\"'”’)\]]*(?:\s|\Z)")


class _Candidate(NamedTuple):
    """A line that may be a heading."""

    line: int
    family: str  # "part", "chapter", "article", "decimal", "roman", "letter", "capitals", "line"
    number: tuple[int, ...]
    bare: bool  # says its number only: "CHAPTER IV"


def _plain(lines: Sequence[Line]) -> list[Heading]:
    """Numbered headings, chapters, lines in capitals and short lines that stand alone."""
    candidates = [c for c in (_candidate(lines, i) for i in range(len(lines))) if c is not None]
    by_line = {c.line: c for c in candidates}
    numbers = {(c.family, c.number) for c in candidates if c.number}
    adjacent = _in_lists(candidates)
    families: dict[str, int] = {}
    headings: list[Heading] = []
    last: _Candidate | None = None
    for candidate in candidates:
        index = candidate.line
        if index in adjacent or not _accepted(lines, candidate, numbers, by_line.get(index + 1)):
            continue
        line = lines[index]
        unnumbered = candidate.family in ("capitals", "line")
        if last is not None and last.bare and unnumbered and index == last.line + 1:
            # "CHAPTER IV" and, on the next line, "The storm" are one heading.
            above = headings.pop()
            words = f"{lines[last.line].text} {line.text}"
            headings += _heading(above.start, line.end, above.level, words)
            last = candidate
            continue
        last = candidate
        headings += _heading(line.start, line.end, _rank(lines, candidate, families), line.text)
    return _dense(headings)


def _candidate(lines: Sequence[Line], index: int) -> _Candidate | None:
    line = lines[index]
    text = line.text
    first = text[0]
    if len(text) > _LONGEST or line.indent > 24 or not (first.isalnum() or first == "§"):
        return None
    if first.islower() or CONTENTS_ENTRY.search(text):
        return None
    keyword = _KEYWORD.match(text) if first in "PBVACLS§" else None
    if keyword:
        bare = keyword.group("rest") in ("", ".")
        if not bare and text.endswith(_ENDS):
            return None
        rank = _KEYWORD_RANKS.get(keyword.group("word").lower(), 2)
        return _Candidate(index, _KEYWORD_FAMILIES[rank], (), bare)
    if text.endswith(_ENDS):
        return None
    numbered = _NUMBERED.match(text)
    if numbered:
        return _numbered(index, numbered)
    if first.isdigit() or not any(map(str.isalpha, text)):
        return None
    return _unnumbered(lines, index)


def _numbered(index: int, match: re.Match[str]) -> _Candidate | None:
    words = match.group("words")
    if not words[0].isalpha() or words[0].islower() or len(words.split()) > 12:
        return None
    if match.group("decimal"):
        number = tuple(int(part) for part in match.group("decimal").split("."))
        if len(number) == 1 and not match.group("dot") and words.split()[0].lower().rstrip(".,") in MONTHS:
            return None
        return _Candidate(index, "decimal", number, False)
    roman = match.group("roman")
    # "C. The quay" is more likely the third letter than the hundredth number.
    if roman and (len(roman) > 1 or roman in "IVX"):
        return _Candidate(index, "roman", (_roman(roman),), False)
    letter = match.group("letter") or (roman if roman and len(roman) == 1 else None)
    return _Candidate(index, "letter", (ord(letter) - 64,), False) if letter else None


def _roman(text: str) -> int:
    values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
    total = 0
    for one, after in itertools.zip_longest(text, text[1:]):
        total += -values[one] if after and values[after] > values[one] else values[one]
    return total


def _unnumbered(lines: Sequence[Line], index: int) -> _Candidate | None:
    """A line in capitals or a short one, with a blank line before it."""
    line = lines[index]
    text = line.text
    if not _apart(lines, index) or text.endswith(("?", '"', "”")) or text[:3].lower() == "by ":
        return None
    letters = sum(map(str.isalpha, text))
    if letters >= 3 and text.upper() == text and text.lower() != text and len(text) <= 70:
        return _Candidate(index, "capitals", (), False)
    words = text.split()
    if len(words) > 9 or len(text) > 64 or letters < 0.6 * len(text) or letters < 2:
        return None
    return _Candidate(index, "line", (), False)


def _apart(lines: Sequence[Line], index: int) -> bool:
    """Whether a line starts a paragraph of its own."""
    above = lines[index - 1] if index else None
    return lines[index].spaced or (above is not None and above.end - above.start > WIDEST_WRAP)


def _in_lists(candidates: Sequence[_Candidate]) -> set[int]:
    """Lines that are items of a list or a table of contents: neighbors with numbers of the same depth."""
    items: set[int] = set()
    for one, after in itertools.pairwise(candidates):
        same = one.family == after.family and len(one.number) == len(after.number)
        # A chapter that only has a number may stand above its title; two in a row are a table of contents.
        if same and after.line == one.line + 1 and (one.number or one.family in ("part", "chapter")):
            items.update((one.line, after.line))
    # Entries of other depths between two items belong to the same list.
    runs: list[list[int]] = []
    for candidate in candidates:
        if candidate.family in ("capitals", "line"):
            continue
        if runs and candidate.line == runs[-1][-1] + 1:
            runs[-1].append(candidate.line)
        else:
            runs.append([candidate.line])
    for run in runs:
        if len(run) > 3:
            items.update(run)
    return items


def _accepted(
    lines: Sequence[Line],
    candidate: _Candidate,
    numbers: set[tuple[str, tuple[int, ...]]],
    following: _Candidate | None,
) -> bool:
    index = candidate.line
    line = lines[index]
    below = lines[index + 1] if index + 1 < len(lines) else None
    if below is None or below.text[0].islower():
        return False
    if candidate.family in _KEYWORD_FAMILIES:
        return _apart(lines, index) or below.spaced
    if not candidate.number:
        titles = candidate.family == "capitals" and following is not None and following.number == (1,)
        return titles or _stands_out(lines, index)
    *parent, number = candidate.number
    family = candidate.family
    relatives = ((*parent, number - 1), (*parent, number + 1), tuple(parent))
    supported = number <= 1 or any((family, relative) in numbers for relative in relatives)
    deeper = number_of(below.text) if family == "decimal" else following.number if following else ()
    nested = len(deeper) > len(candidate.number)
    continued = nested or _is_prose(below.text)
    if line.spaced and below.spaced:
        return supported or len(parent) > 0 or continued
    if _apart(lines, index):
        return supported or (len(parent) > 0 and continued)
    # No blank line before it, as in much text from PDFs: it must continue a count, after a finished sentence.
    above = lines[index - 1].text
    finished = _SENTENCE_END.search(above[-3:]) is not None
    # A heading may stand right below another: "2. Pilots", "2.1 Scope".
    return supported and (finished or len(above) < _LONGEST / 2) and continued


def _is_prose(text: str) -> bool:
    """Whether a line looks like one of a paragraph."""
    least = 15 if text[0] >= WIDE else 50
    return len(text) >= least or (len(text) >= 20 and _SENTENCE_END.search(text) is not None)


def _stands_out(lines: Sequence[Line], index: int) -> bool:
    """Whether a line without a number is a heading: prose follows, or it opens the text as its title."""
    line, below = lines[index], lines[index + 1]
    if (index == 0 and below.spaced) or line.text.lower() in _TOP_WORDS:
        return True
    rest = itertools.takewhile(lambda line: not line.spaced, lines[index + 2 : index + 5])
    length = len(below.text) + sum(len(line.text) for line in rest)
    enough = 30 if below.text[0] >= WIDE else 80
    return length >= enough and _is_prose(below.text)


def _rank(lines: Sequence[Line], candidate: _Candidate, families: dict[str, int]) -> int:
    """A level that orders the heading among its kind; `_dense` makes it 1, 2, 3."""
    family = candidate.family
    if family in _KEYWORD_FAMILIES:
        return _KEYWORD_FAMILIES.index(family) * 10 + 10
    if family in ("capitals", "line"):
        if candidate.line == 0 and lines[1].spaced:  # the title
            return 0
        if family == "capitals":
            return min(families.values(), default=100)
        # "References" stands beside "1. Introduction"; other short lines stand below what has a number.
        names_part = lines[candidate.line].text.lower() in _TOP_WORDS
        return min(families.values(), default=9_000) if names_part else 9_000
    # "I." above "A." above "1.": whichever comes first in the text is the outer one.
    base = families.setdefault(family, 100 * (len(families) + 1))
    return base + len(candidate.number) - 1
