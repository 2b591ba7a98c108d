"""An answerer without an LLM: it quotes the sentences that share the question's words, and says so.

It exists so that the whole loop runs offline and can be looked at. Its grade is a count of words, labelled as
a heuristic; it does not understand anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sage_core.answering.prompts import NO_ANSWER, says_no_answer
from sage_core.errors import InputError
from sage_core.feedback.types import Verdict
from sage_core.fencing import option_letter
from sage_core.sentences import split_sentences
from sage_core.usage import NO_USAGE, TokenUsage

# Stands for "a number" among the words of a question that asks for one.
NUMBER = "<number>"
_ASKS_NUMBER = re.compile(
    r"\b(?:when|how (?:many|much|long|old|far|tall|high|deep|often|fast)|what (?:year|date|time))\b"
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_STOP = frozenset(
    _listed(
        "a about after all also am an and any are as at be been before being between both but by can "
        "could did do does doing done each for from get give given had has have having he her here hers "
        "him his how i if in into is it its itself just kind many may me might more most much must my no "
        "nor not of off on once one only or other our out over own s same say says shall she should so "
        "some such t tell than that the their them then there these they this those through to too type "
        "under until up us use used very was we were what when where which while who whom whose why will "
        "with would you your"
    )
)
_ENDINGS = _listed("ations ation ingly edly ings ing ies ied ers er es ed ly s e y")


class _DocumentEmbedder(Protocol):
    """The part of `sage_core.embedding.Embedder` used here."""

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]: ...

    def embed_query(self, text: str) -> NDArray[np.float32]: ...


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str
    words: frozenset[str]


class ExtractiveAnswerer:
    """Quotes the best-matching sentences of the passages; no LLM, deterministic.

    A sentence's match is the share of the question's content words it holds, each weighted by how rare it
    is among the passages' sentences (a question for a date or an amount also wants a number). With an
    embedder the mean of that and the cosine to the question decides which sentences are quoted.

    Args:
        embedder: Optional; a `sage_core.embedding.Embedder`.
        min_match: Least weighted share of the question's words that the quoted sentences must hold together.
        max_sentences: Most sentences to quote.

    Raises:
        InputError: Where a value is out of its range.
    """

    label = "extractive, no LLM"

    def __init__(
        self, embedder: _DocumentEmbedder | None = None, *, min_match: float = 0.5, max_sentences: int = 2
    ) -> None:
        if not 0 < min_match <= 1:
            raise InputError(f"min_match must be above 0 and at most 1, not {min_match!r}")
        if max_sentences < 1:
            raise InputError(f"max_sentences must be at least 1, not {max_sentences!r}")
        self.embedder = embedder
        self.min_match = min_match
        self.max_sentences = max_sentences

    def generate(
        self, question: str, context: Sequence[str], *, options: Sequence[str] | None = None
    ) -> tuple[str, TokenUsage]:
        """The quoted sentences, or that the documents do not seem to hold the answer; no LLM call."""
        sentences = _sentences(context)
        if options:
            return self._choose(question, sentences, options), NO_USAGE
        weights = _weights(question_words(question), sentences)
        picked = self._pick(question, sentences, weights)
        if not picked or _share(weights, _union(picked)) < self.min_match:
            return NO_ANSWER, NO_USAGE
        quotes = " ".join(f"“{s.text}”" for s in picked)
        return f"The documents say: {quotes}", NO_USAGE

    def judge(
        self, question: str, context: Sequence[str], answer: str, *, options: Sequence[str] | None = None
    ) -> tuple[Verdict, TokenUsage]:
        """A grade by word count: 1 plus 9 times the weighted share of the question's words in the answer.

        More context is asked for where the answer is "the documents do not say", or where words of the
        question stand nowhere in the passages.
        """
        sentences = _sentences(context)
        weights = _weights(question_words(question), sentences)
        if says_no_answer(answer) or not weights:
            return Verdict(1, 1, source="heuristic", reason="nothing in the passages matches"), NO_USAGE
        share = _share(weights, _stems(answer))
        score = 1 + round(9 * share)
        absent = sorted(set(weights) - _union(sentences))
        reason = f"the quoted text holds {share:.0%} of the question's words, weighted by rarity"
        if absent:
            reason += f"; nowhere in the passages: {', '.join(absent)}"
        return Verdict(score, 1 if absent else 0, source="heuristic", reason=reason), NO_USAGE

    async def agenerate(
        self, question: str, context: Sequence[str], *, options: Sequence[str] | None = None
    ) -> tuple[str, TokenUsage]:
        """`generate` as a coroutine."""
        return self.generate(question, context, options=options)

    async def ajudge(
        self, question: str, context: Sequence[str], answer: str, *, options: Sequence[str] | None = None
    ) -> tuple[Verdict, TokenUsage]:
        """`judge` as a coroutine."""
        return self.judge(question, context, answer, options=options)

    def _pick(
        self, question: str, sentences: Sequence[_Sentence], weights: Mapping[str, float]
    ) -> list[_Sentence]:
        """The best sentence, then those that add most of what is still missing; in reading order."""
        closeness = self._closeness(question, sentences)
        chosen: list[int] = []
        held: set[str] = set()
        while len(chosen) < self.max_sentences:
            gains = [_share(weights, s.words - held) for s in sentences]
            best = max(
                (i for i in range(len(sentences)) if i not in chosen and gains[i] > 0),
                key=lambda i: (gains[i] + closeness[i], -i),
                default=None,
            )
            # A further sentence must bring something of weight, or it only blurs the quotation.
            if best is None or (chosen and gains[best] < 0.15):
                break
            chosen.append(best)
            held |= sentences[best].words
        return [sentences[i] for i in sorted(chosen)]

    def _closeness(self, question: str, sentences: Sequence[_Sentence]) -> list[float]:
        """Cosine of each sentence to the question; 0 for all without an embedder."""
        if self.embedder is None or not sentences:
            return [0.0] * len(sentences)
        rows = self.embedder.embed_documents([s.text for s in sentences])
        return [float(v) for v in rows @ self.embedder.embed_query(question)]

    def _choose(self, question: str, sentences: Sequence[_Sentence], options: Sequence[str]) -> str:
        """The option whose words stand together with the question's in one sentence; the first on a tie."""
        asked = question_words(question)
        best, best_match, quote = -1, 0.0, ""
        for position, option in enumerate(options):
            own = _weights(question_words(option) - asked, sentences)
            shared = _weights(asked, sentences)
            for sentence in sentences:
                found = _share(own, sentence.words)
                match = found * (1 + _share(shared, sentence.words))
                if match > best_match + 1e-12:
                    best, best_match, quote = position, match, sentence.text
        if best < 0 or best_match < self.min_match:
            return NO_ANSWER
        return f"{option_letter(best)}. {options[best]} (the documents say: “{quote}”)"


