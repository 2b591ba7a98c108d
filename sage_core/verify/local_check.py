"""Grades an answer without an LLM; returns None if the LLM should decide."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from sage_core._checks import check_text
from sage_core.feedback.drivers import Check
from sage_core.feedback.types import DEFAULT_FEEDBACK, AnswerMark, FeedbackConfig, Verdict, Veto
from sage_core.selection.cut import Selection
from sage_core.text.keywords import NUMBER, question_words, stems
from sage_core.verify.claims import abstains, support
from sage_core.verify.coefficients import threshold
from sage_core.verify.judge import LocalJudge, shared_judge
from sage_core.verify.marks import mark_answer
from sage_core.verify.passages import Source, checked_passages

_log = logging.getLogger(__name__)

SUPPORT_AT = threshold("support_at")
"""Least probability of support that accepts an answer without an LLM: 2% of the unsupported answers of
dialogue models reach it (BEGIN, graded by people)."""
ADDRESSED = 0.66  # Share of the question's words in a supported answer and its evidence. By hand.
# A vetoed answer is at most as good as one that says that the documents do not hold the answer.
VETOED_GRADE = 3.0


class LocalCritic:
    """Grades answers by `check`, as ``check`` of `sage_core.feedback.run_loop`.

    Examples:
        >>> critic = LocalCritic("Who eats fish?", lambda s: [], judge=LocalJudge(model=False), alone=True)
        >>> critic.grade(["Seals live in the harbor."], "Bears eat fish.").score < 5
        True

    - An answer that abstains: 1, and more context.
    - One that the passages contradict: 3 at most, and more context.
    - One that they support, and that speaks of what was asked: 10.
    - In between: None, which asks the LLM; with ``alone`` 1 plus 9 times the probability of support.

    Args:
        question: The user's question.
        texts: Texts of the passages of a selection, such as ``lambda s: [chunks[i] for i in s.indices]``.
        judge: Shared with the rest of the process where None.
        alone: Never leave a grade to the LLM.
    """

    def __init__(
        self,
        question: str,
        texts: Callable[[Selection], Sequence[str]],
        *,
        judge: LocalJudge | None = None,
        alone: bool = False,
    ) -> None:
        self.judge = judge if judge is not None else shared_judge()
        self.alone = alone
        self._question = question
        self._texts = texts

    def __call__(self, selection: Selection, answer: str) -> Verdict | None:
        """A verdict where the judge is sure, or ``alone``; else None."""
        return self.grade(self._texts(selection), answer)

    def grade(self, passages: Sequence[str], answer: str) -> Verdict | None:
        """As a call, for passages."""
        if abstains(answer):
            reason = "the answer itself says that more is needed"
            return Verdict(1, 1, source=self.judge.name, reason=reason)
        verdict = check(self._question, passages, answer, judge=self.judge)
        if verdict.vetoed_by:
            return verdict
        sure = verdict.accepted and (verdict.probability or 0.0) >= SUPPORT_AT
        if sure and self._addressed(answer, verdict, passages):
            return replace(verdict, score=10, reason=f"{verdict.reason}, and it speaks of what was asked")
        if not self.alone:
            return None
        if verdict.probability is None:
            return replace(
                verdict, score=5, reason="the local judge is unsure: not English, or too long to read"
            )
        return replace(verdict, adjust=int(verdict.probability < 0.5))

    def _addressed(self, answer: str, verdict: Verdict, passages: Sequence[str]) -> bool:
        """Whether a supported answer and its evidence hold the question's words, and a number it asks for."""
        asked = question_words(self._question)
        evidence = [
            m.evidence.of(passages[m.passage]) for m in verdict.marks if m.evidence and m.passage is not None
        ]
        plain = asked - {NUMBER}
        held = plain & stems(" ".join([answer, *evidence]))
        return len(held) >= ADDRESSED * len(plain) and (NUMBER not in asked or NUMBER in stems(answer))


