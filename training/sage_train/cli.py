"""`sage-rag train`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_app.cli.options import JsonOption, console, path_argument, print_json

if TYPE_CHECKING:
    from sage_train.options import Progress

EXAMPLES = """
\b
Examples:
  sage-rag train corpus/ --output my-model
  sage-rag train corpus/ --kind transformer --base all-MiniLM-L6-v2 --output paper-model
  sage-rag train corpus/ --start default --epochs 2 --output my-model     # fine-tune the bundled model
  sage-rag segment notes.txt --segmenter my-model
"""

app = typer.Typer()


@app.command(epilog=EXAMPLES)
def train(
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA...",
            help="Files or folders of JSON lines with paragraphs, or of plain text with blank lines.",
            parser=path_argument,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for the model.", metavar="DIR", parser=path_argument),
    ],
    kind: Annotated[
        str,
        typer.Option(
            help="context, pair (the paper's model over token tables), or transformer (Algorithm 1).",
            metavar="NAME",
        ),
    ] = "context",
    base: Annotated[
        str | None,
        typer.Option(help="Folder or name of the sentence transformer to start from.", metavar="NAME"),
    ] = None,
    frozen: Annotated[bool, typer.Option("--frozen", help="Train the transformer's MLP alone.")] = False,
    loss: Annotated[
        str | None,
        typer.Option(help="bce or mse (the paper's).", metavar="NAME", show_default="bce; transformer: mse"),
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Most passes over the data.", show_default="6; transformer: 1")
    ] = None,
    patience: Annotated[
        int, typer.Option(help="Evaluations without a gain before training stops.", metavar="N")
    ] = 3,
    held_out: Annotated[
        float, typer.Option(help="Share of documents held out, to stop in time and to calibrate.")
    ] = 0.04,
    negatives: Annotated[
        tuple[float, float, float],
        typer.Option(
            help="Mix of the pair models' negatives: sentences of other documents, of the same document, and "
            "neighbors across a paragraph break.",
            metavar="OTHER SAME NEIGHBOURS",
        ),
    ] = (0.0, 0.0, 1.0),
    batch_size: Annotated[
        int | None,
        typer.Option(help="Pairs, or sentences, a step.", metavar="N", show_default="2048; transformer: 64"),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            help="pretrained, random, or a model of the same kind to fine-tune: default, or a folder.",
            metavar="NAME",
        ),
    ] = "pretrained",
    seed: Annotated[int, typer.Option(help="Of every random choice.")] = 0,
    device: Annotated[
        str | None, typer.Option(help="As in torch.", metavar="NAME", show_default="a GPU where there is one")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Of torch on a CPU.", metavar="N")] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a boundary model on text whose paragraphs are known (Algorithm 1 of the paper).

    Sentences of one paragraph belong together, sentences across a paragraph break do not. The folder that
    comes out holds the weights (safetensors), the configuration and a card with the figures on held-out
    documents; give it to --segmenter, or to Segmenter(model=...). After a kill the same command goes on.
    """
    from sage_train.mining import NegativeMix
    from sage_train.options import TrainOptions
    from sage_train.train import train as fit

    options = TrainOptions(
        kind=kind,
        base=base,
        frozen=frozen,
        loss=loss,
        epochs=epochs,
        patience=patience,
        held_out=held_out,
        negatives=NegativeMix(*negatives),
        batch_size=batch_size,
        start=start,
        seed=seed,
        device=device,
        threads=threads,
    )
    with progress_bar() as bar:
        command = shlex.join(["sage-rag", *sys.argv[1:]])
        report = fit(data, output, options, progress=bar, command=command)
    figures = {name: round(float(value), 4) for name, value in report.figures.items()}
    if as_json:
        print_json(
            {
                "folder": str(report.folder),
                "figures": figures,
                "steps": report.steps,
                "seconds": report.seconds,
            }
        )
        return
    out = console()
    out.print(f"{report.steps} steps in {report.seconds:.0f} s; on held-out documents:")
    for name, value in figures.items():
        out.print(f"  {name:<20} {value}", markup=False)
    out.print(
        f"written to {report.folder}; try: sage-rag segment FILE --segmenter {report.folder}", markup=False
    )


@contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None]]:
    """A bar for training on standard error: pass what it yields as ``progress``."""
    from rich import progress
    from rich.console import Console

    errors = Console(stderr=True)
    columns = (
        progress.TextColumn("[bold]Training"),
        progress.BarColumn(),
        progress.TextColumn("{task.percentage:>3.0f}%"),
        progress.TextColumn("{task.description}"),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def show(state: Progress) -> None:
            text = f"loss {state.loss:.4f}"
            if state.auc is not None:
                text += f", held-out AUC {state.auc:.3f}"
            bar.update(task, completed=state.step, total=state.steps, description=text)

        yield show
