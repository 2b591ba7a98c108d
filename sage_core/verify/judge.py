"""A judge that needs no LLM: is the question answered by these passages, and is the answer supported by them?

Support is a logistic model of counts (which of the words, neighboring words, quantities and names of a claim
are in the passages) and of rules (opposites, denial, names exchanged), to which a small entailment model adds
its logit. Answerability adds the logits of a small cross-encoder. The coefficients are in ``judge.json``;
``training/fit_grounding.py`` and ``training/fit_judge.py`` make them.
"""

from __future__ import annotations

import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sage_core.text.language import is_english
from sage_core.text.spans import Span
from sage_core.text.tokens import without_lone_surrogates
from sage_core.verify.claims import MAX_CLAIMS, Claim, split_claims, support, unread_claim
from sage_core.verify.coefficients import chance as _chance
from sage_core.verify.coefficients import log_odds_of as _odds
from sage_core.verify.coefficients import probability_of as _apply
from sage_core.verify.entailment import Entailment
from sage_core.verify.pair_model import ANSWERABLE, FOLDER, RELEVANT, PairModel, Spans, has_heads
from sage_core.verify.passages import ParsedPassages as _Material
from sage_core.verify.passages import Sentence as _Sentence
from sage_core.verify.passages import cell_places as _cell_places
from sage_core.verify.passages import checked_passages as _checked
from sage_core.verify.passages import parse_passages as _material
from sage_core.verify.passages import row_sentence as _row
from sage_core.verify.passages import without_other_codes as _said_of
from sage_core.verify.reader import Reader
from sage_core.verify.support import VERBATIM_REASON as _SAID
from sage_core.verify.support import entailed_odds, score_claim
from sage_core.verify.words import (
    NUMBER,
    contrary,
    question_words,
    says_something,
    stem_list,
    stems,
    terms,
)

_LANGUAGE_CHARACTERS = 4_000  # Of an answer: they show its language.
_WINDOW_WORDS = 80  # Of the pieces of passages that a question is compared with.
_READ = 1_000  # Characters of a passage around that window, in which the reader looks for the answer.
_KEPT = 32  # Results for the last questions and answers.
_KEPT_LOGITS = 500  # Of the last claims.
_SHORT_ANSWER = 4
_NOT_FOUND = 0.05
# Log-odds that an answer loses, see `_asks_otherwise`: of 2,787 answered training questions 0.9% have it in
# the sentence that answers, of 213 others 15% in the one that shares most.
_OTHER = 2.5
_ASKS_WHY = re.compile(
    r"(?i)\W*(?:why\b|(?:what|for what) (?:is|was|are|were)? ?(?:the )?reasons?\b|how come\b)"
)
_REASON = re.compile(
    r"(?i)\b(?:because|since|due to|owing to|thanks to|as a result|so that|so as to|in order to|therefore|"
    r"thus|hence|reasons?|caus\w+|in case|otherwise)\b"
)
# In the sentence that answers, less will do.
_MAY_BE_REASON = re.compile(rf"{_REASON.pattern}|\b(?:to|as|for|so|by|from|when|if|would|could|had)\b|[;:]")
# Of what else is known when the reader reads, see `_hints`: the weight of the cross-encoder's odds, which are
# bounded; of the share of the question's words in a sentence.
_FARTHEST, _SECOND_READER, _SHARED_WORDS = 12.0, 0.3, 1.0
_MOST_ROWS = 3  # Of tables that are read for a question.


_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Located:
    """Where passages answer a question.

    Examples:
        >>> passages = ["The bridge has eight lanes. The bridge was opened in 1932."]
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


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the model says of a question and a window: logits, and where the answer stands."""

    answers: float
    relevant: float
    spans: Spans


