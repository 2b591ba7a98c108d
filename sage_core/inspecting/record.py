"""Collects the steps of a question from a framework's callbacks, and shows or stores them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sage_core.errors import InputError
from sage_core.inspecting import page
from sage_core.inspecting.steps import TOP_K, Mark, Passage, Run, Step
from sage_core.text.tokens import get_counter
from sage_core.verify import mark_answer


class Inspection(Run):
    """What a retriever, engine or chain did with one question. Made by ``inspect`` of the adapters.

    A notebook shows it; ``print(inspection.text)`` is for a terminal. Its fields are those of `Run`.
    """

    __slots__ = ()

    @property
    def text(self) -> str:
        """All of it as plain text for a terminal."""
        return page.text_of(self)

    def _repr_html_(self) -> str:
        return page.html_of(self)

    def save(self, path: str | Path) -> Path:
        """Write one HTML file without scripts; with the suffix ``.json`` a file for `load`."""
        if Path(path).suffix == ".json":
            return page.write(path, json.dumps(asdict(self), ensure_ascii=False))
        return page.write(path, page.whole_page(self.question, page.html_of(self)))

    @classmethod
    def load(cls, path: str | Path) -> Inspection:
        """A saved inspection, read without the index it was made over.

        Raises:
            InputError: Where there is no such file, or it holds something else.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls.from_dict(data)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{path} is no saved inspection (inspection.save('run.json')): {error}"
            ) from None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Inspection:
        """An inspection from ``dataclasses.asdict`` of one."""
        steps = [
            {**s, "passages": _passages(s["passages"]), "incoming": tuple(s["incoming"])}
            for s in data["steps"]
        ]
        lists = {name: tuple(data[name]) for name in ("prompts", "evidence")}
        lists |= {name: _passages(data[name]) for name in ("sent", "hidden")}
        marks = tuple(Mark(**mark) for mark in data["marks"])
        return cls(**{**data, **lists, "steps": tuple(Step(**s) for s in steps), "marks": marks})


def _passages(rows: Iterable[Mapping[str, Any]]) -> tuple[Passage, ...]:
    return tuple(Passage(**row) for row in rows)


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
        hidden: Sequence[Passage] = (),
        evidence: str | Sequence[str] = (),
        top_k: int = TOP_K,
        count: Callable[[str], int] | None = None,
    ) -> Inspection:
        """What was collected, the passages numbered and counted, the answer marked.

        Args:
            question: The question.
            subject: What was asked.
            answer: Its answer; None of a retriever.
            hidden: What filters hid.
            evidence: Texts that a good retrieval holds.
            top_k: The fixed k to compare with.
            count: Tokens of a text; None for the bundled counter.
        """
        numbered = _Numbers(count or get_counter("bert").count)
        steps = tuple(self._steps(question, numbered))
        last = steps[-1].passages if steps else ()
        sent = last if self.sent is None else numbered.of(self.sent)
        marks = (
            mark_answer(answer, [p.prompt or p.text for p in sent], question=question)
            if answer and sent
            else ()
        )
        return Inspection(
            question,
            subject,
            steps,
            sent,
            tuple(self.prompts),
            answer,
            tuple(Mark(m.text, m.support, m.passage, m.reason) for m in marks),
            numbered.of(hidden),
            (evidence,) if isinstance(evidence, str) else tuple(evidence),
            top_k,
        )

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
            keys = [key for key in (passage.id and f"id {passage.id}", f"text {passage.key}") if key]
            known = [self._known[key] for key in keys if key in self._known]
            number = known[0] if known else len({*self._known.values()}) + 1
            self._known.update(dict.fromkeys(keys, number))
            read = passage.prompt or passage.text
            if read not in self._tokens:
                self._tokens[read] = self._count(read)
            numbered.append(replace(passage, number=number, tokens=self._tokens[read]))
        return tuple(numbered)
