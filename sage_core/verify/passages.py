"""The one reading of passages: their sentences, rows of tables, words and what each word weighs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from sage_core.errors import InputError
from sage_core.text.blocks import points_back
from sage_core.text.header import with_header
from sage_core.text.keywords import stem_list
from sage_core.text.language import is_english
from sage_core.text.lines import is_delimiter_row, separators
from sage_core.text.outline import header_of, page_of
from sage_core.text.sentences import read_sentences
from sage_core.text.spans import Span, trim
from sage_core.text.tables import cell_spans, cell_text
from sage_core.text.tokens import without_lone_surrogates
from sage_core.verify.quantities import SCALES, Quantity, quantities

# Words of all passages, and characters of one word: more takes seconds, and the judge says that it is unsure.
_MOST_WORDS, _LONGEST_WORD = 20_000, 5_000
_MOST_CHARACTERS = 200_000  # A table may have no blanks.
_LANGUAGE_CHARACTERS = 20_000  # that show whether passages are English
_HEADING_MARKS = " \t\r\n#=*~^:-"
_SCALE = re.compile(r"(?i)(?:\bin |[$€£] ?)(thousand|million|billion|bn|m)s?\b")  # Of all numbers of a table.
_REFERS = re.compile(r"(?:In|On|At|For|From|During|If|Where|When)\b[^.;]{0,60}?\b(?:it|they)\b")
_QUOTED_OR_MARK = re.compile(r'"[^"]*"|[\t,;]')


class Source(NamedTuple):
    """Where a passage is from: its text as it is stored, which the passage ends with, and its page.

    Examples:
        >>> Source("They leave at seven.", page="3").page
        '3'
    """

    text: str
    page: str = ""


def passages_of(documents: Iterable[tuple[str, Mapping[Any, Any]]]) -> tuple[list[str], list[Source]]:
    r"""Texts under their title and headings, as their metadata have them, and where each is from.

    Examples:
        >>> passages_of([("They leave at seven.", {"title": "Ferries", "page_label": "3"})])
        (['Ferries\nThey leave at seven.'], [Source(text='They leave at seven.', page='3')])
    """
    own = list(documents)
    passages = [with_header(header_of(text, metadata), text) for text, metadata in own]
    return passages, [Source(text, page_of(metadata)) for text, metadata in own]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: its header, its text, where it stands in the passage, and what it is counted in."""

    header: str
    text: str
    span: Span
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a passage, a line of its own (heading, item, code), or a row of a table."""

    passage: int
    span: Span
    text: str
    kind: str
    stems: tuple[str, ...]
    words: frozenset[str]
    heading: str  # The first and the last one above it in its passage; empty for none.
    refers: bool  # Whether it speaks of what the sentence before it names: "It is", "In May it is".
    cells: tuple[Cell, ...] = ()  # Of a table's row.


@dataclass(frozen=True, slots=True)
class ParsedPassages:
    """Passages, taken apart once.

    Attributes:
        sentences: Of all passages, in order.
        words: Their content words, stemmed.
        pairs: Content words that stand side by side.
        lower: All passages in lower case, to look for names in.
        passages: The passages themselves.
        weights: How rare each word is among the sentences.
        numbers: Their quantities, each as it is written.
        readable: Whether they are English, and short enough to read.
    """

    sentences: tuple[Sentence, ...]
    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    lower: str
    passages: tuple[str, ...]
    weights: Mapping[str, float]
    numbers: tuple[tuple[Quantity, str], ...]
    readable: bool


def checked_passages(passages: Sequence[str]) -> tuple[str, ...]:
    """Passages without half characters.

    Raises:
        InputError: For one text, and for what is no text.
    """
    if isinstance(passages, str):
        raise InputError("passages is a list of texts, not one text")
    if others := [p for p in passages if not isinstance(p, str)]:
        how = "of nodes pass [n.text for n in nodes], of documents [d.page_content for d in documents]"
        raise InputError(f"passages are texts, not {type(others[0]).__name__}: {how}")
    return tuple(without_lone_surrogates(p) for p in passages)


# A question is asked of few selections: the first one, and wider or narrower ones.
@lru_cache(maxsize=16)
def parse_passages(passages: tuple[str, ...]) -> ParsedPassages:
    """The passages' sentences, words, numbers and weights."""
    size = sum(len(p.split()) for p in passages)
    if (
        size > _MOST_WORDS
        or sum(map(len, passages)) > _MOST_CHARACTERS
        or any(len(w) > _LONGEST_WORD for p in passages for w in p.split())
    ):
        return ParsedPassages((), frozenset(), frozenset(), "", passages, {}, (), False)
    sentences = []
    pairs: set[tuple[str, str]] = set()
    for i, passage in enumerate(passages):
        spans, _, kinds = read_sentences(passage)
        rows = _rows(passage, spans, kinds)
        above: list[str] = []
        for j, (span, kind) in enumerate(zip(spans, kinds, strict=True)):
            told, cells = rows.get(j, (span.of(passage), ()))
            stems = tuple(stem_list(told))
            pairs.update(itertools.pairwise(stems))
            heading = ", ".join(filter(None, dict.fromkeys([*above[:1], *above[-1:]])))
            refers = points_back(told, Span(0, len(told))) or _REFERS.match(told) is not None
            kind = "row" if cells else kind
            sentences.append(Sentence(i, span, told, kind, stems, frozenset(stems), heading, refers, cells))
            if kind == "heading":
                above.append(", ".join(part.strip() for part in told.strip("#=*_ \t").split(">")))
    whole = "\n".join(passages)
    counts: dict[str, int] = {}
    for sentence in sentences:
        for word in sentence.words:
            counts[word] = counts.get(word, 0) + 1
    weights = idf_weights(counts, len(sentences))
    return ParsedPassages(
        tuple(sentences),
        frozenset(counts),
        frozenset(pairs),
        whole.lower(),
        passages,
        weights,
        tuple((q, q.span.of(s.text)) for s in sentences for q in quantities(s.text)),
        is_english(whole[:_LANGUAGE_CHARACTERS], 20),
    )


