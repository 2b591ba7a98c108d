"""A judge that needs no LLM: is the question answered by these passages, and is the answer supported by them?

Support is a logistic model of counts (which of the words, neighboring words, quantities and names of a claim
are in the passages) and of rules (opposites, denial, names exchanged), to which a small entailment model adds
its logit. Answerability adds the logits of a small cross-encoder. The coefficients are in ``judge.json``;
``training/fit_grounding.py`` and ``training/fit_judge.py`` make them.
"""

from __future__ import annotations

import itertools
import json
import logging
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sage_core.errors import InputError
from sage_core.llm.prompting import NOT_SURE, is_abstention
from sage_core.text.blocks import line_breaks, points_back, sentence_kinds
from sage_core.text.language import COMMON_ENGLISH, is_english
from sage_core.text.sentences import split_sentences
from sage_core.text.spans import Span, trim
from sage_core.text.tokens import without_lone_surrogates
from sage_core.verify.claim_features import log_odds, rule_features
from sage_core.verify.entailment import Entailment
from sage_core.verify.pair_model import ANSWERABLE, FOLDER, RELEVANT, PairModel, Spans, has_heads
from sage_core.verify.quantities import has_minus, missing, quantities
from sage_core.verify.reader import Reader
from sage_core.verify.words import (
    NUMBER,
    contrary,
    question_words,
    says_something,
    stem_list,
    stems,
    terms,
)

_log = logging.getLogger(__name__)

COEFFICIENTS = Path(__file__).with_name("judge.json")
"""Logistic models and thresholds, made by ``training/fit_judge.py`` and ``training/fit_grounding.py``."""

MOST_LOGIT = 4.0
"""Bound of what the entailment model says of a claim."""
MAX_CLAIMS = 300
"""Claims of an answer that are judged: beyond it a model repeats itself. The rest is unsure."""
_LANGUAGE_CHARACTERS = 4_000  # Of an answer: they show its language.
_EVIDENCE_WORDS, _LONGEST_EVIDENCE = 50, 45  # Of the sentences that a claim is read with, and of one.
_WINDOW_WORDS = 80  # Of the pieces of passages that a question is compared with.
_READ = 1_000  # Characters of a passage around that window, in which the reader looks for the answer.
_MOST_WORDS = 20_000  # Of all passages; beyond that the judge says that it is unsure.
_LONGEST_CLAIM = 120
_KEPT = 32  # Results for the last questions and answers.
_KEPT_LOGITS = 500  # Of the last claims.
_QUOTE_WORDS = 3
_SHORT_ANSWER = 4
_NOT_FOUND = 0.05
_SAME_MATTER = 0.6  # Share of a claim's words in a sentence about the same.
_VERBATIM, _VERBATIM_WORDS = 0.97, 5
_SAID = "word for word in the passages"
_FALSE_QUOTATION = 0.05
_CONTRADICTED = 0.3
_NOT_SURE = 0.3
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

