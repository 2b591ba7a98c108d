"""Which settings no other beats in both tokens and recall: a table, and a plot of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ranked_lists import Lists, Result, fixed_at, gap_closed, oracle_at, quality, shuffled

MOST_TOKENS = 1000
STEP = 0.005  # Recall that a place on the front must add.


def front(results: Sequence[Result]) -> list[Result]:
    """The settings that no other beats in both, from sparing to lavish, by steps of half a point."""
    kept: list[Result] = []
    for result in sorted(results, key=lambda r: (r.tokens, -r.recall)):
        if result.tokens <= MOST_TOKENS and (not kept or result.recall >= kept[-1].recall + STEP):
            kept.append(result)
    return kept


def table(lists: Lists, results: Sequence[Result]) -> list[str]:
    """The front as lines of a Markdown table."""
    rows = [
        "| rule | setting | tokens | recall | fixed k | oracle | gap closed [95%] "
        "| pooled P (shuffled) | IoU (shuffled) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in front(results):
        fixed = lists.mean(fixed_at(lists, r.tokens))
        oracle = lists.mean(oracle_at(lists, r.tokens))
        closed = share(*gap_closed(lists, lists.at(lists.recall, r.k), r.tokens))
        (precision, iou), (precision_0, iou_0) = quality(lists, r.k), shuffled(lists, r.k)
        rows.append(
            f"| {r.family} | {r.setting} | {r.tokens:.0f} | {r.recall:.3f} | {fixed:.3f} | {oracle:.3f} | "
            f"{closed} | {precision:.3f} ({precision_0:.3f}) | {iou:.3f} ({iou_0:.3f}) |"
        )
    return rows


def share(value: float, low: float, high: float) -> str:
    """A share of the gap with its interval; a dash where there is no gap."""
    return "-" if np.isnan(value) else f"{value:+.0%} [{low:+.0%}, {high:+.0%}]"


def plot(lists: Lists, results: Sequence[Result], path: Path) -> None:
    """Draw every setting, the front, fixed k and the oracle: evidence recall over mean tokens.

    Args:
        lists: The ranked lists.
        results: What every setting kept.
        path: Where the picture goes; its ending says what it is (``.svg``, ``.png``).
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    families = sorted({r.family for r in results} - {"fixed k"})
    for i, family in enumerate(families):
        mine = [r for r in results if r.family == family and r.tokens <= MOST_TOKENS]
        style = {"marker": "os^Dv<>Pp*"[i % 10], "s": 14, "alpha": 0.7}
        axes.scatter([r.tokens for r in mine], [r.recall for r in mine], label=family, **style)
    grid = np.linspace(min(r.tokens for r in results), MOST_TOKENS, 60)
    for name, values, line in (
        ("fixed k", [lists.mean(fixed_at(lists, t)) for t in grid], "-"),
        ("oracle", [lists.mean(oracle_at(lists, t)) for t in grid], "--"),
    ):
        axes.plot(grid, values, f"k{line}", linewidth=1, label=name)
    best = front(results)
    axes.step([r.tokens for r in best], [r.recall for r in best], "r:", where="post", label="Pareto front")
    axes.set(xlabel="mean tokens kept", ylabel="recall of evidence", title=f"{lists.name}: where to stop")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
