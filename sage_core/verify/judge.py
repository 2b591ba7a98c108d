"""A judge that needs no LLM: do these passages support an answer?

Support is a logistic model of counts (which of the words, neighboring words, quantities and names of a claim
are in the passages) and of the logit of a small entailment model, within the bounds that rules set (another
number, a denial, names exchanged). ``sage-rag train-support`` makes its coefficients, ``judge.json``.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from sage_core.embedding.encoder import MINILM
from sage_core.embedding.pairs import PairEncoder
from sage_core.feedback.types import AnswerMark, Support
from sage_core.llm.abstentions import claims_nothing, opened, stated
from sage_core.llm.prompting import shows_passages
from sage_core.llm.reasoning import blanked_reasoning
from sage_core.text.keywords import stem_list
from sage_core.text.language import is_english, language_of, sample
from sage_core.text.lexicon import names
from sage_core.text.lines import is_delimiter_row
from sage_core.text.sentences import read_sentences
from sage_core.text.spans import Span, trim
from sage_core.text.tokens import without_lone_surrogates
from sage_core.verify.contradictions import find_contradiction, unanchored
from sage_core.verify.limits import QUOTED, misquoted, quoted_whole, unlike
from sage_core.verify.passages import ParsedPassages, Sentence, checked_passages, parse_passages
from sage_core.verify.quantities import quantities

CONTRADICTED = 0.1
"""Most probability of a contradicted claim: ``benchmarks/judge.py --veto`` says how often that is wrong."""
COEFFICIENTS = Path(__file__).with_name("judge.json")
"""Weights and threshold, made by ``sage-rag train-support``."""
MOST_LOGIT = 4.0
"""Bound of the entailment model's logit, so that it alone does not decide. By hand."""


_FITTED: dict[str, Any] = json.loads(COEFFICIENTS.read_text(encoding="utf-8"))
# Numbers here were chosen by hand; what ``sage-rag train-support`` fits is in ``judge.json``.
# Words of the sentences that a claim is read with, and of one of them; as in training.
_EVIDENCE_WORDS, _LONGEST_EVIDENCE = 75, 60
_EVIDENCE_SENTENCES = 4
_MOST_READ = 80  # Statements of an answer that the model reads, in some 2 s; others it cannot make supported.
_LONGEST_CLAIM = 120  # Words; a longer one is a text that was not parted, of which counts say little.
VERBATIM = 0.97  # Least probability of a claim that the passages hold word for word.
VERBATIM_REASON = "word for word in the passages"
_IN_ROW = 0.9  # Least of one that the row of a table that it names says.
ROW_REASON = "as its row of the table says"
_FALSE_QUOTATION = 0.05  # Most of one with a quotation that they do not hold.
_REPEATED = 0.25  # What a word still weighs once a chosen sentence holds it.
# Exponent and offset, in words, of the length that a sentence's weight is divided by: short ones win ties.
_LENGTH_POWER, _LENGTH_OFFSET = 0.3, 12
SUPPORTED_FROM: float = _FITTED["supported_from"]
"""From training data: of answers of one claim from it on that no rule bounds 85% are supported."""
_UNLIKE = SUPPORTED_FROM - 0.01  # Most of one that may say more than its evidence.
_TOLD = 3  # Content words; of fewer, as in "That's true!", nothing is missing. By hand.
_HARDLY = 0.25  # Most words of a claim that is not found if its number or name is not. By hand.
MAX_CLAIMS = 300
"""Claims of an answer that are judged, by hand: beyond it a model repeats itself. The rest is unsure."""
_PAGE = r"(?:,? (?:pp?|pages?)\b\.? ?[\w–-]{1,12})?"
CITATION = re.compile(
    rf"(?i)\s?(?:\[\[?(\d{{1,3}}(?:\s?[,;]\s?\d{{1,3}})*){_PAGE}\]\]?(?:\([^()\s]{{1,200}}\))?"
    rf"|【(\d{{1,3}})[^】\n]{{0,40}}】"
    rf"|[\[(](?:doc(?:ument)?|passage|source|ref(?:erence)?|chunk|node)s?[.:]? ?#?(\d{{1,3}}){_PAGE}[\])]"
    rf"|[\[(](?:see )?[^\[\]()\n]{{1,80}}\.(?:pdf|md|txt|docx?|html?|pptx?|xlsx?|csv){_PAGE}[\])])"
)
"""A citation as models write it: "[1, 3]", "[Doc 4, p. 7]", "[[1]](guide.pdf)", "(guide.pdf, page 12)"."""
_MEASURE = re.compile(r"(?i)\bhow \w+")  # "How long" asks for a number, and no passage says "long".
_LANGUAGE_CHARACTERS = 4_000  # Of an answer: they show its language.
_ANSWER_WORDS = 12  # Words from which on small words decide on the language. By hand.
_RESULT_CACHE_SIZE = 32  # Results for the last questions and answers: all rounds of a question.
_YES_OR_NO = re.compile(r"\s*(?i:yes|no)\W*")
_SHORT_ANSWER = 4  # Content words; an answer of fewer claims something only together with its question.
_OTHER_WORDS = 0.3  # Most of a sentence with words that they lack: it may say it otherwise. By hand.
_ENTAILMENT = MINILM.with_name("sage-entailment")


