"""The report of a run: Markdown, with plots beside it, made from the files of the run alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sage_core.errors import InputError, MissingExtraError
from sage_core.evaluation.experiment import Experiment, parse_experiment
from sage_core.evaluation.readers import NOBODY, PLAINLY
from sage_core.evaluation.report_paper import cited_table, claims_table, printed_table
from sage_core.evaluation.report_plots import draw
from sage_core.evaluation.report_tables import (
    choices_table,
    difference_table,
    efficiency_table,
    effort_table,
    label,
    markdown_table,
    measured_table,
    quality_table,
)
from sage_core.evaluation.results import FEW, Results, read_results
from sage_core.evaluation.scoring import JUDGED

REPORT = "report.md"
_MOST_FAILURES = 5
_WHAT_DATA = {
    "dev": "The data are this project's development sets, not the paper's: no figure here compares with one "
    "that the paper prints.",
    "published": "The data are the published sets that the paper names.",
    "own": "The data are files given by the user, not the paper's.",
}


def write_report(folder: Path) -> Path:
    """Write `REPORT` and its plots into a run's folder, from what the folder holds.

    Returns:
        The report.

    Raises:
        InputError: Where the folder is no run, or cannot be written to.
    """
    results = read_results(folder)
    experiment = experiment_of(results)
    try:
        plots = draw(results, experiment.metrics, folder)
        hint = ""
    except MissingExtraError as error:
        plots, hint = [], str(error)
    path = folder / REPORT
    try:
        path.write_text(render(experiment, results, plots, hint=hint), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    return path


def experiment_of(results: Results) -> Experiment:
    """The experiment as it was when the run began."""
    raw = results.header.get("experiment")
    if not isinstance(raw, dict):
        raise InputError("the header of the run does not hold its experiment")
    return parse_experiment(json.dumps(raw), where="in the header of the run", name="")


def render(
    experiment: Experiment, results: Results, plots: Sequence[tuple[str, str]] = (), *, hint: str = ""
) -> str:
    """The report as Markdown.

    Args:
        experiment: What was run.
        results: What came of it.
        plots: File names and captions.
        hint: Said where plots would stand, if there are none.
    """
    about = [experiment.about + "."] if experiment.about else []
    parts = [f"# {experiment.title}", *about, *_conditions(experiment, results)]
    for dataset in results.datasets:
        parts += _dataset(experiment, results, dataset)
    if results.measured:
        parts += ["## Measured", measured_table(results)]
    if results.left_out:
        rows = [[row, reason] for row, reason in results.left_out.items()]
        parts += ["## Rows left out", markdown_table(["row", "reason"], rows, left=2)]
    parts += _failures(results)
    if plots or hint:
        parts += ["## Plots", *(f"![{caption}]({name})\n\n{caption}" for name, caption in plots)]
        parts += [f"No plots: {hint}"] if hint else []
    parts += _paper(experiment, results)
    parts += ["## Made with", *_made_with(results)]
    return "\n\n".join(parts) + "\n"


def _conditions(experiment: Experiment, results: Results) -> Iterator[str]:
    """What the figures are, before any figure."""
    configuration = results.configuration
    reader = configuration.get("reader", {})
    yield f"**Answers:** {reader.get('label', 'nobody')}. {PLAINLY.get(reader.get('kind', ''), '')}"
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
    reference = experiment.options.get("cost_efficiency")
    metric = experiment.metrics[0] if experiment.metrics else ""
    if reference and results.values(dataset, str(reference), metric):
        yield "### Cost efficiency"
        yield f"{label(metric)} for the tokens spent, relative to {reference} (equation 2)."
        yield efficiency_table(results, dataset, metric, str(reference))


def _empty_answers(results: Results, dataset: str) -> str:
    """How many answers of each row are empty; nothing where nobody was to answer."""
    if results.configuration.get("reader", {}).get("kind") == NOBODY:
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
    if experiment.cited:
        yield "Rows that are quoted and not run:"
        yield cited_table(experiment)
    if experiment.claims:
        yield "### Do the printed figures add up?"
        yield claims_table(experiment)
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
