"""Which parts of an answer its passages support, part by part."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sage_core.errors import InputError
from sage_core.feedback.types import AnswerMark, Support
from sage_core.llm.reasoning import blanked_reasoning
from sage_core.text.spans import Span
from sage_core.verify.answerability import AnswerLocation
from sage_core.verify.claims import CITATION, Claim, claims_or_unsure, with_question
from sage_core.verify.coefficients import threshold
from sage_core.verify.contradictions import headings_above
from sage_core.verify.judge import LocalJudge, shared_judge
from sage_core.verify.passages import Source, checked_passages, parse_passages
from sage_core.verify.scoring import VERBATIM_REASON
from sage_core.verify.words import stem_list

# From training data, see ``training/fit_grounding.py``: of answers of one claim from the one on 80%
# are supported, below the other 85% are not. In between nothing is said either way.
SUPPORTED_FROM = threshold("supported_from")
UNSUPPORTED_BELOW = threshold("unsupported_below")
UNSUPPORTED = "[not in the passages]"
"""What is written behind a statement that no passage supports."""
_YES_OR_NO = re.compile(r"\s*(?i:(yes|no))\W*")
# An answer of fewer content words, such as "1932", claims something only together with its question.
_SHORT = 4


def mark_answer(
    answer: str,
    passages: Sequence[str],
    *,
    question: str = "",
    judge: LocalJudge | None = None,
    sources: Sequence[Source] | None = None,
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
        sources: Where each passage is from. Evidence counts in their texts, in the passages where None.

    Returns:
        Parts in the order of the answer, which together are the whole of it.

    Raises:
        InputError: For passages that are one text.
    """
    if isinstance(passages, str):
        raise InputError("passages is a list of texts, not one text")
    own = judge if judge is not None else shared_judge()
    claims = claims_or_unsure(lambda: claims_of(answer, passages, question, own), answer)
    marks = marks_between(answer, 0, len(answer), claims, passages)
    return marks if sources is None else tuple(_in_source(m, passages, sources) for m in marks)


def _placed(mark: AnswerMark, passages: Sequence[str]) -> AnswerMark:
    """The mark at a passage that the answer cites, where that one has the evidence too, with its heading."""
    if mark.passage is None or mark.evidence is None:
        return mark
    at, start = mark.passage, mark.evidence.start
    evidence = mark.evidence.of(passages[at])
    same = [(n - 1, passages[n - 1].find(evidence)) for n in mark.cited if 0 < n <= len(passages)]
    if at + 1 not in mark.cited:
        at, start = next((place for place in same if place[1] >= 0), (at, start))
    heading = headings_above(at, start, parse_passages(checked_passages(passages)))
    return replace(mark, passage=at, evidence=Span(start, start + len(evidence)), heading=heading)


def _in_source(mark: AnswerMark, passages: Sequence[str], sources: Sequence[Source]) -> AnswerMark:
    """The mark with its page, and its evidence in the text that stands at the end of the passage."""
    if mark.passage is None:
        return mark
    text, page = sources[mark.passage]
    span = mark.evidence and mark.evidence.shift(len(text) - len(passages[mark.passage]))
    inside = span is not None and span.start >= 0 and passages[mark.passage].endswith(text)
    return replace(mark, evidence=span if inside else None, page=page)


def correct_citations(marks: Sequence[AnswerMark]) -> str:
    """The answer with "[2]" as its marks have it: renumbered, or struck where no passage supports a sentence.

    Examples:
        >>> passages = ["Seals live in the harbor.", "The ferry leaves the harbor at seven."]
        >>> answer = "The ferry leaves the harbor at seven [1]. Its captain is called Ann Lee [2]."
        >>> correct_citations(mark_answer(answer, passages))
        'The ferry leaves the harbor at seven [2]. Its captain is called Ann Lee. [not in the passages]'
    """
    return edited("".join(mark.text for mark in marks), edits_of(marks))


