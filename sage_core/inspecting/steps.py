"""The steps of one question: what each search found, what ranking moved, where it was cut, what was sent."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sage_core.ranking import Place, link
from sage_core.text.keywords import words

TOP_K = 10
"""The fixed k that a selection is compared with."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as one step returned it.

    Attributes:
        text: Its text.
        id: Of the node or document; empty where it has none.
        title: Of its document, with the headings above it; empty where not known.
        source: File or address of its document; empty where not known.
        start: Offset of its text in the document; None if not known.
        score: As the step gave it; None if it gave none.
        tokens: Of what an LLM reads.
        prompt: What an LLM reads, where that is not ``text``; else empty.
        number: The same in every step of an `Inspection`, from 1 on, in order of appearance.
    """

    text: str
    id: str = ""
    title: str = ""
    source: str = ""
    start: int | None = None
    score: float | None = None
    tokens: int = 0
    prompt: str = ""
    number: int = 0

    @property
    def key(self) -> str:
        """What the same passage has in common wherever it appears."""
        return " ".join(self.text.split())

    def scored(self, score: float | None) -> Passage:
        """The same with this score."""
        return replace(self, score=score)


@dataclass(frozen=True, slots=True)
class Step:
    """What one part of a retriever returned.

    Attributes:
        name: Of the part: its class, after the wrappers around it that changed nothing.
        passages: What it returned, in its order.
        incoming: Numbers of the passages it was given, in their order; empty for a search.
        question: What it was asked, where that is not the question itself.
        scale: What the scores are; empty where not known.
        reason: Where it cut and why; empty where it did not say.
        settings: Such as ``similarity_top_k=4``.
    """

    name: str
    passages: tuple[Passage, ...]
    incoming: tuple[int, ...] = ()
    question: str = ""
    scale: str = ""
    reason: str = ""
    settings: str = ""

    @property
    def dropped(self) -> tuple[int, ...]:
        """Numbers of the passages that it was given and did not return."""
        returned = {p.number for p in self.passages}
        return tuple(n for n in self.incoming if n not in returned)

    @property
    def summary(self) -> str:
        """What it did, in a few words."""
        if not self.incoming:
            return f"{len(self.passages)} found"
        numbers = [p.number for p in self.passages]
        added = len({*numbers} - {*self.incoming})
        parts = [f"{len({*self.incoming})} in, {len(numbers)} out"]
        parts += [f"{added} new"] if added else []
        common = [n for n in dict.fromkeys(self.incoming) if n in {*numbers}]
        parts += ["reordered"] if common != [n for n in numbers if n in {*common}] else []
        return ", ".join(parts) if len(parts) > 1 or len({*self.incoming}) != len(numbers) else "unchanged"

    def places(self) -> list[str]:
        """For each passage, how far it rose or fell among those that came in; empty for a search."""
        ranks = {n: i for i, n in enumerate(dict.fromkeys(self.incoming))}
        moves = [ranks[p.number] - i if p.number in ranks else None for i, p in enumerate(self.passages)]
        return (
            ["new" if m is None else f"{m:+d}" if m else "=" for m in moves] if ranks else [""] * len(moves)
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of the answer, and the passage that supports it; see `sage_core.verify.AnswerMark`."""

    text: str
    support: str
    passage: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """What a retriever, engine or chain did with one question: the data of an `Inspection`.

    Attributes:
        question: The question.
        subject: What was asked: the class of the retriever or engine.
        steps: What each part returned, in the order in which they ended.
        sent: The passages that were returned or, where there is an engine, given to the LLM.
        prompts: What the LLM was sent, one text for each call.
        answer: The answer; None of a retriever.
        marks: The parts of the answer, and the position in ``sent`` that supports each.
        hidden: What the search would have found without its filters.
        evidence: Texts that a good retrieval holds, given by the caller.
        top_k: The fixed k that the passages sent are compared with.
    """

    question: str
    subject: str
    steps: tuple[Step, ...]
    sent: tuple[Passage, ...]
    prompts: tuple[str, ...] = ()
    answer: str | None = None
    marks: tuple[Mark, ...] = ()
    hidden: tuple[Passage, ...] = ()
    evidence: tuple[str, ...] = ()
    top_k: int = TOP_K

    @property
    def candidates(self) -> tuple[Passage, ...]:
        """Every different passage of all steps, in order of appearance."""
        first = {p.number: p for step in reversed(self.steps) for p in reversed(step.passages)}
        return tuple(first[number] for number in sorted(first))

    @property
    def tokens(self) -> int:
        """Tokens of the passages sent."""
        return sum(p.tokens for p in self.sent)

    @property
    def reason(self) -> str:
        """Where the last cut fell and why; empty where no step said so."""
        return next((step.reason for step in reversed(self.steps) if step.reason), "")

    @property
    def fixed_k(self) -> Run:
        """The ``top_k`` best of the first search alone, as plain top-k would send them."""
        first = self.steps[0] if self.steps else Step("", ())
        sent, name = first.passages[: self.top_k], f"the {self.top_k} best of {first.name}"
        return replace(self, subject=name, steps=self.steps[:1], sent=sent, answer=None, marks=())

    def holds(self, evidence: str) -> bool:
        """Whether a passage sent holds this text, but for white space."""
        return any(" ".join(evidence.split()) in p.key for p in self.sent)

    def reasons(self, step: Step) -> list[str]:
        """For each passage what a ranking can go by: words and headings shared, neighbors, parts it holds."""
        asked, known = {*words(step.question or self.question)}, {p.number: p for p in self.candidates}
        spans = [p.start for p in step.passages]
        places = [
            None if start is None else Place(p.source, start, start + len(p.text))
            for p, start in zip(step.passages, spans, strict=True)
        ]
        reasons = []
        for i, (passage, beside) in enumerate(zip(step.passages, link(places), strict=True)):
            above = [step.passages[n].number for n in beside if n is not None and n < i]
            held = [] if passage.number in step.incoming else step.dropped
            parts = {
                "words": [w for w in dict.fromkeys(words(passage.text)) if w in asked][:6],
                "title or headings": [w for w in dict.fromkeys(words(passage.title)) if w in asked],
                "beside": [f"[{n}]" for n in above],
                "holds": [f"[{n}]" for n in held if n in known and known[n].key in passage.key],
            }
            reasons.append("; ".join(f"{name}: {', '.join(some)}" for name, some in parts.items() if some))
        return reasons
