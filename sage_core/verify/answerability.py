"""Where passages answer a question: what each window of them holds of it, and what the reader sees there."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sage_core.text.spans import Span
from sage_core.verify.coefficients import log_odds_of, probability_of
from sage_core.verify.contradictions import differences
from sage_core.verify.passages import ParsedPassages, Sentence, cell_places, row_sentence, without_other_codes
from sage_core.verify.reader import Answer, Reader
from sage_core.verify.words import NUMBER, question_words, says_something, stem_list, stems

Window = Sequence[Sentence]
"""Sentences in a row of one passage, or one row of a table."""

_WINDOW_WORDS = 150  # Of the pieces of passages that a question is read with: what the reader takes at once.
# Log-odds that an answer loses, see `_asks_otherwise`: of 2,787 answered training questions 0.9% have it in
# the sentence that answers, of 213 others 15% in the one that shares most.
_CONTRADICTION_PENALTY = 2.5
_ASKS_WHY = re.compile(
    r"(?i)\W*(?:why\b|(?:what|for what) (?:is|was|are|were)? ?(?:the )?reasons?\b|how come\b)"
)
_REASON = re.compile(
    r"(?i)\b(?:because|since|due to|owing to|thanks to|as a result|so that|so as to|in order to|therefore|"
    r"thus|hence|reasons?|caus\w+|in case|otherwise)\b"
)
# In the sentence that answers, less will do.
_MAY_BE_REASON = re.compile(rf"{_REASON.pattern}|\b(?:to|as|for|so|by|from|when|if|would|could|had)\b|[;:]")
# Log-odds that an answer begins in a sentence with all of the question's words, over one with none; chosen on
# 215 questions that the reader's training left out.
_OVERLAP_WEIGHT = 1.0
_NO_ANSWER = Answer(Span(0, 0), 0.0, -20.0)  # Of a window without anything to read.
_SAME_ROW = 0.9  # Of the best row's weight: another one that the question may mean. By hand.
_MOST_WINDOWS = 24  # That are read. By hand.
_MOST_ROWS = 3  # Of tables that are read for a question.


@dataclass(frozen=True, slots=True)
class AnswerLocation:
    """Where passages answer a question.

    Examples:
        >>> passages = ["The bridge has eight lanes. The bridge was opened in 1932."]
        >>> from sage_core.verify import LocalJudge
        >>> found = LocalJudge(model=False).locate("When was the bridge opened?", passages)
        >>> found.sentence.of(passages[found.passage])
        'The bridge was opened in 1932.'

    Attributes:
        probability: That they answer it, from 0 to 1.
        passage: Position of the passage with the likeliest answer.
        sentence: The sentence that answers, in that passage; or the row of a table.
        answer: The likeliest words of the answer within it; the whole sentence without the model.
        quote: The sentence to show. Of a table's row, the cells that matter with their headers.
        marked: Where the answer stands in ``quote``.
    """

    probability: float
    passage: int
    sentence: Span
    answer: Span
    quote: str
    marked: Span


def locate_answer(question: str, passages: ParsedPassages, reader: Reader | None) -> AnswerLocation | None:
    """Where passages answer a question; by counts alone without the reader.

    Returns:
        None if they have no sentence to quote, or the question has no content word.
    """
    passages = without_other_codes(question, passages)
    query = question_words(question)
    windows = candidate_windows(passages, query)
    if not query or not windows:
        return None
    answers = read_windows(question, passages, query, windows, reader)
    rows = [answer_features(passages, query, w, a) for w, a in zip(windows, answers, strict=True)]
    name = "answerable" if reader is not None else "answerable_words"
    places = [_answer_place(passages, query, w, a) for w, a in zip(windows, answers, strict=True)]
    odds = [
        log_odds_of(name, row) - _against(question, window, sentence)
        for row, window, (sentence, _, _) in zip(rows, windows, places, strict=True)
    ]
    at = max(range(len(odds)), key=lambda i: (odds[i], -i))  # of equal ones the first
    # The best of many windows is high by chance: a second model takes that back.
    return _located(probability_of(f"{name}_all", case_features(odds)), *places[at])


def read_windows(
    question: str,
    passages: ParsedPassages,
    query: frozenset[str],
    windows: Sequence[Window],
    reader: Reader | None,
) -> Sequence[Answer | None]:
    """Where the reader sees the answer in each window's text; None for all without it."""
    if reader is None:
        return [None] * len(windows)
    texts = [" ".join(s.text for s in window) for window in windows]
    hints = [reader_hints(passages, query, window) for window in windows]
    return [answer or _NO_ANSWER for answer in reader.read(question, texts, hints)]


def _located(probability: float, sentence: Sentence, start: int, end: int) -> AnswerLocation:
    """An answer from ``start`` to ``end`` of a sentence's text; the whole sentence where that is empty."""
    if end <= start:
        start, end = 0, len(sentence.text)
        answer = sentence.span
    elif sentence.cells:
        # The cell in whose header or text the answer begins.
        places = cell_places(sentence.cells)
        at = max(
            i
            for i, place in enumerate(places)
            if i == 0 or place.start - len(sentence.cells[i].header) - 2 <= start
        )
        (start, end), answer = places[at], sentence.cells[at].span
    else:
        answer = Span(sentence.span.start + start, sentence.span.start + end)
    return AnswerLocation(
        probability, sentence.passage, sentence.span, answer, sentence.text, Span(start, end)
    )


