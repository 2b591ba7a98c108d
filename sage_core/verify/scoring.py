"""How far passages support a claim: counts and rules, and what the entailment model reads beside it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sage_core.feedback.types import AnswerMark, Support
from sage_core.text.keywords import stem_list
from sage_core.text.lexicon import names
from sage_core.text.spans import Span
from sage_core.verify.claims import CONTRADICTED, MOST_LOGIT, QUOTED, coefficients
from sage_core.verify.contradictions import find_contradiction, unanchored
from sage_core.verify.limits import quoted_whole, unlike
from sage_core.verify.passages import ParsedPassages, Sentence, exact_tokens, exact_words
from sage_core.verify.quantities import missing, quantities

# Numbers here were chosen by hand; what ``sage-rag train-support`` fits is in ``judge.json``.
# Words of the sentences that a claim is read with, and of one of them; as in training.
_EVIDENCE_WORDS, _LONGEST_EVIDENCE = 75, 60
_EVIDENCE_SENTENCES = 4
_LONGEST_CLAIM = 120  # Words; a longer one is a text that was not parted, of which counts say little.
_QUOTE_WORDS = 3  # Fewer between quotation marks are a title or a word spoken of.
VERBATIM = 0.97  # Least probability of a claim that the passages hold word for word.
VERBATIM_REASON = "word for word in the passages"
_IN_ROW = 0.9  # Least of one that the row of a table that it names says.
ROW_REASON = "as its row of the table says"
_FALSE_QUOTATION = 0.05  # Most of one with a quotation that they do not hold.
_REPEATED = 0.25  # What a word still weighs once a chosen sentence holds it.
# Exponent and offset, in words, of the length that a sentence's weight is divided by: short ones win ties.
_LENGTH_POWER, _LENGTH_OFFSET = 0.3, 12
SUPPORTED_FROM: float = coefficients()["supported_from"]
"""From training data: of answers of one claim from it on that no rule bounds 85% are supported."""
_UNLIKE = SUPPORTED_FROM - 0.01  # Most of one that may say more than its evidence.
_HARDLY = 0.25  # Most words of a claim that is not found if its number or name is not. By hand.


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
    sentences = find_evidence(own, material)
    near = [s for s in sentences if 3 * len(s.words & {*own}) >= len({*own})] or sentences[:1]
    place: tuple[int | None, Span | None] = (
        (sentences[0].passage, sentences[0].span) if sentences else (None, None)
    )
    other, in_row = find_contradiction(text, material)
    verbatim = quoted_whole(text, material, marked=quoted) and not _false_quotation(text, material)
    values = support_features(text, own, material)
    # The first rule that holds bounds the probability and gives the reason.
    hardly = values[0] == 0 or (values[0] <= _HARDLY and values[3] + values[4] > 0)
    word: Support = "not found" if hardly else "unsure"
    reason, least, most, instead = _why(values), 0.0, 1.0, ""
    if verbatim:
        reason, least = VERBATIM_REASON, VERBATIM
    elif _false_quotation(text, material):
        reason, most, word = "a quotation is not in the passages", _FALSE_QUOTATION, "not found"
    elif other is not None:
        reason, most, instead, word = other.reason(material), CONTRADICTED, other.instead, "contradicted"
        place = (other.sentence.passage, other.sentence.span)
    elif in_row is not None:
        reason, least, place = ROW_REASON, _IN_ROW, (in_row.passage, in_row.span)
    elif why := unlike(text, own, near, material) or unanchored(text, near):
        reason, most = f"{reason}; {why}", _UNLIKE
    claim = AnswerMark(span, written, word, None, *place, reason, instead)
    # What the model cannot change it need not read: 10 ms a claim.
    unread = other is not None or word == "not found" or not sentences
    logit = MOST_LOGIT if verbatim else 0.0 if unread else None
    return ClaimScores(claim, values, least, most, evidence_text(own, sentences), logit)


def as_written(text: str, material: ParsedPassages) -> str:
    """A claim, its numbers and dates in the words that the passages have for them."""
    held = [(q, s.text) for s in material.sentences for q in quantities(s.text)]
    for own in reversed(quantities(text)):
        same = next((q.span.of(t) for q, t in held if own.agrees(q) and q.dimension == own.dimension), "")
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
        held = words & sentence.words
        for other in sentences[i + 1 : i + 3]:
            held |= words & other.words if other.passage == sentence.passage else set()
        near = max(near, len(held))
    pairs = set(itertools.pairwise(own))
    named = {name.lower() for name in names(text)}
    share = len(words & material.words) / len(words)
    claimed = quantities(text)
    absent = missing(claimed, (q for s in sentences for q in quantities(s.text))) / max(1, len(claimed))
    return [
        share,
        near / len(words),
        len(pairs & material.pairs) / len(pairs) if pairs else share,
        absent if any(c.isdecimal() for c in text) else 0.0,
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


def _false_quotation(text: str, material: ParsedPassages) -> bool:
    """Whether a claim quotes what the passages do not hold."""
    texts = [*material.passages, *(s.text for s in material.sentences if s.cells)]
    return any(
        len(q.split()) >= _QUOTE_WORDS and not any(f" {q} " in exact_tokens(t)[0] for t in texts)
        for q in map(exact_words, QUOTED.findall(text))
    )


def find_evidence(own: Sequence[str], material: ParsedPassages) -> list[Sentence]:
    """The sentences that together hold most of a claim's words, the best first."""
    weights = {word: material.weights.get(word, 0.0) for word in own}  # what is still to be found
    chosen: list[Sentence] = []
    size = 0
    rest = [s for s in material.sentences if not s.words.isdisjoint(weights)]
    while rest and len(chosen) < _EVIDENCE_SENTENCES:
        gain = [sum(weight for w, weight in weights.items() if w in s.words) for s in rest]
        # A short sentence wins over a long one that holds as much.
        size_of = [(_LENGTH_OFFSET + len(s.stems)) ** _LENGTH_POWER for s in rest]
        best = max(range(len(rest)), key=lambda i: (gain[i] / size_of[i], -i))
        words = min(len(rest[best].text.split()), _LONGEST_EVIDENCE)
        if gain[best] <= 0 or (chosen and size + words > _EVIDENCE_WORDS):
            break
        sentence = rest.pop(best)
        chosen.append(sentence)
        size += words
        for word in sentence.words:
            if word in weights:
                # Said again elsewhere counts a little: the best sentence may not be the one that is meant.
                weights[word] *= _REPEATED
    return chosen