class Entailment(PairEncoder):
    """Reads a claim beside a text: a logit above 0 where the text supports it.

    English; see the model card in its folder.
    """

    def __init__(self, folder: Path = _ENTAILMENT) -> None:
        super().__init__(folder, "affirms")


class LocalJudge:
    """Says whether passages support an answer. English; no LLM.

    Deterministic; safe across threads. Models load on first use. Expected calibration error on held-out data:
    0.07 (claims of WiCE, ``benchmarks/judge.py``).

    Examples:
        >>> judge = LocalJudge(model=False)
        >>> passages = ["The bridge was opened in 1932. It carries eight lanes."]
        >>> claims = judge.claims("", "The bridge was opened in 1932. It carries trains.", passages)
        >>> [claim.probability > 0.5 for claim in claims]
        [True, False]

    Args:
        model: Whether to read with the bundled models. False: the judge counts words, numbers and names only.
    """

    name = "local judge"

    def __init__(self, *, model: bool | None = None) -> None:
        self._use_model = model

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self._use_model})"

    # An answer is graded and then shown with its marks: both read the same texts.
    @lru_cache(maxsize=_RESULT_CACHE_SIZE)  # noqa: B019 - a few judges may live longer
    def _grounded(self, answer: str, passages: tuple[str, ...]) -> tuple[AnswerMark, ...]:
        spans = split_claims(answer)
        claims = self.claims_at(answer, spans[:MAX_CLAIMS], passages)
        return (*claims, *unread_claims(answer, spans[MAX_CLAIMS:]))

    def claims_at(self, answer: str, spans: Sequence[Span], passages: tuple[str, ...]) -> list[AnswerMark]:
        """As `claims`, of these parts of an answer alone, without a question."""
        material = parse_passages(passages)
        if not material.readable or not is_english(answer[:_LANGUAGE_CHARACTERS], _ANSWER_WORDS):
            return unread_claims(answer, spans, material.lower)
        quoted = [range(*m.span()) for m in QUOTED.finditer(answer)]
        # The number of a passage is none of the claim's; spans stay true.
        plain = CITATION.sub(lambda m: " " * len(m[0]), answer)
        rows = [
            score_claim(s, s.of(plain).strip(), material, any(s.start in q for q in quoted)) for s in spans
        ]
        unread = [(row.claim.text, row.evidence) for row in rows if row is not None and row.logit is None]
        logits = self._entailed(unread[:_MOST_READ])
        claims: list[AnswerMark] = []
        for span, counts in zip(spans, rows, strict=True):
            if counts is None:
                claims += unread_claims(answer, [span])
                continue
            logit, most = counts.logit or 0.0, counts.most
            if logits and counts.logit is None:
                logit = logits.pop(0)
            elif logits is not None and counts.logit is None:
                most = min(most, _UNLIKE)
            *weights, share, intercept = _FITTED["support"]
            bounded = max(-MOST_LOGIT, min(MOST_LOGIT, logit))
            odds = float(np.dot(weights, counts.values) + share * bounded + intercept)
            probability = max(counts.least, min(most, chance(odds)))
            word = "supported" if probability >= SUPPORTED_FROM else counts.claim.support
            claims.append(replace(counts.claim, text=span.of(answer), support=word, probability=probability))
        return claims

    def _entailed(self, pairs: Sequence[tuple[str, str]]) -> list[float] | None:
        """The entailment model's logits of claims and their evidence; None without the model."""
        if self._use_model is False:
            return None
        return [float(logit) for logit in _entailment().logits(pairs)] if pairs else []

    def claims(self, question: str, answer: str, passages: Sequence[str]) -> list[AnswerMark]:
        """Each statement of an answer, and whether the passages support it.

        What claims nothing (an opening such as "Based on the passages,", a heading, "The documents do not
        say.") is left out. An answer of a few words, such as "1932", is read with its question.

        Returns:
            In the order of the answer; spans do not overlap. Those beyond the first `MAX_CLAIMS` are unsure.
        """
        answer, passages = without_lone_surrogates(blanked_reasoning(answer)), checked_passages(passages)
        if _YES_OR_NO.fullmatch(answer):
            return [AnswerMark(Span(0, len(answer)), answer, reason="unsure: a bare yes or no")]
        material = parse_passages(passages)
        claims = list(self._grounded(answer, passages))
        plain = CITATION.sub("", answer)
        words = stem_list(plain)
        if len(claims) != 1 or not question.strip() or len(words) >= _SHORT_ANSWER:
            return claims
        (claim,) = claims
        if claim.reason == VERBATIM_REASON or claim.instead:
            return claims
        # The passage that holds question and answer, not any that happens to hold the number.
        whole = self._grounded(with_question(question, plain), passages)
        best = max(whole, key=lambda c: (bool(c.instead), c.passage is not None, len(c.text)), default=claim)
        said = {w for w in stem_list(as_written(plain, material)) if not w[0].isdecimal()}
        absent = said - material.words
        if absent and best.support in ("supported", "unsure") and best.reason != ROW_REASON:
            held = None if best.probability is None else min(best.probability, _OTHER_WORDS)
            best = replace(best, support="unsure", probability=held)
        reason = f"read with the question: {best.reason}" if best.reason else ""
        return [replace(best, span=claim.span, text=claim.text, reason=reason)]


