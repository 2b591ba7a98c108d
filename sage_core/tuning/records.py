"""What settings are tried on: documents and questions about them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sage_core.errors import InputError
from sage_core.text.spans import Span


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
class Evidence:
    """Where a part of an answer stands: a span of one document."""

    document: str
    span: Span


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
        hard: Whether it belongs to the hard part of its set; None where the set has no such part.
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


ProgressCallback = Callable[[str, int, int], None]
"""Told the stage, how much of it is done, and how much there is."""
