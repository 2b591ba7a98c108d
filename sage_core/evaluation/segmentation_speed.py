"""Tokens a second of the segmenter, and what a million tokens cost beside GPT-4 (SAGE, Figure 7)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from sage_core.evaluation.records import Dataset
from sage_core.evaluation.runner import Outcome, Progress
from sage_core.segmentation import Segmenter
from sage_core.text.tokens import get_counter

if TYPE_CHECKING:
    from sage_core.evaluation.plan import MethodMaker, Plan
    from sage_core.evaluation.run_folder import RunFolder

_ROUNDS = 3
_SECONDS_A_DAY = 86_400
SEGMENTERS: dict[str, Callable[[], Segmenter]] = {
    "": Segmenter,
    " (pair model, as in the paper)": lambda: Segmenter("pair", strategy="threshold", max_tokens=400),
}
"""What is added to a row's name, and the segmenter it is about."""


def measure(
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
