"""Marks what passages support of an answer, grades it, and makes one verdict of both; no LLM is needed."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from sage_core._checks import check_text
from sage_core.errors import InputError
from sage_core.feedback.critic import critic_messages
from sage_core.feedback.drivers import Check
from sage_core.feedback.parsing import parse_verdict
from sage_core.feedback.types import DEFAULT_FEEDBACK, AnswerMark, FeedbackConfig, Verdict
from sage_core.llm import Message
from sage_core.selection.cut import Selection
from sage_core.text.spans import Span
from sage_core.verify.judge import CITATION, LocalJudge, chance, shared_judge
from sage_core.verify.passages import Source

_log = logging.getLogger(__name__)

UNSUPPORTED = "[not in the passages]"
"""What is written behind a statement that no passage supports."""
FAILED = ("contradicted", "not found")
"""The words of statements that are marked so."""
# A vetoed answer is at most as good as one that says that the documents do not hold the answer.
VETOED_GRADE = 3.0
_ACCEPTED, _OPEN = 10.0, 8.0  # Grade of an accepted answer, and most of another.


class LocalCritic:
    """Grades answers by `check`.

    Examples:
        >>> critic = LocalCritic("Who eats fish?", judge=LocalJudge(model=False), alone=True)
        >>> critic.grade(["Seals live in the harbor."], "Bears eat fish.").score < 5
        True

    - An answer that claims nothing, such as that the passages do not say it: 1, and more context.
    - One that the passages contradict: 3 at most, and more context.
    - One that `check` accepts: 10.
    - Any other: None, which asks the LLM; with ``alone`` 1 plus 9 times the probability of support.

    Args:
        question: The user's question.
        judge: Shared with the rest of the process where None.
        alone: Never leave a grade to the LLM.
    """

    def __init__(self, question: str, *, judge: LocalJudge | None = None, alone: bool = False) -> None:
        self.judge = judge if judge is not None else shared_judge()
        self.alone = alone
        self._question = question

    def grade(
        self, passages: Sequence[str], answer: str, sources: Sequence[Source] | None = None
    ) -> Verdict | None:
        """A verdict where the judge is sure, or ``alone``; else None."""
        verdict = check(self._question, passages, answer, judge=self.judge, sources=sources)
        if all(mark.support == "nothing claimed" for mark in verdict.marks):
            reason = "the answer itself says that more is needed"
            return Verdict(1, 1, source=self.judge.name, reason=reason)
        if verdict.vetoed_by or verdict.accepted:
            return verdict if verdict.vetoed_by else replace(verdict, score=_ACCEPTED)
        if not self.alone:
            return None
        if verdict.probability is None:
            return replace(verdict, score=5, reason="the local judge is unsure: not English, or too long")
        return replace(verdict, score=min(_OPEN, verdict.score or 1), adjust=int(verdict.probability < 0.5))


def check(
    question: str,
    passages: Sequence[str],
    answer: str,
    *,
    judge: LocalJudge | None = None,
    sources: Sequence[Source] | None = None,
    llm: Callable[[list[Message]], str] | None = None,
) -> Verdict:
    """Whether passages support an answer to a question.

    Examples:
        >>> passages = ["The ferry leaves at seven and takes 40 minutes."]
        >>> verdict = check("How long does the ferry take?", passages, "It takes 55 minutes.")
        >>> verdict.accepted, verdict.marks[0].reason
        (False, 'the passages say “40 minutes” (passage 1) where it says “55 minutes”')

    Args:
        question: The question; may be empty.
        passages: The texts that the answer was made from, in any order.
        answer: The answer.
        judge: Shared with the rest of the process where None.
        sources: Where each passage is from, see `mark_answer`.
        llm: Replies to messages with a text. It is asked once, for all statements that are unsure; not at all
            if none is. If it fails, or leaves some out, they stay unsure.

    Returns:
        The verdict with ``marks``, which say part by part what is supported and where, ``accepted`` (the main
        statement, the first, is supported, and none is contradicted, misattributed or not found) and
        ``probability``, the chance that the whole answer is supported; ``score`` is 1 plus 9 times that.

    Raises:
        InputError: For passages that are one text, what is no text, and sources that are not one a passage.
    """
    check_text("question", question)
    marks = mark_answer(answer, passages, question=question, judge=judge, sources=sources)
    words: tuple[str, ...] = ()
    if llm is not None and (statements := _unsure(marks)):
        try:
            asked = critic_messages(question, passages, answer, statements=statements)
            words = parse_verdict(llm(asked)).statements
        except Exception as error:  # whatever it is: the local words stand
            _log.warning("the LLM failed, statements stay unsure: %s: %s", type(error).__name__, error)
    held, name = support([m for m in marks if m.support != "nothing claimed"]), (judge or shared_judge()).name
    grade = None if held is None else round(1 + 9 * held, 1)
    graded = Verdict(grade, source=name, probability=held, statements=words)
    verdict = _settled(graded, marks, DEFAULT_FEEDBACK.accept_score)
    said = [m.support for m in verdict.marks if m.support != "nothing claimed"]
    supported = said[:1] == ["supported"] and {*FAILED, "misattributed"}.isdisjoint(said)
    reason = verdict.reason or ("" if held is None else f"P(the passages support the answer) = {held:.2f}")
    return replace(verdict, reason=reason, accepted=supported and not verdict.vetoed_by)


def support(claims: Sequence[AnswerMark]) -> float | None:
    """One probability for a whole answer: in log-odds, midway between its claims' mean and the weakest claim.

    Returns:
        None if the judge is unsure of a claim, or nothing is claimed.
    """
    known = [c.probability for c in claims if c.probability is not None]
    if not known or len(known) < len(claims):
        return None
    odds = np.array([math.log(p / (1 - p)) for p in np.clip(known, 0.01, 0.99)])
    sizes = np.array([len(c.text.split()) for c in claims], dtype=float)
    # The mean alone forgives one false claim among many; the weakest alone condemns every long answer.
    middle = (float(odds @ sizes / sizes.sum()) + float(odds.min())) / 2
    return chance(middle)


def local_check(
    config: FeedbackConfig,
    question: str,
    passages: Callable[[Selection], Sequence[str]],
    judge: LocalJudge | None = None,
    sources: Callable[[Selection], Sequence[Source]] | None = None,
) -> Check:
    """The ``check`` of `sage_core.feedback.run_loop`: what needs no LLM.

    What the passages contradict is graded low without a call. All else is graded by ``config.critic``, or
    left to the LLM.

    Args:
        config: The loop's settings.
        question: The user's question.
        passages: The passages of a selection, as the model is shown them.
        judge: Shared with the rest of the process where None.
        sources: Where these are from; see `settled`.
    """

    def graded(selection: Selection, answer: str) -> Verdict | None:
        critic = LocalCritic(question, judge=judge, alone=config.critic == "local")
        verdict = critic.grade(passages(selection), answer, sources and sources(selection))
        left = config.critic == "llm" and verdict is not None and not verdict.vetoed_by
        return None if left else verdict

    return graded


def settled(
    verdict: Verdict,
    question: str,
    answer: str,
    passages: Sequence[str],
    config: FeedbackConfig = DEFAULT_FEEDBACK,
    judge: LocalJudge | None = None,
    sources: Sequence[Source] | None = None,
) -> Verdict:
    """One verdict out of a critic's grade and of what the passages support; no LLM is called.

    - If a statement has another number or cell than the passages, or they deny it, the grade is at most 3,
      and the answer is not accepted.
    - Otherwise the grade stands, and what the critic says of statements that are unsure (see
      `unsure_statements`) is their word.
    The marks are the verdict's in every case. A judge that fails overrules nothing.

    Args:
        verdict: The critic's.
        question: As all others, see `check`.
        answer: What was graded.
        passages: As the model was shown them.
        config: Its ``accept_score`` says what is accepted.
        judge: See `check`.
        sources: See `mark_answer`.
    """
    marks = mark_answer(answer, passages, question=question, judge=judge, sources=sources)
    return _settled(verdict, marks, config.accept_score)


def _settled(verdict: Verdict, marks: Sequence[AnswerMark], accept_score: float) -> Verdict:
    """As `settled`, of an answer that is marked; what is unsure has an LLM's word, if it has one."""
    said = iter(verdict.statements)
    words = [next(said, "") if mark.support == "unsure" else "" for mark in marks]
    marks = tuple(
        replace(mark, support=word, reason=f"the LLM says so; {mark.reason}") if word else mark  # type: ignore[arg-type]
        for mark, word in zip(marks, words, strict=True)
    )
    denied = next((m for m in marks if m.instead), None)
    if verdict.score is None or denied is None:
        accepted = (verdict.score or 0) >= accept_score and not verdict.vetoed_by
        return replace(verdict, marks=marks, accepted=accepted)
    graded = f"graded {verdict.score:g}, but " if verdict.score > VETOED_GRADE else ""
    told = f"{graded}“{denied.text.strip()}”: {denied.reason}"
    return replace(
        verdict,
        score=min(VETOED_GRADE, verdict.score),
        adjust=verdict.adjust or 1,
        reason=told if graded or not verdict.reason else verdict.reason,
        vetoed_by=LocalJudge.name,
        marks=marks,
        accepted=False,
    )