def question_words(question: str) -> frozenset[str]:
    """Content words of a question, stemmed; `NUMBER` among them where it asks for a date or an amount."""
    wants = {NUMBER} if _ASKS_NUMBER.search(question.lower()) else set()
    return frozenset((_stems(question) - {NUMBER}) | wants)


def _stems(text: str) -> frozenset[str]:
    """Content words of a text, lower-cased and stemmed; `NUMBER` where it has a digit."""
    words = {_stem(w) for w in _WORD.findall(text.lower()) if w not in _STOP}
    if any(any(c.isdigit() for c in w) for w in words):
        words.add(NUMBER)
    return frozenset(words)


def _stem(word: str) -> str:
    """The word without common English endings, so that "built" stays and "bridges" meets "bridge"."""
    word = re.sub(r"['’]s?$", "", word)
    for ending in (
        "ations",
        "ation",
        "ingly",
        "edly",
        "ings",
        "ing",
        "ies",
        "ied",
        "ers",
        "er",
        "es",
        "ed",
        "ly",
        "s",
        "e",
        "y",
    ):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


def _sentences(context: Sequence[str]) -> list[_Sentence]:
    """The passages' sentences, each text once, in order."""
    seen: dict[str, _Sentence] = {}
    for passage in context:
        for span in split_sentences(passage):
            text = " ".join(span.of(passage).split())
            if text and text not in seen:
                seen[text] = _Sentence(text, _stems(text))
    return list(seen.values())


def _weights(words: frozenset[str], sentences: Sequence[_Sentence]) -> dict[str, float]:
    """Rarity of each word among the sentences: ``log(1 + n / (1 + df))``, sorted for determinism."""
    n = max(len(sentences), 1)
    return {w: math.log1p(n / (1 + sum(w in s.words for s in sentences))) for w in sorted(words)}


def _share(weights: Mapping[str, float], words: frozenset[str] | set[str]) -> float:
    """Weighted share of the weighted words found; 0 where there are none."""
    total = sum(weights.values())
    return sum(v for w, v in weights.items() if w in words) / total if total else 0.0


def _union(sentences: Sequence[_Sentence]) -> frozenset[str]:
    return frozenset().union(*(s.words for s in sentences))