_IDENTIFIER = re.compile(r"\b([A-Za-z]{1,6})-?(\d+[A-Za-z\d]*)\b")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NAME = re.compile(r"\b[A-Z][\w’'-]*")
_QUOTED = re.compile(r"[“\"]([^”\"]{8,300})[”\"]")
_SPACE = re.compile(r"\W+")
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
_HEADING_MARKS = re.compile(r"^[#=*\s]+|[#=*~^:\s-]+$")
_RULE = re.compile(r"\|(?:\s*:?-+:?\s*\|?)+")
# What opens an answer without claiming anything.
_SOURCE = r"(?:passages?|context|documents?|text|information|sources?|excerpts?|article)"
_OPENER = re.compile(
    r"(?i)(?:(?:based on|according to|as (?:stated|mentioned|described|noted) in) (?:the )?[\w ]{0,30}?"
    rf"{_SOURCE}[\w ]{{0,12}}?,\s*"
    rf"|(?:the )?{_SOURCE} (?:say|state|mention|note|explain|indicate|suggest)s?(?: that| yes| no)?:?\s+"
    r"|(?:yes|no|sure|certainly|additionally|furthermore|moreover|overall|in summary|in conclusion|however)"
    r",\s*)"
)
# How `ExtractiveAnswerer` shows a passage that it is not sure of: where it is from claims nothing.
_UNSURE = re.compile(rf"{re.escape(NOT_SURE)} [^(“]*\(.*?\): (?=“)", re.DOTALL)
_NO_CLAIM = re.compile(
    r"(?i)(?:i am not sure\.|i hope|let me know|here (?:is|are)\b.{0,60}:$|sure\b|certainly\b|feel free|"
    r"(?:these|the following)\b.{0,80}:$)"
)
# That the passages do not say it: nothing that they could support.
_ABSTAINS = re.compile(
    r"(?i)(?:(?:unfortunately|however|but|sorry|i['’]m sorry|i am sorry)\b[,.;]?\s+(?:but\s+)?)*(?:"
    rf"(?:\w+ ){{0,4}}{_SOURCE}\b(?: \w+){{0,4}}? (?:do|does|did)(?:n['’]t| not) (?:\w+ly )?(?:say|mention|"
    r"state|name|provide|contain|specify|include|give|answer|address|discuss|tell|indicate|have|hold|offer|describe|explain)\b"
    r"|(?:i am |i['’]m |we are |it is )?(?:unable|not able|impossible|not possible) to "
    r"(?:answer|determine|find|say|tell|provide)\b"
    r"|(?:i|we) (?:do not|don['’]t|cannot|can['’]t|could not|couldn['’]t|did not|didn['’]t) "
    r"(?:know|find|answer|determine|say|tell|have (?:any |enough |the )?information)\b"
    r"|there (?:is|are|was) (?:no|not any|not enough) (?:\w+ ){0,3}"
    r"(?:information|mention|answers?|details?)\b"
    r"|no (?:\w+ ){0,2}(?:information|mention|details?|answer) (?:\w+ ){0,3}"
    r"(?:given|provided|found|available|made)\b)"
)
_CLAUSE = re.compile(
    r"(?:;\s+|,? (?:and|but|while|whereas|although|so)\s+"
    r"(?=(?:he|she|it|they|we|there|this|these|that|the|a|an|its|his|her|their|in|on|at|[A-Z][a-z]+)\b[^,;]{3,80}?\b"
    r"(?:is|are|was|were|has|have|had|can|could|will|would|may|might|does|did|\w{3,}ed|\w{3,}es)\b))"
)

_Place = tuple[int | None, Span | None]
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of an answer, and whether the passages support it.

    Examples:
        >>> judge = LocalJudge(model=False)
        >>> (claim,) = judge.grounding("It opened in 1932.", ["It opened in 1932. It has eight lanes."])
        >>> claim.passage, claim.evidence, claim.probability > 0.5
        (0, Span(start=0, end=18), True)

    Attributes:
        span: Where it stands in the answer.
        text: ``answer[span.start:span.end]``.
        probability: That the passages support it, from 0 to 1; None where the judge is unsure.
        passage: Position of the passage that supports it best; None where none has a word of it.
        evidence: Where in that passage the best supporting sentence stands.
        reason: What decided, in words.
        contradicted: Whether the sentence about the same says something else.
    """

    span: Span
    text: str
    probability: float | None
    passage: int | None
    evidence: Span | None
    reason: str
    contradicted: bool = False

    @property
    def refuted(self) -> bool:
        """Whether it is contradicted and the counts speak against it too: enough to overrule a grade.

        Of answers that people found right, 0.8% or fewer have such a claim in each training source, and of
        those they found wrong 1% to 8% (``benchmarks/judge.py --veto``).
        """
        return self.contradicted and self.probability is not None and self.probability < _CONTRADICTED

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        return {
            "span": list(self.span),
            "text": self.text,
            "probability": self.probability,
            "passage": self.passage,
            "evidence": None if self.evidence is None else list(self.evidence),
            "reason": self.reason,
            "contradicted": self.contradicted,
        }


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
class _Cell:
    """A cell of a table: its header, its text, and where it stands in the passage."""

    header: str
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class _Sentence:
    passage: int
    span: Span
    text: str
    kind: str
    stems: tuple[str, ...]
    cells: tuple[_Cell, ...] = ()  # Of a table's row.

    @property
    def words(self) -> frozenset[str]:
        return frozenset(self.stems)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the model says of a question and a window: logits, and where the answer stands."""

    answers: float
    relevant: float
    spans: Spans


