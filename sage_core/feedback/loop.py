"""The feedback loop as a state machine over plain data (paper, section VI).

Each call returns the next request; the caller carries it out and feeds back the reply. No input or output
happens here, so one implementation serves sync, async and streaming callers:

    loop = FeedbackLoop(scores, "logit", FeedbackConfig())
    step = loop.start()
    while not isinstance(step, Done):
        match step:
            case Generate(selection):
                step = loop.answered(text, usage)
            case Judge(selection, answer):
                step = loop.judged(verdict, usage)
    step.result
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from sage_core.errors import InputError
from sage_core.feedback.moves import AdaptiveMoves, Move, PaperMoves
from sage_core.feedback.types import (
    Done,
    FeedbackConfig,
    FeedbackResult,
    Generate,
    Judge,
    Round,
    StopReason,
    Verdict,
)
from sage_core.llm.abstentions import abstains
from sage_core.llm.prompting import phrases_for
from sage_core.llm.reasoning import without_reasoning
from sage_core.llm.usage import NO_USAGE, TokenUsage, total_usage
from sage_core.selection.cut import Selection
from sage_core.selection.scales import Scale, usable_scores

# What a step is booked as when the caller cannot say what it took: one call, tokens unknown.
UNKNOWN_USAGE = TokenUsage(calls=1, estimated=True)


class FeedbackLoop:
    """Answers, has the answer graded, changes the evidence, and keeps the best answer.

    One loop is one question; it is not to be shared between threads. The same replies give the same trace.

    Examples:
        >>> from sage_core.selection import SelectionConfig
        >>> config = FeedbackConfig(selection=SelectionConfig(rule="gradient", min_k=1))
        >>> loop = FeedbackLoop([0.9, 0.8, 0.1], config=config)
        >>> loop.start().selection.indices  # show these chunks to the model
        (0, 1)
        >>> step = loop.answered("At seven.")
        >>> loop.judged(Verdict(4, adjust=+1)).selection.indices  # graded 4: more context
        (0, 1, 2)
        >>> step = loop.answered("At seven, but not on Sundays.")
        >>> loop.judged(Verdict(10)).result.stop_reason
        'accepted'

    Args:
        scores: One per candidate, in any order; see `sage_core.selection.cut.select`.
        scale: What the scores are.
        config: Settings; the defaults where None.
        sizes: Tokens of each candidate. With them, ties between answers go to the smaller context and
            ``max_llm_tokens`` foresees how much a wider context will take.
        first: The first selection, where it was made already with ``config.selection``; None makes it here.
        question: The question, in whose language the loop says that nothing is relevant.

    Raises:
        InputError: For scores that are no numbers, where ``sizes`` has another length than ``scores`` or
            holds a negative number, and where ``first`` is of another number of candidates.
    """

    def __init__(
        self,
        scores: Sequence[float | None],
        scale: Scale = "probability",
        config: FeedbackConfig | None = None,
        *,
        sizes: Sequence[int] | None = None,
        first: Selection | None = None,
        question: str = "",
    ) -> None:
        self.config = config if config is not None else FeedbackConfig()
        scores = usable_scores(scores)
        if sizes is not None and len(sizes) != len(scores):
            raise InputError(f"{len(sizes)} sizes for {len(scores)} scores: one size per candidate")
        if sizes is not None and any(size < 0 for size in sizes):
            raise InputError("a candidate's size cannot be negative")
        if first is not None and first.candidates != len(scores):
            raise InputError(f"the first selection is of {first.candidates} candidates, not {len(scores)}")
        self._question = question
        self._sizes = tuple(sizes) if sizes is not None else None
        self._scores, self._scale = tuple(scores), scale
        # A selection is a prefix of the ranking, so what is left to try follows from the scores alone.
        moves = PaperMoves if self.config.policy == "paper" else AdaptiveMoves
        self._moves: AdaptiveMoves | PaperMoves = moves(self._scores, scale, self.config, first, self._sizes)
        self._first = self._moves.first()
        self._rounds: list[Round] = []
        self._state: Literal["new", "generate", "judge", "done"] = "new"
        self._result: FeedbackResult | None = None

    @property
    def result(self) -> FeedbackResult:
        """The result, once the loop is done.

        Raises:
            InputError: Before that.
        """
        if self._result is None:
            raise InputError("the feedback loop has no result yet: drive it until it returns Done")
        return self._result

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds so far, the current one included."""
        return tuple(self._rounds)

    @property
    def first_selection(self) -> Selection:
        """What the loop begins with; empty where nothing is selected."""
        return self._first.selection

    def start(self) -> Generate | Done:
        """Begin: ask for the first answer, or end at once where there are no candidates."""
        self._expect("new")
        if not self._first.selection.cut:
            return self._finish(
                "nothing_relevant" if self._scores else "no_candidates", self._first.selection
            )
        return self._ask(self._first)

    def answered(self, text: str, usage: TokenUsage | None = None) -> Judge | Generate | Done:
        """Tell the loop the answer it asked for; the next step is mostly to grade it.

        Args:
            text: The answer; reasoning in it is left out.
            usage: What it took; None if unknown, which is booked as one call.
        """
        self._expect("generate")
        text = without_reasoning(text)
        self._update(answer=text, answer_usage=usage or UNKNOWN_USAGE)
        agreed = self.config.no_answer if self.config.policy == "adaptive" else ()
        if (agreed and abstains(text, agreed)) or not text.strip():
            # The paper has the critic grade it; its instructions settle the grade, so the call is saved.
            verdict = Verdict(1, 1, source="no answer", reason="the answer itself says that more is needed")
            return self._settled(verdict, NO_USAGE)
        # A local grade costs nothing; the driver looks at the budget before it asks the LLM after all.
        if self.config.critic == "llm" and self._over_for_grade():
            return self._finish("budget")
        self._state = "judge"
        # The text as it was given: a citation or a mark is an offset into it.
        return Judge(self._rounds[-1].selection, text, len(self._rounds))

    def answer_failed(self, reason: str, usage: TokenUsage | None = None) -> Done:
        """Tell the loop that the answer could not be made; an earlier round's answer is kept.

        Args:
            reason: Why, in words.
            usage: What the attempt took, as for `answered`.

        Raises:
            InputError: In the first round, where there is no earlier answer to return.
        """
        self._expect("generate")
        if len(self._rounds) < 2:
            raise InputError("the first answer failed, so there is none to return: raise the LLM's own error")
        self._update(error=reason, answer_usage=usage or UNKNOWN_USAGE)
        return self._finish("answer_failed")

    def before_critic(self) -> Done | None:
        """End where a call of the LLM critic would go over the budget; None if it may be asked."""
        self._expect("judge")
        return self._finish("budget") if self._over_for_grade() else None

    def judged(self, verdict: Verdict, usage: TokenUsage | None = None) -> Generate | Done:
        """Tell the loop the grade it asked for.

        Args:
            verdict: The grade; one with ``parsed=False`` ends the loop as ``critic_failed``.
            usage: What it took, as for `answered`.
        """
        self._expect("judge")
        return self._settled(verdict, usage or UNKNOWN_USAGE)

    def critic_failed(self, reason: str, usage: TokenUsage | None = None) -> Done:
        """Tell the loop that no grade could be had; the best answer so far is kept.

        Args:
            reason: Why, in words.
            usage: What the attempt took, as for `answered`.
        """
        self._expect("judge")
        self._update(error=reason, grade_usage=usage or UNKNOWN_USAGE)
        return self._finish("critic_failed")

    def _settled(self, verdict: Verdict, usage: TokenUsage) -> Generate | Done:
        """End, or go on, after a grade."""
        # A veto is later than the grade and stronger: it knows what the passages say.
        accepted = (verdict.score or 0) >= self.config.accept_score and not verdict.vetoed_by
        self._update(verdict=replace(verdict, accepted=accepted), grade_usage=usage)
        # Another answer would be as ungraded as this one: asking again costs and tells nothing.
        if verdict.score is None:
            return self._finish("critic_failed")
        if accepted:
            return self._finish("accepted")
        if len(self._rounds) >= self.config.max_rounds:
            return self._finish("max_rounds")
        move = self._moves.next(self._rounds[-1].selection.cut, verdict.adjust)
        if move is None:
            return self._finish("unchanged")
        calls = 1 if self.config.critic == "local" else 2
        if self._over(calls=calls, tokens=self._foreseen(move.selection)):
            return self._finish("budget")
        return self._ask(move)

    def _expect(self, state: Literal["new", "generate", "judge"]) -> None:
        if self._state != state:
            waits = {
                "new": "start()",
                "generate": "answered()",
                "judge": "judged()",
                "done": "nothing: it has ended",
            }
            raise InputError(f"the feedback loop waits for {waits[self._state]}")

    def _ask(self, move: Move) -> Generate:
        self._rounds.append(Round(len(self._rounds) + 1, move.min_k, move.selection))
        self._state = "generate"
        return Generate(move.selection, len(self._rounds))

    def _update(self, **changes: Any) -> None:
        """Fill in what has just been learned of the current round."""
        self._rounds[-1] = replace(self._rounds[-1], **changes)

    def _over_for_grade(self) -> bool:
        """Whether an LLM's grade would go over: it reads what the answer read, and the answer."""
        return self._over(calls=1, tokens=self._rounds[-1].answer_usage.total)

    def _over(self, *, calls: int, tokens: int) -> bool:
        """Whether so many more calls or tokens would go over the budget."""
        spent = total_usage(part for r in self._rounds for part in (r.answer_usage, r.grade_usage))
        config = self.config
        return (config.max_calls is not None and spent.calls + calls > config.max_calls) or (
            config.max_llm_tokens is not None and spent.total + tokens > config.max_llm_tokens
        )

    def _foreseen(self, selection: Selection) -> int:
        """Tokens a round with this selection will take: the last round's, and the context's growth twice."""
        last = self._rounds[-1]
        growth = 0
        if self._sizes is not None:
            growth = self._tokens(selection) - self._tokens(last.selection)
        return max(last.answer_usage.total + last.grade_usage.total + 2 * growth, 0)

    def _tokens(self, selection: Selection) -> int:
        """Tokens of a selection's context; its number of chunks where sizes were not given."""
        if self._sizes is None:
            return selection.cut
        return sum(self._sizes[i] for i in selection.indices)

    def _best(self) -> Round | None:
        """The round to return: best grade, then fewest context tokens, then earliest; else any answer."""
        answered = [r for r in self._rounds if r.answer is not None]
        graded = [r for r in answered if r.score is not None]
        if graded:
            return min(graded, key=lambda r: (-(r.score or 0), self._tokens(r.selection), r.number))
        return answered[0] if answered else None

    def _finish(self, reason: StopReason, selection: Selection | None = None) -> Done:
        best = self._best() or Round(0, 0, selection or Selection((), (), 0, ""))
        rounds = tuple(self._rounds)
        nothing = phrases_for(self._question).no_answer if reason == "nothing_relevant" else ""
        self._result = FeedbackResult(
            best.answer or nothing,
            best.score,
            best.verdict,
            best.selection,
            rounds,
            reason,
            best.number,
        )
        self._state = "done"
        return Done(self._result)