_entailment = lru_cache(maxsize=1)(Entailment)


@lru_cache(maxsize=1)
def shared_judge() -> LocalJudge:
    """One judge for the whole process: its models are loaded once."""
    return LocalJudge()


# -- the statements of an answer -----------------------------------------------------------------------------


def split_claims(answer: str) -> list[Span]:
    """Spans of the claims in an answer: its sentences, without what opens them."""
    result: list[Span] = []
    if shows_passages(answer):  # It claims nothing.
        return []
    answer = stated(answer)
    spans, _, kinds = read_sentences(answer)
    heads = [i for i in range(len(spans) - 1) if is_delimiter_row(spans[i + 1].of(answer))]
    for i, (span, kind) in enumerate(zip(spans, kinds, strict=True)):
        start = span.start
        marker = re.match(r"(?:[-*+•]|\(?\d{1,3}[.)])\s+", span.of(answer))
        start += marker.end() if marker else 0
        start = opened(answer, start, span.end)
        text = answer[start : span.end]
        # An answer that is nothing but a fence is one.
        if kind == "heading" or (kind == "code" and {*kinds} != {"code"}) or i in heads:
            continue
        if not stem_list(CITATION.sub("", text)):
            continue
        if claims_nothing(text):
            continue
        result.append(trim(answer, Span(start, span.end)))
    return result


