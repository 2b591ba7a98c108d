"""The report of a run: Markdown, made from the files of the run alone."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from sage_core.errors import InputError
from sage_core.text.sanitize import terminal_safe
from sage_eval.experiment import Column, Experiment, parse_experiment
from sage_eval.metrics import (
    Difference,
    Interval,
    degradation,
    relative_cost_efficiency,
    relative_maximum,
    wilson,
)
from sage_eval.metrics.registry import JUDGED, metric_label
from sage_eval.readers import NO_ANSWERER, READER_NOTES
from sage_eval.results import EFFORT, FEW, Results, read_results

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
    """What each row cost a question, on average; money where the LLM's price is known (equation 1)."""
    priced = any(results.money(dataset, row) for row in results.rows)
    rows = []
    for row in results.rows:
        values = [list(results.values(dataset, row, m).values()) for m in EFFORT]
        if not values[0]:
            continue
        cells = [f"{sum(v) / len(v):,.{_effort_digits(m)}f}" for m, v in zip(EFFORT, values, strict=True)]
        cells[-1] = f"{median(values[-1]):.3f}"
        money = results.money(dataset, row)
        spent = [f"{1000 * sum(money.values()) / len(money):.4f}" if money else "-"] if priced else []
        prepared = sum(line["seconds"] for line in results.prepared.get((dataset, row), ()))
        rows.append([row, *cells, *spent, f"{prepared:.1f}"])
    head = ["method", *(label(m) for m in EFFORT), *(["money, 1,000 questions"] if priced else [])]
    return markdown_table([*head, "preparing, s in all"], rows)


def degradation_table(results: Results, dataset: str, metric: str, gold: str) -> str:
    """What of the relative maximum each row loses ("The Chronicles of RAG", equation 1)."""
    best = relative_maximum(list(results.values(dataset, gold, metric).values()))
    rows = []
    for row in results.rows:
        values = list(results.values(dataset, row, metric).values())
        if values and best > 0:
            mean = sum(values) / len(values)
            # The paper prints what is lost with a minus sign.
            rows.append([row, f"{mean:.3f}", f"{-100 * degradation(mean, best):+.1f} %"])
    return markdown_table(["method", label(metric), f"against {gold}"], rows)


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
        [
            line["row"],
            *(number(line["figures"].get(column), _measured_digits(column)) for column in columns),
            line.get("note", ""),
        ]
        for line in results.measured
    ]
    return markdown_table(["row", *columns, "note"], rows)


def _measured_digits(column: str) -> int:
    """Savings of 99.997 % are distinguished from those of 99.999 %."""
    return 5 if column.endswith(" saved") else 3


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


def printed_table(experiment: Experiment, results: Results) -> str:
    """The paper's figures, and ours for the same rows and metrics."""
    paper = experiment.paper
    assert paper is not None
    ours = list(dict.fromkeys((c.metric, c.dataset, c.unit) for c in paper.columns if c.metric))
    ours = [
        o for o in ours if any(_our_mean(experiment, results, row, *o) is not None for row in results.rows)
    ]
    headers = [
        "row",
        *(f"paper: {_column_heading(column)}" for column in paper.columns),
        *(f"ours: {label(metric)}{f' ({unit})' if unit else ''}" for metric, _, unit in ours),
    ]
    measured = {line["row"]: line["figures"] for line in results.measured}
    if measured:
        shared = [c for c in paper.columns if any(c.label in figures for figures in measured.values())]
        headers += [f"ours: {_column_heading(column)}" for column in shared]
    printed_as = {row.name: row.printed_as for row in experiment.rows}
    ours_first = dict.fromkeys([*printed_as, *results.rows, *measured])
    covered = {printed_as.get(row, row) for row in ours_first}
    rows = []
    for row in [*ours_first, *(row for row in paper.rows if row not in covered)]:
        theirs = printed_as.get(row, row)
        cells = [number(figure, 3) for figure in paper.rows.get(theirs, (None,) * len(paper.columns))]
        cells += [number(_our_mean(experiment, results, row, *o), 3) for o in ours]
        if measured:
            found = measured.get(row, {})
            cells += [number(found.get(c.label), _measured_digits(c.label)) for c in shared]
        rows.append([row if row == theirs else f"{row} (paper: {theirs})", *cells])
    return markdown_table(headers, rows)


def _column_heading(column: Column) -> str:
    return f"{column.label} ({column.unit})" if column.unit else column.label


def _our_mean(
    experiment: Experiment, results: Results, row: str, metric: str, dataset: str, unit: str
) -> float | None:
    """Our mean in the paper's unit; None if there is none."""
    place = experiment.datasets.index(dataset) if dataset in experiment.datasets else 0
    if place >= len(results.datasets):
        return None
    values = results.values(results.datasets[place], row, metric)
    if not values:
        return None
    return sum(values.values()) / len(values) * (100 if unit == "%" else 1)


