"""Which data an experiment runs on: published sets, our development sets, or the user's own files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sage_core.errors import InputError, MissingExtraError
from sage_core.evaluation.datasets import load_dataset
from sage_core.evaluation.experiment import Experiment
from sage_core.evaluation.records import Dataset, EvalQuestion

DEVELOPMENT = "dev"


def choose_data(
    experiment: Experiment, data: str | None, *, questions: int | None = None, seed: int = 0
) -> list[Dataset]:
    """Load what an experiment asks about.

    Args:
        experiment: The experiment.
        data: ``"dev"`` for the development sets; a folder that holds the published sets by name; the prefix
            of a pair of files in our own format; None for the published sets from the hub.
        questions: So many questions of each set, drawn with ``seed``; None for all.
        seed: Of the sample.

    Raises:
        InputError: Where a set is not there; the message says which file goes where.
    """
    if questions is not None and questions < 1:
        raise InputError(f"--questions must be at least 1, not {questions}")
    loaded = [_only(dataset, experiment.only) for dataset in _load(experiment, data)]
    return [d if questions is None else d.sample(questions, seed=seed) for d in loaded]


def _load(experiment: Experiment, data: str | None) -> list[Dataset]:
    pooled = experiment.pooled
    if data == DEVELOPMENT:
        return [load_dataset(name, pooled=pooled) for name in _development(experiment)]
    if data is None:
        return [_from_hub(name, pooled) for name in experiment.datasets]
    if _is_pair(data):
        dataset = load_dataset("jsonl", data, pooled=pooled)
        return [replace(dataset, name=Path(data).name)]
    folder = Path(data)
    return [_from_folder(name, folder, pooled) for name in experiment.datasets]


def _development(experiment: Experiment) -> Sequence[str]:
    if not experiment.development:
        raise InputError(f"experiment {experiment.name!r} names no development sets: leave --data dev out")
    return experiment.development


def _from_hub(name: str, pooled: bool | None) -> Dataset:
    try:
        return load_dataset(name, pooled=pooled)
    except (InputError, MissingExtraError) as error:
        raise InputError(
            f"{error}. Or put its files ({_files(name)}) into DIR/{name} and say --data DIR; or --data dev "
            "for the development sets of this project"
        ) from error


def _from_folder(name: str, folder: Path, pooled: bool | None) -> Dataset:
    if not folder.is_dir():
        raise InputError(f"--data {folder}: there is no such folder, and no {folder}_questions.jsonl")
    path = folder / name
    if not path.exists():
        raise InputError(
            f"data set {name!r} is not in {folder}: put its files ({_files(name)}) into {path}, "
            "or say --data dev for the development sets of this project"
        )
    return load_dataset(name, path, pooled=pooled)


def _files(name: str) -> str:
    """What the published files of a set are."""
    from sage_core.evaluation.datasets.registry import FORMATS

    return FORMATS[name].files if name in FORMATS else f"the files of {name}"


def _is_pair(prefix: str) -> bool:
    path = Path(prefix)
    return any(path.with_name(f"{path.name}_questions.jsonl{end}").is_file() for end in ("", ".gz"))


def _only(dataset: Dataset, what: str) -> Dataset:
    """The questions that have ``what``."""
    if not what:
        return dataset
    kept = tuple(q for q in dataset.questions if _has(q, what))
    if not kept:
        raise InputError(f"data set {dataset.name!r}: no question has {what}, which this experiment needs")
    return replace(dataset, questions=kept)


def _has(question: EvalQuestion, what: str) -> bool:
    return bool(
        {"evidence": question.evidence, "answers": question.answers, "options": question.options}[what]
    )