def edits_of(
    marks: Sequence[AnswerMark], *, correct: bool = True, tell: bool = False
) -> list[tuple[Span, str]]:
    """What to write in the place of parts of an answer, in order.

    Args:
        marks: Of the answer.
        correct: Renumber citations, and strike those of a statement that no passage supports.
        tell: Write `UNSUPPORTED` behind each such statement, not only behind those whose citations go.
    """
    edits: list[tuple[Span, str]] = []
    for mark in marks:
        unsupported = mark.support == "unsupported"
        right = mark.passage is not None and mark.passage + 1 in mark.cited
        if correct and (unsupported or (mark.support == "supported" and not right)):
            # Once, where the first one stood.
            number = iter([] if unsupported or mark.passage is None else [f" [{mark.passage + 1}]"])
            places = (Span(*m.span()).shift(mark.span.start) for m in CITATION.finditer(mark.text))
            edits += ((place, next(number, "")) for place in places)
        if unsupported and (tell or (correct and mark.cited)):
            edits.append((Span(mark.span.end, mark.span.end), f" {UNSUPPORTED}"))
    return edits


def edited(text: str, edits: Sequence[tuple[Span, str]]) -> str:
    """A text with its edits made."""
    for place, new in reversed(edits):  # from the end, so that places before it stay true
        text = f"{text[: place.start]}{new}{text[place.end :]}"
    return text


def marks_between(
    answer: str, at: int, end: int, claims: Sequence[Claim], passages: Sequence[str]
) -> tuple[AnswerMark, ...]:
    """The parts of an answer from ``at`` to ``end``, with its claims there."""
    result: list[AnswerMark] = []
    for claim in claims:
        if claim.span.start > at:
            result.append(_rest(answer, Span(at, claim.span.start)))
        support = _support(claim)
        text = claim.span.of(answer)
        place = (claim.passage, claim.evidence)
        cited = tuple(int(n) for m in CITATION.finditer(text) for n in re.findall(r"\d+", m[1]))
        known = (claim.probability, *place, claim.reason, claim.instead)
        result.append(_placed(AnswerMark(claim.span, text, support, *known, cited), passages))
        at = claim.span.end
    if at < end:
        result.append(_rest(answer, Span(at, end)))
    return tuple(result)


def claims_of(answer: str, passages: Sequence[str], question: str, judge: LocalJudge) -> list[Claim]:
    """An answer's claims; one of a few words is read with its question."""
    answer = blanked_reasoning(answer)
    if (said := _YES_OR_NO.fullmatch(answer)) and (place := judge.locate(question, passages)) is not None:
        return [_affirmed(judge, question, answer, said[1].lower() == "yes", place, passages)]
    claims = judge.grounding(answer, passages)
    answer = CITATION.sub("", answer)
    if len(claims) != 1 or not question.strip() or len(stem_list(answer)) >= _SHORT:
        return claims
    (claim,) = claims
    words = stem_list(answer)
    # One of three words may be a sentence, "The mill was rebuilt by Ann"; so is what repeats the question.
    sentence = len(words) == _SHORT - 1 or (len(words) > 1 and {*words} <= {*stem_list(question)})
    if claim.reason == VERBATIM_REASON or (claim.refuted and sentence):
        return claims
    # The passage that holds question and answer, not any that happens to hold the number.
    whole = judge.grounding(with_question(question, answer), passages)
    best = max(whole, key=lambda c: (c.refuted, c.passage is not None, len(c.text)), default=claim)
    held = judge.supported(question, answer, passages)
    reason = f"read with the question: {best.reason}" if best.reason else ""
    return [Claim(claim.span, claim.text, held, best.passage, best.evidence, reason, best.instead)]


def _affirmed(
    judge: LocalJudge, question: str, answer: str, yes: bool, place: AnswerLocation, passages: Sequence[str]
) -> Claim:
    """A bare yes or no: whether the sentence that answers says it."""
    affirmed = judge.affirms(question, place.quote)
    # As a statement, the question may be denied: "Is diving allowed?" by "Diving is forbidden."
    asked = judge.grounding(f"{question.strip().rstrip('?')}.", passages)
    if (denied := next((c for c in asked if c.refuted), None)) is not None:
        affirmed = denied.probability
    known = affirmed if affirmed is None or yes else 1 - affirmed
    against = denied.instead if denied is not None and yes else ""
    return Claim(
        Span(0, len(answer)), answer, known, place.passage, place.sentence, "read with the question", against
    )


def _support(claim: Claim) -> Support:
    if claim.refuted:  # whatever the counts say: the reason names the other word
        return "unsupported"
    if claim.probability is None or UNSUPPORTED_BELOW <= claim.probability < SUPPORTED_FROM:
        return "unsure"
    return "supported" if claim.probability >= SUPPORTED_FROM else "unsupported"


def _rest(answer: str, span: Span) -> AnswerMark:
    return AnswerMark(span, span.of(answer), "nothing claimed")