@dataclass(frozen=True, slots=True)
class _Counted:
    """A claim as counts and rules see it.

    Attributes:
        claim: Without its probability.
        values: Of `support_features`.
        least: The least probability that rules allow.
        most: The most.
        evidence: What the entailment model reads beside it.
        logit: Of that model, where it need not read.
    """

    claim: Claim
    values: list[float]
    least: float
    most: float
    evidence: str
    logit: float | None


@dataclass(frozen=True, slots=True)
class _Material:
    """Passages, taken apart once."""

    sentences: tuple[_Sentence, ...]
    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    numbers: frozenset[str]
    lower: str
    flat: str
    exact: str
    weights: Mapping[str, float]
    readable: bool


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
        rows = [counted(span, span.of(answer), material) if readable else None for span in spans]
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
            held = stems(answer) <= stems(" ".join(passages))
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


def support(claims: Sequence[Claim]) -> float | None:
    """One probability for a whole answer: in log-odds, midway between its claims' mean and the weakest claim.

    Returns:
        None where the judge is unsure of a claim, or nothing is claimed.
    """
    known = [c.probability for c in claims if c.probability is not None]
    if not known or len(known) < len(claims):
        return None
    odds = np.array([log_odds(p) for p in known])
    sizes = np.array([len(c.text.split()) for c in claims], dtype=float)
    middle = (float(odds @ sizes / sizes.sum()) + float(odds.min())) / 2
    return _chance(middle)


def unread_claim(answer: str, span: Span) -> Claim:
    """A claim that the judge does not know anything of."""
    reason = "unsure: not English, or too long to read"
    return Claim(span, span.of(answer), None, None, None, reason)


def claims_or_unsure(
    find: Callable[[], Sequence[Claim]], answer: str, start: int = 0, end: int | None = None
) -> list[Claim]:
    """What ``find`` says of a finished answer; one claim of unknown support where it fails.

    A judge that breaks must not take the answer with it.

    Args:
        find: Gives the claims.
        answer: The answer.
        start: First character of the part that is judged.
        end: Just after its last one; the end of the answer where None.

    Raises:
        InputError: As ``find`` raised it: the call itself is wrong.
    """
    try:
        return list(find())
    except InputError:
        raise
    except Exception as error:  # whatever it is: the answer is there, and is not lost
        _log.warning("the local judge failed, the answer is kept: %s: %s", type(error).__name__, error)
        whole = trim(answer, Span(start, len(answer) if end is None else end))
        reason = f"unsure: the judge failed with {type(error).__name__}: {error}"
        return [Claim(whole, whole.of(answer), None, None, None, reason)] if whole.end > whole.start else []


def split_claims(answer: str) -> list[Span]:
    """Spans of the claims in an answer: its sentences, split where a clause stands on its own."""
    result: list[Span] = []
    unsure = _UNSURE.match(answer)
    begin = unsure.end() if unsure else 0
    spans = [Span(max(s.start, begin), s.end) for s in split_sentences(answer) if s.end > begin]
    kinds = sentence_kinds(answer, spans, line_breaks(answer, spans))
    for span, kind in zip(spans, kinds, strict=True):
        start = span.start
        marker = re.match(r"(?:[-*+•]|\(?\d{1,3}[.)])\s+", span.of(answer))
        start += marker.end() if marker else 0
        start = _opened(answer, start, span.end)
        text = answer[start : span.end]
        if kind in ("heading", "code") or text.endswith("?") or not stems(text):
            continue
        if is_abstention(text) or _ABSTAINS.match(text) or _NO_CLAIM.match(text):
            continue
        for match in _CLAUSE.finditer(answer, start, span.end):
            before, after = answer[start : match.start()], answer[match.end() : span.end]
            if len(stem_list(before)) >= 3 and len(stem_list(after)) >= 3 and len(text.split()) >= 12:
                result.append(trim(answer, Span(start, match.start())))
                start = match.end()
        result.append(trim(answer, Span(start, span.end)))
    return result


