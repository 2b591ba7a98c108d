"""A judge that needs no LLM: is the question answered by these passages, and is the answer supported by them?

Support is a logistic model of counts (which of the words, neighboring words, quantities and names of a claim
are in the passages) and of rules (opposites, denial, names exchanged), to which a small entailment model adds
its logit. Answerability adds the margin of a small extractive reader. The coefficients are in ``judge.json``;
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
from sage_core.verify.passages import ParsedPassages as _Material
from sage_core.verify.passages import Sentence as _Sentence
from sage_core.verify.passages import cell_places as _cell_places
from sage_core.verify.passages import checked_passages as _checked
from sage_core.verify.passages import parse_passages as _material
from sage_core.verify.passages import row_sentence as _row
from sage_core.verify.passages import without_other_codes as _said_of
from sage_core.verify.reader import Answer, Reader
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
_WINDOW_WORDS = 150  # Of the pieces of passages that a question is read with: what the reader takes at once.
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
# Log-odds that an answer begins in a sentence with all of the question's words, over one with none; chosen on
# 215 questions that the reader's training left out.
_SHARED_WORDS = 1.0
_NO_ANSWER = Answer(Span(0, 0), 0.0, -20.0)  # Of a window without anything to read.
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
        self._reader: Reader | None = None
        self._entailment: Entailment | None = None
        self._logits: dict[tuple[str, str], float] = {}

    @property
    def reads(self) -> bool:
        """Whether it reads with the bundled models, not only counts words."""
        return self._use_model is not False

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
        answers = self._read_windows(question, material, query, windows)
        rows = [answer_features(material, query, w, a) for w, a in zip(windows, answers, strict=True)]
        name = "answerable" if self.reads else "answerable_words"
        places = [_answer_place(material, query, w, a) for w, a in zip(windows, answers, strict=True)]
        odds = [
            _odds(name, row) - _against(question, window, sentence)
            for row, window, (sentence, _, _) in zip(rows, windows, places, strict=True)
        ]
        at = max(range(len(odds)), key=lambda i: (odds[i], -i))
        return _located(_apply(f"{name}_all", case_features(odds)), *places[at])

    def _read_windows(
        self,
        question: str,
        material: _Material,
        query: frozenset[str],
        windows: Sequence[Sequence[_Sentence]],
    ) -> Sequence[Answer | None]:
        """Where the reader sees the answer in each window's text; None for all without models."""
        reader = self._loaded_reader()
        if reader is None:
            return [None] * len(windows)
        texts = [" ".join(s.text for s in window) for window in windows]
        hints = [_hints(material, query, window) for window in windows]
        return [answer or _NO_ANSWER for answer in reader.read(question, texts, hints)]

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
            if self._entailment is None and self.reads:
                self._entailment = Entailment()
            return self._entailment

    def _loaded_reader(self) -> Reader | None:
        """The reader; None where no model is wanted."""
        with self._lock:
            if self._reader is None and self.reads:
                self._reader = Reader()
            return self._reader


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
    material: _Material, query: frozenset[str], window: Sequence[_Sentence], answer: Answer | None
) -> list[float]:
    """What is known of a window as an answer: see ``training/fit_judge.py``.

    The share of the question's words, weighted by rarity, in the sentence with the answer and the one before
    it; their plain share in the whole window; whether a number is there where the question wants one; and the
    reader's margin, where it reads.
    """
    plain, whole = query - {NUMBER}, frozenset().union(*(s.words for s in window))
    share = len(plain & whole) / max(1, len(plain))
    if answer is None:
        near = max(_weighted(material, query, s.words) for s in window)
        return [near, share, float(NUMBER not in query or any(NUMBER in stems(s.text) for s in window))]
    sentence, _, _ = _sentence_at(window, answer)
    at = window.index(sentence)
    words = sentence.words | (window[at - 1].words if at else frozenset())
    number = NUMBER not in query or NUMBER in stems(sentence.text)
    return [_weighted(material, query, words), share, float(number), answer.margin]


def case_features(odds: Sequence[float]) -> list[float]:
    """The odds of the best window, and how many were read: the best of many is high by chance."""
    return [max(odds), math.log(len(odds))]


def _answer_place(
    material: _Material, query: frozenset[str], window: Sequence[_Sentence], answer: Answer | None
) -> tuple[_Sentence, int, int]:
    """The sentence of a window that answers, and where in it; without the reader the one with most words."""
    if answer is not None:
        return _sentence_at(window, answer)
    return max(window, key=lambda s: (_weighted(material, query, s.words), -s.span.start)), 0, 0


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


def _sentence_at(window: Sequence[_Sentence], answer: Answer) -> tuple[_Sentence, int, int]:
    """The sentence in which the answer of a window begins, and where in it the answer stands."""
    offset = 0
    for sentence in window:
        if answer.span.start < offset + len(sentence.text) + 1 or sentence is window[-1]:
            start = min(len(sentence.text), max(0, answer.span.start - offset))
            return sentence, start, max(start, min(len(sentence.text), answer.span.end - offset))
        offset += len(sentence.text) + 1
    raise AssertionError("a window has sentences")


def _hints(material: _Material, query: frozenset[str], window: Sequence[_Sentence]) -> NDArray[np.float64]:
    """What the words of a window's sentences say about where the answer begins, see `Reader.read`."""
    shares = [_SHARED_WORDS * _weighted(material, query, s.words) for s in window]
    first = np.repeat(shares, [len(s.text) + 1 for s in window])[:-1]  # A space stands between two.
    return np.column_stack([first, np.zeros_like(first)])


def _weighted(material: _Material, query: frozenset[str], words: frozenset[str]) -> float:
    return material.share(sorted(query - {NUMBER}), words)