def with_question(question: str, answer: str) -> str:
    """A short answer as a claim: behind what its question is about, without what opens it."""
    answer, about = answer.strip(), _MEASURE.sub("", question.strip().rstrip("?"))
    answer = answer[opened(answer, 0, len(answer)) :]
    return f"{about}: {answer[:1].lower()}{answer[1:]}"  # Its first letter shows no name.


# -- one statement ------------------------------------------------------------------------------------------


def unread_claims(answer: str, spans: Sequence[Span], passages: str = "") -> list[AnswerMark]:
    """Claims that the judge does not know anything of; a short one may be of the passages' language."""
    read = (language_of(sample(text)) or "this language" for text in (answer, passages) if text and spans)
    language = next((name for name in read if name != "English"), "")
    told = f"not measured in {language}" if language else "not English, or too long to read"
    return [AnswerMark(span, span.of(answer), reason=f"unsure: {told}") for span in spans]


@dataclass(frozen=True, slots=True)
class ClaimScores:
    """A claim as counts and rules see it.

    Attributes:
        claim: Without its probability.
        values: Of `support_features`.
        least: The least probability that rules allow.
        most: The most.
        evidence: What the entailment model reads beside it.
        logit: Of that model, where it need not read.
    """

    claim: AnswerMark
    values: list[float]
    least: float
    most: float
    evidence: str
    logit: float | None


def score_claim(span: Span, text: str, material: ParsedPassages, quoted: bool = False) -> ClaimScores | None:
    """A claim by counts and rules, ``quoted`` between quotation marks; None if it is too long or empty."""
    written = as_written(text, material)
    if len(text.split()) > _LONGEST_CLAIM or not (own := stem_list(written)):
        return None
    values = support_features(text, own, material)
    sentences = find_evidence(own, material)
    place = sentences[0] if sentences else None
    # The first rule that holds bounds the probability and gives the reason.
    hardly = len({*own}) >= _TOLD and (values[0] == 0 or (values[0] <= _HARDLY and values[3] + values[4] > 0))
    word: Support = "not found" if hardly else "unsure"
    reason, least, most, instead = _why(values), 0.0, 1.0, ""
    logit = 0.0 if hardly or not sentences else None  # What the model cannot change it need not read.
    if misquoted(text, material):
        reason, most, logit = "a quotation is not in the passages", _FALSE_QUOTATION, 0.0
    elif quoted_whole(text, material, marked=quoted):
        reason, least, logit = VERBATIM_REASON, VERBATIM, MOST_LOGIT
    else:
        other, in_row = find_contradiction(text, material)
        near = [s for s in sentences if 3 * len(s.words & {*own}) >= len({*own})] or sentences[:1]
        if other is not None:
            reason, most, word, logit = other.reason(), CONTRADICTED, "contradicted", 0.0
            instead, place = other.instead, other.sentence
        elif in_row is not None:
            reason, least, place = ROW_REASON, _IN_ROW, in_row
        elif why := unlike(text, own, near, material) or unanchored(text, near):
            reason, most = f"{reason}; {why}", _UNLIKE
    claim = AnswerMark(span, written, word, reason=reason, instead=instead)
    if place is not None:
        there = place.span.of(material.passages[place.passage])
        claim = replace(
            claim, passage=place.passage, evidence=place.span, heading=place.heading, sentence=there
        )
    return ClaimScores(claim, values, least, most, evidence_text(own, sentences), logit)


def as_written(text: str, material: ParsedPassages) -> str:
    """A claim, its numbers and dates in the words that the passages have for them."""
    for own in reversed(quantities(text)):
        held = (shown for q, shown in material.numbers if own.agrees(q) and q.dimension == own.dimension)
        same = next(held, "")
        if same and same.lower() != own.span.of(text).lower():
            text = f"{text[: own.span.start]} {same} {text[own.span.end :]}"
    return text


