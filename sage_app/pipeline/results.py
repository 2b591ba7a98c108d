"""Results of `sage_app.Sage`: frozen data with a JSON-ready form."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import PurePath

from sage_app.store.chunks import Chunk
from sage_core._display import Displayable
from sage_core.feedback import FeedbackResult
from sage_core.selection import Scale, Selection
from sage_core.text.header import with_header
from sage_core.verify import (
    AnswerMark,
    LocalJudge,
    mark_answer,
)


@dataclass(frozen=True, slots=True)
class NamedBy:
    """What names a document.

    Examples:
        >>> NamedBy("Mara Holt").chunk_id is None
        True

    Attributes:
        name: The name as it is written there.
        chunk_id: The chunk that names it; None for the question.
    """

    name: str
    chunk_id: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk fetched from the store and scored by the reranker.

    Examples:
        >>> chunk = Chunk("1", "The ferry leaves at seven.", "ferry.txt", 0, 26)
        >>> Candidate(chunk, score=0.9, similarity=0.7, tokens=6).to_dict()["score"]
        0.9

    Attributes:
        chunk: The chunk.
        score: The reranker's score; None if it gave none.
        similarity: Cosine similarity to the question in the store.
        tokens: Length of its text.
        own_score: The reranker's score before the chunks beside it vouched for it
            (`sage_core.ranking.vouch`); None if it gave none, or nobody vouches.
        named_by: What names its document (`SageConfig.links`), those of higher score first.
        place: What an LLM is told before its text: title and headings, and the file where titles repeat.
        place_tokens: Length of that.
        copies: Chunks of the same text elsewhere; it is sent once.
    """

    chunk: Chunk
    score: float | None
    similarity: float
    tokens: int
    own_score: float | None = None
    named_by: tuple[NamedBy, ...] = ()
    place: str = ""
    place_tokens: int = 0
    copies: tuple[Chunk, ...] = ()

    @property
    def tokens_in_prompt(self) -> int:
        """Length of what an LLM is sent of it, its place included."""
        return self.tokens + self.place_tokens

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form (an infinite score becomes None)."""
        score = self.score if self.score is not None and math.isfinite(self.score) else None
        form = {**self.chunk.to_dict(), "score": score, "similarity": self.similarity, "tokens": self.tokens}
        if self.copies:
            form["also_in"] = [{"source": c.source, "start": c.start, "end": c.end} for c in self.copies]
        if self.named_by:
            form["named_by"] = [asdict(by) for by in self.named_by]
        return form


@dataclass(frozen=True, slots=True)
class Retrieval(Displayable):
    """What was found for a question.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from sage_app import Sage
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "ferry.txt").write_text("The ferry leaves at seven. It returns at noon.")
        >>> with Sage(folder / "store") as sage:
        ...     _ = sage.ingest(folder / "ferry.txt")
        ...     retrieval = sage.retrieve("When does the ferry leave?")
        >>> [hit.chunk.text for hit in retrieval.hits]
        ['The ferry leaves at seven. It returns at noon.']

    Attributes:
        question: The question.
        candidates: The chunks fetched, best score first.
        selection: Which of them were kept; its indices are positions in ``candidates``.
        scale: What the scores are.
        reranker: Name of the reranker.
        counter: Name of the token counter of all token figures.
    """

    question: str
    candidates: tuple[Candidate, ...]
    selection: Selection
    scale: Scale
    reranker: str
    counter: str

    @property
    def hits(self) -> tuple[Candidate, ...]:
        """The candidates kept, best first."""
        return self.chosen(self.selection)

    def chosen(self, selection: Selection) -> tuple[Candidate, ...]:
        """The candidates of another selection, such as a later round's."""
        return tuple(self.candidates[i] for i in selection.indices)

    def names_in(self, candidate: Candidate) -> dict[str, str]:
        """Names and links in a candidate's text, each with the document in the store that it leads to."""
        own = candidate.chunk.id
        return {by.name: c.chunk.source for c in self.candidates for by in c.named_by if by.chunk_id == own}

    def texts(self, selection: Selection) -> list[str]:
        """What is sent for a selection: a passage for each of its indices."""
        return [c.chunk.text for c in self.chosen(selection)]

    def prompt_texts(self, selection: Selection) -> list[str]:
        """`texts` as an LLM is shown them, each after its place."""
        return [with_header(c.place, c.chunk.text) for c in self.chosen(selection)]

    def places(self, selection: Selection) -> list[str]:
        """Where each of the `texts` is from, for people: the file, then title and headings."""
        chunks = [c.chunk for c in self.chosen(selection)]
        return [", ".join(filter(None, (PurePath(c.source).name or c.source, c.header))) for c in chunks]

    def context(self, selection: Selection) -> list[dict[str, object]]:
        """Where each of the `texts` comes from, JSON-ready."""
        chunks = [c.chunk for c in self.chosen(selection)]
        return [{"source": c.source, "span": [c.start, c.end]} for c in chunks]

    @property
    def tokens(self) -> int:
        """Tokens of what is sent of the candidates kept."""
        return self.tokens_of(self.selection)

    def tokens_of(self, selection: Selection) -> int:
        """Tokens of what is sent for a selection."""
        return sum(c.tokens for c in self.chosen(selection))

    @property
    def tokens_all(self) -> int:
        """Tokens of all candidates."""
        return sum(c.tokens for c in self.candidates)

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        return {
            "question": self.question,
            "candidates": [c.to_dict() for c in self.candidates],
            "selection": self.selection.to_dict(),
            "scale": self.scale,
            "reranker": self.reranker,
            "context": self.context(self.selection),
            "tokens": {
                "selected": self.tokens,
                "all_candidates": self.tokens_all,
                "counter": self.counter,
            },
        }