def abstains(answer: str) -> bool:
    """Whether an answer says that the passages do not hold one, in any common wording, and nothing else."""
    start = _opened(answer, len(answer) - len(answer.lstrip()), len(answer))
    said = is_abstention(answer) or _ABSTAINS.match(answer, start) is not None
    return said and not split_claims(answer)


def _opened(answer: str, start: int, end: int) -> int:
    """Where a sentence begins after openings that claim nothing."""
    while opener := _OPENER.match(answer, start, end):
        start = opener.end()
    return start


def counted(span: Span, text: str, material: _Material) -> _Counted | None:
    """A claim by counts and rules; None where it is too long or says nothing."""
    own = stem_list(text)
    if len(text.split()) > _LONGEST_CLAIM or not own:
        return None
    about = _said_of(text, material)
    sentences = _evidence(own, about)
    place: _Place = (sentences[0].passage, sentences[0].span) if sentences else (None, None)
    said = _contradicted(text, about)
    verbatim = _verbatim(text, material)
    values = support_features(text, own, about, contradicted=said is not None, verbatim=verbatim)
    reason, least, most = _why(values), 0.0, 1.0
    if verbatim:
        reason, least = _SAID, _VERBATIM
    elif _false_quotation(text, material):
        reason, most = "a quotation is not in the passages", _FALSE_QUOTATION
    elif about is not material and _most_held(own, material) > _most_held(own, about):
        reason, most = "the passages say it of another code", _NOT_SURE
    elif said is not None:
        most, (reason, place) = _CONTRADICTED, said
    claim = Claim(span, text, None, *place, reason, said is not None and not verbatim)
    logit = MOST_LOGIT if verbatim else None if sentences else 0.0
    return _Counted(claim, values, least, most, evidence_text(own, sentences), logit)


def evidence_text(
    own: Sequence[str], sentences: Sequence[_Sentence], longest: int = _LONGEST_EVIDENCE
) -> str:
    """Sentences as the entailment model reads them beside a claim with these words: in the passages' order.

    Of a long one, the part with most of the claim's words.
    """
    ordered = sorted(sentences, key=lambda s: (s.passage, s.span.start))
    return " ".join(_densest(s.text.split(), set(own), longest) for s in ordered)


def _densest(words: Sequence[str], own: set[str], longest: int) -> str:
    """At most so many words in a row, with most of a claim's among them."""
    if len(words) <= longest:
        return " ".join(words)
    before = [0, *itertools.accumulate(not own.isdisjoint(stem_list(word)) for word in words)]
    start = max(range(len(words) - longest + 1), key=lambda i: (before[i + longest] - before[i], -i))
    return " ".join(words[start : start + longest])


def entailed_odds(odds: float, logit: float) -> float:
    """Log-odds of a claim by counts and the entailment model's logit."""
    return odds + _odds("entailed", [max(-MOST_LOGIT, min(MOST_LOGIT, logit))])


def support_features(
    text: str, own: Sequence[str], material: _Material, *, contradicted: bool, verbatim: bool
) -> list[float]:
    """What counts and rules say of a claim: see ``training/fit_grounding.py``.

    Args:
        text: The claim.
        own: Its content words in order, stemmed; at least one.
        material: The passages.
        contradicted: Whether a sentence about the same says something else.
        verbatim: Whether the passages hold it word for word.
    """
    sentences = material.sentences
    own = stem_list(_without_said_otherwise(text, sentences)) or own
    words = set(own)
    near = 0
    for i, sentence in enumerate(sentences):
        held = words & sentence.words
        for other in sentences[i + 1 : i + 3]:
            held |= words & other.words if other.passage == sentence.passage else set()
        near = max(near, len(held))
    pairs = set(itertools.pairwise(own))
    numbers = _numbers(text)
    names = {n.lower() for n in _NAME.findall(text[1:])} - COMMON_ENGLISH
    share = len(words & material.words) / len(words)
    rules = rule_features(
        text, own, sentences, material.weights, contradicted=contradicted, verbatim=verbatim
    )
    absent = len(numbers - material.numbers) / max(1, len(numbers))
    return [
        share,
        near / len(words),
        len(pairs & material.pairs) / len(pairs) if pairs else share,
        min(absent, rules[0]) if numbers else 0.0,
        sum(n not in material.lower for n in names) / max(1, len(names)),
        min(math.log(len(words)), 3.5),
        *rules,
    ]


