"""An evaluation in the terminal: a bar while it runs, a table when it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from threading import Lock
from time import monotonic

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from sage_core.text.sanitize import one_line
from sage_eval.report import label, number, p_value
from sage_eval.results import EFFORT, Change, Results
from sage_eval.runner import Progress as RunProgress

_EVERY_SECONDS = 30.0


@contextmanager
def eval_bar(console: Console | None = None) -> Iterator[Callable[[RunProgress], None]]:
    """A bar for a run: pass what it yields as ``progress``. Without a terminal, a line now and then."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console)
        return
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None, failed="")

        def show(state: RunProgress) -> None:
            failed = f"{state.failed} failed" if state.failed else ""
            text = _safe(f"{state.row}, {state.stage}")
            bar.update(task, completed=state.done, total=state.total, description=text, failed=failed)

        yield show


class _Lines:
    """A line where a row begins, and every half minute."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._row = ""
        self._last = 0.0
        self._lock = Lock()

    def __call__(self, state: RunProgress) -> None:
        with self._lock:
            now = monotonic()
            if state.row == self._row and now - self._last < _EVERY_SECONDS:
                return
            self._row, self._last = state.row, now
            failed = f", {state.failed} failed" if state.failed else ""
            line = one_line(f"{state.done} of {state.total}{failed}: {state.row}, {state.stage}")
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def results_view(results: Results) -> RenderableType:
    """A table for each data set: means of metrics and of what they cost."""
    metrics = list(results.configuration.get("metrics", ()))
    answered = [d for d in results.datasets if any(dataset == d for dataset, _ in results.answers)]
    views: list[RenderableType] = [_Fitting(_table(results, dataset, metrics)) for dataset in answered]
    if results.measured:
        views.append(_Fitting(_measured(results)))
    return Group(*views)


class _Fitting:
    """A table, or, on a screen too narrow for it, a line for each figure under each row's name."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        table = self._table
        if Measurement.get(console, options.update(width=10_000), table).maximum <= options.max_width:
            yield table
            return
        if table.title:
            yield Text.from_markup(f"[dim]{table.title}[/]")
        names = [str(column.header) for column in table.columns]
        rows = zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)
        for row, *cells in rows:
            yield Text.from_markup(f"[bold]{row}[/]")
            shown = [f"{name} {cell}" for name, cell in zip(names[1:], cells, strict=True) if cell != "-"]
            yield Padding("; ".join(shown), (0, 0, 0, 2))


def comparison_view(changes: Sequence[Change]) -> RenderableType:
    """What changed between two runs; clear changes (interval without zero, p below 0.05) are in bold."""
    table = Table(box=None, header_style="dim")
    for name in ("data set", "method", "metric"):
        table.add_column(name)
    for name in ("before", "after", "difference", "95 % interval", "p", "n"):
        table.add_column(name, justify="right")
    for change in changes:
        found = change.difference
        means = (_shown(change.before), _shown(change.after), f"{found.value:+.3f}")
        interval = f"{found.low:+.3f} to {found.high:+.3f}"
        cells = (change.dataset, change.row, label(change.metric), *means, interval)
        style = "bold" if change.clear else None
        table.add_row(*map(_safe, cells), p_value(found.p), str(found.n), style=style)
    return table


def _table(results: Results, dataset: str, metrics: list[str]) -> Table:
    names = [
        name for name in [*metrics, *EFFORT] if any(results.values(dataset, r, name) for r in results.rows)
    ]
    table = Table(title=_safe(dataset), title_justify="left", box=None, header_style="dim")
    table.add_column("method")
    for name in (*names, "n"):
        table.add_column(label(name) if name != "n" else "n", justify="right")
    for row in results.rows:
        answered = results.answers.get((dataset, row))
        if answered:
            means = [_mean(results.values(dataset, row, name), name) for name in names]
            table.add_row(_safe(row), *(_shown(mean) for mean in means), str(len(answered)))
    return table


def _measured(results: Results) -> Table:
    columns = list(dict.fromkeys(name for line in results.measured for name in line["figures"]))
    table = Table(box=None, header_style="dim")
    table.add_column("row")
    for column in columns:
        table.add_column(_safe(column), justify="right")
    for line in results.measured:
        table.add_row(_safe(line["row"]), *(number(line["figures"].get(column), 3) for column in columns))
    return table


def _safe(text: str) -> str:
    """Names from files as rich's markup that shows them as they are."""
    return escape(one_line(text))


def _mean(values: dict[str, float], name: str) -> float | None:
    """The mean, of seconds the median; None without values."""
    if values and name == "seconds":
        return median(values.values())
    return sum(values.values()) / len(values) if values else None


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.0f}"
