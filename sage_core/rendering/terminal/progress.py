"""Progress bars on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sage_core.pipeline.ingest import IngestProgress, ProgressFunction

if TYPE_CHECKING:
    from sage_core.segmentation.training.options import Progress as TrainProgress


@contextmanager
def ingest_bar(console: Console | None = None) -> Iterator[ProgressFunction]:
    """A bar for an ingest: pass what it yields as ``progress``. Drawn on a terminal only."""
    console = console or Console(stderr=True)
    columns = (
        TextColumn("[bold]Ingesting"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[files]} files, {task.fields[chunks]} chunks"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("ingest", total=None, files=0, chunks=0)

        def show(state: IngestProgress) -> None:
            bar.update(task, completed=state.done, total=state.total, files=state.files, chunks=state.chunks)

        yield show


@contextmanager
def train_bar(console: Console | None = None) -> Iterator[Callable[[TrainProgress], None]]:
    """A bar for training: pass what it yields as ``progress``."""
    console = console or Console(stderr=True)
    columns = (
        TextColumn("[bold]Training"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def show(state: TrainProgress) -> None:
            text = f"loss {state.loss:.4f}"
            if state.auc is not None:
                text += f", held-out AUC {state.auc:.3f}"
            bar.update(task, completed=state.step, total=state.steps, description=text)

        yield show
