"""Tables of a run in Markdown: quality, effort, differences, printed figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from sage_core.evaluation.metrics import Difference, Interval, relative_cost_efficiency, wilson
from sage_core.evaluation.results import EFFORT, Results
from sage_core.evaluation.scoring import metric_label

_EFFORT_LABELS = {
    "context_tokens": "context tokens",
    "selected": "pieces sent",
    "tokens": "LLM tokens",
    "calls": "LLM calls",
    "seconds": "seconds (median)",
}


def label(metric: str) -> str:
    """A metric's or a cost's name in tables."""
    return _EFFORT_LABELS[metric] if metric in _EFFORT_LABELS else metric_label(metric)


def p_value(p: float) -> str:
    """A p-value with three digits, never 0."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """A table in Markdown; the first ``left`` columns stand left, the others right."""
    rule = ["---" if i < left else "---:" for i in range(len(headers))]
    lines = [headers, rule, *rows]
    return "\n".join("| " + " | ".join(_cell(c) for c in line) + " |" for line in lines)


def with_interval(value: Interval | Difference | None, digits: int = 3) -> str:
    """``0.412 [0.380, 0.444]``, or a dash where there is nothing."""
    if value is None:
        return "-"
    return f"{value.value:.{digits}f} [{value.low:.{digits}f}, {value.high:.{digits}f}]"


def quality_table(results: Results, dataset: str, metrics: Sequence[str]) -> str:
    """Metrics by row: mean and 95 % interval, the number of questions, and those that failed."""
    shown = [m for m in metrics if any(results.values(dataset, row, m) for row in results.rows)]
    rows = []
    for row in results.rows:
        if not results.answers.get((dataset, row)) and row in results.left_out:
            continue
        cells = [with_interval(results.estimate(dataset, row, m), _digits(m)) for m in shown]
        counts = {len(results.values(dataset, row, m)) for m in shown} or {0}
        n = str(counts.pop()) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
        rows.append([row, *cells, n, str(len(results.failed.get((dataset, row), {})))])
    return markdown_table(["method", *(label(m) for m in shown), "n", "failed"], rows)


def choices_table(results: Results, dataset: str) -> str:
    """Multiple choice: how many answers are right, wrong, or name no option at all."""
    rows = []
    for row in results.rows:
        lines = results.answers.get((dataset, row), {})
        right = results.values(dataset, row, "accuracy")
        if right:
            named = [question for question in right if lines[question]["choice"] is not None]
            correct = sum(right[question] for question in named)
            share = with_interval(wilson(int(correct), len(named))) if named else "-"
            wrong, none = len(named) - correct, len(right) - len(named)
            rows.append([row, f"{correct:.0f}", f"{wrong:.0f}", str(none), share])
    headers = ["method", "right", "wrong", "named no option", "right among those that named one"]
    return markdown_table(headers, rows)


def effort_table(results: Results, dataset: str) -> str:
    """What each row cost a question, on average."""
    rows = []
    for row in results.rows:
        values = [list(results.values(dataset, row, m).values()) for m in EFFORT]
        if not values[0]:
            continue
        cells = [f"{sum(v) / len(v):,.{_effort_digits(m)}f}" for m, v in zip(EFFORT, values, strict=True)]
        cells[-1] = f"{median(values[-1]):.3f}"
        prepared = sum(line["seconds"] for line in results.prepared.get((dataset, row), ()))
        rows.append([row, *cells, f"{prepared:.1f}"])
    return markdown_table(["method", *(label(m) for m in EFFORT), "preparing, s in all"], rows)


def difference_table(
    results: Results, dataset: str, comparisons: Sequence[tuple[str, str]], metrics: Sequence[str]
) -> str:
    """Paired differences over the questions that both rows answered; those clear of zero are in bold."""
    rows = []
    for row, baseline in comparisons:
        for metric in [*metrics, "context_tokens"]:
            difference = results.difference(dataset, row, baseline, metric)
            if difference is None:
                continue
            mine, theirs = results.values(dataset, row, metric), results.values(dataset, baseline, metric)
            shared = [theirs[question] for question in mine if question in theirs]
            base = sum(shared) / len(shared)
            shown = with_interval(difference, _digits(metric))
            relative = f"{100 * difference.value / base:+.1f} %" if base > 0 else "-"
            cells = [
                f"**{shown}**" if difference.clear else shown,
                relative,
                p_value(difference.p),
                str(difference.n),
            ]
            rows.append([row, baseline, label(metric), *cells])
    return markdown_table(["method", "against", "metric", "difference", "relative", "p", "n"], rows, left=3)


def efficiency_table(results: Results, dataset: str, metric: str, reference: str) -> str:
    """Quality for the tokens spent, relative to ``reference`` (equation 2, with tokens for money)."""
    quality, spent, sent = {}, {}, {}
    for row in results.rows:
        values = results.values(dataset, row, metric)
        if values:
            quality[row] = sum(values.values()) / len(values)
            spent[row] = sum(results.values(dataset, row, "tokens").values())
            sent[row] = sum(results.values(dataset, row, "context_tokens").values())
    by_spent, by_sent = _efficiency(quality, spent, reference), _efficiency(quality, sent, reference)
    rows = [
        [
            row,
            f"{q:.3f}",
            f"{spent[row]:,.0f}",
            by_spent.get(row, "-"),
            f"{sent[row]:,.0f}",
            by_sent.get(row, "-"),
        ]
        for row, q in quality.items()
    ]
    headers = ["method", label(metric), "LLM tokens, critic included", "relative efficiency"]
    return markdown_table([*headers, "context tokens", "relative efficiency"], rows)


def _efficiency(quality: Mapping[str, float], tokens: Mapping[str, float], reference: str) -> dict[str, str]:
    """Relative cost efficiency as text; empty where the reference has none."""
    rows = {row: (q, tokens[row]) for row, q in quality.items() if tokens[row] > 0}
    if reference not in rows or not rows[reference][0]:
        return {}
    found = relative_cost_efficiency(rows, baseline=reference)
    return {row: f"{value:.3f}" for row, value in found.items()}


def measured_table(results: Results) -> str:
    """What a measurement found, row by row."""
    columns = list(dict.fromkeys(name for line in results.measured for name in line["figures"]))
    rows = [
        [line["row"], *(number(line["figures"].get(column), 3) for column in columns), line.get("note", "")]
        for line in results.measured
    ]
    return markdown_table(["row", *columns, "note"], rows)


def _digits(metric: str) -> int:
    return {"judge_score": 2, "context_tokens": 0, "tokens": 0, "selected": 1}.get(metric, 3)


def _effort_digits(metric: str) -> int:
    return {"seconds": 3, "selected": 1, "calls": 1}.get(metric, 0)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def number(value: float | None, digits: int = 2) -> str:
    """A printed figure without zeros that say nothing; a dash for None."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"
