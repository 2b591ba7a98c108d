"""Two retrievers side by side, and many questions at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sage_core.inspecting.page import body_of, escape, framed, headline, line, table, whole_page, write
from sage_core.inspecting.steps import Passage, Run


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two retrievers sent for one question.

    Attributes:
        first: Of the retriever.
        second: Of the other one.
    """

    first: Run
    second: Run

    @property
    def only_first(self) -> tuple[Passage, ...]:
        """What only the first sent."""
        return _without(self.first, self.second)

    @property
    def only_second(self) -> tuple[Passage, ...]:
        """What only the second sent."""
        return _without(self.second, self.first)

    @property
    def both(self) -> tuple[tuple[Passage, int, int], ...]:
        """What both sent, with its rank in each, from 1 on."""
        ranks = {p.key: i for i, p in reversed([*enumerate(self.second.sent, start=1)])}
        return tuple((p, i, ranks[p.key]) for i, p in enumerate(self.first.sent, start=1) if p.key in ranks)

    @property
    def overlap(self) -> float:
        """Share of all passages that both sent, from 0 to 1; 1 where neither sent any."""
        common = len(self.both)
        total = common + len(self.only_first) + len(self.only_second)
        return common / total if total else 1.0

    @property
    def text(self) -> str:
        """Both as plain text for a terminal."""
        rows = [f"question: {line(self.first.question, 400)}", headline(self.first), headline(self.second)]
        for name, passages in (("first", self.only_first), ("second", self.only_second)):
            rows += ["", f"only the {name} sent {len(passages)}", *(f"  {line(p.text)}" for p in passages)]
        rows += ["", f"both sent {len(self.both)}"]
        rows += [f"  rank {i} and {j}: {line(p.text)}" for p, i, j in self.both]
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        rows = [("e", (str(i), str(j), escape(line(p.text)))) for p, i, j in self.both]
        rows += [("", (str(self.first.sent.index(p) + 1), "", escape(line(p.text)))) for p in self.only_first]
        rows += [
            ("", ("", str(self.second.sent.index(p) + 1), escape(line(p.text)))) for p in self.only_second
        ]
        sides = (
            f"<div><h3>{escape(run.subject)}</h3><p>{escape(headline(run))}</p>{''.join(body_of(run))}</div>"
            for run in (self.first, self.second)
        )
        ranks = table(("rank in the first", "rank in the second", "passage"), rows)
        both = f'<div class="two">{"".join(sides)}</div>'
        return framed(f"<h2>{escape(self.first.question)}</h2>", ranks, both)

    def save(self, path: str | Path) -> Path:
        """Write one HTML file, readable offline and without scripts."""
        return write(path, whole_page(self.first.question, self._repr_html_()))


def _without(one: Run, other: Run) -> tuple[Passage, ...]:
    known = {p.key for p in other.sent}
    return tuple(p for p in one.sent if p.key not in known)


@dataclass(frozen=True, slots=True)
class Survey:
    """Many questions, those where two retrievers differ most first.

    Attributes:
        comparisons: By overlap, smallest first.
    """

    comparisons: tuple[Comparison, ...]

    @classmethod
    def of(cls, comparisons: Iterable[Comparison]) -> Survey:
        """Comparisons in the order of their overlap."""
        return cls(tuple(sorted(comparisons, key=lambda c: c.overlap)))

    @property
    def text(self) -> str:
        """A line for each question, for a terminal."""
        return "\n".join(
            f"{c.overlap:4.0%} shared; {len(c.first.sent)} against {len(c.second.sent)} passages, "
            f"{c.first.tokens:,} against {c.second.tokens:,} tokens: {line(c.first.question)}"
            for c in self.comparisons
        )

    def _repr_html_(self) -> str:
        rows = []
        for c in self.comparisons:
            whole = f"<details><summary>{escape(c.first.question)}</summary>{c._repr_html_()}</details>"
            one, other = c.first, c.second
            sent, tokens = f"{len(one.sent)} / {len(other.sent)}", f"{one.tokens:,} / {other.tokens:,}"
            rows.append(("", (f"{c.overlap:.0%}", sent, tokens, whole)))
        return framed(table(("shared", "passages", "tokens", "question"), rows))

    def save(self, path: str | Path) -> Path:
        """Write one HTML file, readable offline and without scripts."""
        return write(path, whole_page(f"{len(self.comparisons)} questions", self._repr_html_()))
