"""Documents, questions, what a method made of them, and the protocols of an experiment."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from sage_app.calibrate.quotations import Evidence
from sage_core.errors import InputError
from sage_core.llm.usage import TokenUsage
from sage_core.text.spans import Span

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
]


@dataclass(frozen=True, slots=True)
class EvalDocument:
    """A document that questions are asked about.

    Attributes:
        id: Unique in its data set.
        text: The whole text; evidence spans are positions in it.
        title: Its title, empty where there is none.
        abstract: Its abstract or summary, empty where there is none.
    """

    id: str
    text: str
    title: str = ""
    abstract: str = ""


@dataclass(frozen=True, slots=True)
class EvalQuestion:
    """A question, what answers it, and where.

    Attributes:
        id: Unique in its data set.
        document: The document it is asked about (its first, where the evidence lies in several).
        text: The question.
        answers: Reference answers, any of which is right; empty where none is known.
        evidence: Where the answer stands; empty where that is not marked.
        options: Options of a multiple-choice question, else empty.
        gold: Position of the right option, else None.
        hard: Whether it belongs to the hard part of its set; None if the set has no such part.
    """

    id: str
    document: str
    text: str
    answers: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    options: tuple[str, ...] = ()
    gold: int | None = None
    hard: bool | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """Documents and questions about them.

    Attributes:
        name: The name it was loaded by.
        documents: The documents.
        questions: The questions; each names one of the documents.
        pooled: Whether all documents are searched for every question, or only the question's own.
        source: The file or hub name it came from, for the record.

    Raises:
        InputError: For repeated ids, a question about a document that is not there, evidence outside its
            document, or a gold option that is not there.
    """

    name: str
    documents: tuple[EvalDocument, ...]
    questions: tuple[EvalQuestion, ...]
    pooled: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        lengths = {d.id: len(d.text) for d in self.documents}
        for kind, ids in (("documents", self.documents), ("questions", self.questions)):
            if repeated := [key for key, n in Counter(item.id for item in ids).items() if n > 1]:
                raise InputError(
                    f"data set {self.name!r}: {kind} with the same id: {', '.join(repeated[:5])}"
                )
        for question in self.questions:
            self._check(question, lengths)

    def _check(self, question: EvalQuestion, lengths: Mapping[str, int]) -> None:
        where = f"data set {self.name!r}, question {question.id!r}"
        for document in (question.document, *(e.document for e in question.evidence)):
            if document not in lengths:
                raise InputError(f"{where}: there is no document {document!r}")
        for evidence in question.evidence:
            if not 0 <= evidence.span.start < evidence.span.end <= lengths[evidence.document]:
                raise InputError(f"{where}: evidence {tuple(evidence.span)} lies outside its document")
        if question.gold is not None and not 0 <= question.gold < len(question.options):
            raise InputError(
                f"{where}: option {question.gold} of {len(question.options)} is said to be right"
            )

    def sample(self, questions: int, *, seed: int = 0) -> Dataset:
        """So many questions, drawn with ``seed``, in their old order, with the documents that are searched.

        Those are all documents of a pooled set, else the ones asked about.
        """
        picked = list(self.questions)
        if questions < len(picked):
            chosen = sorted(random.Random(seed).sample(range(len(picked)), questions))
            picked = [picked[i] for i in chosen]
        used = {q.document for q in picked} | {e.document for q in picked for e in q.evidence}
        documents = self.documents if self.pooled else tuple(d for d in self.documents if d.id in used)
        return replace(self, documents=documents, questions=tuple(picked))


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of text that can be retrieved.

    Attributes:
        text: Its text.
        document: The id of its document.
        span: Where it lies in that document; None if it is no slice of it (a summary).
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
        score: The critic's grade of the answer; None if there was none.
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

    def build(self, pieces: Sequence[Piece]) -> None:
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

    def prepare(self, documents: Sequence[EvalDocument]) -> Mapping[str, TokenUsage]:
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
