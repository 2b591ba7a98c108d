"""What is measured without a table of questions: load (SAGE, Tables VIII and IX), speed (Figure 7)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle, islice
from multiprocessing import get_context
from statistics import median
from typing import Any

from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError, SageError
from sage_core.segmentation import Segmenter
from sage_core.text.tokens import get_counter
from sage_eval.experiment import Row
from sage_eval.metrics import memory_peak, score_question
from sage_eval.plan import MethodMaker, Plan, RunOptions
from sage_eval.readers import EXTRACTIVE, LLM, LOCAL, Reader
from sage_eval.records import Dataset, EvalDocument, EvalQuestion, Method, MethodResult
from sage_eval.run_folder import RunFolder
from sage_eval.runner import Outcome, Progress

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


@dataclass(frozen=True, slots=True)
class _LoadJob:
    """One line of the table: what a process of its own measures."""

    row: Row
    level: int
    reader: Reader
    embedder: Embedder
    options: RunOptions
    documents: Sequence[EvalDocument]
    questions: Sequence[EvalQuestion]
    warm: Sequence[EvalQuestion]


def measure_load(
    plan: Plan, folder: RunFolder, maker: MethodMaker, progress: Callable[[Progress], None] | None
) -> Outcome:
    """Every row at one question at a time, and one of them at each level of concurrency.

    Options: ``levels`` (1, 5, 10), ``questions`` (20: at least so many are asked, the same at each level),
    ``scaled_row``, ``characters`` (60,000: about the paper's corpus of 10,336 tokens), ``warm_questions``
    (120). Each line is measured in a process of its own, so that its memory is that of its own models. All is
    warm: models are loaded, and enough other questions have been asked that the reranker has met the chunks.
    """
    options = plan.experiment.options
    documents, questions = corpus(plan.datasets[0], int(options.get("characters", 60_000)))
    levels = [int(level) for level in options.get("levels", (1, 5, 10))]
    least, most = int(options.get("questions", 20)), max(levels)
    asked = list(islice(cycle(questions), -(-least // most) * most))
    warm = questions[-int(options.get("warm_questions", 120)) :]
    lines = [
        (row, level)
        for row in plan.experiment.rows
        for level in levels
        if level == 1 or row.name == options.get("scaled_row")
    ]
    done = {line["row"] for line in folder.lines() if line["kind"] == "measured"}
    measured = failed = 0
    left_out: dict[str, str] = {}
    for number, (row, level) in enumerate(lines):
        if _name(row, level) in done or row.name in left_out:
            continue
        if progress is not None:
            progress(Progress(_name(row, level), "answering", number, len(lines), failed))
        job = _LoadJob(row, level, plan.reader, plan.embedder, plan.options, documents, asked, warm)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found = pool.submit(_measured_load, job).result()
        if isinstance(found, str):
            left_out[row.name] = found
            folder.append({"kind": "left_out", "row": row.name, "reason": found})
            continue
        figures, missed = found
        failed += missed
        note = f"{len(asked) - missed} questions, {missed} failed, {len(documents)} documents"
        folder.append({"kind": "measured", "row": _name(row, level), "figures": figures, "note": note})
        measured += 1
    return Outcome(measured, len(done), failed, left_out)


def _measured_load(job: _LoadJob) -> tuple[dict[str, float], int] | str:
    """Figures of a line and how many questions failed; or why the row cannot be run."""
    try:
        maker = MethodMaker(job.reader, job.embedder, job.options)
        method, prepared = _prepared(maker, job.row, job.documents, job.warm)
        with memory_peak() as peak:
            load = answer_all(method, job.questions, job.level)
    except SageError as error:
        return str(error)
    if not load.results:
        return f"all {load.failed} questions failed"
    figures = {"host memory, GB": (peak.host_bytes or 0) / _GIGABYTE}
    figures["GPU memory, GB"] = (peak.gpu_bytes or 0) / _GIGABYTE
    figures |= prepared | latencies(load)
    if job.reader.kind in (LLM, LOCAL, EXTRACTIVE):
        figures["F1"] = _f1(load)
    return figures, load.failed


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


_ROUNDS = 3
_SECONDS_A_DAY = 86_400
SEGMENTERS: dict[str, Callable[[], Segmenter]] = {
    "": Segmenter,
    " (pair model, as in the paper)": lambda: Segmenter("pair", strategy="threshold", max_tokens=400),
}
"""What is added to a row's name, and the segmenter it is about."""


def measure_speed(
    plan: Plan, folder: RunFolder, maker: MethodMaker, progress: Callable[[Progress], None] | None
) -> Outcome:
    """Segment the documents of each set; a row for each set and segmenter."""
    done = {line["row"] for line in folder.lines() if line["kind"] == "measured"}
    answered, total = 0, len(plan.datasets) * len(SEGMENTERS)
    for position, dataset in enumerate(plan.datasets):
        # Rows have the paper's names, so that they stand beside its figures.
        known = plan.experiment.datasets
        name = known[position] if position < len(known) else dataset.name
        for ending, make in SEGMENTERS.items():
            if name + ending in done:
                continue
            if progress is not None:
                progress(Progress(name + ending, "preparing", len(done) + answered, total, 0))
            figures = speed(make(), [d.text for d in dataset.documents], plan.experiment.options)
            folder.append(_line(name + ending, dataset, figures))
            answered += 1
    return Outcome(answered, len(done))


def speed(segmenter: Segmenter, texts: Sequence[str], rates: Mapping[str, float]) -> dict[str, float]:
    """Median time of three rounds over the texts, and what follows from it.

    Args:
        segmenter: What is timed; its model is loaded before.
        texts: Segmented together.
        rates: ``gpt4_seconds_per_million``, ``gpt4_dollars_per_million`` and ``dollars_per_day``.
    """
    tokens = sum(get_counter("bert").count_many(texts))
    segmenter.segment(texts[0][:2000])
    times, busy = [], []
    for _ in range(_ROUNDS):
        start, start_busy = time.perf_counter(), time.process_time()
        segmenter.segment_many(texts)
        times.append(time.perf_counter() - start)
        busy.append(time.process_time() - start_busy)
    seconds = median(times)
    million = seconds / tokens * 1_000_000
    dollars = million / _SECONDS_A_DAY * rates.get("dollars_per_day", 0.0)
    figures = {
        "tokens": float(tokens),
        "seconds": seconds,
        "tokens/s": tokens / seconds,
        # On a machine that does other work too, this is the figure to compare.
        "tokens/processor s": tokens / max(median(busy), 1e-9),
        "s a million tokens": million,
        "dollars a million tokens": dollars,
    }
    if rates.get("gpt4_seconds_per_million"):
        figures["time saved"] = 100 * (1 - million / rates["gpt4_seconds_per_million"])
    if rates.get("gpt4_dollars_per_million"):
        figures["money saved"] = 100 * (1 - dollars / rates["gpt4_dollars_per_million"])
    return figures


def _line(row: str, dataset: Dataset, figures: dict[str, float]) -> dict[str, object]:
    note = f"{len(dataset.documents)} documents of {dataset.name}, median of {_ROUNDS} rounds"
    return {"kind": "measured", "row": row, "figures": figures, "note": note}


Measure = Callable[[Plan, RunFolder, MethodMaker, Callable[[Progress], None] | None], Outcome]


@dataclass(frozen=True, slots=True)
class Measurement:
    """A kind of measurement.

    Attributes:
        run: The function that measures.
        asks_questions: Whether it needs the data sets of the experiment.
    """

    run: Measure
    asks_questions: bool = True


def _measure_features(
    plan: Plan, folder: RunFolder, maker: MethodMaker, progress: Callable[[Progress], None] | None
) -> Outcome:
    from sage_eval.pair_features import measure  # needs torch, which the others do not

    return measure(plan, folder, maker, progress)


MEASUREMENTS = {
    "scalability": Measurement(measure_load),
    "segmentation-speed": Measurement(measure_speed),
    "pair-features": Measurement(_measure_features, asks_questions=False),
}


def measurement(kind: str) -> Measurement:
    """The measurement of that kind.

    Raises:
        InputError: Where there is none.
    """
    if kind not in MEASUREMENTS:
        raise InputError(f"unknown kind of experiment {kind!r}: questions, {', '.join(MEASUREMENTS)}")
    return MEASUREMENTS[kind]
