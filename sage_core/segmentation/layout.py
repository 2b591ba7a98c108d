"""What page and wording say about a boundary, as log-odds: blank lines, headings, lists, back-references."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from sage_core._checks import check_float
from sage_core.segmentation.boundaries import GLUED
from sage_core.text.blocks import classified, line_breaks, points_back, sentence_kinds, sentence_lines
from sage_core.text.lines import Line
from sage_core.text.mail import signatures
from sage_core.text.spans import Span
from sage_core.text.tables import Table, read_tables

NEVER = 2 * GLUED
"""Log-odds for "same chunk" after a heading: whatever the model says, the sum stays above ``GLUED``."""

APART = -200.0
"""Log-odds for "same chunk" before another's message: no size, no price of a target (100) joins the two."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Log-odds that the layout adds to a model's P(same); negative values speak for a boundary.

    Examples:
        >>> from sage_core import Segmenter
        >>> segmenter = Segmenter(layout=Layout(blank_line=-6.0))  # cut at nearly every blank line

    Attributes:
        blank_line: A blank line between two sentences.
        line_break: A line break between two sentences, in a text whose lines are not hard-wrapped.
        list_item: Between two items of one list, and between a list and the line that introduces it.
        table_row: Between two rows of a table, or two lines of one fenced block of code.
        reference: Before a sentence of the same paragraph that begins by pointing back: with a pronoun
            ("His diaries ..."), a demonstrative ("This ...") or a connective ("However, ..."). English only.
        together: Between two sentences of one paragraph that the model keeps together, its P(same) being at
            or above the threshold. So a paragraph is cut where the model sees a change, and elsewhere only
            where its length leaves no choice.
        heading: Before a heading that opens a section.
    """

    blank_line: float = -3.0
    line_break: float = -1.0
    list_item: float = 2.0
    table_row: float = 6.0
    reference: float = 2.0
    together: float = 2.0
    heading: float = -4.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            check_float(f"layout.{name}", value, minimum=-100, maximum=100)


class Sentences(NamedTuple):
    """The ``n`` sentences of a text, at least one, and how they are laid out.

    Attributes:
        text: The source.
        spans: The sentences.
        gaps: The ``n - 1`` numbers of line breaks between them (`sage_core.text.blocks.line_breaks`).
        kinds: What they are (`sage_core.text.blocks.sentence_kinds`).
        lines: The text's lines (`sage_core.text.blocks.classified`).
        levels: Levels of its headings, by line.
        at: The line in which each sentence begins.
        tables: Its tables.
        signatures: First and last line of each signature of a message.
    """

    text: str
    spans: Sequence[Span]
    gaps: Sequence[int]
    kinds: Sequence[str]
    lines: Sequence[Line]
    levels: dict[int, int]
    at: Sequence[int]
    tables: Sequence[Table]
    signatures: Sequence[tuple[int, int]]

    @classmethod
    def of(
        cls, text: str, spans: Sequence[Span], read: tuple[Sequence[Line], dict[int, int]] | None = None
    ) -> Sentences:
        """Look at the layout of these sentences; ``read`` is what `classified` says, where known."""
        gaps = line_breaks(text, spans)
        lines, levels = read or classified(text)
        at = sentence_lines(lines, spans)
        kinds = sentence_kinds(text, spans, gaps, lines, at)
        signed = list(signatures(lines))
        return cls(text, spans, gaps, kinds, lines, levels, at, read_tables(lines), signed)

    def begins_line(self, index: int) -> bool:
        """Whether a sentence is the first of its line."""
        return self.lines[self.at[index]].start == self.spans[index].start


def evidence(sentences: Sentences, layout: Layout, votes: Sequence[float], trust: float = 1.0) -> list[float]:
    """Log-odds for "same chunk" that the layout gives each gap; ``NEVER`` after a heading.

    ``votes`` are the model's, above 0 where it keeps together; ``trust`` is its weight, with which
    ``layout.together`` is multiplied.
    """
    text, spans, gaps, kinds, *_ = sentences
    laid_out = any(gaps) or text[spans[0].start] == "#"
    wrapped = laid_out and hard_wrapped(text, gaps)
    together = trust * layout.together
    same = [
        layout.reference * bool(breaks < 2 and (points_back(text, span) or _ABOUT_IT.match(text, *span)))
        + (together if vote >= 0 and breaks < (2 if wrapped else 1) else 0.0)
        for span, breaks, vote in zip(spans[1:], gaps, votes, strict=True)
    ]
    if not laid_out:
        return same
    line_break = 0.0 if wrapped else layout.line_break
    groups = {start for *_, rows in sentences.tables for start, _ in rows[1:]}
    messages = {line for line, level in sentences.levels.items() if level == 0}
    quoted = any(line.quote for line in sentences.lines)
    depths = [sentences.lines[line].quote for line in sentences.at] if quoted else []
    result: list[float] = []
    for index, breaks in enumerate(gaps):
        value = layout.blank_line if breaks > 1 else line_break if breaks else 0.0
        between = _between(kinds[index], kinds[index + 1], breaks, layout)
        if sentences.at[index + 1] in groups:
            between = layout.heading
        elif breaks > 1 and text[spans[index].end - 1] in _ENDS and _begins_anew(text, spans[index + 1]):
            between = _NEW_SCENE
        if depths and depths[index] < depths[index + 1] and kinds[index] != "heading":
            between = layout.heading  # what is quoted next, and answered below
        if sentences.at[index + 1] in messages and sentences.begins_line(index + 1):
            between = APART
        if breaks and not between and _answers(text, spans[index], spans[index + 1]):
            between = _REPLY - value
        result.append(value + same[index] + between)
    return result


# A preposition before a pronoun: "In it lay a key", "Since then ...", "One of them ...".
_ABOUT_IT = re.compile(
    r"(?:in|on|at|of|from|with|for|to|by|since|until|under|behind|beside|inside|among|before|after|above"
    r"|below|through|without|against|between|around|near|over|unlike"
    r"|(?:one|some|most|many|each|none) of)"
    r" (?:it|them|him|her|this|that|these|those|which|then|there)\b",
    re.IGNORECASE,
)
QUOTES = '"“”„«»'
_SCENE = re.compile(r"(?:[*#~•⁂]\s?){1,5}|\d{1,2}|[IVX]{1,5}")  # a line that parts two scenes or two chapters
_NEW_SCENE = -20.0
_ENDS = '.!?…"”»“'  # how a scene ends, and the text above a page's number mostly does not
NEXT_MEETING = re.compile(
    r"(?:date of (?:the )?)?next (?:meeting|session)\b|nächste (?:sitzung|besprechung|versammlung)\b"
    r"|prochaine (?:réunion|séance)\b|próxima reunión\b|prossima riunione\b",
    re.IGNORECASE,
)
_REPLY = 1.0  # log-odds between what one person says and what another answers, each a paragraph


def _answers(text: str, above: Span, below: Span) -> bool:
    """Whether two paragraphs are speech and reply."""
    return text[below.start] in QUOTES and text[above.end - 1] in QUOTES


def _begins_anew(text: str, span: Span) -> bool:
    """Whether a paragraph begins another scene, or says when the next meeting is."""
    return (
        _SCENE.fullmatch(text, *span) is not None
        if span.end - span.start < 10
        else NEXT_MEETING.match(text, *span) is not None
    )


def _between(above: str, below: str, breaks: int, layout: Layout) -> float:
    """What the kinds of two neighboring sentences add."""
    if above == "heading":
        return NEVER
    if below == "heading":
        return layout.heading
    if above == below and above in ("table", "code"):
        return layout.table_row - (layout.blank_line if breaks > 1 else layout.line_break if breaks else 0.0)
    if below == "item" and above in ("item", "lead"):
        return layout.list_item - (layout.line_break if breaks == 1 else 0.0)
    return 0.0


def hard_wrapped(text: str, gaps: Sequence[int]) -> bool:
    """Whether many lines break inside sentences, so that a single break between two means nothing."""
    single = gaps.count(1)
    inside = text.count("\n") - single - 2 * gaps.count(2)
    return inside > single
