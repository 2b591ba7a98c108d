"""Two methods that frame a table: an answer without any passage, and one with exactly the right passages."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from sage_core.answering import Answerer, chosen_option
from sage_core.errors import InputError
from sage_core.evaluation.protocols import ProgressCallback
from sage_core.evaluation.records import EvalDocument, EvalQuestion, Hit, MethodResult, Piece
from sage_core.llm.usage import TokenUsage
from sage_core.text.spans import Span
from sage_core.text.tokens import TokenCounter


class NoContext:
    """The reader alone: what it knows without any passage (Chronicles of RAG, section 4.1)."""

    def __init__(self, reader: Answerer, counter: TokenCounter, *, name: str = "no context") -> None:
        self.name = name
        self._reader = reader
        self._counter = counter

    def settings(self) -> Mapping[str, object]:
        """See `Method.settings`."""
        return {"method": "no-context", "reader": self._reader.label}

    def prepare(
        self, documents: Sequence[EvalDocument], *, progress: ProgressCallback | None = None
    ) -> Mapping[str, TokenUsage]:
        """Nothing to do."""
        return {}

    def answer(self, question: EvalQuestion) -> MethodResult:
        """See `Method.answer`."""
        return _answered(self._reader, self._counter, question, ())


class GoldContext:
    """The marked evidence as the context: what a perfect retriever would bring (Chronicles, section 3.1).

    Args:
        reader: Answers.
        counter: Counts context tokens.
        name: As shown in tables.
        padding: Characters of the document that are sent along on both sides of the evidence.
    """

    def __init__(
        self, reader: Answerer, counter: TokenCounter, *, name: str = "gold context", padding: int = 300
    ) -> None:
        if padding < 0:
            raise InputError(f"padding must be at least 0 characters, not {padding}")
        self.name = name
        self._reader = reader
        self._counter = counter
        self._padding = padding
        self._texts: dict[str, str] = {}

    def settings(self) -> Mapping[str, object]:
        """See `Method.settings`."""
        return {"method": "gold-context", "reader": self._reader.label, "padding": self._padding}

    def prepare(
        self, documents: Sequence[EvalDocument], *, progress: ProgressCallback | None = None
    ) -> Mapping[str, TokenUsage]:
        """Remember the texts."""
        self._texts = {d.id: d.text for d in documents}
        return {}

    def answer(self, question: EvalQuestion) -> MethodResult:
        """See `Method.answer`.

        Raises:
            InputError: For a question without marked evidence.
        """
        if not question.evidence:
            raise InputError("no evidence is marked for this question, so there is no gold context")
        pieces = []
        for evidence in question.evidence:
            text = self._texts[evidence.document]
            start = max(0, evidence.span.start - self._padding)
            end = min(len(text), evidence.span.end + self._padding)
            pieces.append(Piece(text[start:end], evidence.document, Span(start, end)))
        return _answered(self._reader, self._counter, question, tuple(dict.fromkeys(pieces)))


def _answered(
    reader: Answerer, counter: TokenCounter, question: EvalQuestion, pieces: tuple[Piece, ...]
) -> MethodResult:
    texts = [piece.text for piece in pieces]
    start = time.perf_counter()
    answer, usage = reader.generate(question.text, texts, options=question.options or None)
    seconds = time.perf_counter() - start
    return MethodResult(
        answer=answer,
        choice=chosen_option(answer, question.options) if question.options else None,
        context=pieces,
        ranked=tuple(Hit(piece, 1.0) for piece in pieces),
        usage={"answer": usage},
        seconds={"generate": seconds},
        context_tokens=sum(counter.count_many(texts)),
    )