def _without_said_otherwise(text: str, sentences: Sequence[_Sentence]) -> str:
    """A claim less the quantities that the passages give in other words, such as 1,200 m for 1.2 km."""
    there = [q for s in sentences for q in quantities(s.text)]
    for quantity in reversed(quantities(text)):
        if quantity.dimension and missing([quantity], there) == 0:
            start, end = quantity.span
            if not any(text[start:end].lower() in s.text.lower() for s in sentences):
                text = f"{text[:start]} {text[end:]}"
    return text


def _most_held(own: Sequence[str], material: _Material) -> int:
    """Most of a claim's words that one sentence holds."""
    return max((len(s.words.intersection(own)) for s in material.sentences), default=0)


def _why(values: Sequence[float]) -> str:
    """The counts in words."""
    said = [f"{values[0]:.0%} of its words are in the passages, {values[1]:.0%} close together"]
    if values[3]:
        said.append("a number is not")
    if values[4]:
        said.append("a name is not")
    return ", ".join(said)


def _false_quotation(text: str, material: _Material) -> bool:
    """Whether a claim quotes what the passages do not hold."""
    inner = [_flat(quoted) for quoted in _QUOTED.findall(text)]
    return any(len(q.split()) >= _QUOTE_WORDS and f" {q} " not in material.flat for q in inner)


def _verbatim(text: str, material: _Material) -> bool:
    """Whether the passages hold a claim of some length word for word, its numbers sign for sign."""
    long = len(_flat(text).split()) >= _VERBATIM_WORDS
    return long and f" {_exact(text)} " in material.exact and not _false_quotation(text, material)


def _contradicted(text: str, material: _Material) -> tuple[str, _Place] | None:
    """Where the sentence that says the rest of a claim says something else in place of one of its words.

    That sentence holds at least `_SAME_MATTER` of the claim's words, less its numbers and those that have a
    contrary. Where another one that holds as much of the rest agrees, the claim stands.
    """
    claim = terms(_without_said_otherwise(text, material.sentences))
    plain = {t.stem for t in claim if t.beside is None and not t.sides}
    top = max(material.weights.values(), default=1.0)
    weights = {t.stem: material.weights.get(t.stem, top) for t in claim}
    total = sum(weights[w] for w in plain)
    if not total:
        return None
    near: list[tuple[float, _Sentence, frozenset[str]]] = []
    previous = None
    for sentence in material.sentences:
        held = sentence.words & plain
        if held and previous is not None and previous.passage == sentence.passage:
            # "It" is what the sentence before is about.
            back = points_back(sentence.text, Span(0, len(sentence.text)))
            held |= previous.words & plain if back else frozenset()
        near.append((sum(weights[w] for w in held) / total, sentence, held))
        previous = sentence
    least = max(_SAME_MATTER, max((share for share, _, _ in near), default=0.0) - 0.2)
    rivals = [
        (s, held, *contrary(terms(_without_said_otherwise(text, [s])), terms(s.text)))
        for share, s, held in near
        if share >= least
    ]
    for stem in dict.fromkeys(stem for _, _, other, _ in rivals for stem in other):
        rest = [
            sum(weights.get(w, 0.0) for w in (held | agreed) - other.keys() - {stem})
            for _, held, other, agreed in rivals
        ]
        about = [f for f, share in zip(rivals, rest, strict=True) if share >= 0.9 * max(rest)]
        if any(stem in agreed for _, _, _, agreed in about):
            continue
        for sentence, _, other, _ in about:
            if stem in other:
                said, instead = other[stem]
                reason = f"the passages say “{instead}” where it says “{said}”"
                return reason, (sentence.passage, sentence.span)
    return None


def _identifiers(text: str) -> dict[str, set[str]]:
    """Codes such as E22 or B-12, by their letters."""
    codes: dict[str, set[str]] = {}
    for letters, digits in _IDENTIFIER.findall(text):
        codes.setdefault(letters.lower(), set()).add(digits.lower())
    return codes


