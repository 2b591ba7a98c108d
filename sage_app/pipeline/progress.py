"""Progress on standard error: a bar, or lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from sage_app.pipeline.ingest import IngestProgress, ProgressFunction
from sage_core._checks import counted

# Between two lines where no bar can be drawn.
_SECONDS = 5.0

Report = Callable[[float, str, float | None], None]
"""Takes the share that is done, words, and the seconds left, None if nobody knows."""


@contextmanager
def ingest_bar(console: Console | None = None) -> Iterator[ProgressFunction]:
    """A bar for an ingest, or lines where there is no terminal: pass what it yields as ``progress``."""
    began = time.monotonic()
    with progress_bar("ingesting", console or Console(stderr=True)) as report:

        def show(state: IngestProgress) -> None:
            # What was there already took no time, and says nothing about the rest.
            done, total = state.done - state.unchanged, state.total - state.unchanged
            left = (time.monotonic() - began) * (total - done) / done if done else None
            words = f"{counted(state.files, 'file')}, {counted(state.chunks, 'chunk')}"
            report(state.done / state.total if state.total else 1.0, words, left)

        yield show


@contextmanager
def progress_bar(title: str, console: Console) -> Iterator[Report]:
    """A bar on a terminal, else a line every few seconds for logs and pipes."""
    if not console.is_terminal:
        yield _lines(title, console)
        return
    columns = (
        TextColumn(title.capitalize(), style="bold"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        _TimeLeft(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0, left=None, updated=0.0)

        def report(share: float, words: str, left: float | None) -> None:
            bar.update(task, completed=share, description=words, left=left, updated=time.monotonic())

        yield report


class _TimeLeft(ProgressColumn):
    """Time left by the rate since the beginning, counted down between two updates.

    Documents are finished in groups, all at the same moment: rich's own column takes the rate within a group,
    and so promises one second for as long as the next group takes.
    """

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        left = task.fields["left"]
        if left is None:
            return Text("")
        since = time.monotonic() - float(task.fields["updated"])
        return Text(f"{_duration(max(left - since, 1.0 if left else 0.0))} left", style="progress.remaining")


def _lines(title: str, console: Console) -> Report:
    began = printed = time.monotonic()
    first: float | None = None
    finished = False

    def report(share: float, words: str, left: float | None) -> None:
        nonlocal printed, first, finished
        now = time.monotonic()
        if left is not None and first is None:
            first = now
        # Once there was a line, the last one says 100 %.
        last = not finished and printed > began and share >= 1
        if now - printed < _SECONDS and not last:
            return
        printed, finished = now, last
        # Documents are finished in groups: of the first group only a part has been counted yet.
        known = left is not None and first is not None and now > first
        remaining = f", {_duration(left or 0)} left" if known else ""
        console.print(
            f"{title}: {int(100 * share)}%, {words}, {_duration(now - began)} so far{remaining}",
            markup=False,
            soft_wrap=True,
        )

    return report


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
