"""The steps of one question: what each search found, what ranking moved, where it was cut, what was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sage_core._display import Displayable
from sage_core.feedback.types import AnswerMark
from sage_core.text.sanitize import one_line, terminal_safe

_MOST = 10
"""Passages of a step that are printed."""
_LONGEST = 110
"""Characters of a passage in a line."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as one step returned it.

    Attributes:
        text: Its text.
        id: Of the node or document; empty if it has none.
        source: File or address of its document, with title and headings; empty if unknown.
        score: As the step gave it; None if it gave none.
        prompt: What an LLM reads, if that is not ``text``; else empty.
        tokens: Of what an LLM reads.
        number: The same in every step of an `Inspection`, from 1 on, in order of appearance.
    """

    text: str
    id: str = ""
    source: str = ""
    score: float | None = None
    prompt: str = ""
    tokens: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """What one part of a retriever returned.

    Attributes:
        name: Of the part: its class, after the wrappers around it that changed nothing.
        passages: What it returned, in its order.
        incoming: Numbers of the passages it was given, in their order; empty for a search.
        question: What it was asked, if that is not the question itself.
        scale: What the scores are; empty if unknown.
        reason: Where it cut and why; empty if it did not say.
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
    def moves(self) -> tuple[str, ...]:
        """For each passage, how far it rose or fell among those that came in; empty for a search."""
        ranks = {n: i for i, n in enumerate(dict.fromkeys(self.incoming))}
        moves = [ranks[p.number] - i if p.number in ranks else None for i, p in enumerate(self.passages)]
        return tuple("new" if m is None else f"{m:+d}" if m else "=" for m in moves) if ranks else ()

    @property
    def title(self) -> str:
        """What it is and did, in one line."""
        found, given = len(self.passages), len({*self.incoming})
        parts = [
            f"{self.name} ({self.settings})" if self.settings else self.name,
            f"{given} in, {found} out" if given else f"{found} found",
            f"asked: {self.question}" if self.question else "",
            f"scores: {self.scale}" if self.scale else "",
            f"cut: {self.reason}" if self.reason else "",
        ]
        return one_line("; ".join(filter(None, parts)))


@dataclass(frozen=True, slots=True)
class Inspection(Displayable):
    """What a retriever, engine or chain did with one question. Made by ``inspect`` of the adapters.

    A notebook shows it; ``print(inspection.text)`` is for a terminal.

    Attributes:
        question: The question.
        subject: What was asked: the class of the retriever or engine.
        steps: What each part returned, in the order in which they ended.
        sent: The passages that were returned or, if there is an engine, given to the LLM.
        prompts: What the LLM was sent, one text for each call.
        answer: The answer; None of a retriever.
        marks: The parts of the answer; ``passage`` is a position in ``sent``.
    """

    question: str
    subject: str
    steps: tuple[Step, ...]
    sent: tuple[Passage, ...]
    prompts: tuple[str, ...] = ()
    answer: str | None = None
    marks: tuple[AnswerMark, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens of the passages sent."""
        return sum(p.tokens for p in self.sent)

    @property
    def reason(self) -> str:
        """Where the last cut fell and why; empty if no step said so."""
        return next((step.reason for step in reversed(self.steps) if step.reason), "")

    def way(self, text: str) -> str:
        """How a piece of text went through the steps: its rank in each, and where and why it was lost.

        Examples:
            >>> found = Step("Search", (Passage("Bees fly."), Passage("It leaves at seven.")))
            >>> cut = Step("Cut", (Passage("Bees fly."),), reason="rank 2 falls to 0.1")
            >>> Inspection("When?", "Cut", (found, cut), cut.passages).way("at seven")
            'rank 2 of 2 in Search; not in Cut: rank 2 falls to 0.1'
        """
        wanted = " ".join(text.split())
        stations = []
        for step in self.steps:
            ranks = [i for i, p in enumerate(step.passages, 1) if wanted in " ".join(p.text.split())]
            reason = f": {step.reason}" if step.reason else ""
            place = f"rank {ranks[0]} of {len(step.passages)} in " if ranks else "not in "
            stations.append(place + step.name + ("" if ranks else reason))
        return one_line("; ".join(stations))

    @property
    def text(self) -> str:
        """All of it as plain text for a terminal."""
        rows = [f"question: {one_line(self.question)}", f"asked: {one_line(self.subject)}"]
        if self.answer is not None:
            rows += ["", f"answer: {terminal_safe(self.answer)}"]
            for mark in self.marks:
                if mark.support != "nothing claimed":
                    where = "" if mark.passage is None else f" by [{self.sent[mark.passage].number}]"
                    rows.append(f"  {mark.support}{where}: {_short(mark.text)}")
        for i, step in enumerate(self.steps, start=1):
            rows += ["", f"{i}. {step.title}", *_rows(step.passages[:_MOST], step.moves)]
            more = len(step.passages) - _MOST
            rows += [f"  ... {more} more"] if more > 0 else []
            if step.dropped:
                dots = " ..." if len(step.dropped) > _MOST else ""
                rows.append(f"  not returned: {' '.join(f'[{n}]' for n in step.dropped[:_MOST])}{dots}")
        rows += ["", f"sent: {len(self.sent)} passages, {self.tokens:,} tokens", *_rows(self.sent)]
        return "\n".join(rows)


def _short(text: str, longest: int = _LONGEST) -> str:
    flat = one_line(text[: 4 * longest])
    return flat if len(flat) <= longest else f"{flat[: longest - 1]}…"


def _rows(passages: Sequence[Passage], moves: Sequence[str] = ()) -> list[str]:
    rows = []
    for i, passage in enumerate(passages):
        score = "" if passage.score is None else f"{passage.score:.4g}"
        parts = (f"[{passage.number}]", moves[i] if moves else "", score, f"{passage.tokens} tokens")
        words = (*parts, _short(passage.source, 40), _short(passage.text))
        rows.append("  " + "  ".join(filter(None, words)))
    return rows
