"""Latency by stage and memory at several questions at a time (SAGE, Tables VIII and IX)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle, islice
from statistics import median
from typing import TYPE_CHECKING, Any

from sage_core.errors import InputError, SageError
from sage_core.evaluation.experiment import Row
from sage_core.evaluation.metrics import memory_peak, score_question
from sage_core.evaluation.protocols import Method
from sage_core.evaluation.readers import EXTRACTIVE, LLM
from sage_core.evaluation.records import Dataset, EvalDocument, EvalQuestion, MethodResult
from sage_core.evaluation.runner import Outcome, Progress
from sage_core.text.tokens import get_counter

if TYPE_CHECKING:
    from sage_core.evaluation.plan import MethodMaker, Plan
    from sage_core.evaluation.run_folder import RunFolder

_GIGABYTE = 1_000_000_000
_RETRIEVAL = ("retrieve", "rerank", "select")


@dataclass(slots=True)
class Load:
    """What a number of workers made of their questions.

    Attributes:
        results: With the wall time of each.
        failed: Questions that failed.
        seconds: Wall time of all together.
    """

    results: list[tuple[EvalQuestion, MethodResult, float]] = field(default_factory=list)
    failed: int = 0
    seconds: float = 0.0


def measure(
    plan: Plan, folder: RunFolder, maker: MethodMaker, progress: Callable[[Progress], None] | None
) -> Outcome:
    """Every row at one question at a time, and one of them at each level of concurrency.

    Options: ``levels`` (1, 5, 10), ``questions`` (20: at least so many are asked at each level),
    ``scaled_row``, ``characters`` (60,000: about the paper's corpus of 10,336 tokens), ``warm_questions``
    (120). Everything is measured warm: models are loaded, and enough other questions have been asked that the
    reranker has met the chunks, so that levels differ in concurrency alone.
    """
    options = plan.experiment.options
    documents, questions = corpus(plan.datasets[0], int(options.get("characters", 60_000)))
    least = int(options.get("questions", 20))
    jobs = [
        (row, level)
        for row in plan.experiment.rows
        for level in options.get("levels", (1, 5, 10))
        if level == 1 or row.name == options.get("scaled_row")
    ]
    done = {line["row"] for line in folder.lines() if line["kind"] == "measured"}
    begin = outcome = failed = 0
    left_out: dict[str, str] = {}
    ready: tuple[str, Method, dict[str, float]] | None = None
    for number, (row, level) in enumerate(jobs):
        if _name(row, level) in done or row.name in left_out:
            continue
        if progress is not None:
            progress(Progress(_name(row, level), "answering", number, len(jobs), failed))
        try:
            if ready is None or ready[0] != row.name:
                warm = questions[-int(options.get("warm_questions", 120)) :]
                ready = (row.name, *_prepared(maker, row, documents, warm))
        except SageError as error:
            left_out[row.name] = str(error)
            folder.append({"kind": "left_out", "row": row.name, "reason": str(error)})
            continue
        # Each level has questions of its own, as far as there are enough: an embedded question is remembered.
        count = max(level, -(-least // level) * level)
        asked = list(islice(cycle(questions), begin, begin + count))
        begin += count
        with memory_peak() as peak:
            load = answer_all(ready[1], asked, level)
        failed += load.failed
        if not load.results:
            raise InputError(f"{_name(row, level)}: all {load.failed} questions failed")
        figures = {"host memory, GB": (peak.host_bytes or 0) / _GIGABYTE}
        figures["GPU memory, GB"] = (peak.gpu_bytes or 0) / _GIGABYTE
        figures |= ready[2] | latencies(load)
        if plan.reader.kind in (LLM, EXTRACTIVE):
            figures["F1"] = _f1(load)
        note = f"{len(load.results)} questions, {load.failed} failed, {len(documents)} documents"
        folder.append({"kind": "measured", "row": _name(row, level), "figures": figures, "note": note})
        outcome += 1
    return Outcome(outcome, len(done), failed, left_out)


def corpus(dataset: Dataset, characters: int) -> tuple[list[EvalDocument], list[EvalQuestion]]:
    """The first documents with questions that have so many characters together, and their questions.

    The first document is taken however long it is.
    """
    asked = dict.fromkeys(q.document for q in dataset.questions)
    chosen: list[EvalDocument] = []
    for document in dataset.documents:
        size = sum(len(d.text) for d in chosen)
        if document.id in asked and (not chosen or size + len(document.text) <= characters):
            chosen.append(document)
    kept = {d.id for d in chosen}
    return chosen, [q for q in dataset.questions if q.document in kept]


def answer_all(method: Method, questions: Sequence[EvalQuestion], workers: int) -> Load:
    """Ask the questions with so many in flight: each worker asks its next as soon as it has an answer."""
    load, lock = Load(), threading.Lock()
    together = threading.Barrier(workers)

    def work(mine: Sequence[EvalQuestion]) -> None:
        together.wait()
        for question in mine:
            start = time.perf_counter()
            try:
                result = method.answer(question)
            except SageError:
                with lock:
                    load.failed += 1
                continue
            with lock:
                load.results.append((question, result, time.perf_counter() - start))

    with ThreadPoolExecutor(workers) as pool:
        start = time.perf_counter()
        list(pool.map(work, [questions[i::workers] for i in range(workers)]))
        load.seconds = time.perf_counter() - start
    return load


def latencies(load: Load) -> dict[str, float]:
    """Seconds by the stages of the paper: the median of retrieval, the means of one call of the LLM.

    The median, since a question whose chunks the reranker has not met yet takes many times as long.
    """
    retrieval = [sum(r.seconds.get(s, 0.0) for s in _RETRIEVAL) for _, r, _ in load.results]
    wall = sorted(seconds for _, _, seconds in load.results)
    figures = {"retrieval, s": median(retrieval), "retrieval, s (mean)": sum(retrieval) / len(retrieval)}
    for label, stage, role in (("feedback, s", "judge", "critic"), ("answering, s", "generate", "answer")):
        spent = sum(r.seconds.get(stage, 0.0) for _, r, _ in load.results)
        calls = sum(r.usage[role].calls for _, r, _ in load.results if role in r.usage)
        if calls:
            figures[label] = spent / calls
    calls = sum(used.calls for _, r, _ in load.results for used in r.usage.values())
    figures["LLM calls a question"] = calls / len(load.results)
    figures["question, s"] = median(wall)
    figures["question, s (95 %)"] = wall[min(len(wall) - 1, int(0.95 * len(wall)))]
    figures["questions/s"] = len(load.results) / load.seconds
    return figures


def _prepared(
    maker: MethodMaker, row: Row, documents: Sequence[EvalDocument], warm: Sequence[EvalQuestion]
) -> tuple[Method, dict[str, float]]:
    """A method that has been prepared and has answered other questions; nothing comes from another row."""
    method = maker.alone()(row)
    method.prepare([EvalDocument("warm", "One sentence loads the models. Another one follows it.")])
    start = time.perf_counter()
    method.prepare(documents)
    seconds = time.perf_counter() - start
    stages: Mapping[str, float] = getattr(method, "prepare_seconds", {})
    segmentation = stages.get("segment", 0.0)
    figures: dict[str, Any] = {"building, s": seconds - segmentation, "segmentation, s": segmentation}
    if segmentation > 0:
        tokens = sum(get_counter("bert").count_many([d.text for d in documents]))
        figures["segmentation, tokens/s"] = tokens / segmentation
    answer_all(method, warm, min(8, len(warm)))
    return method, figures


def _name(row: Row, level: int) -> str:
    return row.name if level == 1 else f"{row.name} ({level}x)"


def _f1(load: Load) -> float:
    values = [score_question(q, r, ["f1"]).get("f1") for q, r, _ in load.results]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 0.0
