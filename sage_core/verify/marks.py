"""Which parts of an answer its passages support, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Literal

from sage_core.errors import InputError
from sage_core.text.spans import Span
from sage_core.verify.claims import Claim, claims_or_unsure
from sage_core.verify.coefficients import threshold
from sage_core.verify.judge import LocalJudge
from sage_core.verify.local_check import shared_judge
from sage_core.verify.words import stem_list

Support = Literal["supported", "unsupported", "unsure", "nothing claimed"]

# From training data, see ``training/fit_grounding.py``: of answers of one claim from the one on 80%
# are supported, below the other 85% are not. In between nothing is said either way.
SUPPORTED_FROM = threshold("supported_from")
UNSUPPORTED_BELOW = threshold("unsupported_below")
# An answer of fewer content words, such as "1932", claims something only together with its question.
_SHORT = 4


@dataclass(frozen=True, slots=True)
class AnswerMark:
    """A part of an answer, and whether the passages support it.

    Examples:
        >>> passages = ["The ferry leaves at seven. It is blue."]
        >>> (mark,) = mark_answer("The ferry leaves at seven.", passages)
        >>> mark.support, mark.passage, mark.evidence.of(passages[mark.passage])
        ('supported', 0, 'The ferry leaves at seven.')

    Attributes:
        span: Where the part stands in the answer.
        text: ``answer[span.start:span.end]``.
        support: ``"supported"``, ``"unsupported"``; ``"unsure"`` where the judge does not know (not English,
            too long, a probability near one half, or an error of its own); ``"nothing claimed"`` for the
            rest: openings such as "The documents say:", headings, white space, "The documents do not say."
        probability: That the passages support it, from 0 to 1; None where it is not known, or nothing is
            claimed.
        passage: Position of the passage that supports it best; None where none has a word of it.
        evidence: The best supporting sentence in that passage.
        reason: What decided, in words; empty where nothing is claimed.
        refuted: Whether the passages contradict it; see `Claim.refuted`.
    """

    span: Span
    text: str
    support: Support
    probability: float | None = None
    passage: int | None = None
    evidence: Span | None = None
    reason: str = ""
    refuted: bool = False

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        return asdict(self)


def mark_answer(
    answer: str, passages: Sequence[str], *, question: str = "", judge: LocalJudge | None = None
) -> tuple[AnswerMark, ...]:
    """Part an answer into what the passages support, what they do not, and what claims nothing.

    No LLM is called. Results of the shared judge are kept for the last few answers, so that showing one twice
    costs nothing.

    Examples:
        >>> passages = ["The ferry leaves at seven.", "Seals live in the harbor."]
        >>> answer = "The ferry leaves at seven. Tickets cost nine crowns on Sundays."
        >>> for mark in mark_answer(answer, passages):
        ...     if mark.text.strip():
        ...         print(mark.support, mark.passage, mark.text)
        supported 0 The ferry leaves at seven.
        unsupported None Tickets cost nine crowns on Sundays.

    Args:
        answer: The answer.
        passages: What it was made from, in any order.
        question: The question; an answer of a few words is read together with it.
        judge: Shared with the rest of the process where None.

    Returns:
        Parts in the order of the answer, which together are the whole of it.

    Raises:
        InputError: For passages that are one text.
    """
    if isinstance(passages, str):
        raise InputError("passages is a list of texts, not one text")

    def claims() -> Sequence[Claim]:
        if judge is None:
            return _by_shared_judge(answer, tuple(passages), question)
        return claims_of(answer, tuple(passages), question, judge)

    return marks_between(answer, 0, len(answer), claims_or_unsure(claims, answer))


@lru_cache(maxsize=32)
def _by_shared_judge(answer: str, passages: tuple[str, ...], question: str) -> tuple[Claim, ...]:
    return tuple(claims_of(answer, passages, question, shared_judge()))


def marks_between(answer: str, at: int, end: int, claims: Sequence[Claim]) -> tuple[AnswerMark, ...]:
    """The parts of an answer from ``at`` to ``end``, with its claims there."""
    result: list[AnswerMark] = []
    for claim in claims:
        if claim.span.start > at:
            result.append(_rest(answer, Span(at, claim.span.start)))
        support = _support(claim)
        text = claim.span.of(answer)
        place = (claim.passage, claim.evidence)
        mark = AnswerMark(
            claim.span, text, support, claim.probability, *place, claim.reason, refuted=claim.refuted
        )
        result.append(mark)
        at = claim.span.end
    if at < end:
        result.append(_rest(answer, Span(at, end)))
    return tuple(result)


def claims_of(answer: str, passages: Sequence[str], question: str, judge: LocalJudge) -> list[Claim]:
    """An answer's claims; one of a few words is read with its question."""
    claims = judge.grounding(answer, passages)
    if len(claims) != 1 or not question.strip() or len(stem_list(answer)) >= _SHORT:
        return claims
    (claim,) = claims
    # The passage that holds question and answer, not any that happens to hold the number.
    whole = judge.grounding(f"{question.strip().rstrip('?')}: {answer.strip()}", passages)
    best = max(whole, key=lambda c: (c.passage is not None, len(c.text)), default=claim)
    held = judge.supported(question, answer, passages)
    reason = f"read with the question: {best.reason}" if best.reason else ""
    return [Claim(claim.span, claim.text, held, best.passage, best.evidence, reason)]


def _support(claim: Claim) -> Support:
    if claim.contradicted:  # whatever the counts say: the reason names the other word
        return "unsupported"
    if claim.probability is None or UNSUPPORTED_BELOW <= claim.probability < SUPPORTED_FROM:
        return "unsure"
    return "supported" if claim.probability >= SUPPORTED_FROM else "unsupported"


def _rest(answer: str, span: Span) -> AnswerMark:
    return AnswerMark(span, span.of(answer), "nothing claimed")