class LocalJudge:
    """Says whether passages answer a question, and whether they support an answer. English; no LLM.

    Deterministic; safe across threads. Models load on first use. Expected calibration error on held-out data:
    0.04 for `answerable`, 0.07 for `grounding` (claims of WiCE, ``benchmarks/judge.py``).

    Examples:
        >>> judge = LocalJudge(model=False)
        >>> passages = ["The bridge was opened in 1932. It carries eight lanes."]
        >>> claims = judge.grounding("The bridge was opened in 1932. It carries trains.", passages)
        >>> [claim.probability > 0.5 for claim in claims]
        [True, False]

    Args:
        model: Whether to read with the bundled models. False: the judge counts words, numbers and names only.
    """

    name = "local judge"

    def __init__(self, *, model: bool | None = None) -> None:
        self._use_model = model
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        # An answer is looked for, graded and then shown with its marks: each reads the same texts.
        self._results: OrderedDict[tuple[object, ...], Any] = OrderedDict()
        self._model: PairModel | None = None
        self._missing = self._use_model is False
        self._reader: Reader | None = None
        self._entailment: Entailment | None = None
        self._logits: dict[tuple[str, str], float] = {}

    @property
    def reads(self) -> bool:
        """Whether it reads pairs with the cross-encoder, not only counts words; loads the model."""
        return self._loaded() is not None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self._use_model})"

    def __getstate__(self) -> dict[str, Any]:
        return {"_use_model": self._use_model}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._use_model = state["_use_model"]
        self._start()

    # -- is the question answered? -----------------------------------------------------------------------

    def answerable(self, question: str, passages: Sequence[str]) -> float | None:
        """Probability that the passages hold the answer.

        Args:
            question: The question.
            passages: Texts, in any order.

        Returns:
            From 0 to 1; None where the judge is unsure (not English, or too long to read); 0 for no passages.
        """
        if not any(p.strip() for p in passages):
            return 0.0
        place = self.locate(question, passages)
        if place is not None:
            return place.probability
        readable = _material(_checked(passages)).readable and is_english(question, 8)
        # No sentence at all, only headings, rows of tables or bare words: nothing that answers.
        return _NOT_FOUND if readable and question_words(question) else None

    def locate(self, question: str, passages: Sequence[str]) -> Located | None:
        """As `answerable`, with the sentence and the words that answer.

        Returns:
            None where the judge is unsure, and where there is no sentence to quote.
        """
        return self._remembered(self._find, without_lone_surrogates(question), _checked(passages))

    def _remembered(
        self, find: Callable[[str, tuple[str, ...]], _Found], text: str, passages: tuple[str, ...]
    ) -> _Found:
        """What ``find`` says, computed once for the texts asked about last."""
        key = find.__name__, text, passages  # `find` itself would keep the judge alive in a cycle.
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return cast("_Found", self._results[key])
        result = find(text, passages)
        with self._lock:
            self._results[key] = result
            while len(self._results) > _KEPT:
                self._results.popitem(last=False)
        return result

    def _find(self, question: str, passages: tuple[str, ...]) -> Located | None:
        material = _material(passages)
        if not material.readable or not is_english(question, 8):
            return None
        material = _said_of(question, material)
        query = question_words(question)
        windows = _windows(material, query)
        if not query or not windows:
            return None
        read = self._read_windows(question, windows)
        rows = [answer_features(material, query, w, r) for w, r in zip(windows, read, strict=True)]
        name = "answerable" if read[0] is not None else "answerable_words"
        odds = [
            _odds(name, row) - _against(question, w, _likeliest(material, query, w, r))
            for row, w, r in zip(rows, windows, read, strict=True)
        ]
        at = max(range(len(odds)), key=lambda i: (odds[i], -i))
        probability = _apply(f"{name}_all", case_features(odds, windows))
        window, best = windows[at], read[at]
        if best is None:
            return _located(probability, _likeliest(material, query, window, None), 0, 0)
        pairs = [(w, r) for w, r in zip(windows, read, strict=True) if r is not None]
        if not window[0].cells and (words := self._words_at(question, passages, material, window, pairs)):
            return _located(probability, *words)
        return _located(probability, *_sentence_at(window, best))

    def _words_at(
        self,
        question: str,
        passages: Sequence[str],
        material: _Material,
        window: Sequence[_Sentence],
        read: Sequence[tuple[Sequence[_Sentence], _Reading]],
    ) -> tuple[_Sentence, int, int] | None:
        """The words that answer, in the window's passage or the part of a long one around it.

        Returns:
            The sentence, and where in it they stand; None where the reader sees none that may be quoted.
        """
        place = window[0].passage
        passage = passages[place]
        start = max(0, (window[0].span.start + window[-1].span.end - _READ) // 2)
        start = min(start, window[0].span.start, max(0, len(passage) - _READ))
        own = [(w, r) for w, r in read if w[0].passage == place and not w[0].cells]
        hints = _hints(material, question_words(question), len(passage), own)[start : start + _READ]
        (answer,) = self._loaded_reader().read(question, [passage[start : start + _READ]], [hints])
        if answer is None:
            return None
        span = answer.span.shift(start)
        for sentence in _quotable(material, place):
            first = sentence.span.start
            if first <= span.start < sentence.span.end and not _asks_otherwise(question, sentence):
                return sentence, span.start - first, min(span.end, sentence.span.end) - first
        return None

    def _read_windows(
        self, question: str, windows: Sequence[Sequence[_Sentence]]
    ) -> Sequence[_Reading | None]:
        """What the model says of each window; None for all without it."""
        model = self._loaded()
        if model is None:
            return [None] * len(windows)
        logits, spans = model.spans([(question, " ".join(s.text for s in w)) for w in windows])
        return [
            _Reading(float(row[ANSWERABLE]), float(row[RELEVANT]), span)
            for row, span in zip(logits, spans, strict=True)
        ]

    # -- is the answer supported? ------------------------------------------------------------------------

    def grounding(self, answer: str, passages: Sequence[str]) -> list[Claim]:
        """Each claim of an answer, with the probability that the passages support it.

        Sentences are split where a clause stands on its own. What claims nothing (an opening such as "Based
        on the passages,", a heading, "The documents do not say.") is left out.

        Args:
            answer: The answer.
            passages: Texts, in any order.

        Returns:
            Claims in the order of the answer; spans do not overlap. Empty where nothing is claimed. Those
            beyond the first `MAX_CLAIMS` are unsure.
        """
        return list(self._remembered(self._ground, without_lone_surrogates(answer), _checked(passages)))

    def _ground(self, answer: str, passages: tuple[str, ...]) -> tuple[Claim, ...]:
        spans = split_claims(answer)
        claims = self.claims_at(answer, spans[:MAX_CLAIMS], passages)
        return (*claims, *(unread_claim(answer, span) for span in spans[MAX_CLAIMS:]))

    def claims_at(self, answer: str, spans: Sequence[Span], passages: Sequence[str]) -> list[Claim]:
        """As `grounding`, of these parts of an answer alone."""
        material = _material(_checked(passages))
        readable = material.readable and is_english(answer[:_LANGUAGE_CHARACTERS], 12)
        rows = [score_claim(span, span.of(answer), material) if readable else None for span in spans]
        known = [row for row in rows if row is not None]
        logits = self._entailed([(c.claim.text, c.evidence) for c in known if c.logit is None])
        claims: list[Claim] = []
        for span, counts in zip(spans, rows, strict=True):
            if counts is None:
                claims.append(unread_claim(answer, span))
                continue
            odds = _odds("grounding", counts.values)
            if logits is not None:
                odds = entailed_odds(odds, counts.logit if counts.logit is not None else logits.pop(0))
            probability = min(counts.most, max(counts.least, _chance(odds)))
            claims.append(replace(counts.claim, probability=probability))
        return claims

    def _entailed(self, pairs: Sequence[tuple[str, str]]) -> list[float] | None:
        """The entailment model's logits of claims and their evidence; None without the model."""
        model = self._loaded_entailment()
        if model is None:
            return None
        with self._lock:
            known = {pair: self._logits[pair] for pair in pairs if pair in self._logits}
        unread = [pair for pair in dict.fromkeys(pairs) if pair not in known]
        if unread:
            known |= zip(unread, (float(v) for v in model.logits(unread)), strict=True)
            with self._lock:
                self._logits |= {pair: known[pair] for pair in unread}
                for old in list(self._logits)[: max(0, len(self._logits) - _KEPT_LOGITS)]:
                    del self._logits[old]
        return [known[pair] for pair in pairs]

    def supported(self, question: str, answer: str, passages: Sequence[str]) -> float | None:
        """Probability that the passages support the whole answer; see `support`.

        An answer of a few words, such as "1932", claims something only together with its question, and is
        read with it.

        Returns:
            From 0 to 1; None where the judge is unsure, or the answer claims nothing.
        """
        claims = self.grounding(answer, passages)
        if claims and all(claim.reason == _SAID for claim in claims):
            return support(claims)  # Whatever else the passages say, they say this.
        if len(stem_list(answer)) < _SHORT_ANSWER and stem_list(answer):
            whole = f"{question.strip().rstrip('?')}: {answer.strip()}"
            probability = support(self.grounding(whole, passages))
            # The words of other languages are not known well enough to miss one.
            held = stems(answer) <= stems(" ".join(passages)) or not is_english(whole, 8)
            return None if probability is None else probability if held else min(probability, _NOT_FOUND)
        return support(claims)

    def affirms(self, question: str, text: str) -> float | None:
        """Probability that a text says yes to a question for yes or no; that it says no is the rest.

        A text that says nothing about the question gets a probability too: see `answerable`.

        Returns:
            From 0 to 1; None without the model, and where the texts are not English.
        """
        model = self._loaded_entailment()
        if model is None or not is_english(f"{question} {text}", 12):
            return None
        (logit,) = model.logits([(without_lone_surrogates(question), without_lone_surrogates(text))])
        return _apply("affirms", [float(logit)])

    def _loaded_entailment(self) -> Entailment | None:
        """The entailment model; None where no model is wanted."""
        with self._lock:
            if self._entailment is None and self._use_model is not False:
                self._entailment = Entailment()
            return self._entailment

    def _loaded_reader(self) -> Reader:
        with self._lock:
            if self._reader is None:
                self._reader = Reader()
            return self._reader

    def _loaded(self) -> PairModel | None:
        """The model; None where it is not wanted or cannot be had."""
        with self._lock:
            if self._model is None and not self._missing:
                self._model = PairModel() if has_heads(FOLDER) else None
                self._missing = self._model is None
            return self._model


def _located(probability: float, sentence: _Sentence, start: int, end: int) -> Located:
    """An answer from ``start`` to ``end`` of a sentence's text; the whole sentence where that is empty."""
    if end <= start:
        start, end = 0, len(sentence.text)
        answer = sentence.span
    elif sentence.cells:
        # The cell in whose header or text the answer begins.
        places = _cell_places(sentence.cells)
        at = max(
            i
            for i, place in enumerate(places)
            if i == 0 or place.start - len(sentence.cells[i].header) - 2 <= start
        )
        (start, end), answer = places[at], sentence.cells[at].span
    else:
        answer = Span(sentence.span.start + start, sentence.span.start + end)
    return Located(probability, sentence.passage, sentence.span, answer, sentence.text, Span(start, end))


def _query_rows(material: _Material, query: frozenset[str]) -> list[list[_Sentence]]:
    """The rows with most of a question's words in their cells, each with the columns that are asked for."""
    held: list[tuple[float, _Sentence]] = []
    for row in (s for s in material.sentences if s.cells):
        own = {w for cell in row.cells for w in stem_list(cell.text)} & query
        if own:
            held.append((sum(map(material.weight, own)), row))
    best = max((weight for weight, _ in held), default=0.0)
    result = []
    for _, row in [item for item in held if item[0] >= 0.9 * best][:_MOST_ROWS]:
        matched = [not query.isdisjoint(stem_list(f"{c.header} {c.text}")) for c in row.cells]
        label = 0 if row.cells[0].header else 1  # Behind the heading.
        matched[: label + 1] = [True] * (label + 1)
        if sum(matched) > label + 1:
            row = _row(
                row.passage, row.span, tuple(c for c, own in zip(row.cells, matched, strict=True) if own)
            )
        result.append([row])
    return result


def _quotable(material: _Material, passage: int) -> list[_Sentence]:
    """The sentences of a passage that may answer: no headings, no code, no rows of tables."""
    own = (s for s in material.sentences if s.passage == passage and s.kind in ("text", "item", "lead"))
    return [s for s in own if says_something(s.text)]


def _windows(material: _Material, query: frozenset[str]) -> list[list[_Sentence]]:
    """Runs of sentences of a passage, overlapping by half, and rows of tables; no headings, no code."""
    result: list[list[_Sentence]] = _query_rows(material, query)
    for passage in sorted({s.passage for s in material.sentences}):
        own = _quotable(material, passage)
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
    if len(result) > 24:  # Those that hold most of the question.
        result.sort(key=lambda w: -max(_weighted(material, query, s.words) for s in w))
        result = result[:24]
    return result


def answer_features(
    material: _Material, query: frozenset[str], window: Sequence[_Sentence], read: _Reading | None
) -> list[float]:
    """What is known of a window as an answer: see ``training/fit_judge.py``.

    The weighted share of the question's words in the sentence with the answer and the one before it, and in
    the whole window; whether a number is there where the question wants one; and what the model says.
    """
    whole = frozenset().union(*(s.words for s in window))
    if read is None:
        near = max(_weighted(material, query, s.words) for s in window)
        number = NUMBER not in query or any(NUMBER in stems(s.text) for s in window)
        return [near, _weighted(material, query, whole), float(number)]
    sentence, _, _ = _sentence_at(window, read)
    at = window.index(sentence)
    words = sentence.words | (window[at - 1].words if at else frozenset())
    number = NUMBER not in query or NUMBER in stems(sentence.text)
    margin = max(-12.0, min(12.0, read.spans.margin))
    return [
        _weighted(material, query, words),
        _weighted(material, query, whole),
        float(number),
        read.answers,
        read.relevant,
        margin,
    ]


def case_features(odds: Sequence[float], windows: Sequence[Sequence[_Sentence]]) -> list[float]:
    """The odds of the best window, and how much was read: the best of much is high by chance."""
    size = sum(len(s.stems) for window in windows for s in window)
    return [max(odds), math.log(len(windows)), min(math.log(1 + size), 5.0)]


def _likeliest(
    material: _Material, query: frozenset[str], window: Sequence[_Sentence], read: _Reading | None
) -> _Sentence:
    """The sentence of a window that answers: where the model saw the answer, or with most of the words."""
    if read is not None:
        return _sentence_at(window, read)[0]
    return max(window, key=lambda s: (_weighted(material, query, s.words), -s.span.start))


def _asks_otherwise(question: str, sentence: _Sentence) -> bool:
    """Whether a sentence denies a word of the question, has its opposite, or has another number."""
    other, _ = contrary(terms(question), terms(sentence.text))
    return any(said.startswith("not ") == instead.startswith("not ") for said, instead in other.values())


def _against(question: str, window: Sequence[_Sentence], sentence: _Sentence) -> float:
    """Log-odds that a sentence loses as an answer: it says otherwise, or gives no reason to a "why"."""
    lost = _OTHER if _asks_otherwise(question, sentence) else 0.0
    if _ASKS_WHY.match(question) and not _MAY_BE_REASON.search(sentence.text):
        at = window.index(sentence)
        near = (s for s in window[max(0, at - 1) : at + 2] if s is not sentence)
        lost += 0.0 if any(_REASON.search(s.text) for s in near) else _OTHER
    return lost


def _sentence_at(window: Sequence[_Sentence], read: _Reading) -> tuple[_Sentence, int, int]:
    """The sentence in which the answer of a window begins, and where in it the answer stands."""
    offset = 0
    for sentence in window:
        if read.spans.start < offset + len(sentence.text) + 1 or sentence is window[-1]:
            start = min(len(sentence.text), max(0, read.spans.start - offset))
            return sentence, start, max(start, min(len(sentence.text), read.spans.end - offset))
        offset += len(sentence.text) + 1
    raise AssertionError("a window has sentences")


def _hints(
    material: _Material,
    query: frozenset[str],
    length: int,
    read: Sequence[tuple[Sequence[_Sentence], _Reading]],
) -> NDArray[np.float64]:
    """What is known before the reader reads a passage of this length, see `Reader.read`.

    Args:
        material: The passages.
        query: The question's words.
        length: Of the passage.
        read: Its windows, and what the cross-encoder says of them.
    """
    hints = np.full((length, 2), -_FARTHEST)
    for window, reading in read:
        offset = 0
        places, odds = reading.spans.places, np.clip(reading.spans.odds, -_FARTHEST, _FARTHEST)
        for sentence in window:
            own = (places[:, 0] >= offset) & (places[:, 1] <= offset + len(sentence.text))
            move = sentence.span.start - offset
            np.maximum.at(hints[:, 0], places[own, 0] + move, odds[own, 0])
            np.maximum.at(hints[:, 1], places[own, 1] - 1 + move, odds[own, 1])
            offset += len(sentence.text) + 1
    hints *= _SECOND_READER
    for sentence in {s for window, _ in read for s in window}:
        shared = _weighted(material, query, sentence.words)
        hints[sentence.span.start : sentence.span.end, 0] += _SHARED_WORDS * shared
    return hints


def _weighted(material: _Material, query: frozenset[str], words: frozenset[str]) -> float:
    return material.share(sorted(query - {NUMBER}), words)