def local_check(
    config: FeedbackConfig,
    question: str,
    passages: Callable[[Selection], Sequence[str]],
    judge: LocalJudge | None = None,
    sources: Callable[[Selection], Sequence[Source]] | None = None,
) -> Check | None:
    """The ``check`` of `sage_core.feedback.run_loop`: what needs no LLM.

    What the passages contradict is graded low without a call (``config.veto``). All else is graded by
    ``config.critic``, or left to the LLM.

    Args:
        config: The loop's settings.
        question: The user's question.
        passages: The passages of a selection, as the model is shown them.
        judge: Shared with the rest of the process where None.
        sources: Where these are from; see `settled`.

    Returns:
        None if the critic alone grades.
    """
    critic = None
    if config.critic != "llm":
        critic = LocalCritic(question, passages, judge=judge, alone=config.critic == "local")
    if critic is None and config.veto == "off":
        return None

    def check(selection: Selection, answer: str) -> Verdict | None:
        shown, own = passages(selection), sources and sources(selection)
        if config.veto != "off":
            marks = mark_answer(answer, shown, question=question, judge=judge, sources=own)
            if ended := next((m for m in marks if m.instead), None):
                name, reason = LocalJudge.name, _denied(ended)
                return Verdict(VETOED_GRADE, 1, source=name, reason=reason, vetoed_by=name, marks=marks)
        graded = critic(selection, answer) if critic is not None else None
        if graded is None:
            return None
        return settled(graded, question, answer, shown, config, judge, own)

    return check


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
    - Otherwise the grade stands. If the main statement, the first one, is not supported, and the critic names
      a passage that supports it (`Verdict.passage`), the statement counts as unsure, and points there.

    The marks are the verdict's in every case. A judge that fails overrules nothing.

    Examples:
        >>> passages = ["The ferry leaves at seven and takes 40 minutes."]
        >>> verdict = settled(Verdict(9), "How long?", "The ferry takes 55 minutes.", passages)
        >>> verdict.score, verdict.source, verdict.vetoed_by
        (3.0, 'critic', 'local judge')
        >>> verdict.marks[0].instead
        '40 minutes'

    Args:
        verdict: The critic's.
        question: The user's question; an answer of a few words is read together with it.
        answer: What was graded.
        passages: What it was made from, as the model was shown it.
        config: Its ``veto`` says what overrules, its ``accept_score`` what is accepted.
        judge: Shared with the rest of the process where None.
        sources: Where each passage is from, see `mark_answer`.
    """
    marks = mark_answer(answer, passages, question=question, judge=judge, sources=sources)
    return _settled(verdict, marks, passages, config)


def _settled(
    verdict: Verdict, marks: tuple[AnswerMark, ...], passages: Sequence[str], config: FeedbackConfig
) -> Verdict:
    main = next((m for m in marks if m.support != "nothing claimed"), None)
    if main and main.support == "not found" and 0 < verdict.passage <= len(passages):
        named = replace(
            main, support="unsure", passage=verdict.passage - 1, evidence=None, heading="",
            reason=f"the critic names passage {verdict.passage}: {main.reason}",
        )  # fmt: skip
        marks = tuple(named if m is main else m for m in marks)
    denied = next((m for m in marks if m.instead), None)
    if verdict.score is None or denied is None or config.veto == "off":
        accepted = (verdict.score or 0) >= config.accept_score and not verdict.vetoed_by
        return replace(verdict, marks=marks, accepted=accepted)
    graded = f"graded {verdict.score:g}, but " if verdict.score > VETOED_GRADE else ""
    return replace(
        verdict,
        score=min(VETOED_GRADE, verdict.score),
        adjust=verdict.adjust or 1,
        reason=f"{graded}{_denied(denied)}" if graded or not verdict.reason else verdict.reason,
        vetoed_by=LocalJudge.name,
        marks=marks,
        accepted=False,
    )


def check(
    question: str,
    passages: Sequence[str],
    answer: str,
    *,
    judge: LocalJudge | None = None,
    veto: Veto = "contradicted",
    sources: Sequence[Source] | None = None,
) -> Verdict:
    """Whether passages support an answer to a question; no LLM is called.

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
        veto: See `sage_core.feedback.FeedbackConfig`.
        sources: Where each passage is from, see `mark_answer`.

    Returns:
        The verdict with ``marks``, which say part by part what is supported and where, ``accepted`` and
        ``probability``, the chance that the whole answer is supported; ``score`` is 1 plus 9 times that.

    Raises:
        InputError: For passages that are one text, what is no text, and sources that are not one a passage.
    """
    checked_passages(passages)
    check_text("question", question)
    marks = mark_answer(answer, passages, question=question, judge=judge, sources=sources)
    claims = [m for m in marks if m.support != "nothing claimed"]
    held, name = support(claims), (judge or shared_judge()).name
    graded = Verdict(None if held is None else round(1 + 9 * held, 1), source=name, probability=held)
    verdict = _settled(graded, marks, passages, FeedbackConfig(veto=veto))
    said = [m.support for m in claims]
    supported = said[:1] == ["supported"] and {"contradicted", "misattributed", "not found"}.isdisjoint(said)
    reason = verdict.reason or ("" if held is None else f"P(the passages support the answer) = {held:.2f}")
    return replace(verdict, reason=reason, accepted=supported and not verdict.vetoed_by)


def _denied(mark: AnswerMark) -> str:
    return f"“{mark.text.strip()}”: {mark.reason}"
