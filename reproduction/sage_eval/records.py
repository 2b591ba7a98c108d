"""Documents, questions, what a method made of them, and the protocols of an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from sage_core.llm.usage import TokenUsage
from sage_core.text.spans import Span
from sage_core.tuning.records import Dataset, EvalDocument, EvalQuestion, Evidence, ProgressCallback

__all__ = [
    "Dataset",
    "EvalDocument",
    "EvalQuestion",
    "Evidence",
    "Hit",
    "Method",
    "MethodResult",
    "Piece",
    "PieceIndex",
    "ProgressCallback",
]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of text that can be retrieved.

    Attributes:
        text: Its text.
        document: The id of its document.
        span: Where it lies in that document; None where it is no slice of it (a summary).
    """

    text: str
    document: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A piece that was found, and its score: higher is better."""

    piece: Piece
    score: float


@dataclass(frozen=True, slots=True)
class MethodResult:
    """What a method made of one question.

    Attributes:
        answer: The answer.
        choice: Position of the option that the answer names; None for an open question or no option.
        context: The pieces that the returned answer was made from, in the order sent.
        ranked: Every piece retrieved, best first, before the cut.
        score: The critic's grade of the answer; None where there was none.
        rounds: Rounds of answering.
        stop_reason: Why it stopped, where there was a loop.
        usage: LLM tokens by role (``answer``, ``critic``, ``summary``, ``question`` ...).
        seconds: Time by stage (``retrieve``, ``rerank``, ``select``, ``generate``, ``judge`` ...).
        context_tokens: Tokens of the context.
    """

    answer: str
    choice: int | None
    context: tuple[Piece, ...]
    ranked: tuple[Hit, ...] = ()
    score: float | None = None
    rounds: int = 1
    stop_reason: str = ""
    usage: Mapping[str, TokenUsage] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    context_tokens: int = 0


@runtime_checkable
class PieceIndex(Protocol):
    """A retriever over pieces."""

    @property
    def name(self) -> str:
        """Identifies retriever and model in reports."""
        ...

    def build(self, pieces: Sequence[Piece], *, progress: ProgressCallback | None = None) -> None:
        """Index ``pieces``; what was indexed before is forgotten."""
        ...

    def search(self, question: str, k: int) -> list[Hit]:
        """The best ``k`` pieces, best first; fewer where there are not so many."""
        ...


@runtime_checkable
class Method(Protocol):
    """A way to answer questions about documents: a row of a table."""

    @property
    def name(self) -> str:
        """As shown in tables."""
        ...

    def settings(self) -> Mapping[str, object]:
        """Everything that changes the result, JSON-ready: models by name, sizes, prompts by digest."""
        ...

    def prepare(
        self, documents: Sequence[EvalDocument], *, progress: ProgressCallback | None = None
    ) -> Mapping[str, TokenUsage]:
        """Cut, summarize, index; returns the LLM usage by role (empty where no LLM was asked).

        For a data set that is not pooled the runner calls it once per document, and then asks the questions
        about that document.
        """
        ...

    def answer(self, question: EvalQuestion) -> MethodResult:
        """Answer one question about what was prepared.

        Raises:
            LLMError: Where the LLM gave no answer; the runner notes it and goes on.
        """
        ...
