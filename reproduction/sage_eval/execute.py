"""Puts an experiment together: data, reader, methods and folder, and runs it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError
from sage_eval.datasets import dataset_names
from sage_eval.experiment import QUESTIONS, Experiment, Row, load_experiment
from sage_eval.measurements import measurement
from sage_eval.metrics.registry import Scorer, of_retrieval
from sage_eval.plan import DEVELOPMENT, EmbeddingAccess, MethodMaker, Plan, RunOptions, choose_data
from sage_eval.readers import EXTRACTIVE, NO_ANSWERER, ExtractiveReader, Reader
from sage_eval.records import Dataset
from sage_eval.results import Results, read_results
from sage_eval.run_folder import PRICES, RunFolder, configuration
from sage_eval.runner import Outcome, Progress, Runner


def plan(experiment: Experiment, reader: Reader, embedder: Embedder, options: RunOptions) -> Plan:
    """Load the data and fix the configuration.

    Raises:
        InputError: For rows, data or metrics that are not there, or an experiment that needs answers where
            nobody answers.
    """
    chosen = _chosen(experiment, options.rows, options.embeddings)
    if reader.kind == NO_ANSWERER and experiment.kind == QUESTIONS:
        metrics = tuple(of_retrieval(experiment.metrics))
        if not metrics:
            raise InputError(f"experiment {experiment.name!r} measures answers: choose another --reader")
        chosen = replace(chosen, metrics=metrics)
    datasets: list[Dataset] = []
    if experiment.kind == QUESTIONS or measurement(experiment.kind).asks_questions:
        datasets = choose_data(experiment, options.data, questions=options.questions, seed=options.seed)
    settings = {
        "kind": experiment.kind,
        "data": _data_kind(options.data, datasets, experiment),
        "questions": options.questions,
        "seed": options.seed,
        "reader": reader.record(),
        "embedder": embedder.name,
        "language": options.language,
        "options": dict(experiment.options),
        "reranker": options.reranker,
    }
    found = configuration(chosen, chosen.rows, datasets, **settings)
    return Plan(chosen, tuple(datasets), reader, embedder, options, found)


def execute(plan: Plan, *, progress: Callable[[Progress], None] | None = None) -> Outcome:
    """Run a plan into its folder, on from where an earlier run stopped.

    Raises:
        InputError: Where the folder holds another run.
    """
    options, experiment = plan.options, plan.experiment
    raw = {**experiment.raw, "metrics": list(experiment.metrics)}
    folder = RunFolder(plan.folder, plan.configuration, experiment=raw, fresh=options.fresh)
    maker = MethodMaker(plan.reader, plan.embedder, options)
    with folder:
        if options.prices:
            prices = {name: {"prompt": p, "completion": c} for name, (p, c) in options.prices.items()}
            (plan.folder / PRICES).write_text(json.dumps(prices), encoding="utf-8")
        if experiment.kind != QUESTIONS:
            return measurement(experiment.kind).run(plan, folder, maker, progress)
        judge = plan.reader.judge or plan.reader.chat
        scorer = Scorer(experiment.metrics, judge_model=judge, language=options.language)
        runner = Runner(folder, maker, scorer, concurrency=options.concurrency, progress=progress)
        return runner.run(experiment.rows, plan.datasets)


def run_experiment(
    experiment: Experiment | str,
    *,
    reader: Reader | None = None,
    embedder: Embedder | None = None,
    options: RunOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Results:
    """Run an experiment, write its report and read the results back, as `sage-rag eval run` does.

    Args:
        experiment: An experiment, or a name or file as for `load_experiment`.
        reader: Who answers; the extractive answerer where None.
        embedder: The embedding model where a row names none; all-MiniLM-L6-v2 where None.
        options: How it is run.
        progress: Receives the progress.

    Raises:
        InputError: As `plan` and `execute`.
    """
    from sage_eval.report import write_report

    found = load_experiment(experiment) if isinstance(experiment, str) else experiment
    embedder = embedder if embedder is not None else MiniLMEmbedder()
    who = reader if reader is not None else Reader(EXTRACTIVE, ExtractiveReader())
    planned = plan(found, who, embedder, options if options is not None else RunOptions())
    execute(planned, progress=progress)
    write_report(planned.folder)
    return read_results(planned.folder)


def _chosen(experiment: Experiment, names: Sequence[str], access: EmbeddingAccess) -> Experiment:
    """The experiment with the requested rows, and the retrievers that are available."""
    known = [row.name for row in experiment.rows]
    if unknown := [name for name in names if name not in known]:
        shown = ", ".join(map(repr, known))
        raise InputError(f"experiment {experiment.name!r} has no row {unknown[0]!r}: there are {shown}")
    rows = tuple(_resolved(row, access) for row in experiment.rows if not names or row.name in names)
    kept = {row.name for row in rows}
    pairs = tuple(p for p in experiment.comparisons() if kept.issuperset(p))
    return replace(experiment, rows=rows, pairs=pairs, baseline="")


def _resolved(row: Row, access: EmbeddingAccess) -> Row:
    """``offline_index`` in place of ``index`` where that one's embeddings cannot be had."""
    method = dict(row.method)
    offline = method.pop("offline_index", None)
    if offline is not None and not access.answers(method.get("index")):
        method["index"] = offline
    return Row(row.name, method, row.paper)


def _data_kind(data: str | None, datasets: Sequence[Dataset], experiment: Experiment) -> str:
    if data == DEVELOPMENT or (data or "") in dataset_names():
        return "dev"
    published = set(experiment.datasets) & dataset_names().keys()
    return "published" if {d.name for d in datasets} <= published else "own"
