"""Sentence candidates: the places where a segmenter may cut.

The model may join two candidates but can never cut inside one, so the splitter errs towards splitting.
It is rule-based, exact about offsets and linear in the length of any input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from sage_core.text.blocks import Block, blocks, classified, line_breaks, sentence_kinds
from sage_core.text.lexicon import MONTHS, WEEKDAYS, word_set
from sage_core.text.lines import STEP, Line
from sage_core.text.spans import Span

SentenceSplitter = Callable[[str], Iterable[tuple[int, int]]] | Callable[[str], Iterable[str]]
"""Any callable from a text to its sentences, in order, that loses nothing but white space: as
``(start, end)`` pairs, or as the sentences themselves."""

# Terminators that need white space after them, and those (CJK, Indic, Arabic, ...) that do not.
_WEAK = ".!?…‥‼⁇⁈⁉՞؟"
_STRONG = "。！？｡．।॥۔։።፧፨။។៕܀܁܂᙮᠃᠉⳹⳾꓿꘎꛳꡶꡷꣎꣏꤯"
_CLOSERS = "\"')\\]}*_”’»›"
_WIDE_CLOSERS = _CLOSERS + "」』】）》〉〕］｝｣"
_CITATION = (
    r"(?:\[[^\]\s]{1,12}\]| \[[\d ,–-]{1,12}\]| \[[a-z ]{1,30} needed\]| \d{1,2}(?= [A-Z][a-z]*[ ,]))*"
)

# The pattern begins with one character class, which lets the engine skip plain text fast; the look-behind
# admits only the first terminator of a run, which keeps a million full stops linear.
_ASCII_END = re.compile(rf"[.!?](?<![.!?][.!?])[.!?]*[\"')\]}}*_]*{_CITATION}(?:\s+|\Z)")
_END = re.compile(
    rf"[{_WEAK}{_STRONG}](?:(?<=[{_STRONG}])[{_WEAK}{_STRONG}]*[{_WIDE_CLOSERS}]*{_CITATION}\s*"
    rf"|(?<![{_WEAK}][{_WEAK}])[{_WEAK}]*[{_CLOSERS}“]*{_CITATION}(?:\s+|\Z))"
)

# Scripts that write no stop at the end of a sentence and put spaces between phrases (Thai, Lao, ...).
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_UNSPACED_CHAR = re.compile(f"[{_UNSPACED}]")
_PHRASE_GAP = re.compile(rf"(?<=[{_UNSPACED}])\s+(?=[{_UNSPACED}])")


_TITLES = word_set(
    "mr mrs ms dr prof rev hon gen col maj capt cmdr lt sgt cpl gov sen rep pres mt messrs mme mlle msgr "
    "adm amb supt insp fr st ste"
)
_BEFORE_NUMBER = word_set(
    "no nos nr fig figs eq eqs vol vols ch chap sec sect art arts p pp para paras ex pt ver ref refs tab op "
    "pl jan feb mar apr jun jul aug sep sept oct nov dec c ca cf approx al"
)
_MID_SENTENCE = word_set("e.g i.e eg ie cf vs viz approx esp incl al resp")
_BEFORE_LOWER = word_set(
    "etc inc ltd co corp jr sr dept est ed eds min mins hr hrs sec secs tsp tbsp oz lb lbs ft mi sq "
    "cm mm km kg ml mon tue tues wed thu thur thurs fri sat sun "
    "jan feb mar apr jun jul aug sep sept oct nov dec"
)
_LIFE_DATES = word_set("b d c r m fl")
_NOON = word_set("a.m p.m")
# What follows a time of day without being a new sentence.
_AFTER_NOON = word_set("EST EDT CST CET GMT UTC PST PDT ET PT", {day.capitalize() for day in WEEKDAYS})
_MONTHS = word_set("Januar Februar März Mai Juni Juli Oktober Dezember", {m.capitalize() for m in MONTHS})
_AMOUNT = re.compile(r"[^\w\s]*\d[\d.,:]*\Z")
_VOLUME = re.compile(r"\d{1,4} ?\(\d|\d{1,4}(?:\(\d+\))?, (?:pp?\. )?\d+[-–]\d")  # 12 (3): 4-5
_ADDRESS = re.compile(r"(?:https?://|www\.|doi:)")
_STARTERS = word_set(
    "The A An In On At By For From With As It Its He She They We You I This That These Those There Here But "
    "And Or So If When While Where What Who Why How After Before During Since Although Because However "
    "Thus Then Such Some Many Most Both Each No Not All His Her Their Our My Your One Two To"
)
_ENUMERATOR = re.compile(rf"{STEP}|[(\[]?(?:\d{{1,4}}(?:\.\d{{1,4}})*|[ivxlIVXL]{{1,5}}|[A-Za-z])")
_LAST_WORD = re.compile(r"[\w.&-]*\Z")
_NEXT_WORD = re.compile(r"[A-Za-z]+")
_CLOSING = frozenset("\"')]”’»›")


def split_sentences(text: str, lines: Sequence[Line] | None = None) -> list[Span]:
    """Split ``text`` into sentence candidates.

    Ends of sentences are known in Latin, Cyrillic, CJK, Arabic, Indic and other scripts; Thai, Lao, Khmer
    and Burmese, which write none, are cut at spaces. Closing quotes, brackets and citation marks stay with
    their sentence. Paragraphs, headings, list items, table rows and lines of fenced code start new
    candidates; the line breaks of hard-wrapped prose do not.

    Args:
        text: Any string.
        lines: Those of `sage_core.text.blocks.classified`, where the caller has them.

    Returns:
        Ordered spans without white space at their ends, which together cover every character that is not
        white space. Empty for a text of nothing but white space.
    """
    pattern = _ASCII_END if text.isascii() else _END
    phrases = not text.isascii() and _UNSPACED_CHAR.search(text) is not None
    result: list[Span] = []
    for block in blocks(text, lines):
        if block.verbatim:
            result.append(Span(block.start, block.end))
            continue
        cuts = list(_sentence_cuts(text, block, pattern))
        if phrases:
            cuts = sorted({*cuts, *(m.end() for m in _PHRASE_GAP.finditer(text, block.start, block.end))})
        start = block.start
        for cut in cuts:
            result.append(Span(start, start + len(text[start:cut].rstrip())))
            start = cut
        result.append(Span(start, block.end))
    return result


class Reading(NamedTuple):
    """The sentences of a text.

    Attributes:
        spans: Where they stand.
        gaps: Line breaks between them, see `sage_core.text.blocks.line_breaks`.
        kinds: What each is, see `sage_core.text.blocks.sentence_kinds`.
    """

    spans: tuple[Span, ...]
    gaps: tuple[int, ...]
    kinds: tuple[str, ...]


# The passages of a question, some 60 candidates, are read to locate, ground and mark.
@lru_cache(maxsize=128)
def read_sentences(text: str) -> Reading:
    """The sentences of a text and what they are, its lines classified once for all who ask."""
    lines, _ = classified(text)
    spans = split_sentences(text, lines)
    gaps = line_breaks(text, spans)
    kinds = sentence_kinds(text, spans, gaps, lines)
    return Reading(tuple(spans), tuple(gaps), tuple(kinds))


def _sentence_cuts(text: str, block: Block, pattern: re.Pattern[str]) -> Iterator[int]:
    """Where, strictly inside ``block``, a new sentence starts."""
    start = block.start
    for match in pattern.finditer(text, block.start, block.end):
        if match.end() < block.end and _ends_sentence(text, start, match):
            start = match.end()
            yield start


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether a terminator with its closers and white space really ends the sentence begun at ``start``."""
    position = match.start()
    mark = text[position]
    following = text[match.end()]
    marks = match.group()
    if following.islower():
        if marks[1:2] == "." or mark in "…‥" or not _CLOSING.isdisjoint(marks):
            return False  # an ellipsis inside a sentence, or: "Why?" she asked
        if mark in "?!" and text[start].isupper():
            return False  # a title or an interjection: "Huh? is a word"
    if mark == "．" or following == ":":  # "... as here. ::", of reStructuredText
        return not following.isdigit() and following != ":"
    if mark in "?!" and following == "(" and text[match.end() + 1 : match.end() + 5].isdigit():
        return False  # a title with its year: "Viva Maria! (1965)"
    if mark != "." or not marks[1:2].isspace():
        return True
    if position == start or text[position - 1].isspace():
        # Papers have a space before the stop after a citation: "... in 2013 [1] . The". Dot leaders and
        # spaced ellipses are no ends.
        goes_on = not (following.isupper() or following == "(") or "." in text[position - 3 : position]
        return position > start and not goes_on
    if position - start <= 10 and _ENUMERATOR.fullmatch(text, start, position):
        return False  # "3. Methods", "a. first item"
    if following.isdigit() and _VOLUME.match(text, match.end()):
        return False
    if following.islower() and _ADDRESS.match(text, match.end()):
        return False
    last = _LAST_WORD.search(text, max(start, position - 12), position)
    word = last.group() if last else ""
    if _AMOUNT.match(word):
        return not _continues_number(text, start, position - len(word), word, match.end())
    return not _is_abbreviation(word, following, text, position - len(word), match.end())


