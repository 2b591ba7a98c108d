"""Collects the steps of a question from what a framework's callbacks report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from sage_core.inspecting.steps import Inspection, Passage, Step
from sage_core.text.tokens import get_counter
from sage_core.verify import mark_answer


@dataclass(slots=True)
class Record:
    """A call that returned passages, as a framework's callbacks report it.

    Attributes:
        id: Of the call.
        parent: Of the call around it; None for the outermost.
        name: Of the class that was called.
        passages: What it returned.
        incoming: What it was given; None if the calls inside it say so.
    """

    id: str
    parent: str | None
    name: str
    passages: Sequence[Passage]
    incoming: Sequence[Passage] | None = None
    question: str = ""
    scale: str = ""
    reason: str = ""
    settings: str = ""


@dataclass(slots=True)
class Recorder:
    """Collects what the callbacks of a framework report of one question, from any thread.

    Attributes:
        records: Calls that returned passages, in the order in which they ended.
        parents: Of every call, also of those that returned something else.
        notes: By call, changes of its record that another call reports, such as the reason of a cut.
        prompts: What the LLM was sent.
        sent: What was given to the LLM; None if nothing was.
    """

    records: list[Record] = field(default_factory=list)
    parents: dict[str, str | None] = field(default_factory=dict)
    notes: dict[str, dict[str, str]] = field(default_factory=dict)
    prompts: list[str] = field(default_factory=list)
    sent: Sequence[Passage] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def inspection(
        self,
        question: str,
        subject: str,
        *,
        answer: str | None = None,
        count: Callable[[str], int] | None = None,
    ) -> Inspection:
        """What was collected, the passages numbered and counted, the answer marked.

        Args:
            question: The question.
            subject: What was asked.
            answer: Its answer; None of a retriever.
            count: Tokens of a text; None for the bundled counter.
        """
        numbered = _Numbers(count or get_counter("bert").count)
        steps = tuple(self._steps(question, numbered))
        last = steps[-1].passages if steps else ()
        sent = last if self.sent is None else numbered.of(self.sent)
        read = [p.prompt or p.text for p in sent]
        marks = mark_answer(answer, read, question=question) if answer and sent else ()
        return Inspection(question, subject, steps, sent, tuple(self.prompts), answer, marks)

    def _steps(self, question: str, numbered: _Numbers) -> Iterable[Step]:
        inside: dict[str | None, list[Record]] = {}
        names: dict[int, list[str]] = {}
        shown: list[tuple[Record, tuple[Passage, ...], tuple[int, ...]]] = []
        for record in self.records:
            children = inside.pop(record.id, [])
            passages = numbered.of(record.passages)
            inside.setdefault(self._above(record), []).append(record)
            # A wrapper that returns what its last part returned is no step of its own.
            if children and shown[-1][0] is children[-1] and _alike(shown[-1][1], passages):
                names.setdefault(len(shown) - 1, []).append(record.name)
                noted = self.notes.pop(record.id, {})
                self.notes[children[-1].id] = {**noted, **self.notes.get(children[-1].id, {})}
                inside[self._above(record)][-1] = children[-1]
                continue
            given = record.incoming
            if given is None:
                given = [p for child in children for p in child.passages]
            shown.append((record, passages, tuple(p.number for p in numbered.of(given))))
        for i, (record, passages, incoming) in enumerate(shown):
            path = dict.fromkeys([*reversed(names.get(i, [])), record.name])
            noted = self.notes.get(record.id, {})
            asked = "" if record.question == question else record.question
            scale, reason = (noted.get(name) or getattr(record, name) for name in ("scale", "reason"))
            yield Step(" > ".join(path), passages, incoming, asked, scale, reason, record.settings)

    def _above(self, record: Record) -> str | None:
        """The nearest call around a record that returned passages too."""
        known = {other.id for other in self.records}
        above = record.parent
        while above is not None and above not in known:
            above = self.parents.get(above)
        return above


def _alike(a: Sequence[Passage], b: Sequence[Passage]) -> bool:
    return [(p.number, p.score) for p in a] == [(p.number, p.score) for p in b]


class _Numbers:
    """Gives the same number to what has the same id or the same text."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._known: dict[str, int] = {}
        self._tokens: dict[str, int] = {}

    def of(self, passages: Iterable[Passage]) -> tuple[Passage, ...]:
        numbered = []
        for passage in passages:
            text = " ".join(passage.text.split())
            keys = [key for key in (passage.id and f"id {passage.id}", f"text {text}") if key]
            known = [self._known[key] for key in keys if key in self._known]
            number = known[0] if known else len({*self._known.values()}) + 1
            self._known.update(dict.fromkeys(keys, number))
            read = passage.prompt or passage.text
            if read not in self._tokens:
                self._tokens[read] = self._count(read)
            numbered.append(replace(passage, number=number, tokens=self._tokens[read]))
        return tuple(numbered)