def unsure_statements(question: str, passages: Sequence[str], answer: str) -> list[str]:
    """The statements of an answer that the shared judge is unsure of, for `critic_messages`."""
    return _unsure(mark_answer(answer, passages, question=question))


def _unsure(marks: Sequence[AnswerMark]) -> list[str]:
    return [mark.text.strip() for mark in marks if mark.support == "unsure"]


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
    check_text("answer", answer)
    if sources is not None and not (
        len(sources) == len(passages) and all(isinstance(s, tuple) and len(s) == 2 for s in sources)
    ):
        raise InputError(f"sources is one Source a passage: {len(passages)} passages, {len(sources)} sources")
    own = judge if judge is not None else shared_judge()
    try:
        claims = own.claims(question, answer, passages)
    except InputError:
        raise
    except Exception as error:  # whatever it is: it must not cost the answer
        _log.warning("the local judge failed, the answer is kept: %s: %s", type(error).__name__, error)
        reason = f"unsure: the judge failed with {type(error).__name__}: {error}"
        claims = [AnswerMark(Span(0, len(answer)), answer, reason=reason)] if answer.strip() else []
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
        marks.append(_by_cited(replace(claim, cited=cited), own, question, passages))
        at = claim.span.end
    if at < len(answer):
        marks.append(AnswerMark(Span(at, len(answer)), answer[at:], "nothing claimed"))
    return tuple(marks if sources is None else [_in_source(m, passages, sources) for m in marks])


def _by_cited(mark: AnswerMark, judge: LocalJudge, question: str, passages: Sequence[str]) -> AnswerMark:
    """A supported statement that cites other passages: whether those say it too, or leave it open."""
    numbers = [n - 1 for n in mark.cited if 0 < n <= len(passages)]
    if mark.support != "supported" or not numbers or mark.passage in numbers:
        return mark
    claims = judge.claims(question, mark.text, [passages[n] for n in numbers])
    for claim in claims:
        if claim.support == "supported" and claim.passage is not None:
            passage, evidence, heading = numbers[claim.passage], claim.evidence, claim.heading
            return replace(mark, passage=passage, evidence=evidence, heading=heading, sentence=claim.sentence)
    said = f"passage {(mark.passage or 0) + 1} says it, not the one cited"
    open_ = any((claim.probability or 0.5) >= 0.5 for claim in claims)
    return replace(mark, support="unsure" if open_ else "misattributed", reason=said)


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
