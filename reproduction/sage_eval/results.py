"""A finished or unfinished run, read back: values by row, data set and question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sage_core.llm.usage import TokenUsage
from sage_eval.metrics import Difference, Interval, bootstrap_mean, paired_difference, wilson
from sage_eval.metrics.registry import is_share
from sage_eval.prices import Price, PriceList, cost
from sage_eval.run_folder import PRICES, RESULTS, Line, read_header, read_lines

EFFORT = ("context_tokens", "selected", "tokens", "calls", "seconds")
"""What a result cost, whatever the metrics: tokens sent as context, pieces, all LLM tokens, calls, time."""

FEW = 10
"""Below so many documents a bootstrap over them gives intervals that are too narrow."""

Key = tuple[str, str]
"""Data set and row."""


@dataclass(slots=True)
class Results:
    """What a run folder holds.

    Attributes:
        header: As written.
        answers: The answered questions, by data set and row, then question.
        failed: Error of each question that has failed and not been answered since.
        prepared: Lines of what preparing took.
        settings: Settings of the methods, by row.
        left_out: Rows that could not be run at all, with the reason.
        measured: Lines of measurements.
        prices: Prices of LLMs, where the run was given any.
    """

    header: Mapping[str, Any]
    answers: dict[Key, dict[str, Line]] = field(default_factory=dict)
    failed: dict[Key, dict[str, str]] = field(default_factory=dict)
    prepared: dict[Key, list[Line]] = field(default_factory=dict)
    settings: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    measured: list[Line] = field(default_factory=list)
    prices: PriceList = field(default_factory=PriceList)

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The configuration of the run."""
        configuration: Mapping[str, Any] = self.header["configuration"]
        return configuration

    @property
    def datasets(self) -> list[str]:
        """Names of the data sets."""
        return [d["name"] for d in self.configuration.get("datasets", ())]

    @property
    def rows(self) -> list[str]:
        """Names of the rows."""
        return list(self.configuration.get("rows", ()))

    def values(self, dataset: str, row: str, metric: str) -> dict[str, float]:
        """A metric or a cost by question, where it applies."""
        found = {q: value_of(line, metric) for q, line in self.answers.get((dataset, row), {}).items()}
        return {question: value for question, value in found.items() if value is not None}

    def estimate(self, dataset: str, row: str, metric: str) -> Interval | None:
        """Mean and 95 % interval of a metric; None if there are no values.

        Wilson's interval where every question is right or wrong, else a bootstrap that draws whole documents,
        since questions about one document are no independent draws. A number such as rounds is no share and
        has no Wilson interval, even where it is 1 throughout.
        """
        values = self.values(dataset, row, metric)
        if not values:
            return None
        if is_share(metric) and all(value in (0.0, 1.0) for value in values.values()):
            return wilson(int(sum(values.values())), len(values))
        lines = self.answers[dataset, row]
        groups = [lines[question]["document"] for question in values]
        return bootstrap_mean(list(values.values()), groups=groups)

    def difference(self, dataset: str, row: str, baseline: str, metric: str) -> Difference | None:
        """Paired difference over the questions that both rows have; None if there are none."""
        first, second = self.values(dataset, row, metric), self.values(dataset, baseline, metric)
        both = [question for question in first if question in second]
        if not both:
            return None
        lines = self.answers[dataset, row]
        return paired_difference(
            [first[q] for q in both],
            [second[q] for q in both],
            share=is_share(metric),
            groups=[lines[q]["document"] for q in both],
        )

    def price(self, row: str) -> Price | None:
        """Price of the LLM that answers in a row; None if it is not known."""
        label = str(
            self.settings.get(row, {}).get("reader") or self.configuration.get("reader", {}).get("label")
        )
        return self.prices.of(label.partition(", graded by")[0])

    def money(self, dataset: str, row: str) -> dict[str, float]:
        """Money of the LLM calls of each question (equation 1); empty without a price."""
        price = self.price(row)
        if price is None:
            return {}
        return {
            question: sum(
                cost(TokenUsage(u["prompt"], u["completion"]), price) for u in line["usage"].values()
            )
            for question, line in self.answers.get((dataset, row), {}).items()
        }

    def few_documents(self) -> dict[str, int]:
        """Data sets whose answered questions are about fewer than `FEW` documents, and how many."""
        asked: dict[str, set[str]] = {}
        for (dataset, _), lines in self.answers.items():
            asked.setdefault(dataset, set()).update(line["document"] for line in lines.values())
        return {name: len(documents) for name, documents in asked.items() if 0 < len(documents) < FEW}

    def _take(self, line: Line) -> None:
        kind = line["kind"]
        if kind == "method":
            self.settings[line["row"]] = line["settings"]
        elif kind == "left_out":
            self.left_out[line["row"]] = line["reason"]
        elif kind == "measured":
            self._measure(line)
        elif kind in ("answer", "failed", "prepare"):
            key = (line["dataset"], line["row"])
            self.left_out.pop(line["row"], None)
            if kind == "answer":
                self.answers.setdefault(key, {})[line["question"]] = line
                self.failed.get(key, {}).pop(line["question"], None)
            elif kind == "failed":
                self.failed.setdefault(key, {})[line["question"]] = line["error"]
            else:
                self.prepared.setdefault(key, []).append(line)

    def _measure(self, line: Line) -> None:
        """Figures of one row may come in several lines."""
        for earlier in self.measured:
            if earlier["row"] == line["row"]:
                earlier["figures"] = {**earlier["figures"], **line["figures"]}
                earlier["note"] = " ".join(filter(None, [earlier.get("note"), line.get("note")]))
                return
        self.measured.append(dict(line))


def read_results(folder: Path) -> Results:
    """Read a run folder.

    Raises:
        InputError: Where it is no run, or is damaged.
    """
    results = gather(read_header(folder), read_lines(folder / RESULTS))
    if (folder / PRICES).is_file():
        results.prices = PriceList.from_file(folder / PRICES)
    return results


def gather(header: Mapping[str, Any], lines: Iterable[Line]) -> Results:
    """Results from a header and lines."""
    results = Results(header)
    for line in lines:
        results._take(line)
    return results


def value_of(line: Line, metric: str) -> float | None:
    """One number of an answered question; None if it has none.

    Args:
        line: A line of kind ``answer``.
        metric: A metric, or one of `EFFORT`.
    """
    if metric in ("context_tokens", "selected"):
        return float(line[metric])
    if metric == "seconds":
        return float(line["seconds"]["total"])
    if metric in ("tokens", "calls"):
        used = line["usage"].values()
        if metric == "calls":
            return float(sum(u["calls"] for u in used))
        return float(sum(u["prompt"] + u["completion"] for u in used))
    value = line["scores"].get(metric)
    return None if value is None else float(value)
