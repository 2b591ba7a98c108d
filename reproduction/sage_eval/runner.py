"""Runs an experiment: every method over every question, a line for each result, on from where it stopped."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Lock

from sage_core.errors import InputError, LLMError, MissingExtraError, ModelError, SageError
from sage_eval.experiment import Row
from sage_eval.records import Dataset, EvalDocument, EvalQuestion, Method, MethodResult
from sage_eval.run_folder import (
    RunFolder,
    answer_line,
    digest_of,
    failed_line,
    method_line,
    prepare_line,
)

logger = logging.getLogger(__name__)

MAX_FAILURES_IN_A_ROW = 10
"""So many questions of a method fail with none between them that works: the rest waits for the next run."""

Score = Callable[[EvalQuestion, MethodResult, Mapping[str, EvalDocument]], Mapping[str, float | None]]
"""Scores of one result, by metric; None if the metric does not apply to the question."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Attributes:
        row: The method that is at work.
        stage: What it does: ``"preparing"`` or ``"answering"``.
        done: Results there are, over all methods and data sets, those of earlier runs included.
        total: Results there will be.
        failed: Questions that failed in this run.
    """

    row: str
    stage: str
    done: int
    total: int
    failed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    Attributes:
        answered: Results written by this run.
        kept: Results that were there already.
        failed: Questions that failed in this run.
        left_out: Rows that could not be run at all, with the reason.
        unasked: Questions not asked because too many before them had failed.
    """

    answered: int = 0
    kept: int = 0
    failed: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)
    unasked: int = 0

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not (self.failed or self.left_out or self.unasked)


@dataclass(frozen=True, slots=True)
class _Job:
    """A method, documents to prepare together, and what is asked about them."""

    row: Row
    method: Method
    dataset: Dataset
    documents: Sequence[EvalDocument]
    questions: Sequence[EvalQuestion]

    @property
    def texts(self) -> dict[str, EvalDocument]:
        return {d.id: d for d in self.documents}