def _said_of(text: str, material: _Material) -> _Material:
    """The passages without the sentences about another code of the same letters: E17 where E22 is meant."""
    own_codes = _identifiers(text)
    if not own_codes:
        return material

    def other(sentence: _Sentence) -> bool:
        codes_here = _identifiers(sentence.text)
        return any(
            letters in codes_here and codes_here[letters].isdisjoint(codes)
            for letters, codes in own_codes.items()
        )

    sentences = tuple(s for s in material.sentences if not other(s))
    if len(sentences) == len(material.sentences):
        return material
    return replace(
        material,
        sentences=sentences,
        words=frozenset().union(*(s.words for s in sentences)),
        pairs=frozenset(pair for s in sentences for pair in itertools.pairwise(s.stems)),
    )


def _evidence(
    own: Sequence[str], material: _Material, most: int = _EVIDENCE_WORDS, longest: int = _LONGEST_EVIDENCE
) -> list[_Sentence]:
    """The sentences that together hold most of a claim's words, the best first."""
    missing = dict.fromkeys(own, 1.0)
    for word in missing:
        missing[word] = material.weights.get(word, 0.0)
    chosen: list[_Sentence] = []
    size = 0
    rest = [s for s in material.sentences if not s.words.isdisjoint(missing)]
    while rest and len(chosen) < 4:
        gain = [sum(missing[w] for w in s.words if w in missing) for s in rest]
        # A short sentence wins over a long one that holds as much.
        best = max(range(len(rest)), key=lambda i: (gain[i] / (12 + len(rest[i].stems)) ** 0.3, -i))
        words = min(len(rest[best].text.split()), longest)
        if gain[best] <= 0 or (chosen and size + words > most):
            break
        sentence = rest.pop(best)
        chosen.append(sentence)
        size += words
        for word in sentence.words:
            if word in missing:
                # Said again elsewhere counts a little: the best sentence may not be the one that is meant.
                missing[word] *= 0.25
    return chosen


def _rows(text: str, passage: int, spans: Sequence[Span], kinds: Sequence[str]) -> dict[int, _Sentence]:
    """The rows of a passage's tables that have a header, by the position of their sentence.

    A row reads as the heading above the table and its cells with their headers: "Counts; Species: puffin;
    2021: 1,890".
    """
    rows: dict[int, _Sentence] = {}
    header: list[_Cell] = []
    above: tuple[_Cell, ...] = ()
    for i, (span, kind) in enumerate(zip(spans, kinds, strict=True)):
        if kind == "heading" and (words := _HEADING_MARKS.sub("", span.of(text))):
            above = (_Cell("", words, span),)
        if kind != "table":
            header = []
        elif _RULE.fullmatch(span.of(text)):
            header = _cells(text, spans[i - 1]) if i and kinds[i - 1] == "table" else []
        elif header and len(own := _cells(text, span)) == len(header):
            named = zip(header, own, strict=True)
            cells = tuple(_Cell(name.text, cell.text, cell.span) for name, cell in named if cell.text)
            if len(cells) > 1:
                rows[i] = _row(passage, span, above + cells)
    return rows


def _cells(text: str, span: Span) -> list[_Cell]:
    """The cells of a line between bars, without headers."""
    start, end = span
    start += text[start] == "|"
    end -= text[end - 1] == "|"
    cells: list[_Cell] = []
    for part in re.finditer(r"(?:\\.|[^|\\])*", text[start:end]):
        if part.start() == part.end() and cells and part.start() != end - start:
            continue  # Just before a bar, after a cell.
        place = trim(text, Span(start + part.start(), start + part.end()))
        cells.append(_Cell("", place.of(text), place))
    return cells


def _row(passage: int, span: Span, cells: tuple[_Cell, ...]) -> _Sentence:
    """A row, or some cells of it, as a sentence."""
    text = "; ".join(f"{c.header}: {c.text}" if c.header else c.text for c in cells)
    return _Sentence(passage, span, text, "row", tuple(stem_list(text)), cells)


