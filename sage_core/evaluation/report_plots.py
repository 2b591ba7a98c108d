"""Plots of a run: quality against tokens, sizes of selections, time by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sage_core.errors import MissingExtraError
from sage_core.evaluation.report_tables import label
from sage_core.evaluation.results import Results

_EVIDENCE = "evidence_recall"
_MEASURED_STAGES = ("retrieval, s", "feedback, s", "answering, s")
_COLOURS = ("#4C72B0", "#DD8452", "#55A868", "#C44E52", "#8172B3", "#937860", "#DA8BC3", "#8C8C8C")


def draw(results: Results, metrics: Sequence[str], folder: Path) -> list[tuple[str, str]]:
    """Draw what the results hold.

    Args:
        results: A run.
        metrics: The first one that has values is the quality; evidence recall has a plot of its own.
        folder: Where the PNG files go.

    Returns:
        File name and caption of each plot.

    Raises:
        MissingExtraError: Where matplotlib is not installed.
    """
    made: list[tuple[str, str]] = []
    for number, dataset in enumerate(results.datasets):
        rows = [row for row in results.rows if results.answers.get((dataset, row))]
        if not rows:
            continue
        ending = f"-{number + 1}" if len(results.datasets) > 1 else ""
        quality = next((m for m in metrics if any(results.values(dataset, r, m) for r in rows)), None)
        tokens = any(any(results.values(dataset, r, "context_tokens").values()) for r in rows)
        shown = {"quality": quality, "evidence": _EVIDENCE if quality != _EVIDENCE else None}
        for start, metric in shown.items():
            if tokens and metric and any(results.values(dataset, r, metric) for r in rows):
                name = f"{start}{ending}.png"
                _quality_by_tokens(results, dataset, rows, metric, folder / name)
                made.append((name, f"{dataset}: {label(metric)} against tokens of context, 95 % intervals"))
        if any(len(set(results.values(dataset, r, "selected").values())) > 1 for r in rows):
            name = f"selected{ending}.png"
            _sizes(results, dataset, rows, folder / name)
            made.append((name, f"{dataset}: pieces sent a question (box: middle half; line: median)"))
        if any(results.stages(dataset, r) for r in rows):
            name = f"latency{ending}.png"
            stages = {row: results.stages(dataset, row) for row in rows}
            _stacked(stages, "seconds a question (median of each stage)", folder / name)
            made.append((name, f"{dataset}: median seconds a question by stage"))
    if any(stage in line["figures"] for line in results.measured for stage in _MEASURED_STAGES):
        measured = {
            line["row"]: {stage: line["figures"].get(stage, 0.0) for stage in _MEASURED_STAGES}
            for line in results.measured
        }
        axis = "seconds (retrieval: median; feedback and answering: mean of a call)"
        _stacked(measured, axis, folder / "stages.png")
        made.append(("stages.png", "Seconds by stage and number of questions at a time"))
    return made


def _quality_by_tokens(results: Results, dataset: str, rows: Sequence[str], metric: str, path: Path) -> None:
    figure, axes = _axes(8, 4.5)
    for position, row in enumerate(rows):
        quality = results.estimate(dataset, row, metric)
        if quality is None:
            continue
        sent = results.values(dataset, row, "context_tokens").values()
        error = [[quality.value - quality.low], [quality.high - quality.value]]
        style = {"fmt": "o", "capsize": 3, "color": _COLOURS[position % len(_COLOURS)], "label": row}
        axes.errorbar(sum(sent) / len(sent), quality.value, yerr=error, **style)
    axes.set_xlabel("tokens of context a question (mean)")
    axes.set_ylabel(label(metric))
    axes.set_xlim(0, 1.08 * axes.get_xlim()[1])
    figure.legend(fontsize=7, loc="outside right upper")
    _save(figure, path)


def _sizes(results: Results, dataset: str, rows: Sequence[str], path: Path) -> None:
    figure, axes = _axes(7, 0.8 + 0.4 * len(rows))
    values = [list(results.values(dataset, row, "selected").values()) for row in rows]
    axes.boxplot(values, orientation="horizontal", widths=0.6, showfliers=True, flierprops={"markersize": 2})
    axes.set_yticks(range(1, len(rows) + 1), rows, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("pieces sent")
    axes.set_xlim(0, axes.get_xlim()[1])
    _save(figure, path)


def _stacked(stages: Mapping[str, Mapping[str, float]], axis: str, path: Path) -> None:
    """Bars of seconds by stage, a row each."""
    rows = list(stages)
    figure, axes = _axes(7, 1.2 + 0.4 * len(rows))
    names = list(dict.fromkeys(stage for found in stages.values() for stage in found))
    left = [0.0] * len(rows)
    for position, stage in enumerate(names):
        widths = [stages[row].get(stage, 0.0) for row in rows]
        axes.barh(rows, widths, left=left, label=stage, color=_COLOURS[position % len(_COLOURS)])
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=8)
    axes.set_xlabel(axis)
    figure.legend(fontsize=7, loc="outside right upper")
    _save(figure, path)


def _axes(width: float, height: float) -> tuple[Any, Any]:
    """A figure of its own, which no screen and no global state knows of."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("drawing plots", "eval") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=130, metadata={"Software": None})