def _continues_number(text: str, start: int, word_start: int, word: str, next_start: int) -> bool:
    """Whether the point after a number ends no sentence: an ordinal, or the mark of an item within a line."""
    if text[next_start].islower():
        return True
    if len(word) <= 2:
        if text[start:word_start].rstrip()[-1:] in (":", ";"):
            return True  # "two claims: 1. The first"
        upcoming = _NEXT_WORD.match(text, next_start)
        return upcoming is not None and upcoming.group() in _MONTHS
    return False


def _is_abbreviation(word: str, following: str, text: str, word_start: int, next_start: int) -> bool:
    """Whether the full stop after ``word`` belongs to an abbreviation or an initial."""
    lowered = word.lower()
    if lowered in _TITLES or lowered in _MID_SENTENCE:
        return True
    if lowered in _BEFORE_NUMBER and (following.isdigit() or following in "(["):
        return True
    if lowered in _LIFE_DATES and word_start and text[word_start - 1] in "(;":
        return True  # "(b. March 2009)"
    upcoming = _NEXT_WORD.match(text, next_start)
    if lowered in _NOON:
        return following.islower() or (upcoming is not None and upcoming.group() in _AFTER_NOON)
    if "." in word or (len(word) == 1 and word.isupper()):
        # U.S., J. R. R.: a sentence may end here, and does where a word follows that often begins one.
        if following.islower() or following in "([":
            return True
        if following.isdigit():  # "s.d. 4.2", "H. R. 1280"
            return word.islower() or text[max(0, word_start - 2) : word_start] == ". "
        return following.isupper() and (upcoming is None or upcoming.group() not in _STARTERS)
    return following.islower() and lowered in _BEFORE_LOWER
