"""A run's folder: what was asked for (`header.json`) and what came of it (`results.jsonl`, a line a result).

Lines are written as results come, so that a run that is killed goes on where it stopped. A header is written
once; a folder whose header says something else is never written to.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, TextIO

from sage_core.errors import InputError
from sage_core.llm.usage import TokenUsage
from sage_eval.experiment import Experiment, Row
from sage_eval.records import Dataset, EvalDocument, EvalQuestion, MethodResult

PACKAGES = (
    "sage-rag",
    "numpy",
    "tokenizers",
    "torch",
    "transformers",
    "sentence-transformers",
    "bm25s",
    "openai",
)
_GIGABYTE = 1_000_000_000


def package_versions(names: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of the packages that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, object]:
    """Cores, memory in GB, operating system, processor family and Python version."""
    return {
        "cores": os.cpu_count(),
        "memory_gb": _total_memory(),
        "system": platform.system(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "gpu": _gpu(),
    }


def _total_memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIGABYTE, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _gpu() -> str | None:
    """The GPU's name where torch is loaded and sees one. torch is not loaded for this."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return str(torch.cuda.get_device_name(0))


logger = logging.getLogger(__name__)

HEADER = "header.json"
RESULTS = "results.jsonl"
PRICES = "prices.json"
"""Prices of LLMs, where the run was given any; read by the report."""
SCHEMA = 1

Line = dict[str, Any]


def digest_of(value: object) -> str:
    """SHA-256 of a JSON-ready value, independent of the order of its keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class RunFolder:
    """Appends to and reads one run. A context manager; safe across threads, and one process at a time.

    Args:
        path: The folder; made where it is not there.
        configuration: Everything that changes results, JSON-ready.
        experiment: The experiment's file, kept for the report.
        fresh: Throw away what an earlier run left here.

    Raises:
        InputError: Where the folder holds a run of another configuration, or one that is going on.
    """

    def __init__(
        self,
        path: Path,
        configuration: Mapping[str, object],
        *,
        experiment: Mapping[str, object] | None = None,
        fresh: bool = False,
    ) -> None:
        self.path = path
        self.configuration: dict[str, Any] = json.loads(json.dumps(configuration, allow_nan=False))
        self.digest = digest_of(self.configuration)
        self._experiment = dict(experiment or {})
        self._fresh = fresh
        self._lock = Lock()
        self._file: TextIO | None = None

    def __enter__(self) -> RunFolder:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._file = (self.path / RESULTS).open("a", encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write results to {self.path}: {error.strerror}") from error
        try:
            self._claim()
            self._agree()
            self._drop_torn_line()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        self._file.close()

    def append(self, line: Mapping[str, object]) -> None:
        """Write one result; it is with the operating system when this returns."""
        text = json.dumps(line, ensure_ascii=False, allow_nan=False)
        with self._lock:
            assert self._file is not None
            self._file.write(text + "\n")
            self._file.flush()

    def lines(self) -> list[Line]:
        """What has been written so far."""
        return list(read_lines(self.path / RESULTS))

    def _claim(self) -> None:
        """Keep a second process out. The system lets go of the lock however this one ends."""
        try:
            import fcntl
        except ImportError:  # not on Windows
            return
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(
                f"another run is writing to {self.path}: wait, or name another folder"
            ) from error

    def _agree(self) -> None:
        header = self.path / HEADER
        assert self._file is not None
        if self._fresh:
            header.unlink(missing_ok=True)
            self._file.truncate(0)
        if not header.exists():
            if self._file.seek(0, os.SEEK_END):
                raise InputError(f"{self.path} holds results without a {HEADER}: run with --fresh")
            self._write_header(header)
            return
        there = read_header(self.path)
        if there["digest"] != self.digest:
            changed = ", ".join(_differences(there["configuration"], self.configuration)) or "its schema"
            raise InputError(
                f"{self.path} holds a run with another configuration (changed: {changed}): "
                "name another folder with --output, or throw the old results away with --fresh"
            )

    def _write_header(self, header: Path) -> None:
        content = {
            "schema": SCHEMA,
            "digest": self.digest,
            "configuration": self.configuration,
            "experiment": self._experiment,
            "packages": package_versions(),
            "machine": machine(),
        }
        temporary = header.with_suffix(".tmp")
        temporary.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        temporary.replace(header)

    def _drop_torn_line(self) -> None:
        """Cut off a last line that a killed run did not finish."""
        path = self.path / RESULTS
        raw = path.read_bytes()
        whole = raw.rfind(b"\n") + 1
        if whole < len(raw):
            logger.warning("%s: dropped a last line that was not finished", path)
            assert self._file is not None
            self._file.truncate(whole)
            self._file.seek(0, os.SEEK_END)


def read_header(folder: Path) -> dict[str, Any]:
    """The header of a run.

    Raises:
        InputError: Where there is none, or it cannot be read.
    """
    path = folder / HEADER
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        if header["schema"] != SCHEMA:
            raise InputError(f"{path} was written by another version of sage-rag")
        _ = header["digest"], header["configuration"]
    except FileNotFoundError as error:
        raise InputError(f"{folder} is no run: it has no {HEADER}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read: {error}") from error
    return dict(header)


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a results file; a last one that is not finished is left out.

    Raises:
        InputError: For a damaged line before the last.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return
    parts = raw.split(b"\n")
    for number, part in enumerate(parts[:-1], start=1):
        try:
            line = json.loads(part)
            if not isinstance(line, dict):
                raise ValueError("not an object")
        except ValueError as error:
            raise InputError(f"{path}, line {number} is damaged: {error}") from error
        yield line


def _differences(old: object, new: object, prefix: str = "") -> list[str]:
    """Names of the settings that differ, at most six."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [prefix] if old != new else []
    found: list[str] = []
    for key in sorted(old.keys() | new.keys()):
        found += _differences(old.get(key), new.get(key), f"{prefix}.{key}" if prefix else str(key))
    return [*found[:6], "..."] if len(found) > 6 else found