def _cell_places(cells: Sequence[_Cell]) -> list[Span]:
    """Where the texts of the cells stand in the text of their row."""
    places, at = [], 0
    for cell in cells:
        at += len(cell.header) + 2 if cell.header else 0
        places.append(Span(at, at + len(cell.text)))
        at += len(cell.text) + 2
    return places


def _query_rows(material: _Material, query: frozenset[str]) -> list[list[_Sentence]]:
    """The rows with most of a question's words in their cells, each with the columns that are asked for."""
    top = max(material.weights.values(), default=1.0)
    held: list[tuple[float, _Sentence]] = []
    for row in (s for s in material.sentences if s.cells):
        own = {w for cell in row.cells for w in stem_list(cell.text)} & query
        if own:
            held.append((sum(material.weights.get(w, top) for w in own), row))
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
    plain = sorted(query - {NUMBER})
    top = max(material.weights.values(), default=1.0)
    total = sum(material.weights.get(w, top) for w in plain)
    return sum(material.weights.get(w, top) for w in plain if w in words) / total if total else 0.0


def _checked(passages: Sequence[str]) -> tuple[str, ...]:
    if isinstance(passages, str):
        raise InputError("passages is a list of texts, not one text")
    return tuple(without_lone_surrogates(p) for p in passages)


@lru_cache(maxsize=16)
def _material(passages: tuple[str, ...]) -> _Material:
    """The passages' sentences, words, numbers and weights."""
    size = sum(len(p.split()) for p in passages)
    if size > _MOST_WORDS or any(len(w) > 5_000 for p in passages for w in p.split()):
        return _Material((), frozenset(), frozenset(), frozenset(), "", "", "", {}, False)
    sentences = []
    pairs: set[tuple[str, str]] = set()
    for i, passage in enumerate(passages):
        spans = split_sentences(passage)
        kinds = sentence_kinds(passage, spans, line_breaks(passage, spans))
        rows = _rows(passage, i, spans, kinds)
        for j, (span, kind) in enumerate(zip(spans, kinds, strict=True)):
            own = tuple(stem_list(span.of(passage)))
            sentence = rows.get(j) or _Sentence(i, span, span.of(passage), kind, own)
            pairs.update(itertools.pairwise(sentence.stems))
            sentences.append(sentence)
    whole = "\n".join(passages)
    counts: dict[str, int] = {}
    for sentence in sentences:
        for word in sentence.words:
            counts[word] = counts.get(word, 0) + 1
    weights = {w: math.log1p(len(sentences) / (1 + n)) for w, n in counts.items()}
    return _Material(
        tuple(sentences),
        frozenset(counts),
        frozenset(pairs),
        frozenset(_numbers(whole)),
        whole.lower(),
        f" {_flat(whole)} ",
        f" {_exact(whole)} ",
        weights,
        is_english(whole[:20_000], 20),
    )


def _flat(text: str) -> str:
    """Words only, lower case, one space between."""
    return _SPACE.sub(" ", text.lower()).strip()


def _numbers(text: str) -> set[str]:
    """The numbers of a text in digits, with their minus and without commas."""
    found = _NUMBER.finditer(text)
    return {("-" if has_minus(text, m.start()) else "") + m[0].replace(",", "") for m in found}


def _exact(text: str) -> str:
    """Words and numbers, lower case, one space between; "-5", "€ 50" and "40 million" are one number each."""
    found = _EXACT.finditer(text.lower().translate(_DASHES))
    return " ".join("".join(match[0].split()) for match in found)


@lru_cache(maxsize=1)
def _coefficients() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(COEFFICIENTS.read_text(encoding="utf-8"))
    return loaded


def threshold(name: str) -> float:
    """A threshold of ``judge.json``."""
    return float(_coefficients()["thresholds"][name])


def _apply(name: str, values: Sequence[float]) -> float:
    """Probability by a logistic model of ``judge.json``."""
    return _chance(_odds(name, values))


def _chance(odds: float) -> float:
    """The probability of log-odds."""
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, odds))))


def _odds(name: str, values: Sequence[float]) -> float:
    """Log-odds by a logistic model of ``judge.json``."""
    weights: NDArray[np.float64] = np.asarray(_coefficients()[name]["weights"])
    return float(weights[:-1] @ np.asarray(values, dtype=float) + weights[-1])
