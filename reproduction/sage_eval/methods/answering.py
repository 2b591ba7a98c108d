"""The last step of every method: the reader answers from a context, and what it took is written down."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sage_app.answers import Answerer
from sage_core.feedback import CRITIC_SYSTEM, CRITIC_SYSTEM_CHOICE, CRITIC_USER
from sage_core.llm.prompting import NO_ANSWER
from sage_core.llm.prompts import ANSWER_SYSTEM, ANSWER_SYSTEM_CHOICE, ANSWER_USER
from sage_core.llm.usage import TokenUsage
from sage_core.text.tokens import TokenCounter, without_lone_surrogates
from sage_eval.options import chosen_option as option_named
from sage_eval.records import EvalQuestion, Hit, MethodResult, Piece


class Stopwatch:
    """Adds up wall-clock seconds by stage. One question or one preparation each; not for several threads."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time until the block ends, also by an error."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Reading:
    """A reader and what counts its context."""

    reader: Answerer
    counter: TokenCounter

    def describe(self) -> dict[str, object]:
        """What changes answers and counts, JSON-ready."""
        return {
            "reader": self.reader.label,
            "counter": self.counter.name,
            "prompts": {
                "answer": digest(ANSWER_SYSTEM, ANSWER_SYSTEM_CHOICE, ANSWER_USER),
                "critic": digest(CRITIC_SYSTEM, CRITIC_SYSTEM_CHOICE, CRITIC_USER),
            },
        }

    def tokens(self, pieces: Sequence[Piece]) -> int:
        """Tokens of a context."""
        return sum(self.counter.count_many([piece.text for piece in pieces]))

    def generate(
        self, question: EvalQuestion, context: Sequence[Piece], watch: Stopwatch
    ) -> tuple[str, TokenUsage]:
        """The reader's answer.

        Raises:
            LLMError: Where there is none.
        """
        with watch.stage("generate"):
            return self.reader.generate(
                text_of(question), [piece.text for piece in context], options=question.options or None
            )

    def once(
        self,
        question: EvalQuestion,
        context: Sequence[Piece],
        watch: Stopwatch,
        *,
        ranked: Sequence[Hit] = (),
        stop_reason: str = "",
    ) -> MethodResult:
        """One answer from a context. Without a context the reader is not asked: the documents do not say."""
        if not context:
            return empty(question, ranked, watch)
        answer, usage = self.generate(question, context, watch)
        return MethodResult(
            answer,
            choice_of(question, answer),
            tuple(context),
            tuple(ranked),
            stop_reason=stop_reason,
            usage={"answer": usage},
            seconds=watch.seconds,
            context_tokens=self.tokens(context),
        )


def empty(question: EvalQuestion, ranked: Sequence[Hit], watch: Stopwatch) -> MethodResult:
    """The result where nothing was found: no call, and the sentence that says so."""
    return MethodResult(
        NO_ANSWER, None, (), tuple(ranked), rounds=0, stop_reason="empty", usage={}, seconds=watch.seconds
    )


def choice_of(question: EvalQuestion, answer: str) -> int | None:
    """The option an answer names; None for an open question."""
    return option_named(answer, question.options) if question.options else None


def text_of(question: EvalQuestion) -> str:
    """The question as models can read it."""
    return without_lone_surrogates(question.text)


def digest(*texts: str) -> str:
    """A short name for texts: equal texts, equal names."""
    return hashlib.sha256("\x00".join(texts).encode()).hexdigest()[:12]