def evidence_text(own: Sequence[str], sentences: Sequence[Sentence]) -> str:
    """Sentences as the entailment model reads them beside a claim with these words: in the passages' order.

    Of a long one, the part with most of the claim's words.
    """
    ordered = sorted(sentences, key=lambda s: (s.passage, s.span.start))
    return " ".join(_densest(s.text.split(), set(own)) for s in ordered)


def _densest(words: Sequence[str], own: set[str], longest: int = _LONGEST_EVIDENCE) -> str:
    """At most so many words in a row, with most of a claim's among them."""
    if len(words) <= longest:
        return " ".join(words)
    # before[i]: words of the claim among the first i, so that a window's count is one subtraction.
    before = [0, *itertools.accumulate(not own.isdisjoint(stem_list(word)) for word in words)]
    start = max(range(len(words) - longest + 1), key=lambda i: (before[i + longest] - before[i], -i))
    return " ".join(words[start : start + longest])


def support_features(text: str, own: Sequence[str], material: ParsedPassages) -> list[float]:
    """The counts of a claim, as the command that fits their coefficients reads them.

    Args:
        text: The claim.
        own: Its content words in order, stemmed; at least one.
        material: The passages.
    """
    sentences = material.sentences
    words = set(own)
    near = 0  # Most words of the claim in three sentences in a row.
    for i, sentence in enumerate(sentences):
        if not (held := words & sentence.words):
            continue  # The next three hold as many.
        for other in sentences[i + 1 : i + 3]:
            held |= words & other.words if other.passage == sentence.passage else set()
        near = max(near, len(held))
    pairs = set(itertools.pairwise(own))
    named = {name.lower() for name in names(text)}
    share = len(words & material.words) / len(words)
    claimed = quantities(text)
    absent = sum(not any(own.agrees(q) for q, _ in material.numbers) for own in claimed)
    return [
        share,
        near / len(words),
        len(pairs & material.pairs) / len(pairs) if pairs else share,
        absent / max(1, len(claimed)) if any(c.isdecimal() for c in text) else 0.0,
        sum(n.removesuffix("s") not in material.lower for n in named) / max(1, len(named)),
        min(math.log(len(words)), 3.5),  # 33 words: longer claims are as uncertain as these
    ]


def _why(values: Sequence[float]) -> str:
    """The counts in words."""
    said = [f"{values[0]:.0%} of its words are in the passages, {values[1]:.0%} close together"]
    if values[3]:
        said.append("a number is not")
    if values[4]:
        said.append("a name is not")
    return ", ".join(said)


def find_evidence(own: Sequence[str], material: ParsedPassages) -> list[Sentence]:
    """The sentences that together hold most of a claim's words, the best first."""
    weights = {word: material.weights.get(word, 0.0) for word in own}  # what is still to be found
    rest = [
        # A short sentence wins over a long one that holds as much.
        (s, [w for w in weights if w in s.words], (_LENGTH_OFFSET + len(s.stems)) ** _LENGTH_POWER)
        for s in material.sentences
        if not s.words.isdisjoint(weights)
    ]
    chosen: list[Sentence] = []
    size = 0
    while rest and len(chosen) < _EVIDENCE_SENTENCES:
        gains = [sum(map(weights.__getitem__, held)) / length for _, held, length in rest]
        best = gains.index(max(gains))
        sentence, held, _ = rest.pop(best)
        words = min(len(sentence.text.split()), _LONGEST_EVIDENCE)
        if gains[best] <= 0 or (chosen and size + words > _EVIDENCE_WORDS):
            break
        chosen.append(sentence)
        size += words
        for word in held:
            # Said again elsewhere counts a little: the best sentence may not be the one that is meant.
            weights[word] *= _REPEATED
    return chosen


def chance(odds: float) -> float:
    """The probability of log-odds."""
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, odds))))  # beyond 30 `exp` may overflow
