"""An answerer without an LLM: the passages as a search shows them, the best sentence of each marked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from sage_app.answers.answerers import Capabilities
from sage_core._checks import checked_options
from sage_core.feedback.types import Verdict
from sage_core.llm.prompting import is_abstention, phrases_for, shows_passages
from sage_core.llm.usage import NO_USAGE, TokenUsage
from sage_core.text.keywords import content_words
from sage_core.text.lexicon import stem
from sage_core.text.sentences import read_sentences
from sage_core.verify.passages import idf_weights

_SHOWN_PASSAGES = 3
_FILE_MARKS = re.compile(r"(?m)^[ \t]*(?:>[> ]*|#{1,6} |\|?(?:[ \t]*:?-{3,}:?[ \t]*\|)+[ \t-]*$)|`+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its content words; ``heading``: also a row of a table."""

    text: str
    words: frozenset[str]
    heading: bool = False


def plain_text(text: str) -> str:
    """A text on one line, without marks of quoted mail, headings, code, tables' rulers and bold words."""
    return " ".join(_FILE_MARKS.sub("", text).replace("**", "").split())


def sentences_of(context: Sequence[str]) -> list[Sentence]:
    """The passages' sentences, each text once, in order."""
    seen: dict[str, Sentence] = {}
    for passage in context:
        spans, _, kinds = read_sentences(passage)
        for span, kind in zip(spans, kinds, strict=True):
            text = " ".join(span.of(passage).split())
            if text and text not in seen:
                seen[text] = Sentence(text, stems(text), kind in ("heading", "table"))
    return list(seen.values())


def weights_among(words: frozenset[str], sentences: Sequence[Sentence]) -> dict[str, float]:
    """Rarity of each word among the sentences, sorted for determinism."""
    counts = {w: sum(w in s.words for s in sentences) for w in sorted(words)}
    return idf_weights(counts, max(len(sentences), 1))


def share(weights: Mapping[str, float], words: Set[str]) -> float:
    """Weighted share of the weighted words found; 0 where there are none."""
    total = sum(weights.values())
    return sum(v for w, v in weights.items() if w in words) / total if total else 0.0


def all_words(sentences: Iterable[Sentence]) -> frozenset[str]:
    """Every content word of the sentences."""
    return frozenset().union(*(s.words for s in sentences))


class ExtractiveAnswerer:
    """Shows the three best passages, the sentence of each that comes closest to an answer in bold; no LLM.

    It says nothing of its own, so it never says that the documents do not hold the answer: whoever reads sees
    that. The sentence shares most of the question's words, by their rarity. The grade is the share of the
    question's words that is shown.

    Examples:
        >>> context = ["Seals sleep. The ferry leaves at seven."]
        >>> print(ExtractiveAnswerer().generate("When does the ferry leave?", context)[0])
        Closest to an answer:
        <BLANKLINE>
        1. Seals sleep. **The ferry leaves at seven.**
    """

    label = "extractive, no LLM"

    # It reads passages as they stand, so that what it shows is in them.
    capabilities = Capabilities(headings=False, places=True, relevance=True, grades_abstentions=True)

    def generate(
        self,
        question: str,
        context: Sequence[str],
        *,
        options: Sequence[str] | None = None,
        places: Sequence[str] | None = None,
        relevance: Sequence[float] | None = None,
    ) -> tuple[str, TokenUsage]:
        """The passages; no LLM call.

        Args:
            question: The question.
            context: Texts of the passages, best first.
            options: Of a multiple-choice question; whoever reads chooses.
            places: Where each passage is from, see `sage_app.pipeline.results.Retrieval.places`.
            relevance: How likely each passage bears on the question, by the ranking; None if unknown.
        """
        checked_options(options)
        sentences = sentences_of(context)
        if not any(text.strip() for text in context):
            return phrases_for(question).no_answer, NO_USAGE
        weights = weights_among(stems(question), sentences)
        order = list(range(len(context)))
        if relevance is not None:
            order.sort(key=lambda i: -relevance[i])
        shown = [f"{phrases_for(question).closest}:"]
        for i in order[:_SHOWN_PASSAGES]:
            place = f"({places[i]}) " if places else ""
            text, sentence = plain_text(context[i]), plain_text(_closest(context[i], weights))
            marked = text.replace(sentence, f"**{sentence}**", 1) if sentence else text
            shown.append(f"{len(shown)}. {place}{marked}")
        return "\n\n".join(shown), NO_USAGE

    def judge(
        self,
        question: str,
        context: Sequence[str],
        answer: str,
        *,
        options: Sequence[str] | None = None,
        places: Sequence[str] | None = None,
    ) -> tuple[Verdict, TokenUsage]:
        """1 plus 9 times the weighted share of the question's words in the answer.

        Asks for more context if a word of the question is in no passage, unless the answer is the passages:
        they would only be shown again.
        """
        sentences, again = sentences_of(context), int(not shows_passages(answer))
        weights = weights_among(stems(question), sentences)
        if is_abstention(answer) or not weights:
            reason = "nothing in the passages matches"
            return Verdict(1, again, source="heuristic", reason=reason), NO_USAGE
        held = share(weights, stems(answer))
        absent = sorted(set(weights) - all_words(sentences))
        reason = f"the quoted text holds {held:.0%} of the question's words, weighted by rarity"
        if absent:
            reason += f"; nowhere in the passages: {', '.join(absent)}"
        return Verdict(
            1 + round(9 * held), int(bool(absent)) * again, source="heuristic", reason=reason
        ), NO_USAGE

    async def agenerate(self, question: str, context: Sequence[str], **asked: Any) -> tuple[str, TokenUsage]:
        """`generate` in a thread, for it computes."""
        return await asyncio.to_thread(self.generate, question, context, **asked)

    async def ajudge(
        self, question: str, context: Sequence[str], answer: str, **asked: Any
    ) -> tuple[Verdict, TokenUsage]:
        """`judge` in a thread, for it computes."""
        return await asyncio.to_thread(self.judge, question, context, answer, **asked)


def _closest(passage: str, weights: Mapping[str, float]) -> str:
    """The sentence of a passage that shares most of the question; empty if none shares a word."""
    sentences = (s for s in sentences_of([passage]) if not s.heading)
    best = max(sentences, key=lambda s: share(weights, s.words), default=None)
    return best.text if best is not None and share(weights, best.words) else ""


def stems(text: str) -> frozenset[str]:
    """Content words of a text, stemmed."""
    return frozenset(map(stem, content_words(text)))
