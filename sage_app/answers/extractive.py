"""An answerer without an LLM: it quotes the sentence that most likely answers, and says so.

It exists so that the whole loop runs offline and can be looked at. Where the local judge cannot be had, it
quotes the sentences that share the question's words, and its grade is a count of words, labeled so.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sage_app.answers.answerers import Capabilities
from sage_app.answers.forms import answer_by_rule, asks_yes_or_no, list_below
from sage_core._checks import check_float, check_int, check_part, checked_options
from sage_core.errors import InputError
from sage_core.feedback.types import Verdict
from sage_core.llm.prompting import PHRASES, is_abstention, is_unsure, option_letter, phrases_for
from sage_core.llm.usage import NO_USAGE, TokenUsage
from sage_core.selection.rules import DOUBTED_BELOW
from sage_core.text.language import language_of
from sage_core.text.sentences import read_sentences
from sage_core.verify.answerability import AnswerLocation
from sage_core.verify.coefficients import threshold
from sage_core.verify.judge import LocalJudge, shared_judge
from sage_core.verify.local_check import LocalCritic
from sage_core.verify.passages import idf_weights
from sage_core.verify.words import NUMBER, question_words, says_something, stems

# Weighted share of an option's words that a sentence must hold, raised where it holds the question's too.
_LEAST_OPTION = 0.6
MIN_PROBABILITY = threshold("min_probability")
ABSENT_BELOW = threshold("absent_below")
_SURE = threshold("accept_at")  # Below, the sentences beside are quoted too: one of them may answer.
_HALF = 0.5  # Of a question's words, by rarity: a sentence with them may answer, whatever the judge says.
_SAYS = "|".join(re.escape(phrases.says) for phrases in PHRASES.values())
_LEAD = re.compile(rf"(?:{_SAYS}|The documents suggest (?:yes|no):) ")

_TIME = re.compile(
    r"(?i)\b(?:spring|summer|autumn|winter|morning|noon|afternoon|evening|night|midnight|dawn|dusk|daily|every|"
    r"after|before|until|during|while|when|once|always|never)\b"
)
_FILE_MARKS = re.compile(r"(?m)^[ \t]*(?:>[> ]*|#{1,6} |\|?(?:[ \t]*:?-{3,}:?[ \t]*\|)+[ \t-]*$)|`+")
_SHOWN_PASSAGES = 3
_MARKS = re.compile(r"^(?:[-*+•]|\(?\d{1,3}[.)])\s|\||\]\s*[\[(]")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its content words; ``heading``: also a row of a table or bare words."""

    text: str
    words: frozenset[str]
    heading: bool = False


def plain_text(text: str) -> str:
    """A text on one line, without marks of quoted mail, headings, code and tables' rulers; ``**`` stays."""
    return " ".join(_FILE_MARKS.sub("", text).split())


def _has_number(question: str, text: str) -> bool:
    """Whether a text has a number or a date where the question asks for one; any time where it asks when."""
    if NUMBER not in question_words(question) or NUMBER in stems(text):
        return True
    return re.search(r"(?i)\bwhen\b", question) is not None and _TIME.search(text) is not None


def sentences_of(context: Sequence[str]) -> list[Sentence]:
    """The passages' sentences, each text once, in order."""
    seen: dict[str, Sentence] = {}
    for passage in context:
        spans, _, kinds = read_sentences(passage)
        for span, kind in zip(spans, kinds, strict=True):
            text = " ".join(span.of(passage).split())
            heading = kind in ("heading", "table") or (
                (kind == "item" or _MARKS.search(text) is not None) and not says_something(text)
            )
            if text and text not in seen:
                seen[text] = Sentence(text, stems(text), heading)
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


class _DocumentEmbedder(Protocol):
    """The part of `sage_core.embedding.Embedder` used here."""

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]: ...

    def embed_query(self, text: str) -> NDArray[np.float32]: ...


