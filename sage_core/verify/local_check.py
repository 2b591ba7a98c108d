"""Grades an answer without an LLM; returns None where the LLM should decide.

``benchmarks/feedback_cost.py`` measures what it saves and what it gets wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

from sage_core._checks import check_float
from sage_core.errors import InputError
from sage_core.feedback.drivers import Check
from sage_core.feedback.types import FeedbackConfig, StopOn, Verdict
from sage_core.selection.cut import Selection
from sage_core.verify.checkers import ModelJudge
from sage_core.verify.claims import abstains, claims_or_unsure, support
from sage_core.verify.coefficients import threshold
from sage_core.verify.judge import LocalJudge
from sage_core.verify.words import stem_list

# Probabilities that ``training/fit_judge.py`` and ``training/fit_grounding.py`` choose on training data.
ACCEPT_AT = threshold("accept_at")
SUPPORT_AT = threshold("support_at")
AGREE_AT = 0.5  # Two readers that agree need less: `benchmarks/feedback_cost.py --sweep`.
WIDEN_BELOW = threshold("widen_below")
VETO_BELOW = threshold("veto_below")
# A vetoed answer is at most as good as one that says that the documents do not hold the answer.
VETOED_GRADE = 3.0
_SHORT_ANSWER = 5  # Content words; fewer are a name, a number or a few words rather than a sentence. By hand.
_SAME_ANSWER = 0.5  # Share of the shorter answer's words that both have. By hand.


class LocalCritic:
    """Grades answers with a `LocalJudge`, as ``check`` of `sage_core.feedback.run_loop`.

    Examples:
        >>> critic = LocalCritic("Who eats fish?", lambda s: [], judge=LocalJudge(model=False), alone=True)
        >>> critic.grade(["Seals live in the harbor."], "Bears eat fish.").score < 5
        True

    - The context supports the answer, and answers the question: accepted, 10.
    - The context does not answer the question: 2, and more context.
    - In between: None, which asks the LLM; with ``alone`` a grade all the same, 1 plus 9 times the lower of
      the two probabilities.

    The lower one is the verdict's ``probability``.

    Args:
        question: The user's question.
        texts: Texts of the passages of a selection, such as ``lambda s: [chunks[i] for i in s.indices]``.
        judge: Shared by many questions; a new one where None.
        alone: Never leave a grade to the LLM.
        accept_at: Least probability of an answer in the context to accept.
        support_at: Least probability of support to accept an answer of more than a few words. At the default
            2% of the unsupported answers of dialogue models reach it (BEGIN, graded by people).
        agree_at: Least probability of an answer in the context to accept a short answer that the judge, which
            looks for the answer by itself, found too.
        widen_below: Probability of an answer in the context below which more context is asked for.

    Raises:
        InputError: For a probability out of its range.
    """

    def __init__(
        self,
        question: str,
        texts: Callable[[Selection], Sequence[str]],
        *,
        judge: LocalJudge | None = None,
        alone: bool = False,
        accept_at: float = ACCEPT_AT,
        support_at: float = SUPPORT_AT,
        agree_at: float = AGREE_AT,
        widen_below: float = WIDEN_BELOW,
    ) -> None:
        check_float("support_at", support_at, minimum=0, maximum=1)
        if not (0 <= widen_below <= accept_at <= 1 and widen_below <= agree_at <= 1):
            raise InputError("widen_below, accept_at and agree_at are from 0 to 1, widen_below the least")
        self.judge = judge if judge is not None else shared_judge()
        self.alone = alone
        self.accept_at = accept_at
        self.support_at = support_at
        self.agree_at = agree_at
        self.widen_below = widen_below
        self._question = question
        self._texts = texts

    def __call__(self, selection: Selection, answer: str) -> Verdict | None:
        """A verdict where the judge is sure, or ``alone``; else None."""
        return self.grade(self._texts(selection), answer)

    def grade(self, passages: Sequence[str], answer: str) -> Verdict | None:
        """As a call, for passages."""
        if abstains(answer):
            return self._verdict(1, 1, "the answer itself says that more is needed")
        place = self.judge.locate(self._question, passages)
        answered = self.judge.answerable(self._question, passages) if place is None else place.probability
        held = self.judge.supported(self._question, answer, passages)
        said = (
            f"P(the passages answer the question) = {_shown(answered)}, "
            f"P(they support the answer) = {_shown(held)}"
        )
        known = [p for p in (answered, held) if p is not None]
        if answered is not None and answered < self.widen_below:
            return self._verdict(2, 1, said, known)
        if place is not None and held is not None:
            if _is_short(answer):
                # A name in the passages is not therefore the answer: the judge must have found it too.
                agreed = held > 0.5 and _agree(answer, place.answer.of(passages[place.passage]))
                # Where it knows the sentence only, a word of it says less.
                least = self.accept_at if place.answer == place.sentence else self.agree_at
                if agreed and place.probability >= least:
                    return self._verdict(10, 0, f"{said}, and they give the same answer", known)
            elif place.probability >= self.accept_at and held >= self.support_at:
                return self._verdict(10, 0, said, known)
        if not self.alone:
            return None
        if not known:
            return self._verdict(5, 0, "the local judge is unsure: not English, or too long to read")
        return self._verdict(
            1 + 9 * min(known), 1 if answered is not None and answered < 0.5 else 0, said, known
        )

    def _verdict(self, score: float, adjust: int, reason: str, known: Sequence[float] = ()) -> Verdict:
        least = round(min(known), 4) if known else None
        return Verdict(round(score, 1), adjust, source=self.judge.name, reason=reason, probability=least)


class _Statement(Protocol):
    """A `Claim` or an `AnswerMark`."""

    @property
    def probability(self) -> float | None: ...
    @property
    def refuted(self) -> bool: ...


def ends_answer(statement: _Statement, stop_on: StopOn | None) -> bool:
    """Whether a statement ends a streamed answer, see `sage_core.feedback.FeedbackConfig`."""
    if statement.refuted or stop_on != "unsupported":
        return statement.refuted and stop_on is not None
    return statement.probability is not None and statement.probability < threshold("unsupported_below")


def local_check(
    config: FeedbackConfig,
    question: str,
    texts: Callable[[Selection], Sequence[str]],
    judge: LocalJudge | None = None,
) -> Check | None:
    """The ``check`` of `sage_core.feedback.run_loop` for the config's ``critic`` and ``stop_on``.

    Returns:
        None where the critic alone grades.

    Raises:
        MissingExtraError: Where the critic is a model and transformers is not installed.
        ModelError: Where it cannot be loaded.
    """
    critic = None
    if config.critic != "llm":
        own = judge if config.checker is None else named_judge(config.checker)
        critic = LocalCritic(question, texts, judge=own, alone=config.grades_without_calls)
    if config.stop_on is None:
        return critic

    def check(selection: Selection, answer: str) -> Verdict | None:
        claims = (judge if judge is not None else shared_judge()).grounding(answer, texts(selection))
        for claim in claims:
            if ends_answer(claim, config.stop_on):  # what ended the answer before its end
                name = LocalJudge.name
                return Verdict(
                    VETOED_GRADE, 1, source=name, reason=f"“{claim.text}”: {claim.reason}", vetoed_by=name
                )
        return critic(selection, answer) if critic is not None else None

    return check


def vetoed(
    verdict: Verdict,
    answer: str,
    passages: Sequence[str],
    config: FeedbackConfig,
    judge: LocalJudge | None = None,
) -> Verdict:
    """A critic's verdict, overruled where it would accept what the passages contradict; no LLM is called.

    Models grade fluent answers well. ``benchmarks/judge.py --veto`` measures how many right answers lose
    their grade. A judge that fails overrules nothing.

    Examples:
        >>> passages = ["The ferry leaves at seven and takes 40 minutes."]
        >>> verdict = vetoed(Verdict(9), "The ferry takes 55 minutes.", passages, FeedbackConfig())
        >>> verdict.score, verdict.source, verdict.vetoed_by
        (3.0, 'critic', 'local judge')

    Args:
        verdict: The critic's.
        answer: What was graded.
        passages: What it was made from.
        config: Its ``veto`` says what overrules, its ``accept_score`` which grades are looked at.
        judge: Shared with the rest of the process where None.

    Returns:
        A grade of `VETOED_GRADE` that asks for more context, with the reason; else the verdict as it is.
    """
    if config.veto == "off" or verdict.score is None or verdict.score < config.accept_score:
        return verdict
    own = judge if judge is not None else shared_judge()
    claims = claims_or_unsure(lambda: own.grounding(answer, passages), answer)
    reason = next((f"“{c.text}”: {c.reason}" for c in claims if c.refuted), "")
    # What a few words claim depends on the question.
    if not reason and config.veto == "unsupported" and not _is_short(answer):
        held = support(claims)
        if held is not None and held < VETO_BELOW:
            reason = f"P(the passages support the answer) = {held:.2f}"
    if not reason:
        return verdict
    return replace(
        verdict,
        score=min(VETOED_GRADE, verdict.score),
        adjust=verdict.adjust or 1,
        reason=f"graded {verdict.score:g}, but {reason}",
        vetoed_by=LocalJudge.name,
    )


@lru_cache(maxsize=1)
def shared_judge() -> LocalJudge:
    """One judge for all loops of this process: its model is loaded once."""
    return LocalJudge()


@lru_cache(maxsize=2)
def named_judge(model: str) -> ModelJudge:
    """The judge with this model for all loops of this process, loaded."""
    judge = ModelJudge(model)
    judge.load()
    return judge


def _is_short(answer: str) -> bool:
    """Whether an answer is a name, a number or a few words rather than a sentence."""
    return len(stem_list(answer)) < _SHORT_ANSWER


def _agree(answer: str, located: str) -> bool:
    """Whether two short answers share at least half of the words of the shorter one."""
    own, other = set(stem_list(answer)), set(stem_list(located))
    return bool(own and other) and len(own & other) >= _SAME_ANSWER * min(len(own), len(other))


def _shown(probability: float | None) -> str:
    return "unknown" if probability is None else f"{probability:.2f}"