class Runner:
    """Runs the rows of an experiment into a folder.

    Args:
        folder: An opened run folder.
        make: Makes the method of a row.
        score: Scores a result.
        concurrency: Questions asked at the same time.
        progress: Receives the progress.

    Raises:
        InputError: For a concurrency below 1.
    """

    def __init__(
        self,
        folder: RunFolder,
        make: Callable[[Row], Method],
        score: Score,
        *,
        concurrency: int = 1,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        if concurrency < 1:
            raise InputError(f"concurrency must be at least 1, not {concurrency}")
        self._folder = folder
        self._make = make
        self._score = score
        self._concurrency = concurrency
        self._progress = progress
        self._counts: Counter[str] = Counter()
        self._total = 0
        self._left_out: dict[str, str] = {}
        self._lock = Lock()

    def run(self, rows: Sequence[Row], datasets: Sequence[Dataset]) -> Outcome:
        """Ask what has not been answered yet.

        Raises:
            InputError: Where a method's settings are not those that earlier results were made with.
        """
        earlier = self._folder.lines()
        done = {(e["dataset"], e["row"], e["question"]) for e in earlier if e["kind"] == "answer"}
        keys = {e["row"]: e["key"] for e in earlier if e["kind"] == "method"}
        self._total = len(rows) * sum(len(d.questions) for d in datasets)
        self._counts["kept"] = len(done)
        for row in rows:
            missing = [
                (d, [q for q in d.questions if (d.name, row.name, q.id) not in done]) for d in datasets
            ]
            method = self._method(row, keys) if any(questions for _, questions in missing) else None
            if method is None:
                continue
            for dataset, questions in missing:
                self._over(row, method, dataset, questions)
        count = self._counts
        return Outcome(count["answered"], count["kept"], count["failed"], self._left_out, count["unasked"])

    def _method(self, row: Row, keys: Mapping[str, str]) -> Method | None:
        """The method of a row; None, and a line that says why, where it cannot be had."""
        try:
            method = self._make(row)
        except SageError as error:
            self._leave_out(row, error)
            return None
        settings = method.settings()
        key = digest_of(dict(settings))
        if keys.get(row.name, key) != key:
            raise InputError(
                f"{self._folder.path}: the settings of {row.name!r} are not those that its earlier results "
                "were made with: name another folder with --output, or throw them away with --fresh"
            )
        if row.name not in keys:
            self._folder.append(method_line(row, key, settings))
        return method

    def _leave_out(self, row: Row, error: Exception) -> None:
        reason = _reason(error)
        self._left_out[row.name] = reason
        self._folder.append({"kind": "left_out", "row": row.name, "reason": reason})
        logger.info("%s is left out: %s", row.name, reason)

    def _over(self, row: Row, method: Method, dataset: Dataset, questions: Sequence[EvalQuestion]) -> None:
        """What is missing of one data set, document by document unless it is pooled."""
        failures = 0
        for documents, asked in _units(dataset, questions):
            if row.name in self._left_out:
                return
            if failures >= MAX_FAILURES_IN_A_ROW:
                self._count("unasked", len(asked))
                continue
            job = _Job(row, method, dataset, documents, asked)
            failures = self._answers(job, failures) if self._prepare(job) else failures + len(asked)

    def _prepare(self, job: _Job) -> bool:
        self._tell(job.row, "preparing")
        start = time.perf_counter()
        try:
            usage = job.method.prepare(job.documents)
        except (ModelError, MissingExtraError) as error:  # models are loaded when they are first needed
            self._leave_out(job.row, error)
            return False
        except LLMError as error:
            if not error.retryable:  # a server without the row's embedding model, a wrong key
                self._leave_out(job.row, error)
                return False
            self._fail_all(job, error)
            return False
        except Exception as error:  # a run of hours is not to end with one document
            self._fail_all(job, error)
            return False
        seconds = time.perf_counter() - start
        stages = getattr(job.method, "prepare_seconds", {})
        self._folder.append(prepare_line(job.row, job.dataset, job.documents, seconds, stages, usage))
        return True

    def _answers(self, job: _Job, failures: int) -> int:
        """Ask, so many at a time; returns how many failed one after the other at the end."""
        waiting = list(reversed(job.questions))
        running: set[Future[bool]] = set()
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="eval") as pool:
            while waiting or running:
                while waiting and len(running) < self._concurrency:
                    running.add(pool.submit(self._answer, job, waiting.pop()))
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    failures = 0 if future.result() else failures + 1
                if failures >= MAX_FAILURES_IN_A_ROW:
                    self._count("unasked", len(waiting))
                    waiting.clear()
        return failures

    def _answer(self, job: _Job, question: EvalQuestion) -> bool:
        """Whether the question was answered."""
        self._tell(job.row, "answering")
        start = time.perf_counter()
        try:
            result = job.method.answer(question)
            seconds = time.perf_counter() - start
            scores = self._score(question, result, job.texts)
        except Exception as error:  # noted, and asked again by the next run; this one goes on
            self._fail(job, question, error)
            return False
        self._folder.append(answer_line(job.row, job.dataset, question, result, scores, seconds))
        self._count("answered")
        self._tell(job.row, "answering")
        return True

    def _fail_all(self, job: _Job, error: Exception) -> None:
        for question in job.questions:
            self._fail(job, question, error)

    def _fail(self, job: _Job, question: EvalQuestion, error: Exception) -> None:
        expected = isinstance(error, SageError)
        if not expected:
            logger.error("%s, question %s failed", job.row.name, question.id, exc_info=error)
        reason = _reason(error) if expected else f"{type(error).__name__}: {_reason(error)}"
        self._folder.append(failed_line(job.row, job.dataset, question, reason))
        self._count("failed")
        self._tell(job.row, "answering")

    def _count(self, what: str, number: int = 1) -> None:
        with self._lock:
            self._counts[what] += number

    def _tell(self, row: Row, stage: str) -> None:
        if self._progress is not None:
            done = self._counts["kept"] + self._counts["answered"]
            self._progress(Progress(row.name, stage, done, self._total, self._counts["failed"]))


def _units(
    dataset: Dataset, questions: Sequence[EvalQuestion]
) -> Iterator[tuple[Sequence[EvalDocument], Sequence[EvalQuestion]]]:
    """Documents to prepare together, and what is asked about them."""
    if dataset.pooled:
        if questions:
            yield dataset.documents, questions
        return
    documents = {d.id: d for d in dataset.documents}
    asked: dict[str, list[EvalQuestion]] = {}
    for question in questions:
        asked.setdefault(question.document, []).append(question)
    for document, mine in asked.items():
        yield [documents[document]], mine


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())
