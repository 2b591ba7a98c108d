"""What the page says about a boundary: blank lines, headings, lists, tables and code, as log-odds."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sage_core._checks import real_number
from sage_core.segmentation.cuts import GLUED
from sage_core.text.spans import Span

NEVER = 2 * GLUED
"""Log-odds for "same chunk" after a heading: whatever the model says, the sum stays above ``GLUED``."""

_ITEM = re.compile(r"(?:[-*+•‣◦▪●·–—]|\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{2,5})[.)])\s+\S")
_MARKDOWN_HEADING = re.compile(r"#{1,6}\s")
_UNDERLINED = re.compile(r"[^\n]+\r?\n[ \t]*(?:={3,}|-{3,})\Z")
_NUMBERED_HEADING = re.compile(
    r"(?:\d{1,3}(?:\.\d{1,3})+\.?|§\s?\d+|(?:Chapter|Section|Article|Part|Appendix|ARTICLE|SECTION)\s\w+)\b"
)
_FENCE = re.compile(r"(?:`{3,}|~{3,})")
_MARKS = frozenset("#|-*+•‣◦▪●·–—(`~0123456789§")
_HEADING_CHARS = 80
_SENTENCE_ENDS = (".", "!", "?", ":", ";", ",", "…", "。", "！", "？", "।", "؟", "۔", '"', "”", ")", "|")


@dataclass(frozen=True, slots=True)
class Layout:
    """Log-odds that the layout adds to a model's P(same); negative values speak for a boundary.

    Attributes:
        blank_line: A blank line between two sentences.
        line_break: A line break between two sentences, in a text whose lines are not hard-wrapped.
        list_item: Between two items of one list, and between a list and the line that introduces it.
        table_row: Between two rows of a table, or two lines of one fenced block of code.
    """

    blank_line: float = -2.0
    line_break: float = -1.0
    list_item: float = 2.0
    table_row: float = 6.0

    def __post_init__(self) -> None:
        for name in ("blank_line", "line_break", "list_item", "table_row"):
            real_number(f"layout.{name}", getattr(self, name), -100, 100)


def evidence(text: str, spans: Sequence[Span], layout: Layout) -> list[float]:
    """Log-odds for "same chunk" that the layout gives each gap between neighbouring sentences.

    Args:
        text: The source.
        spans: Its ``n`` sentences.
        layout: The weights.

    Returns:
        ``max(n - 1, 0)`` values; ``NEVER`` after a heading, which goes with what follows it.
    """
    gaps = _gaps(text, spans)
    if not any(gaps) and (not spans or text[spans[0].start] != "#"):
        return [0.0] * len(gaps)
    line_break = 0.0 if _hard_wrapped(text, gaps) else layout.line_break
    kinds = _kinds(text, spans, gaps)
    found: list[float] = []
    for index, breaks in enumerate(gaps):
        value = layout.blank_line if breaks > 1 else line_break if breaks else 0.0
        found.append(value + _between(kinds[index], kinds[index + 1], breaks, layout))
    return found


def _between(above: str, below: str, breaks: int, layout: Layout) -> float:
    """What the kinds of two neighbouring sentences add."""
    if above == "heading":
        return NEVER
    if above == below and above in ("table", "code"):
        return layout.table_row - (layout.blank_line if breaks > 1 else layout.line_break if breaks else 0.0)
    if below == "item" and above in ("item", "lead"):
        return layout.list_item - (layout.line_break if breaks == 1 else 0.0)
    return 0.0


def _gaps(text: str, spans: Sequence[Span]) -> list[int]:
    """Line breaks between neighbouring sentences; see `_line_breaks`."""
    between = [text[end:start] for (_, end), (start, _) in itertools.pairwise(spans)]
    return [0 if gap == " " else _line_breaks(gap) for gap in between]


def _line_breaks(gap: str) -> int:
    """0, 1, or 2 for a blank line (a form feed or paragraph separator counts as one)."""
    if "\x0c" in gap or "\u2029" in gap:
        return 2
    return min(2, gap.count("\n") or gap.count("\r") or gap.count("\u2028"))


def _hard_wrapped(text: str, gaps: Sequence[int]) -> bool:
    """Whether many lines break inside sentences, so that a single break between two means nothing."""
    single = gaps.count(1)
    inside = text.count("\n") - single - 2 * gaps.count(2)
    return inside > single


def are_headings(text: str, spans: Sequence[Span]) -> list[bool]:
    """Which of the sentences of ``text`` are headings; a heading goes with what follows it."""
    return [kind == "heading" for kind in _kinds(text, spans, _gaps(text, spans))]


def _kinds(text: str, spans: Sequence[Span], gaps: Sequence[int]) -> list[str]:
    """Kind of every sentence: heading, item, lead (ends with a colon), table, code or text."""
    kinds: list[str] = []
    code = False
    for index, span in enumerate(spans):
        at_line_start = index == 0 or gaps[index - 1] > 0
        first = text[span.start]
        kind = "code" if code else "text"
        if at_line_start and first in "`~" and _FENCE.match(text, span.start, span.end):
            code = not code
            kind = "code"
        elif not code:
            alone = at_line_start and (index == len(gaps) or gaps[index] > 0)
            if at_line_start and first in _MARKS:
                kind = _marked(text, span, alone)
            if kind == "text" and alone:
                kind = _alone(text, spans, index, gaps)
            if kind == "text" and text[span.end - 1] in ":：":
                kind = "lead"
            elif kind == "text" and kinds and kinds[-1] == "item" and not at_line_start:
                kind = "item"  # a further sentence of the same item
        kinds.append(kind)
    return kinds


def _marked(text: str, span: Span, alone: bool) -> str:
    """Kind of a sentence that starts a line with one of the marks."""
    if text[span.start] == "|":
        return "table"
    if _MARKDOWN_HEADING.match(text, span.start, span.end):
        return "heading"
    if span.end - span.start <= _HEADING_CHARS and _NUMBERED_HEADING.match(text, span.start, span.end):
        return "heading"
    return "item" if _ITEM.match(text, span.start, span.end) else "text"


def _alone(text: str, spans: Sequence[Span], index: int, gaps: Sequence[int]) -> str:
    """Kind of a plain sentence that has its lines for itself: a title, or just a short paragraph."""
    span = spans[index]
    if index == len(gaps):
        return "text"
    if _UNDERLINED.match(text, span.start, span.end):
        return "heading"
    if span.end - span.start > _HEADING_CHARS or text.endswith(_SENTENCE_ENDS, span.start, span.end):
        return "text"
    if not text[span.start].isalnum() or text[span.start].islower():
        return "text"
    below = spans[index + 1]
    stands_out = index == 0 or gaps[index - 1] > 1 or gaps[index] > 1
    is_prose = below.end - below.start > _HEADING_CHARS or text.endswith(
        _SENTENCE_ENDS, below.start, below.end
    )
    return "heading" if stands_out and is_prose else "text"
