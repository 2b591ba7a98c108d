"""Puts an experiment together: data, reader, methods and folder, and runs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sage_core.embedding.sentence_transformer import Embedder
from sage_core.errors import InputError
from sage_core.evaluation.data_choice import DEVELOPMENT, choose_data
from sage_core.evaluation.datasets import dataset_names
from sage_core.evaluation.experiment import QUESTIONS, Experiment, Row
from sage_core.evaluation.measurements import measurement
from sage_core.evaluation.protocols import Method
from sage_core.evaluation.readers import NOBODY, Reader
from sage_core.evaluation.records import Dataset
from sage_core.evaluation.reference_methods import GoldContext, NoContext
from sage_core.evaluation.run_folder import RunFolder, digest_of
from sage_core.evaluation.run_lines import configuration
from sage_core.evaluation.runner import Outcome, Progress, Runner
from sage_core.evaluation.scoring import Scorer, of_retrieval
from sage_core.text.tokens import get_counter

HOME = Path("sage-eval")
"""Where runs go that are given no folder."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How an experiment is run.

    Attributes:
        data: See `choose_data`.
        output: The folder; None for one under `HOME`, named after experiment and configuration.
        questions: So many of each data set; None for all.
        seed: Of the sample.
        rows: Names of the rows to run; empty for all.
        fresh: Throw away earlier results.
        concurrency: Questions asked at the same time.
        cache: Folder where embeddings are kept between runs; None keeps them in memory.
        language: Of the answers, for the metrics that count words.
    """

    data: str | None = None
    output: Path | None = None
    questions: int | None = None
    seed: int = 0
    rows: tuple[str, ...] = ()
    fresh: bool = False
    concurrency: int = 1
    cache: Path | None = None
    language: str = "en"


@dataclass(frozen=True, slots=True)
class Plan:
    """An experiment ready to run.

    Attributes:
        experiment: As it is run: the rows chosen, with the retrievers that can be had.
        datasets: As they are asked.
        reader: Who answers.
        embedder: The embedding model where a row names none.
        options: As given.
        configuration: Everything that changes results.
    """

    experiment: Experiment
    datasets: tuple[Dataset, ...]
    reader: Reader
    embedder: Embedder
    options: RunOptions
    configuration: dict[str, object]

    @property
    def folder(self) -> Path:
        """Where results go."""
        if self.options.output is not None:
            return self.options.output
        return HOME / f"{self.experiment.name}-{digest_of(self.configuration)[:8]}"


def plan(experiment: Experiment, reader: Reader, embedder: Embedder, options: RunOptions) -> Plan:
    """Load the data and fix the configuration.

    Raises:
        InputError: For rows, data or metrics that are not there, or an experiment that needs answers where
            nobody answers.
    """
    chosen = _chosen(experiment, options.rows)
    if reader.kind == NOBODY and experiment.kind == QUESTIONS:
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
    maker = MethodMaker(plan.reader, plan.embedder, cache=options.cache)
    with folder:
        if experiment.kind != QUESTIONS:
            return measurement(experiment.kind).run(plan, folder, maker, progress)
        scorer = Scorer(experiment.metrics, judge_model=plan.reader.chat, language=options.language)
        runner = Runner(folder, maker, scorer, concurrency=options.concurrency, progress=progress)
        return runner.run(experiment.rows, plan.datasets)


class MethodMaker:
    """Makes the methods of a table, which share models and chunks.

    Args:
        reader: Answers and grades.
        embedder: The embedding model where a row names none.
        cache: Folder where embeddings are kept between runs.
    """

    def __init__(self, reader: Reader, embedder: Embedder, *, cache: Path | None = None) -> None:
        from sage_core.evaluation.methods import SharedWork
        from sage_core.evaluation.retrievers import CachedEmbedder

        self._reader = reader
        self._embedder = CachedEmbedder(embedder, cache)
        self._cache = cache
        self._shared = SharedWork()

    def alone(self) -> MethodMaker:
        """A maker that has the same models, but no chunks and no embeddings yet: for measuring time."""
        return MethodMaker(self._reader, self._embedder.embedder)

    def __call__(self, row: Row) -> Method:
        """The method of a row.

        Raises:
            InputError: For a configuration that is wrong.
        """
        from sage_core.evaluation.methods import make_method

        kind = row.method.get("method")
        settings = {key: value for key, value in row.method.items() if key != "method"}
        if kind in ("gold-context", "no-context"):
            make = GoldContext if kind == "gold-context" else NoContext
            try:
                return make(self._reader.answerer, get_counter(), name=row.name, **settings)
            except TypeError as error:
                raise InputError(f"row {row.name!r}: {error}") from error
        _need_key(row)
        return make_method(
            {**row.method, "name": row.name},
            reader=self._reader.answerer,
            embedder=self._embedder,
            summary_model=self._reader.chat,
            shared=self._shared,
            cache_dir=self._cache,
        )


def _chosen(experiment: Experiment, names: Sequence[str]) -> Experiment:
    """The experiment with the rows asked for, and retrievers that can be had."""
    known = [row.name for row in experiment.rows]
    if unknown := [name for name in names if name not in known]:
        shown = ", ".join(map(repr, known))
        raise InputError(f"experiment {experiment.name!r} has no row {unknown[0]!r}: there are {shown}")
    rows = tuple(_resolved(row) for row in experiment.rows if not names or row.name in names)
    kept = {row.name for row in rows}
    pairs = tuple(p for p in experiment.comparisons() if kept.issuperset(p))
    return replace(experiment, rows=rows, pairs=pairs, baseline="")


def _resolved(row: Row) -> Row:
    """``offline_index`` in place of ``index`` where there is no key for OpenAI's embeddings."""
    method = dict(row.method)
    offline = method.pop("offline_index", None)
    if offline is not None and not _has_key():
        method["index"] = offline
    return Row(row.name, method)


def _need_key(row: Row) -> None:
    """Raise InputError for OpenAI embeddings without a key, before anything is cut or embedded."""
    if not _has_key() and _asks_openai(row.method):
        raise InputError("OpenAI's embeddings need OPENAI_API_KEY")


def _asks_openai(spec: object) -> bool:
    """Whether a configuration has OpenAI's own embeddings anywhere within."""
    if isinstance(spec, Mapping):
        if spec.get("kind") == "openai":
            return not (spec.get("base_url") or os.environ.get("OPENAI_BASE_URL"))
        return any(_asks_openai(spec.get(name)) for name in ("index", "embedder", "first", "of", "parts"))
    if isinstance(spec, list | tuple):
        return any(_asks_openai(part) for part in spec)
    return spec == "openai" and not os.environ.get("OPENAI_BASE_URL")


def _has_key() -> bool:
    return bool(os.environ.get("OPENAI_API_KEY", "").strip())


def _data_kind(data: str | None, datasets: Sequence[Dataset], experiment: Experiment) -> str:
    if data == DEVELOPMENT:
        return "dev"
    published = set(experiment.datasets) & dataset_names().keys()
    return "published" if {d.name for d in datasets} <= published else "own"
