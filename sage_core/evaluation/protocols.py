"""The doors between data sets, retrievers, methods and the runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from sage_core.evaluation.records import EvalDocument, EvalQuestion, Hit, MethodResult, Piece
from sage_core.llm.usage import TokenUsage

ProgressCallback = Callable[[str, int, int], None]
"""Told the stage, how much of it is done, and how much there is."""


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
        """Cut, summarise, index; returns the LLM usage by role (empty where no LLM was asked).

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
