"""Where passages answer a question, by the question's words that their sentences and rows of tables hold."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from sage_core.text.keywords import NUMBER, question_words, says_something, stem_list, stems
from sage_core.text.spans import Span
from sage_core.verify.coefficients import log_odds_of, probability_of
from sage_core.verify.passages import ParsedPassages, Sentence

_WINDOW = 6  # Sentences that a question is compared with at a time. By hand.
_KINDS = ("text", "item", "lead")
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
        quote: The sentence to show. Of a table's row, the cells with their headers.
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
    query = question_words(question)
    windows = _windows(passages, query)
    if not query or not windows:
        return None
    best = [max(w, key=lambda s: (_overlap(passages, query, s.words), -s.span.start)) for w in windows]
    plain = query - {NUMBER}
    odds = []
    for window, sentence in zip(windows, best, strict=True):
        whole = frozenset().union(*(s.words for s in window))
        number = NUMBER not in query or any(NUMBER in stems(s.text) for s in window)
        features = [_overlap(passages, query, sentence.words), len(plain & whole) / max(1, len(plain))]
        odds.append(log_odds_of("answerable_words", [*features, float(number)]))
    at = max(range(len(odds)), key=lambda i: (odds[i], -i))  # of equal ones the first
    # The best of many windows is high by chance: a second model takes that back.
    probability = probability_of("answerable_words_all", [odds[at], math.log(len(odds))])
    return AnswerLocation(probability, best[at].passage, best[at].span, best[at].text)


def _rows(passages: ParsedPassages, query: frozenset[str]) -> list[list[Sentence]]:
    """The rows with most of a question's words in their cells."""
    held = [
        (passages.total({w for cell in row.cells for w in stem_list(cell.text)} & query), row)
        for row in passages.sentences
        if row.cells
    ]
    best = max((weight for weight, _ in held), default=0.0)
    return [[row] for weight, row in held if weight and weight >= _SAME_ROW * best][:_MAX_ROWS]


def _windows(passages: ParsedPassages, query: frozenset[str]) -> list[list[Sentence]]:
    """Sentences in a row of one passage, and rows of tables; no headings, no code."""
    result: list[list[Sentence]] = _rows(passages, query)
    for _, own in itertools.groupby(
        (s for s in passages.sentences if s.kind in _KINDS and says_something(s.text)), lambda s: s.passage
    ):
        run = list(own)
        result += [run[i : i + _WINDOW] for i in range(0, len(run), _WINDOW)]
    if len(result) > _MAX_WINDOWS:  # Those that hold most of the question.
        result.sort(key=lambda w: -max(_overlap(passages, query, s.words) for s in w))
        result = result[:_MAX_WINDOWS]
    return result


def _overlap(passages: ParsedPassages, query: frozenset[str], words: frozenset[str]) -> float:
    """Share of a question's words that a sentence holds, by rarity; in a fixed order, for equal sums."""
    return passages.share(sorted(query - {NUMBER}), words)
