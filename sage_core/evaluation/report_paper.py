"""What a paper prints, beside ours, and which of its figures cannot be right."""

from __future__ import annotations

from sage_core.evaluation.experiment import Column, Experiment
from sage_core.evaluation.report_tables import label, markdown_table, number
from sage_core.evaluation.results import Results


def printed_table(experiment: Experiment, results: Results) -> str:
    """The paper's figures, and ours for the same rows and metrics."""
    paper = experiment.paper
    assert paper is not None
    ours = list(dict.fromkeys((c.metric, c.dataset, c.unit) for c in paper.columns if c.metric))
    ours = [o for o in ours if any(_mean(experiment, results, row, *o) is not None for row in results.rows)]
    headers = [
        "row",
        *(f"paper: {_heading(column)}" for column in paper.columns),
        *(f"ours: {label(metric)}{f' ({unit})' if unit else ''}" for metric, _, unit in ours),
    ]
    measured = {line["row"]: line["figures"] for line in results.measured}
    if measured:
        shared = [c for c in paper.columns if any(c.label in figures for figures in measured.values())]
        headers += [f"ours: {_heading(column)}" for column in shared]
    quoted = {row.row for row in experiment.cited}
    rows = []
    for row in dict.fromkeys([*paper.rows, *results.rows, *measured]):
        printed = paper.rows.get(row, (None,) * len(paper.columns))
        cells = [number(figure, 3) for figure in printed]
        cells += [number(_mean(experiment, results, row, *o), 3) for o in ours]
        if measured:
            cells += [number(measured.get(row, {}).get(c.label), 3) for c in shared]
        rows.append([f"{row} (quoted)" if row in quoted else row, *cells])
    return markdown_table(headers, rows)


def claims_table(experiment: Experiment) -> str:
    """Printed figures that follow from others, recomputed."""
    rows = []
    for checked in experiment.checked_claims():
        claim = checked.claim
        if checked.holds:
            verdict = "holds" if claim.printed is not None or claim.limit is not None else ""
        elif claim.limit is not None and checked.recomputed > claim.limit:
            verdict = f"**impossible** (at most {number(claim.limit)})"
        else:
            verdict = "**does not follow**"
        rows.append([claim.says, number(claim.printed, 3), number(checked.recomputed, 3), verdict])
    return markdown_table(["figure", "printed", "recomputed from the table", ""], rows)


def cited_table(experiment: Experiment) -> str:
    """Rows that are quoted and not run."""
    return markdown_table(
        ["row", "source", "why it is not run"], [[c.row, c.source, c.why] for c in experiment.cited], left=3
    )


def _heading(column: Column) -> str:
    return f"{column.label} ({column.unit})" if column.unit else column.label


def _mean(
    experiment: Experiment, results: Results, row: str, metric: str, dataset: str, unit: str
) -> float | None:
    """Our mean in the paper's unit; None where there is none."""
    place = experiment.datasets.index(dataset) if dataset in experiment.datasets else 0
    if place >= len(results.datasets):
        return None
    values = results.values(results.datasets[place], row, metric)
    if not values:
        return None
    return sum(values.values()) / len(values) * (100 if unit == "%" else 1)
