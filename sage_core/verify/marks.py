"""Which parts of an answer its passages support, part by part."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace

from sage_core._checks import check_text
from sage_core.errors import InputError
from sage_core.feedback.types import AnswerMark
from sage_core.text.spans import Span
from sage_core.verify.claims import CITATION
from sage_core.verify.contradictions import headings_above
from sage_core.verify.judge import LocalJudge, shared_judge
from sage_core.verify.passages import Source, checked_passages, parse_passages

_log = logging.getLogger(__name__)

UNSUPPORTED = "[not in the passages]"
"""What is written behind a statement that no passage supports."""
FAILED = ("contradicted", "not found")
"""The words of statements that are marked so."""


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
        not found None Tickets cost nine crowns on Sundays.

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
    checked_passages(passages)
    check_text("answer", answer)
    if sources is not None and not (
        len(sources) == len(passages) and all(isinstance(s, tuple) and len(s) == 2 for s in sources)
    ):
        raise InputError(f"sources is one Source a passage: {len(passages)} passages, {len(sources)} sources")
    own = judge if judge is not None else shared_judge()
    claims = _claims(own, question, answer, passages)
    marks: list[AnswerMark] = []
    at = 0
    for claim in claims:
        if claim.span.start > at:
            marks.append(
                AnswerMark(Span(at, claim.span.start), answer[at : claim.span.start], "nothing claimed")
            )
        text = claim.span.of(answer)
        numbered = (m[m.lastindex] for m in CITATION.finditer(text) if m.lastindex)
        cited = tuple(int(n) for numbers in numbered for n in re.findall(r"\d+", numbers))
        mark = _by_cited(replace(claim, cited=cited), own, question, passages)
        marks.append(_placed(mark, passages))
        at = claim.span.end
    if at < len(answer):
        marks.append(AnswerMark(Span(at, len(answer)), answer[at:], "nothing claimed"))
    return tuple(marks if sources is None else [_in_source(m, passages, sources) for m in marks])


def _claims(judge: LocalJudge, question: str, answer: str, passages: Sequence[str]) -> list[AnswerMark]:
    """The claims of an answer; one of unknown support if the judge breaks, which must not cost the answer."""
    try:
        return judge.claims(question, answer, passages)
    except InputError:
        raise
    except Exception as error:  # whatever it is
        _log.warning("the local judge failed, the answer is kept: %s: %s", type(error).__name__, error)
        reason = f"unsure: the judge failed with {type(error).__name__}: {error}"
        return [AnswerMark(Span(0, len(answer)), answer, reason=reason)] if answer.strip() else []


def _by_cited(mark: AnswerMark, judge: LocalJudge, question: str, passages: Sequence[str]) -> AnswerMark:
    """A supported statement that cites other passages: whether those say it too, or leave it open."""
    numbers = [n - 1 for n in mark.cited if 0 < n <= len(passages)]
    if mark.support != "supported" or not numbers or mark.passage in numbers:
        return mark
    claims = judge.claims(question, mark.text, [passages[n] for n in numbers])
    for claim in claims:
        if claim.support == "supported" and claim.passage is not None:
            return replace(mark, passage=numbers[claim.passage], evidence=claim.evidence)
    said = f"passage {(mark.passage or 0) + 1} says it, not the one cited"
    open_ = any((claim.probability or 0.5) >= 0.5 for claim in claims)
    return replace(mark, support="unsure" if open_ else "misattributed", reason=said)


def _placed(mark: AnswerMark, passages: Sequence[str]) -> AnswerMark:
    """The mark with its evidence's sentence and heading."""
    if mark.passage is None or mark.evidence is None:
        return mark
    heading = headings_above(mark.passage, mark.evidence.start, parse_passages(checked_passages(passages)))
    return replace(mark, heading=heading, sentence=mark.evidence.of(passages[mark.passage]))


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
    told = []
    for mark in marks:
        unsupported = mark.support in FAILED
        right = mark.passage is not None and mark.passage + 1 in mark.cited
        text = mark.text
        first = CITATION.search(text)
        if first and (unsupported or (mark.support in ("supported", "misattributed") and not right)):
            # Once, where the first one stood.
            number = "" if unsupported or mark.passage is None else f" [{mark.passage + 1}]"
            text = f"{text[: first.start()]}{number}{CITATION.sub('', text[first.end() :])}"
        told.append(f"{text} {UNSUPPORTED}" if unsupported and mark.cited else text)
    return "".join(told)
