"""Experiments: small JSON files that say which methods answer which questions, and what a paper printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

from sage_core.errors import InputError

QUESTIONS = "questions"
"""The kind of experiment that asks questions; every other kind is the name of a measurement."""


_ALIASES = {"exp12": "exp11"}
"""One sweep over the number of chunks serves both experiments of the paper."""

_NAME = re.compile(r"\w[\w .+-]*")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    Attributes:
        name: Says what is run.
        method: The method in the terms of `sage_eval.methods`.
        paper: Name of the paper's row that it stands for; the row's own where it is the same.
    """

    name: str
    method: Mapping[str, Any]
    paper: str = ""

    @property
    def printed_as(self) -> str:
        """Name of the paper's row."""
        return self.paper or self.name


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a paper prints.

    Attributes:
        label: As printed.
        metric: Name of our metric that it is; empty where there is none.
        dataset: The data set it is over; empty where the table has one.
        reader: The LLM it was made with; empty where the table has one.
        unit: ``"%"``, or empty.
    """

    label: str
    metric: str = ""
    dataset: str = ""
    reader: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """What a paper prints: facts, with their place."""

    source: str
    columns: tuple[Column, ...]
    rows: Mapping[str, tuple[float | None, ...]]

    def cells(self) -> dict[tuple[str, str], float]:
        """Figures by row and label of the column."""
        return {
            (row, column.label): float(figure)
            for row, figures in self.rows.items()
            for column, figure in zip(self.columns, figures, strict=True)
            if figure is not None
        }


@dataclass(frozen=True, slots=True)
class Experiment:
    """One table or figure.

    Attributes:
        name: Its name on the command line.
        title: What it is, with the table's number.
        about: One line for a list; empty where the title says it all.
        kind: `QUESTIONS`, or the name of a measurement.
        datasets: The data sets of the paper.
        development: Development sets that stand in for them with ``--data dev``.
        pooled: Whether all documents are searched for each question; None for what fits the set.
        only: Ask only questions that have this: ``"evidence"``, ``"answers"``, ``"options"``; empty for all.
        reader: The paper's LLM.
        needs_reader: Whether it makes sense only with an answering LLM (false for retrieval tables).
        metrics: Names of our metrics.
        rows: The methods.
        baseline: Row that the others are compared with; empty where ``pairs`` says.
        pairs: Rows to compare, each with its own baseline.
        options: Settings of a measurement.
        paper: What the paper prints; None for experiments of our own.
        notes: What is wrong or unclear in the paper, and what differs here.
        raw: The file as read.
    """

    name: str
    title: str
    about: str = ""
    kind: str = QUESTIONS
    datasets: tuple[str, ...] = ()
    development: tuple[str, ...] = ()
    pooled: bool | None = None
    only: str = ""
    reader: str = ""
    needs_reader: bool = True
    metrics: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    baseline: str = ""
    pairs: tuple[tuple[str, str], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    paper: PrintedTable | None = None
    notes: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in (self.name, *self.datasets, *self.development):
            # These become parts of paths.
            if name and not _NAME.fullmatch(name.removeprefix("dev/")):
                raise InputError(f"{name!r} is no name: letters, digits, spaces and . _ + - only")
        names = [row.name for row in self.rows]
        if len(set(names)) != len(names):
            raise InputError(f"experiment {self.name!r}: two rows have the same name")
        for name in (self.baseline, *(n for pair in self.pairs for n in pair)):
            if name and name not in names:
                raise InputError(f"experiment {self.name!r}: there is no row {name!r} to compare with")
        if self.only not in ("", "evidence", "answers", "options"):
            raise InputError(f"only is evidence, answers or options, not {self.only!r}")
        if self.kind == QUESTIONS and not (self.rows and self.metrics and self.datasets):
            raise InputError(f"experiment {self.name!r} needs rows, metrics and datasets")

    def comparisons(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a row and the baseline it is compared with."""
        if self.pairs or not self.baseline:
            return self.pairs
        return tuple((row.name, self.baseline) for row in self.rows if row.name != self.baseline)


def experiment_names() -> list[str]:
    """Names of the bundled experiments: tables by number, then the rest."""
    found = [item.name for item in _bundled().iterdir() if item.name.endswith(".json")]
    return sorted((name.removesuffix(".json") for name in found), key=_by_number)


def load_experiment(name: str) -> Experiment:
    """A bundled experiment by name, or one from a JSON file.

    Raises:
        InputError: Where there is none, or it is not well formed; the message says what is wrong.
    """
    if name.endswith(".json") or "/" in name:
        path = Path(name)
        try:
            name = re.sub(r"[^\w.+-]+", "-", path.stem).lstrip(".+-") or "experiment"
            return parse_experiment(path.read_text(encoding="utf-8"), where=str(path), name=name)
        except OSError as error:
            raise InputError(
                f"cannot read the experiment {path}: {error.strerror}; `sage-rag eval list` shows "
                "the built-in ones"
            ) from error
    name = _ALIASES.get(name, name)
    if name not in experiment_names():
        raise InputError(f"there is no experiment {name!r}: `sage-rag eval list` shows them")
    text = (_bundled() / f"{name}.json").read_text(encoding="utf-8")
    return parse_experiment(text, where=name, name=name)


def parse_experiment(text: str, *, where: str, name: str) -> Experiment:
    """An experiment from JSON.

    Args:
        text: The JSON.
        where: For error messages.
        name: The experiment's name where the JSON gives none.

    Raises:
        InputError: Where it is not well formed.
    """
    try:
        raw = json.loads(text)
        if not isinstance(raw, dict):
            raise InputError(f"experiment {where}: the file must hold one JSON object")
        raw.setdefault("name", name)
        return _experiment(raw)
    except InputError as error:
        raise InputError(f"experiment {where}: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"experiment {where} is not well formed: {error}") from error


def _experiment(raw: dict[str, Any]) -> Experiment:
    file, raw = raw, dict(raw)
    known = {f.name for f in fields(Experiment)} - {"raw"}
    if unknown := sorted(raw.keys() - known):
        raise InputError(f"unknown settings {', '.join(unknown)}")
    if "title" not in raw:
        raise InputError("title missing")
    raw["rows"] = tuple(_row(row) for row in raw.get("rows", ()))
    raw["pairs"] = tuple((str(a), str(b)) for a, b in raw.get("pairs", ()))
    for name in ("datasets", "development", "metrics", "notes"):
        raw[name] = _strings(name, raw.get(name, ()))
    if raw.get("paper") is not None:
        raw["paper"] = _printed(raw["paper"])
    return Experiment(**raw, raw=file)


def _row(raw: Mapping[str, Any]) -> Row:
    method = dict(raw)
    return Row(str(method.pop("row")), method, str(method.pop("paper", "")))


def _printed(raw: Mapping[str, Any]) -> PrintedTable:
    columns = tuple(Column(**column) for column in raw["columns"])
    rows = {str(name): tuple(figures) for name, figures in raw["rows"].items()}
    for name, figures in rows.items():
        if len(figures) != len(columns):
            raise InputError(f"row {name!r} of the paper has {len(figures)} figures, not {len(columns)}")
    return PrintedTable(str(raw["source"]), columns, rows)


def _strings(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InputError(f"{name} must be a list")
    return tuple(str(item) for item in value)


def _bundled() -> Any:
    return resources.files("sage_eval") / "experiments"


def _by_number(name: str) -> tuple[bool, str, int, str]:
    """Sorts table2 before table10, and the SAGE paper before the others."""
    head = name.rstrip("0123456789")
    digits = name[len(head) :]
    return ("-" in name, head, int(digits or 0), name)