def _rows(text: str, spans: Sequence[Span], kinds: Sequence[str]) -> dict[int, tuple[str, tuple[Cell, ...]]]:
    """The rows of a passage's tables whose columns have names, by the position of their sentence.

    A row reads as the heading above the table and its cells with their headers: "Counts; Species: puffin;
    2021: 1,890".
    """
    rows: dict[int, tuple[str, tuple[Cell, ...]]] = {}
    heading: tuple[Cell, ...] = ()
    for kind, group in itertools.groupby(range(len(spans)), kinds.__getitem__):
        numbers = list(group)
        if kind == "heading" and (
            words := spans[numbers[-1]].of(text).lstrip("#=* \t").rstrip(_HEADING_MARKS)
        ):
            heading = (Cell("", words, spans[numbers[-1]]),)
        if kind != "table":
            continue
        lines = {i: _cells(text, spans[i]) for i in numbers if not is_delimiter_row(spans[i].of(text))}
        ruled = [i - 1 for i in numbers if i not in lines and i - 1 in lines]
        names, first = _column_names([lines[i] for i in lines if i >= min(ruled, default=0)], bool(ruled))
        scale = _SCALE.search(text, spans[numbers[0]].start, spans[numbers[-1]].end)
        above = heading
        for i in [i for i in lines if i >= min(ruled, default=0)][first:]:
            own = [(n, cell) for n, cell in zip(names, lines[i], strict=False) if cell.text]
            if len(lines[i]) != len(names) or not own:
                continue
            if len(own) == 1 and own[0][1] is lines[i][0]:  # It names the rows below it.
                above = (*heading, own[0][1])
            elif len(own) > 1:
                counted = (
                    SCALES[scale[1].lower().replace("m", "million", len(scale[1]) == 1)] if scale else 1.0
                )
                cells = (*above, *(Cell(name, cell.text, cell.span, counted) for name, cell in own))
                told = "; ".join(f"{c.header}: {c.text}" if c.header else c.text for c in cells)
                rows[i] = told, cells
    return rows


def _column_names(lines: Sequence[Sequence[Cell]], ruled: bool) -> tuple[list[str], int]:
    """The names of the columns and how many lines they take; none if the first line has values.

    A name that stands above several columns is part of the names of each.
    """
    names, first = [cell.text for cell in lines[0]] if lines else [], 1
    if not ruled and len(lines) > 1:
        while not all(names[1:]) and first < len(lines) and len(lines[first]) == len(names):
            if not _are_names(lines[first]):
                break
            for i in range(2, len(names)):
                names[i] = names[i] or names[i - 1]
            names = [f"{a} {b.text}".strip() for a, b in zip(names, lines[first], strict=True)]
            first += 1
    named = len(lines) > 1 and len(names) > 1 and all(names[1:])
    return (names, first) if named and (ruled or _are_names(lines[0])) else ([], 0)


def _are_names(cells: Sequence[Cell]) -> bool:
    """Whether cells may name columns: no number but of a date or year."""
    return all(q.dimension == "date" or 1900 <= q.value < 2100 for c in cells for q in quantities(c.text))


def _cells(text: str, span: Span) -> list[Cell]:
    """The cells of a line, without headers: between bars, tabs, commas or semicolons."""
    row = span.of(text)
    if "|" in row or not (marks := separators(row)):
        return [Cell("", cell_text(text, place), place) for place in cell_spans(text, span)]
    bars = [m.start() for m in _QUOTED_OR_MARK.finditer(row) if m[0] == marks[0]]
    edges = itertools.pairwise([-1, *bars, len(row)])
    places = [trim(text, Span(span.start + a + 1, span.start + b)) for a, b in edges]
    return [Cell("", place.of(text).strip('"'), place) for place in places]


def idf_weights(counts: Mapping[str, int], n: int) -> dict[str, float]:
    """The weight of each word by the number of sentences that hold it: ``log(1 + n / (1 + df))``."""
    return {word: math.log1p(n / (1 + df)) for word, df in counts.items()}