def _query_rows(passages: ParsedPassages, query: frozenset[str]) -> list[list[Sentence]]:
    """The rows with most of a question's words in their cells, each with the columns that are asked for."""
    held: list[tuple[float, Sentence]] = []
    for row in (s for s in passages.sentences if s.cells):
        own = {w for cell in row.cells for w in stem_list(cell.text)} & query
        if own:
            held.append((passages.total(own), row))
    best = max((weight for weight, _ in held), default=0.0)
    result = []
    for _, row in [item for item in held if item[0] >= _SAME_ROW * best][:_MOST_ROWS]:
        matched = [not query.isdisjoint(stem_list(f"{c.header} {c.text}")) for c in row.cells]
        label = 0 if row.cells[0].header else 1  # Behind the heading.
        matched[: label + 1] = [True] * (label + 1)
        if sum(matched) > label + 1:
            row = row_sentence(
                row.passage, row.span, tuple(c for c, own in zip(row.cells, matched, strict=True) if own)
            )
        result.append([row])
    return result


def _quotable(passages: ParsedPassages, passage: int) -> list[Sentence]:
    """The sentences of a passage that may answer: no headings, no code, no rows of tables."""
    own = (s for s in passages.sentences if s.passage == passage and s.kind in ("text", "item", "lead"))
    return [s for s in own if says_something(s.text)]


def candidate_windows(passages: ParsedPassages, query: frozenset[str]) -> list[list[Sentence]]:
    """Runs of sentences of a passage, overlapping by half, and rows of tables; no headings, no code."""
    result: list[list[Sentence]] = _query_rows(passages, query)
    for passage in sorted({s.passage for s in passages.sentences}):
        own = _quotable(passages, passage)
        start = 0
        while start < len(own):
            end, size = start, 0
            while end < len(own) and (end == start or size + len(own[end].text.split()) <= _WINDOW_WORDS):
                size += len(own[end].text.split())
                end += 1
            result.append(own[start:end])
            if end == len(own):
                break
            start = max(start + 1, (start + end + 1) // 2)
    if len(result) > _MOST_WINDOWS:  # Those that hold most of the question.
        result.sort(key=lambda w: -max(_overlap(passages, query, s.words) for s in w))
        result = result[:_MOST_WINDOWS]
    return result


def answer_features(
    passages: ParsedPassages, query: frozenset[str], window: Window, answer: Answer | None
) -> list[float]:
    """What is known of a window as an answer: see ``training/fit_judge.py``.

    The share of the question's words, weighted by rarity, in the sentence with the answer and the one before
    it; their plain share in the whole window; whether a number is there where the question wants one; and the
    reader's margin, where it reads.
    """
    plain, whole = query - {NUMBER}, frozenset().union(*(s.words for s in window))
    share = len(plain & whole) / max(1, len(plain))
    if answer is None:
        near = max(_overlap(passages, query, s.words) for s in window)
        return [near, share, float(NUMBER not in query or any(NUMBER in stems(s.text) for s in window))]
    sentence, _, _ = _sentence_at(window, answer)
    at = window.index(sentence)
    words = sentence.words | (window[at - 1].words if at else frozenset())
    number = NUMBER not in query or NUMBER in stems(sentence.text)
    return [_overlap(passages, query, words), share, float(number), answer.margin]


def case_features(odds: Sequence[float]) -> list[float]:
    """The odds of the best window, and how many were read: the best of many is high by chance."""
    return [max(odds), math.log(len(odds))]


def _answer_place(
    passages: ParsedPassages, query: frozenset[str], window: Window, answer: Answer | None
) -> tuple[Sentence, int, int]:
    """The sentence of a window that answers, and where in it; without the reader the one with most words."""
    if answer is not None:
        return _sentence_at(window, answer)
    return max(window, key=lambda s: (_overlap(passages, query, s.words), -s.span.start)), 0, 0


def _asks_otherwise(question: str, sentence: Sentence) -> bool:
    """Whether a sentence has another number than the question."""
    other, _ = differences(question, sentence)
    return bool(other)


def _against(question: str, window: Window, sentence: Sentence) -> float:
    """Log-odds that a sentence loses as an answer: it says otherwise, or gives no reason to a "why"."""
    lost = _CONTRADICTION_PENALTY if _asks_otherwise(question, sentence) else 0.0
    if _ASKS_WHY.match(question) and not _MAY_BE_REASON.search(sentence.text):
        at = window.index(sentence)
        near = (s for s in window[max(0, at - 1) : at + 2] if s is not sentence)
        lost += 0.0 if any(_REASON.search(s.text) for s in near) else _CONTRADICTION_PENALTY
    return lost


def _sentence_at(window: Window, answer: Answer) -> tuple[Sentence, int, int]:
    """The sentence in which the answer of a window begins, and where in it the answer stands."""
    offset = 0  # Of the sentence in the window's text, where a space stands between two.
    for sentence in window:
        if answer.span.start < offset + len(sentence.text) + 1 or sentence is window[-1]:
            start = min(len(sentence.text), max(0, answer.span.start - offset))
            return sentence, start, max(start, min(len(sentence.text), answer.span.end - offset))
        offset += len(sentence.text) + 1
    raise AssertionError("a window has sentences")


def reader_hints(passages: ParsedPassages, query: frozenset[str], window: Window) -> NDArray[np.float64]:
    """What the words of a window's sentences say about where the answer begins, see `Reader.read`."""
    shares = [_OVERLAP_WEIGHT * _overlap(passages, query, s.words) for s in window]
    first = np.repeat(shares, [len(s.text) + 1 for s in window])[:-1]  # A space stands between two.
    return np.column_stack([first, np.zeros_like(first)])


def _overlap(passages: ParsedPassages, query: frozenset[str], words: frozenset[str]) -> float:
    """Share of a question's words that a sentence holds, by rarity; in a fixed order, for equal sums."""
    return passages.share(sorted(query - {NUMBER}), words)
