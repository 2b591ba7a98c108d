"""An evaluation in the terminal: a bar while it runs, a line for each row when it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sage_core.text.sanitize import one_line
from sage_eval.report import label, number, with_interval
from sage_eval.results import Results
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
            text = escape(one_line(f"{state.row}, {state.stage}"))
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


def result_lines(results: Results) -> Iterator[str]:
    """What a run found, a line for each row: figures with intervals, and the number of questions."""
    for dataset in results.datasets:
        rows = [row for row in results.rows if results.answers.get((dataset, row))]
        if rows:
            yield one_line(dataset)
        for row in rows:
            found = {m: results.estimate(dataset, row, m) for m in results.configuration["metrics"]}
            figures = [f"{label(m)} {with_interval(value)}" for m, value in found.items() if value]
            sent = results.values(dataset, row, "context_tokens").values()
            figures.append(f"{sum(sent) / len(sent):,.0f} context tokens, n = {len(sent)}")
            yield "  " + one_line(f"{row}: {'; '.join(figures)}")
    for line in results.measured:
        figures = [f"{name} {number(value, 3)}" for name, value in line["figures"].items()]
        yield "  " + one_line(f"{line['row']}: {'; '.join(figures)}")
