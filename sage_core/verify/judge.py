"""A judge that needs no LLM: do these passages support an answer?

Support is a logistic model of counts (which of the words, neighboring words, quantities and names of a claim
are in the passages) and of the logit of a small entailment model, within the bounds that rules set (another
number, a denial, names exchanged). ``sage-rag train-support`` makes its coefficients, ``judge.json``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from sage_core.embedding.encoder import MINILM
from sage_core.embedding.pairs import PairEncoder
from sage_core.feedback.types import AnswerMark
from sage_core.llm.reasoning import blanked_reasoning
from sage_core.text.keywords import stem_list
from sage_core.text.language import is_english
from sage_core.text.spans import Span
from sage_core.text.tokens import without_lone_surrogates
from sage_core.verify.claims import (
    CITATION,
    MAX_CLAIMS,
    QUOTED,
    chance,
    split_claims,
    support_odds,
    unread_claim,
    with_question,
)
from sage_core.verify.passages import checked_passages, parse_passages
from sage_core.verify.scoring import (
    ROW_REASON,
    SUPPORTED_FROM,
    VERBATIM_REASON,
    ClaimScores,
    as_written,
    score_claim,
)

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
        return (*claims, *(unread_claim(answer, span) for span in spans[MAX_CLAIMS:]))

    def claims_at(self, answer: str, spans: Sequence[Span], passages: Sequence[str]) -> list[AnswerMark]:
        """As `claims`, of these parts of an answer alone, without a question."""
        material = parse_passages(checked_passages(passages))
        readable = material.readable and is_english(answer[:_LANGUAGE_CHARACTERS], _ANSWER_WORDS)
        quoted = [Span(*m.span()) for m in QUOTED.finditer(answer)] if readable else []
        # The number of a passage is none of the claim's; spans stay true.
        plain = CITATION.sub(lambda m: " " * len(m[0]), answer)
        rows: list[ClaimScores | None] = [None for _ in spans]
        if readable:
            rows = [
                score_claim(s, s.of(plain).strip(), material, any(q.start <= s.start < q.end for q in quoted))
                for s in spans
            ]
        known = [row for row in rows if row is not None]
        logits = self._entailed([(c.claim.text, c.evidence) for c in known if c.logit is None])
        claims: list[AnswerMark] = []
        for span, counts in zip(spans, rows, strict=True):
            if counts is None:
                claims.append(unread_claim(answer, span, "" if readable else material.lower))
                continue
            logit = 0.0
            if logits is not None:
                logit = counts.logit if counts.logit is not None else logits.pop(0)
            odds = support_odds(counts.values, logit)
            probability = min(counts.most, max(counts.least, chance(odds)))
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
        material = parse_passages(passages)
        said = {w for w in stem_list(as_written(plain, material)) if not w[0].isdecimal()}
        absent = said - material.words
        if absent and best.support in ("supported", "unsure") and best.reason != ROW_REASON:
            held = None if best.probability is None else min(best.probability, _OTHER_WORDS)
            best = replace(best, support="not found" if absent == said else "unsure", probability=held)
        reason = f"read with the question: {best.reason}" if best.reason else ""
        return [replace(best, span=claim.span, text=claim.text, reason=reason)]


@lru_cache(maxsize=1)
def _entailment() -> Entailment:
    return Entailment()


@lru_cache(maxsize=1)
def shared_judge() -> LocalJudge:
    """One judge for the whole process: its models are loaded once."""
    return LocalJudge()
