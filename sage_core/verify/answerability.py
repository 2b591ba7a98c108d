"""Where passages answer a question, by the question's words that their sentences and rows of tables hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sage_core.text.spans import Span
from sage_core.verify.coefficients import log_odds_of, probability_of
from sage_core.verify.contradictions import differences
from sage_core.verify.passages import ParsedPassages, Sentence, row_sentence, without_other_codes
from sage_core.verify.words import NUMBER, question_words, says_something, stem_list, stems

Window = Sequence[Sentence]
"""Sentences in a row of one passage, or one row of a table."""

_WINDOW_WORDS = 150  # Of the pieces of passages that a question is read with.
# Log-odds that an answer loses if its sentence has another number than the question; as in training.
_CONTRADICTION_PENALTY = 2.5
_SAME_ROW = 0.9  # Of the best row's weight: another one that the question may mean. By hand.
_MAX_WINDOWS = 24  # By hand.
_MAX_ROWS = 3  # Of tables, for a question.


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
        quote: The sentence to show. Of a table's row, the cells that matter with their headers.
    """

    probability: float
    passage: int
    sentence: Span
    quote: str


def locate_answer(question: str, passages: ParsedPassages) -> AnswerLocation | None:
    """Where passages answer a question.

    Returns:
        None if they have no sentence to quote, or the question has no content word.
    """
    passages = without_other_codes(question, passages)
    query = question_words(question)
    windows = _windows(passages, query)
    if not query or not windows:
        return None
    best = [max(w, key=lambda s: (_overlap(passages, query, s.words), -s.span.start)) for w in windows]
    odds = [
        log_odds_of("answerable_words", _features(passages, query, window, sentence))
        - (_CONTRADICTION_PENALTY if differences(question, sentence)[0] else 0.0)
        for window, sentence in zip(windows, best, strict=True)
    ]
    at = max(range(len(odds)), key=lambda i: (odds[i], -i))  # of equal ones the first
    # The best of many windows is high by chance: a second model takes that back.
    probability = probability_of("answerable_words_all", [odds[at], math.log(len(odds))])
    return AnswerLocation(probability, best[at].passage, best[at].span, best[at].text)


def _rows(passages: ParsedPassages, query: frozenset[str]) -> list[list[Sentence]]:
    """The rows with most of a question's words in their cells, each with the columns that are asked for."""
    held: list[tuple[float, Sentence]] = []
    for row in (s for s in passages.sentences if s.cells):
        own = {w for cell in row.cells for w in stem_list(cell.text)} & query
        if own:
            held.append((passages.total(own), row))
    best = max((weight for weight, _ in held), default=0.0)
    result = []
    for _, row in [item for item in held if item[0] >= _SAME_ROW * best][:_MAX_ROWS]:
        matched = [not query.isdisjoint(stem_list(f"{c.header} {c.text}")) for c in row.cells]
        label = 0 if row.cells[0].header else 1  # Behind the heading.
        matched[: label + 1] = [True] * (label + 1)
        if sum(matched) > label + 1:
            row = row_sentence(
                row.passage, row.span, tuple(c for c, own in zip(row.cells, matched, strict=True) if own)
            )
        result.append([row])
    return result


def _windows(passages: ParsedPassages, query: frozenset[str]) -> list[list[Sentence]]:
    """Runs of sentences of a passage, overlapping by half, and rows of tables; no headings, no code."""
    result: list[list[Sentence]] = _rows(passages, query)
    for passage in sorted({s.passage for s in passages.sentences}):
        own = [
            s
            for s in passages.sentences
            if s.passage == passage and s.kind in ("text", "item", "lead") and says_something(s.text)
        ]
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
    if len(result) > _MAX_WINDOWS:  # Those that hold most of the question.
        result.sort(key=lambda w: -max(_overlap(passages, query, s.words) for s in w))
        result = result[:_MAX_WINDOWS]
    return result


def _features(
    passages: ParsedPassages, query: frozenset[str], window: Window, sentence: Sentence
) -> list[float]:
    """How much of a question a window holds.

    The share of its words, by rarity, in the best sentence; their plain share in the window; and whether a
    number is there if the question asks for one.
    """
    plain, whole = query - {NUMBER}, frozenset().union(*(s.words for s in window))
    number = NUMBER not in query or any(NUMBER in stems(s.text) for s in window)
    return [
        _overlap(passages, query, sentence.words),
        len(plain & whole) / max(1, len(plain)),
        float(number),
    ]


def _overlap(passages: ParsedPassages, query: frozenset[str], words: frozenset[str]) -> float:
    """Share of a question's words that a sentence holds, by rarity; in a fixed order, for equal sums."""
    return passages.share(sorted(query - {NUMBER}), words)