def configuration(
    experiment: Experiment, rows: Sequence[Row], datasets: Sequence[Dataset], **settings: object
) -> dict[str, object]:
    """Everything that changes results, JSON-ready: the content of a run's header.

    Args:
        experiment: What is run.
        rows: The rows that are run.
        datasets: The data sets as they are asked, after sampling.
        **settings: Seed, reader, sampling and whatever else matters.
    """
    return {
        "experiment": experiment.name,
        "metrics": list(experiment.metrics),
        "rows": {row.name: dict(row.method) for row in rows},
        "datasets": [
            {
                "name": dataset.name,
                "documents": len(dataset.documents),
                "questions": len(dataset.questions),
                "pooled": dataset.pooled,
                "chance": chance(dataset),
                "digest": dataset_digest(dataset),
            }
            for dataset in datasets
        ],
        **settings,
    }


def chance(dataset: Dataset) -> float | None:
    """Accuracy of guessing at multiple-choice questions; None if there are none."""
    shares = [1 / len(q.options) for q in dataset.questions if q.options]
    return round(sum(shares) / len(shares), 6) if shares else None


def dataset_digest(dataset: Dataset) -> str:
    """SHA-256 over documents and questions, whatever file they came from."""
    digest = hashlib.sha256()
    for document in dataset.documents:
        digest.update(json.dumps([document.id, document.text, document.title, document.abstract]).encode())
    for question in dataset.questions:
        evidence = [[e.document, *e.span] for e in question.evidence]
        fields = [question.id, question.document, question.text, question.answers, evidence]
        digest.update(json.dumps([*fields, question.options, question.gold, question.hard]).encode())
    return digest.hexdigest()


def method_line(row: Row, key: str, settings: Mapping[str, object]) -> Line:
    """The settings of a row's method, and the digest of them."""
    return {"kind": "method", "row": row.name, "key": key, "settings": dict(settings)}


def prepare_line(
    row: Row,
    dataset: Dataset,
    documents: Sequence[EvalDocument],
    seconds: float,
    stages: Mapping[str, float],
    usage: Mapping[str, TokenUsage],
) -> Line:
    """What cutting, summarizing and indexing took."""
    return {
        "kind": "prepare",
        "dataset": dataset.name,
        "row": row.name,
        "documents": len(documents),
        "characters": sum(len(d.text) for d in documents),
        "seconds": round(seconds, 6),
        "stages": {stage: round(s, 6) for stage, s in stages.items()},
        "usage": _usage(usage),
    }


def answer_line(
    row: Row,
    dataset: Dataset,
    question: EvalQuestion,
    result: MethodResult,
    scores: Mapping[str, float | None],
    seconds: float,
) -> Line:
    """One answered question."""
    stages = {stage: round(s, 6) for stage, s in result.seconds.items()}
    return {
        "kind": "answer",
        "dataset": dataset.name,
        "row": row.name,
        "question": question.id,
        "document": question.document,
        "scores": {name: None if value is None else round(value, 6) for name, value in scores.items()},
        "answer": result.answer,
        "choice": result.choice,
        "grade": result.score,
        "rounds": result.rounds,
        "stop_reason": result.stop_reason,
        "selected": len(result.context),
        "found": len(result.ranked),
        "context_tokens": result.context_tokens,
        "usage": _usage(result.usage),
        "seconds": {**stages, "total": round(seconds, 6)},
    }


def failed_line(row: Row, dataset: Dataset, question: EvalQuestion, error: str) -> Line:
    """One question that failed."""
    return {
        "kind": "failed",
        "dataset": dataset.name,
        "row": row.name,
        "question": question.id,
        "error": error,
    }


def _usage(usage: Mapping[str, TokenUsage]) -> dict[str, object]:
    return {role: used.to_dict() for role, used in usage.items()}
