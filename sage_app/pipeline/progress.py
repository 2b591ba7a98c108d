"""Progress on standard error: a bar, or lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sage_app.pipeline.ingest import IngestProgress, ProgressFunction
from sage_core._checks import counted

# Between two lines where no bar can be drawn.
_SECONDS = 5.0


@contextmanager
def ingest_bar(console: Console | None = None) -> Iterator[ProgressFunction]:
    """A bar for an ingest, or lines where there is no terminal: pass what it yields as ``progress``."""
    console = console or Console(stderr=True)
    began = printed = time.monotonic()
    columns = (
        TextColumn("Ingesting", style="bold"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)

        def show(state: IngestProgress) -> None:
            nonlocal printed
            share, now = state.done / state.total if state.total else 1.0, time.monotonic()
            # What was there already took no time, and says nothing about the rest.
            done, total = state.done - state.unchanged, state.total - state.unchanged
            left = f", {_duration((now - began) * (total - done) / done)} left" if 0 < done < total else ""
            words = f"{counted(state.files, 'file')}, {counted(state.chunks, 'chunk')}{left}"
            bar.update(task, completed=share, description=words)
            if not console.is_terminal and (now - printed >= _SECONDS or (printed > began and share >= 1)):
                printed = now
                line = f"ingesting: {int(100 * share)}%, {words}, {_duration(now - began)} so far"
                console.print(line, markup=False, soft_wrap=True)

        yield show


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