class ExtractiveAnswerer:
    """Quotes the sentence of the passages that most likely answers; no LLM, deterministic.

    A `LocalJudge` chooses the sentence. The likeliest words of the answer stand between asterisks
    (``**seven**``). Below ``accept_at`` of ``judge.json`` the sentences beside it are quoted too. Where the
    probability is below ``min_probability``, or the sentence lacks the number that is asked for, the answer
    is "I am not sure." and what a search shows: the three passages likeliest by judge and ranking, each
    with its place and its likeliest sentence between asterisks. The documents are said not to hold the
    answer where its probability is below ``absent_below``, no sentence holds half of the question's words
    and the ranking doubts all passages (`benchmarks/judge.py` says how often falsely). The grade is that
    probability.

    Without a judge, where torch is not installed, and of texts that are not English, words are counted: a
    sentence's match is the share of the question's content words it holds, each weighted by how rare it
    is among the passages' sentences (a question for a date or an amount also wants a number). With an
    embedder the mean of that and the cosine to the question decides which sentences are quoted. Headings are
    never quoted.

    Of 800 development questions, asked of their paragraph and two others of its article, counting words
    quoted the answer to 69%; asked of three others alone, it abstained on 77%. Seed 3.

    Examples:
        >>> context = ["The ferry leaves at seven."]
        >>> text, usage = ExtractiveAnswerer(judge=False).generate("When does the ferry leave?", context)
        >>> "leaves at seven" in text, usage.calls
        (True, 0)

    Args:
        embedder: Optional; a `sage_core.embedding.Embedder`. Not used with a judge.
        min_match: Least weighted share of the question's words that one of the quoted sentences must hold.
        min_together: What also suffices where all of them hold it together, and one alone less.
        max_sentences: Most sentences to quote.
        judge: A `LocalJudge`; None for the one that all answerers of the process share, where its model can
            be had. False counts words.
        min_probability: With a judge: least probability that the passages hold the answer. At the default
            54% of 300 answerable questions of ClapNQ are answered, and 81% of 300 others, with a passage of
            the right article, on which it abstains.

    Raises:
        InputError: Where a value is out of its range.
    """

    label = "extractive, no LLM"

    # It reads passages as they stand, so that what it quotes is in them, and knows its own abstentions.
    capabilities = Capabilities(headings=False, places=True, relevance=True, grades_abstentions=True)

    def __init__(
        self,
        embedder: _DocumentEmbedder | None = None,
        *,
        min_match: float = 0.5,
        min_together: float = 0.7,
        max_sentences: int = 2,
        judge: LocalJudge | Literal[False] | None = None,
        min_probability: float = MIN_PROBABILITY,
    ) -> None:
        check_part("embedder", embedder, ("embed_query", "embed_documents"), "MiniLMEmbedder()")
        if not check_float("min_match", min_match, minimum=0, maximum=1) or not check_float(
            "min_together", min_together, minimum=0, maximum=1
        ):
            raise InputError("min_match and min_together must be above 0")
        check_int("max_sentences", max_sentences, minimum=1)
        if judge is not False:
            check_part("judge", judge, ("locate", "grounding"), "LocalJudge()")
        self._judge = judge
        self.min_probability = check_float("min_probability", min_probability, minimum=0, maximum=1)
        self.embedder = embedder
        self.min_match = min_match
        self.min_together = max(min_match, min_together)
        self.max_sentences = max_sentences

    @property
    def local_judge(self) -> LocalJudge | None:
        """The judge that chooses and grades; None if words are counted."""
        if self._judge is False:
            return None
        if self._judge is None:
            self._judge = shared_judge()
        return self._judge

    def generate(
        self,
        question: str,
        context: Sequence[str],
        *,
        options: Sequence[str] | None = None,
        places: Sequence[str] | None = None,
        relevance: Sequence[float] | None = None,
    ) -> tuple[str, TokenUsage]:
        """The quoted sentences, or that the documents do not seem to hold the answer; no LLM call.

        Args:
            question: The question.
            context: Texts of the passages.
            options: Of a multiple-choice question.
            places: Where each passage is from, see `sage_app.pipeline.results.Retrieval.places`: shown with a
                quotation that may not be the answer, and read as what stands above a passage.
            relevance: How likely each passage bears on the question, by the ranking; None if unknown.
        """
        options = checked_options(options)
        sentences = sentences_of(context)
        if options:
            return self._choose(question, sentences, options), NO_USAGE
        judge, says = self.local_judge, phrases_for(question)
        formed = answer_by_rule(question, context, self._affirms, places)
        if formed is not None and _has_number(question, formed.text):
            return plain_text(formed.text), NO_USAGE
        located = judge.locate(question, context) if judge is not None else None
        weights = weights_among(question_words(question), sentences)
        ranked = [0.5 / rank for rank in range(1, len(context) + 1)] if relevance is None else relevance
        closest = max(sentences, key=lambda s: share(weights, s.words), default=Sentence("", frozenset()))
        if located is not None:
            unlikely = located.probability < min(ABSENT_BELOW, self.min_probability)
            doubted = relevance is None or max(relevance) < DOUBTED_BELOW
            if unlikely and doubted and share(weights, closest.words) < _HALF:
                return says.no_answer, NO_USAGE
            if located.probability < self.min_probability or not _has_number(question, located.quote):
                return self._search_results(question, context, places or (), ranked, closest.text), NO_USAGE
            return self._marked(question, located, context[located.passage]), NO_USAGE
        picked = self._pick(question, sentences, weights)
        if not self._match(weights, picked):
            # What the judge cannot read may answer: a table that shares a word, another language anyway.
            shared = closest.words & (set(weights) - {NUMBER})
            if judge is not None and closest.text and (shared or language_of(question) != "English"):
                return self._search_results(question, context, places or (), ranked, closest.text), NO_USAGE
            return says.no_answer, NO_USAGE
        quotes = " ".join(f"“{s.text}”" for s in picked)
        return f"{says.says} {quotes}", NO_USAGE

    def judge(
        self,
        question: str,
        context: Sequence[str],
        answer: str,
        *,
        options: Sequence[str] | None = None,
        places: Sequence[str] | None = None,
    ) -> tuple[Verdict, TokenUsage]:
        """A grade by the judge, see `LocalCritic`; or by word count.

        The count is 1 plus 9 times the weighted share of the question's words in the answer. More context is
        asked for where the answer is "the documents do not say", or where words of the question stand nowhere
        in the passages.
        """
        judge = self.local_judge if not options else None
        formed = answer_by_rule(question, context, self._affirms, places) if not options else None
        if formed is not None and plain_text(formed.text) == answer:
            reason = f"the form of the question fits; {formed.share:.0%} of its words are there"
            # A rule that fits is no certainty: a row beside the point may fit it too.
            return Verdict(1 + round(8 * formed.share, 1), 0, source="heuristic", reason=reason), NO_USAGE
        if judge is not None:
            if is_unsure(answer) or is_abstention(answer):
                probability = judge.answerable(question, context) or 0.0
                reason = f"P(the passages answer the question) = {probability:.2f}"
                # The passages selected hold the closest one already: another round would say the same.
                score = 1 + round(4 * probability, 1)
                return Verdict(score, 0, source=judge.name, reason=reason, probability=probability), NO_USAGE
            quoted = _LEAD.sub("", answer).replace("**", "").strip("“”")
            located = judge.locate(question, context)
            if located is not None and list_below(located.quote, context[located.passage]) is None:
                sentence = plain_text(located.quote.replace("**", ""))
                quoted = sentence if sentence in quoted else quoted  # Without those quoted beside it.
            graded = LocalCritic(question, lambda _: context, judge=judge, alone=True)
            if (verdict := graded.grade(context, quoted)) is not None:
                return verdict, NO_USAGE
        sentences = sentences_of(context)
        weights = weights_among(question_words(question), sentences)
        if is_abstention(answer) or not weights:
            return Verdict(1, 1, source="heuristic", reason="nothing in the passages matches"), NO_USAGE
        held = share(weights, stems(answer))
        score = 1 + round(9 * held)
        absent = sorted(set(weights) - all_words(sentences))
        reason = f"the quoted text holds {held:.0%} of the question's words, weighted by rarity"
        if absent:
            reason += f"; nowhere in the passages: {', '.join(absent)}"
        return Verdict(score, 1 if absent else 0, source="heuristic", reason=reason), NO_USAGE

    def _affirms(self, question: str, sentence: str) -> float | None:
        """See `LocalJudge.affirms`; None if words are counted."""
        return None if self.local_judge is None else self.local_judge.affirms(question, sentence)

    def _search_results(
        self, question: str, context: Sequence[str], places: Sequence[str], ranked: Sequence[float], best: str
    ) -> str:
        """That it is not known which passage answers, and the likeliest ones, a sentence of each marked."""
        judge, says = self.local_judge, phrases_for(question)
        assert judge is not None
        alone = [judge.locate(question, [passage]) for passage in context]
        # The ranking and the judge together: each alone has a right passage among three less often.
        worth = [r + (own.probability if own else 0.0) for r, own in zip(ranked, alone, strict=True)]
        shown = [f"{says.not_sure} {says.closest}:"]
        for i in sorted(range(len(context)), key=lambda i: -worth[i])[:_SHOWN_PASSAGES]:
            sentence = own.sentence.of(context[i]) if (own := alone[i]) else best
            text, quote = (plain_text(part.replace("**", "")) for part in (context[i], sentence))
            place = f"({places[i]}) " if places else ""
            shown.append(f"{len(shown)}. {place}{text.replace(quote, f'**{quote}**', 1) if quote else text}")
        return "\n\n".join(shown)

    def _marked(self, question: str, located: AnswerLocation, passage: str) -> str:
        """The sentence that answers, its answer marked."""
        (start, end), text = located.marked, located.quote
        says = phrases_for(question)
        if (listed := list_below(text, passage)) is not None:
            return f"{says.says} “{plain_text(listed)}”"
        whole = end - start == len(text) or asks_yes_or_no(question)  # No words of it are a yes.
        before, marked, after = (
            part.replace("**", "") for part in (text[:start], text[start:end], text[end:])
        )
        said = text.replace("**", "") if whole else f"{before}**{marked}**{after}"
        spans, _, kinds = read_sentences(passage)
        if located.probability < _SURE and located.sentence in spans:
            at = spans.index(located.sentence)
            near = [
                i for i in (at - 1, at, at + 1) if i == at or (i in range(len(spans)) and kinds[i] == "text")
            ]
            said = f"**{said}**" if whole and len(near) > 1 else said
            said = " ".join(said if i == at else spans[i].of(passage).replace("**", "") for i in near)
        return f"{says.says} “{plain_text(said)}”"

    async def agenerate(self, question: str, context: Sequence[str], **asked: Any) -> tuple[str, TokenUsage]:
        """`generate` in a thread, for it computes."""
        return await asyncio.to_thread(self.generate, question, context, **asked)

    async def ajudge(
        self, question: str, context: Sequence[str], answer: str, **asked: Any
    ) -> tuple[Verdict, TokenUsage]:
        """`judge` in a thread, for it computes."""
        return await asyncio.to_thread(self.judge, question, context, answer, **asked)

    def _match(self, weights: Mapping[str, float], picked: Sequence[Sentence]) -> bool:
        """Whether the sentences hold enough of the question to be an answer to it."""
        if any(share(weights, sentence.words) >= self.min_match for sentence in picked):
            return True
        return bool(picked) and share(weights, all_words(picked)) >= self.min_together

    def _pick(
        self, question: str, sentences: Sequence[Sentence], weights: Mapping[str, float]
    ) -> list[Sentence]:
        """The best sentence, then those that add most of what is still missing; in reading order."""
        sentences = [sentence for sentence in sentences if not sentence.heading]
        closeness = self._closeness(question, sentences)
        chosen: list[int] = []
        held: set[str] = set()
        while len(chosen) < self.max_sentences:
            gains = [share(weights, s.words - held) for s in sentences]
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

    def _closeness(self, question: str, sentences: Sequence[Sentence]) -> list[float]:
        """Cosine of each sentence to the question; 0 for all without an embedder."""
        if self.embedder is None or not sentences:
            return [0.0] * len(sentences)
        rows = self.embedder.embed_documents([s.text for s in sentences])
        return [float(v) for v in rows @ self.embedder.embed_query(question)]

    def _choose(self, question: str, sentences: Sequence[Sentence], options: Sequence[str]) -> str:
        """The option whose words stand together with the question's in one sentence; the first on a tie."""
        query = question_words(question)
        best, best_match, quote = -1, 0.0, ""
        for position, option in enumerate(options):
            own = weights_among(question_words(option) - query, sentences)
            shared = weights_among(query, sentences)
            for sentence in (s for s in sentences if not s.heading):
                share_of_option = share(own, sentence.words)
                match = share_of_option * (1 + share(shared, sentence.words))
                if match > best_match + 1e-12:
                    best, best_match, quote = position, match, sentence.text
        if best < 0 or best_match < _LEAST_OPTION:
            return phrases_for(question).no_answer
        return f"{option_letter(best)}. {options[best]} (the documents say: “{quote}”)"
