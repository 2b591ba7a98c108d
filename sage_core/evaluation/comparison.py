"""Two runs compared, question by question."""

from __future__ import annotations

from dataclasses import dataclass

from sage_core.errors import InputError
from sage_core.evaluation.metrics import Difference, paired_difference
from sage_core.evaluation.results import EFFORT, Results, is_share


@dataclass(frozen=True, slots=True)
class Change:
    """How a metric of a row differs between two runs.

    Attributes:
        dataset: The data set.
        row: The row.
        metric: The metric, or one of `EFFORT`.
        before: Mean in the first run, over the questions that both answered.
        after: Mean in the second.
        difference: After less before, paired, with its 95 % interval.
    """

    dataset: str
    row: str
    metric: str
    before: float
    after: float
    difference: Difference

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero and p is below 0.05."""
        return self.difference.clear


def compare(first: Results, second: Results) -> list[Change]:
    """Every metric of every row that both runs have.

    Raises:
        InputError: Where they have no data set, row and question in common.
    """
    metrics = [m for m in first.configuration["metrics"] if m in second.configuration["metrics"]]
    found = [
        change
        for dataset, row in first.answers
        if (dataset, row) in second.answers
        for metric in [*metrics, *EFFORT]
        if (change := _change(first, second, dataset, row, metric)) is not None
    ]
    if not found:
        raise InputError("the two runs have no question of the same data set and row in common")
    return found


def _change(first: Results, second: Results, dataset: str, row: str, metric: str) -> Change | None:
    before, after = first.values(dataset, row, metric), second.values(dataset, row, metric)
    both = [question for question in before if question in after]
    if not both:
        return None
    lines = first.answers[dataset, row]
    difference = paired_difference(
        [after[q] for q in both],
        [before[q] for q in both],
        share=is_share(metric),
        groups=[lines[q]["document"] for q in both],
    )
    n = len(both)
    return Change(
        dataset, row, metric, sum(before[q] for q in both) / n, sum(after[q] for q in both) / n, difference
    )