@dataclass(frozen=True, slots=True)
class Answer(Displayable):
    """An answer and how it came about.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from sage_app import Sage
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "ferry.txt").write_text("The ferry leaves at seven in the morning.")
        >>> with Sage(folder / "store") as sage:
        ...     _ = sage.ingest(folder / "ferry.txt")
        ...     answer = sage.ask("When does the ferry leave?")
        >>> "at seven" in answer.text.replace("**", ""), answer.answerer, len(answer.sources)
        (True, 'extractive, no LLM', 1)

    Attributes:
        text: The answer; empty where the store had nothing to show.
        answerer: Who answered: a model's name, or "extractive, no LLM".
        retrieval: What was found, and the first selection.
        feedback: The rounds of answering and grading, and the selection of the answer returned.
    """

    text: str
    answerer: str
    retrieval: Retrieval
    feedback: FeedbackResult

    @property
    def question(self) -> str:
        """The question."""
        return self.retrieval.question

    @property
    def score(self) -> float | None:
        """The answer's grade from 1 to 10; None if it was not graded."""
        return self.feedback.score

    @property
    def sources(self) -> tuple[Candidate, ...]:
        """The chunks the answer was made from, best first."""
        return self.retrieval.chosen(self.feedback.selection)

    @property
    def tokens(self) -> int:
        """Tokens of what was sent of those chunks."""
        return self.retrieval.tokens_of(self.feedback.selection)

    def marks(self, judge: LocalJudge | None = None) -> tuple[AnswerMark, ...]:
        """The parts of the answer, and whether the text that was sent supports them; no LLM is called.

        ``passage`` of a mark is a position in ``retrieval.texts(feedback.selection)``; `candidate_of` gives
        the chunk. Results of the shared judge are kept for the last few answers.

        Args:
            judge: None for the marks of the verdict; else see `sage_core.verify.mark_answer`.
        """
        verdict = self.feedback.verdict
        if judge is None and verdict is not None and verdict.marks:
            return verdict.marks
        passages = self.retrieval.texts(self.feedback.selection)
        return mark_answer(self.text, passages, question=self.question, judge=judge)

    def candidate_of(self, mark: AnswerMark) -> int | None:
        """Position in ``retrieval.candidates`` of the chunk that supports a part; None if none does."""
        return None if mark.passage is None else self.feedback.selection.indices[mark.passage]

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        return {
            "question": self.question,
            "answer": self.text,
            "answerer": self.answerer,
            "score": self.score,
            "stop_reason": self.feedback.stop_reason,
            "context": self.retrieval.context(self.feedback.selection),
            "retrieval": self.retrieval.to_dict(),
            "feedback": self.feedback.to_dict(),
        }