def depth_table(results: Results, dataset: str, metric: str) -> str:
    """Means by depth of the answer (down) and tokens of the context (across; Chronicles, figures 2 and 3)."""
    means: dict[tuple[float, float], float] = {}
    for row in results.rows:
        values = results.values(dataset, row, metric).values()
        settings = results.settings.get(row, {})
        if values and settings.get("depth") is not None:
            means[float(settings["depth"]), float(settings["tokens"])] = sum(values) / len(values)
    depths, sizes = (sorted({key[i] for key in means}) for i in (0, 1))
    rows = [[f"{100 * depth:.0f} %", *(number(means.get((depth, n))) for n in sizes)] for depth in depths]
    return markdown_table(["depth", *(f"{size:,.0f} tokens" for size in sizes)], rows)


REPORT = "report.md"
_MOST_FAILURES = 5
_WHAT_DATA = {
    "dev": "The data are this project's development sets, not the paper's: no figure here compares with one "
    "that the paper prints.",
    "published": "The data are the published sets that the paper names.",
    "own": "The data are files given by the user, not the paper's.",
}


def write_report(folder: Path) -> Path:
    """Write `REPORT` into a run's folder, from what the folder holds.

    Returns:
        The report.

    Raises:
        InputError: Where the folder is no run, or cannot be written to.
    """
    results = read_results(folder)
    path = folder / REPORT
    try:
        path.write_text(render(experiment_of(results), results), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    return path


def experiment_of(results: Results) -> Experiment:
    """The experiment as it was when the run began."""
    raw = results.header.get("experiment")
    if not isinstance(raw, dict):
        raise InputError("the header of the run does not hold its experiment")
    return parse_experiment(json.dumps(raw), where="in the header of the run", name="")


def render(experiment: Experiment, results: Results) -> str:
    """The report of an experiment as Markdown."""
    about = [experiment.about + "."] if experiment.about else []
    parts = [f"# {experiment.title}", *about, *_conditions(experiment, results)]
    for dataset in results.datasets:
        parts += _dataset(experiment, results, dataset)
    if results.measured:
        parts += ["## Measured", measured_table(results)]
    if results.settings:
        parts += ["## Settings", *_settings(results)]
    if results.left_out:
        rows = [[row, reason] for row, reason in results.left_out.items()]
        parts += ["## Rows left out", markdown_table(["row", "reason"], rows, left=2)]
    parts += _failures(results)
    parts += [*_paper(experiment, results), "## Made with", *_made_with(results)]
    return "\n\n".join(map(_inert, parts)) + "\n"


_TAG = re.compile(r"<(?=[A-Za-z/!?])")


def _inert(markdown: str) -> str:
    """Markdown in which names, questions and errors make no tag, no link and no picture."""
    return _TAG.sub("&lt;", terminal_safe(markdown)).replace("](", "]\\(")


def _conditions(experiment: Experiment, results: Results) -> Iterator[str]:
    """What the figures are, before any figure."""
    configuration = results.configuration
    reader = configuration.get("reader", {})
    yield f"**Answers:** {reader.get('label', 'nobody')}. {READER_NOTES.get(reader.get('kind', ''), '')}"
    yield f"**Data:** {_WHAT_DATA[configuration.get('data', 'own')]}"
    if experiment.reader and reader.get("kind") == "llm":
        yield f"The paper's LLM is {experiment.reader}."
    if stand_ins := _stand_ins(experiment, results):
        yield (
            "There was no key for OpenAI's embeddings: local retrievers stand in for them in "
            f"{', '.join(stand_ins)}."
        )
    sample = configuration.get("questions")
    drawn = f"{sample} questions of each set, drawn with seed" if sample else "all questions; seed"
    yield (
        f"**Sample:** {drawn} {configuration.get('seed')}. Intervals are 95 %: Wilson's where each question "
        "is right or wrong, else a bootstrap over documents (over questions where there is one document). "
        "Differences are paired, question by question. p is McNemar's exact test where each question is "
        "right or wrong, else a permutation test that flips the sign of each document's difference (each "
        "question's where there is one document). Bold: the interval leaves out zero and p is below 0.05."
        + _few_documents(results)
    )


def _few_documents(results: Results) -> str:
    """What to make of intervals over few documents; empty where there are enough."""
    few = ", ".join(f"{name} ({count})" for name, count in results.few_documents().items())
    return (
        f" Intervals are too narrow where fewer than {FEW} documents are asked about: {few}." if few else ""
    )


def _stand_ins(experiment: Experiment, results: Results) -> list[str]:
    """Rows run with another retriever than the paper's, and that retriever."""
    run = results.configuration.get("rows", {})
    return [
        f"{row.name} ({run[row.name].get('index')})"
        for row in experiment.rows
        if "offline_index" in row.method and run.get(row.name, row.method).get("index") != row.method["index"]
    ]


def _dataset(experiment: Experiment, results: Results, dataset: str) -> Iterator[str]:
    entry = next(d for d in results.configuration["datasets"] if d["name"] == dataset)
    if not any(results.answers.get((dataset, row)) for row in results.rows):
        return
    searched = "all searched for each question" if entry["pooled"] else "each question in its own document"
    yield f"## {dataset}"
    yield f"{entry['questions']:,} questions about {entry['documents']:,} documents, {searched}."
    if entry.get("chance"):
        yield f"Multiple choice: guessing is right {100 * entry['chance']:.0f} % of the time."
    yield quality_table(results, dataset, experiment.metrics)
    if any(results.values(dataset, row, "accuracy") for row in results.rows):
        yield "An answer that names no option counts as wrong:"
        yield choices_table(results, dataset)
    if empty := _empty_answers(results, dataset):
        yield f"Empty answers count as answered and are in every mean: {empty}."
    unread = sum(
        line["scores"].get(JUDGED, 0) is None
        for (name, _), lines in results.answers.items()
        if name == dataset
        for line in lines.values()
    )
    if unread:
        yield f"{unread} replies of the judge held no score and are in no mean."
    yield "What it took, a question on average (tokens of every LLM call, the critic's too):"
    yield effort_table(results, dataset)
    yield (
        "The methods of a run share chunks and embeddings: whoever embeds a text first pays for it. Times "
        "that compare are those of the experiment `scalability`."
    )
    comparisons = [
        pair for pair in experiment.comparisons() if all(results.answers.get((dataset, row)) for row in pair)
    ]
    if comparisons:
        yield "### Differences"
        yield difference_table(results, dataset, comparisons, experiment.metrics)
    gold = str(experiment.options.get("relative_maximum", ""))
    metric = next((m for m in experiment.metrics if gold and results.values(dataset, gold, m)), "")
    if metric:
        yield "### Degradation"
        yield f"Loss against the relative maximum, which is the {label(metric)} of {gold} (equation 1)."
        yield degradation_table(results, dataset, metric, gold)
    measured = (m for m in experiment.metrics if any(results.values(dataset, r, m) for r in results.rows))
    if experiment.options.get("heat_map") and (metric := next(measured, "")):
        yield "### Depth"
        yield f"{label(metric)} by size of the context and depth of the answer in it."
        yield depth_table(results, dataset, metric)
    reference = experiment.options.get("cost_efficiency")
    metric = experiment.metrics[0] if experiment.metrics else ""
    if reference and results.values(dataset, str(reference), metric):
        yield "### Cost efficiency"
        yield f"{label(metric)} for the tokens spent, relative to {reference} (equation 2)."
        yield efficiency_table(results, dataset, metric, str(reference))


def _settings(results: Results) -> Iterator[str]:
    """What each row was run with: first what all share, then row by row."""
    flat = {row: dict(_flattened(settings)) for row, settings in results.settings.items()}
    first = next(iter(flat.values()))
    shared = {
        name: value for name, value in first.items() if all(f.get(name) == value for f in flat.values())
    }
    if len(flat) > 1 and shared:
        yield "All rows: " + "; ".join(f"{name} {value}" for name, value in shared.items()) + "."
    own = shared if len(flat) > 1 else {}
    rows = [
        [row, "; ".join(f"{name} {value}" for name, value in found.items() if name not in own)]
        for row, found in flat.items()
    ]
    yield markdown_table(["row", "settings"], rows, left=2)


def _flattened(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Settings as names with dots, and their values as JSON without quotes around texts."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)


def _empty_answers(results: Results, dataset: str) -> str:
    """How many answers of each row are empty; nothing where nobody was to answer."""
    if results.configuration.get("reader", {}).get("kind") == NO_ANSWERER:
        return ""
    found = []
    for row in results.rows:
        lines = results.answers.get((dataset, row), {})
        if empty := sum(not line["answer"].strip() for line in lines.values()):
            found.append(f"{row} {empty} of {len(lines)}")
    return ", ".join(found)


def _failures(results: Results) -> Iterator[str]:
    """Questions that failed, and the first reasons."""
    failed = [
        (dataset, row, question, error)
        for (dataset, row), questions in results.failed.items()
        for question, error in questions.items()
    ]
    if failed:
        yield "## Failures"
        yield f"{len(failed)} questions failed and are in no mean. Running again asks them again."
        rows = [[f"{row}, {dataset}", question, error[:200]] for dataset, row, question, error in failed]
        yield markdown_table(["method", "question", "error"], rows[:_MOST_FAILURES], left=3)


def _paper(experiment: Experiment, results: Results) -> Iterator[str]:
    if experiment.paper is not None:
        yield "## The paper's figures"
        yield f"{experiment.paper.source}, beside ours where rows and metrics are the same."
        yield printed_table(experiment, results)
    if experiment.notes:
        yield "### Notes"
        yield "\n".join(f"- {note}" for note in experiment.notes)


def _made_with(results: Results) -> Iterator[str]:
    header = results.header
    machine: dict[str, Any] = header["machine"]
    gpu = machine.get("gpu") or "no GPU"
    yield (
        f"{machine['cores']} cores, {machine['memory_gb']} GB, {gpu}, {machine['system']} "
        f"{machine['processor']}, Python {machine['python']}; "
        + ", ".join(f"{name} {version}" for name, version in header["packages"].items())
        + "."
    )
    for dataset in results.configuration.get("datasets", ()):
        yield f"`{dataset['name']}`: SHA-256 {dataset['digest'][:16]}."
    yield f"Configuration: SHA-256 {header['digest'][:16]}."
