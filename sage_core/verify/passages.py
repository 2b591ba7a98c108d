"""The one reading of passages: their sentences, rows of tables, words and what each word weighs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from sage_core.errors import InputError
from sage_core.text.header import with_header
from sage_core.text.keywords import stem_list
from sage_core.text.language import is_english
from sage_core.text.lines import is_delimiter_row
from sage_core.text.outline import header_of, page_of
from sage_core.text.sentences import read_sentences
from sage_core.text.spans import Span
from sage_core.text.tables import cell_spans, cell_text
from sage_core.text.tokens import without_lone_surrogates

# Words of all passages, and characters of one word: more takes seconds, and the judge says that it is unsure.
_MOST_WORDS, _LONGEST_WORD = 20_000, 5_000
_MOST_CHARACTERS = 200_000  # A table may have no blanks.
_LANGUAGE_CHARACTERS = 20_000  # that show whether passages are English
# A word, or a number with what changes it: sign, comparator, currency, decimal mark, range, percent, scale.
# A dash after a word or a number is a hyphen or a range; " - 5" after a word is taken for a sign. Repetitions
# are bounded, so that a run of marks takes linear time.
_EXACT = re.compile(
    r"(?:[<>≤≥≈~±]\s{0,3}|[$€£¥₹]\s{0,3}|(?<![\w)%°])[-+]|(?<=[^\W\d] )- ){0,3}(?:(?<!\w)[.,])?"
    r"\d\w*(?:[.,:/·'’-]\d\w*)*"
    r"(?:\s{0,3}(?:[%‰°$€£¥₹]|(?:percent|per cent|hundred|thousand|million|billion|trillion)\b)){0,3}"
    r"|\w+"
)
_DASHES = str.maketrans("‐‑‒–—−", "------")
_HEADING_MARKS = " \t\r\n#=*~^:-"


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
    """A cell of a table: its header, its text, and where it stands in the passage."""

    header: str
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a passage, a line of its own (heading, item, code), or a row of a table."""

    passage: int
    span: Span
    text: str
    kind: str
    stems: tuple[str, ...]
    cells: tuple[Cell, ...] = ()  # Of a table's row.

    @property
    def words(self) -> frozenset[str]:
        """Its content words, stemmed."""
        return frozenset(self.stems)


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
        rarest: The weight of the rarest word.
        readable: Whether they are English, and short enough to read.
    """

    sentences: tuple[Sentence, ...]
    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    lower: str
    passages: tuple[str, ...]
    weights: Mapping[str, float]
    rarest: float
    readable: bool

    def weight(self, word: str) -> float:
        """What a word weighs; one that they lack, as much as their rarest."""
        return self.weights.get(word, self.rarest)

    def share(self, words: Collection[str], held: Set[str]) -> float:
        """How much of ``words`` is among ``held``, by weight; 0 for no words."""
        total = self.total(words)
        return self.total(w for w in words if w in held) / total if total else 0.0

    def total(self, words: Iterable[str]) -> float:
        """What words weigh together, exactly rounded: sets are in another order in each process."""
        return math.fsum(map(self.weight, words))


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
        return ParsedPassages((), frozenset(), frozenset(), "", passages, {}, 1.0, False)
    sentences = []
    pairs: set[tuple[str, str]] = set()
    for i, passage in enumerate(passages):
        spans, _, kinds = read_sentences(passage)
        rows = _rows(passage, i, spans, kinds)
        for j, (span, kind) in enumerate(zip(spans, kinds, strict=True)):
            own = tuple(stem_list(span.of(passage)))
            sentence = rows.get(j) or Sentence(i, span, span.of(passage), kind, own)
            pairs.update(itertools.pairwise(sentence.stems))
            sentences.append(sentence)
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
        max(weights.values(), default=1.0),
        is_english(whole[:_LANGUAGE_CHARACTERS], 20),
    )


def _rows(text: str, passage: int, spans: Sequence[Span], kinds: Sequence[str]) -> dict[int, Sentence]:
    """The rows of a passage's tables that have a header, by the position of their sentence.

    A row reads as the heading above the table and its cells with their headers: "Counts; Species: puffin;
    2021: 1,890".
    """
    rows: dict[int, Sentence] = {}
    header: list[Cell] = []
    above: tuple[Cell, ...] = ()
    for i, (span, kind) in enumerate(zip(spans, kinds, strict=True)):
        if kind == "heading" and (words := span.of(text).lstrip("#=* \t").rstrip(_HEADING_MARKS)):
            above = (Cell("", words, span),)
        if kind != "table":
            header = []
        elif is_delimiter_row(span.of(text)):  # the row above it names the columns
            header = _cells(text, spans[i - 1]) if i and kinds[i - 1] == "table" else []
        elif header and len(own := _cells(text, span)) == len(header):
            named = zip(header, own, strict=True)
            cells = tuple(Cell(name.text, cell.text, cell.span) for name, cell in named if cell.text)
            if len(cells) > 1:
                rows[i] = row_sentence(passage, span, above + cells)
    return rows


def _cells(text: str, span: Span) -> list[Cell]:
    """The cells of a line between bars, without headers."""
    return [Cell("", cell_text(text, place), place) for place in cell_spans(text, span)]


def row_sentence(passage: int, span: Span, cells: tuple[Cell, ...]) -> Sentence:
    """A row, or some cells of it, as a sentence."""
    text = "; ".join(f"{c.header}: {c.text}" if c.header else c.text for c in cells)
    return Sentence(passage, span, text, "row", tuple(stem_list(text)), cells)


def idf_weights(counts: Mapping[str, int], n: int) -> dict[str, float]:
    """The weight of each word by the number of sentences that hold it: ``log(1 + n / (1 + df))``."""
    return {word: math.log1p(n / (1 + df)) for word, df in counts.items()}


def exact_words(text: str) -> str:
    """Words and numbers, lower case, one space between; "-5", "€ 50" and "40 million" are one number each."""
    return exact_tokens(text)[0].strip()


@lru_cache(maxsize=512)
def exact_tokens(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """`exact_words` with a space at both ends, and where each of them stands in the text."""
    lower = text.replace("İ", "i").lower().translate(_DASHES)  # The one letter that grows: places stay.
    found = list(_EXACT.finditer(lower))
    return f" {' '.join(''.join(m[0].split()) for m in found)} ", tuple(m.span() for m in found)
