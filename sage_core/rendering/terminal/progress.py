"""Progress bars on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from sage_core.pipeline.ingest import IngestProgress, ProgressFunction
from sage_core.rendering.wording import counted

# Between two lines where no bar can be drawn.
_SECONDS = 5.0


@contextmanager
def ingest_bar(console: Console | None = None) -> Iterator[ProgressFunction]:
    """A bar for an ingest, or lines where there is no terminal: pass what it yields as ``progress``."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield _ingest_lines(console)
        return
    columns = (
        TextColumn("[bold]Ingesting"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[files]} files, {task.fields[chunks]} chunks"),
        TimeElapsedColumn(),
        _TimeLeft(),
    )
    began = time.monotonic()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("ingest", total=None, files=0, chunks=0, left=None, updated=began)

        def show(state: IngestProgress) -> None:
            # What was there already took no time, and says nothing about the rest.
            done, total = state.done - state.unchanged, state.total - state.unchanged
            now = time.monotonic()
            left = (now - began) * (total - done) / done if done else None
            bar.update(
                task,
                # Where nothing was left to do, all is done.
                completed=done if total else 1,
                total=total or 1,
                files=state.files,
                chunks=state.chunks,
                left=left,
                updated=now,
            )

        yield show


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


def _ingest_lines(console: Console) -> ProgressFunction:
    """Print a line every few seconds, for logs and pipes."""
    began = printed = time.monotonic()
    first: float | None = None
    finished = False

    def show(state: IngestProgress) -> None:
        nonlocal printed, first, finished
        now = time.monotonic()
        done, total = state.done - state.unchanged, state.total - state.unchanged
        if done and first is None:
            first = now
        # Once there was a line, the last one says 100 %.
        last = not finished and printed > began and state.done >= state.total
        if now - printed < _SECONDS and not last:
            return
        finished = last
        printed = now
        # Documents are finished in groups: of the first group only a part has been counted yet.
        known = done and first is not None and now > first
        left = f", {_duration((now - began) * (total - done) / done)} left" if known else ""
        share = 100 * state.done // max(state.total, 1)
        console.print(
            f"ingesting: {share}%, {counted(state.files, 'file')}, {counted(state.chunks, 'chunk')}, "
            f"{_duration(now - began)} so far{left}",
            markup=False,
            soft_wrap=True,
        )

    return show


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
