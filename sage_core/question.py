"""One question on its way: its candidates, and rounds of answer and grade.

What comes next is decided by `FeedbackLoop`; how passages are found, shown and answered from, by the subclass
that each framework has. Between the two everything happens here, once for all.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Generic, TypeVar

from sage_core.feedback import (
    Check,
    FeedbackConfig,
    FeedbackLoop,
    FeedbackResult,
    Generate,
    Judge,
    Step,
    Verdict,
)
from sage_core.feedback.drivers import Answered, Compute, Judged, Steps, loop_steps, one_step
from sage_core.llm.usage import TokenUsage
from sage_core.selection import Selection
from sage_core.verify import (
    Source,
    correct_citations,
    local_check,
    settled,
)

T = TypeVar("T")


class Question(ABC, Generic[T]):
    """Carries out what a `FeedbackLoop` asks for, over candidates of type ``T``.

    Its generators are run by `sage_core.feedback.drivers.drive`, ``adrive`` and ``drive_pieces``.

    Args:
        text: The user's question; never changed, so that every round is judged against it.
        config: Settings of the loop.
        candidates: What the search found.

    Attributes:
        failures: Errors of a model that end the loop with the best answer so far; others are raised.
    """

    failures: ClassVar[tuple[type[Exception], ...]] = (Exception,)

    def __init__(self, text: str, config: FeedbackConfig, candidates: Sequence[T]) -> None:
        self.text = text
        self.config = config
        self.candidates = candidates
        self._local: Check | None = None

    # What a framework does in its own way

    @abstractmethod
    def passages(self, selection: Selection) -> list[str]:
        """The texts of a selection as the model is shown them."""

    @abstractmethod
    def sources(self, selection: Selection) -> list[Source]:
        """Where each passage of a selection is from."""

    @abstractmethod
    def generate(self, selection: Selection) -> Steps[Answered]:
        """Answer from a selection."""

    @abstractmethod
    def judge(self, selection: Selection, answer: str) -> Steps[Judged]:
        """Have an answer graded by the critic; the grade goes through `reviewed`."""

    # The rounds

    def load_check(self) -> None:
        """Make the check without an LLM that the settings ask for. Call it early: it may load a model."""
        own = weakref.proxy(self)  # else a cycle keeps the store's files open
        passages, sources = (lambda s: own.passages(s)), (lambda s: own.sources(s))
        self._local = local_check(self.config, self.text, passages, sources=sources)

    def rounds(self, loop: FeedbackLoop) -> Steps[FeedbackResult]:
        """Answer and grade to the loop's end."""
        return loop_steps(loop, self.generate, self.judge, self.check, self.failures)

    def corrected(self, result: FeedbackResult) -> FeedbackResult:
        """The result with the right numbers of passages in its answer, where the settings ask for it."""
        marks = result.verdict.marks if result.verdict is not None and self.config.correct else ()
        return replace(result, answer=correct_citations(marks)) if marks else result

    def round_of(self, answer: str, usage: TokenUsage | None, loop: FeedbackLoop) -> Steps[FeedbackResult]:
        """Grade an answer that was shown already, such as a stream; the loop has one round."""

        def shown(_: Selection) -> Steps[Answered]:
            return answer, usage
            yield  # what makes this a generator: it returns before it asks for anything

        return loop_steps(loop, shown, self.judge, self.check, self.failures)

    def step(self, loop: FeedbackLoop, request: Generate | Judge) -> Steps[Step]:
        """Carry out one request of the loop."""
        return one_step(loop, request, self.generate, self.judge, self.check, self.failures)

    def check(self, selection: Selection, answer: str) -> Verdict | None:
        """The grade that needs no LLM; None if the critic is to give it."""
        return self._local(selection, answer) if self._local is not None else None

    def reviewed(self, verdict: Verdict, selection: Selection, answer: str) -> Compute[Verdict]:
        """One verdict out of the critic's and of what the passages support, see `settled`."""
        shown, sources = self.passages(selection), self.sources(selection)
        return Compute(settled, verdict, self.text, answer, shown, self.config, sources=sources)
