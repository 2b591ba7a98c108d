"""`sage-rag ingest`."""

from __future__ import annotations

import shlex
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_app.cli import options as cli
from sage_app.pipeline.opening import open_sage
from sage_core._checks import counted
from sage_core.text.sanitize import one_line

if TYPE_CHECKING:
    from sage_app.pipeline.ingest import IngestReport

EXAMPLES = """
\b
Examples:
  sage-rag ingest docs/ --store .sage
  sage-rag ingest handbook.pdf notes/*.md --store .sage
  sage-rag ingest old/ --encoding cp1252 --store .sage
  sage-rag ingest docs/ --engine ray --address auto --store http://host:8000/manuals
"""


EXIT_INCOMPLETE = 4
# Paths that a message names.
_MOST_NAMED = 3


class Engine(str, Enum):
    """What an ingest runs on."""

    serial = "serial"
    ray = "ray"


def ingest(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Files and folders to read.", parser=cli.path_argument),
    ],
    store: cli.StoreOption = ".sage",
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make the store anew, whatever it was made with.")
    ] = False,
    encoding: cli.EncodingOption = None,
    embedder: cli.EmbedderOption = cli.DEFAULT_EMBEDDER,
    base_url: cli.BaseUrlOption = None,
    settings: cli.SettingsOption = None,
    segmenter: cli.SegmenterOption = "default",
    target_tokens: cli.TargetTokensOption = None,
    max_tokens: cli.MaxTokensOption = None,
    min_tokens: cli.MinTokensOption = None,
    strategy: cli.StrategyOption = "optimal",
    threshold: cli.ThresholdOption = 0.55,
    no_context: cli.NoContextOption = False,
    engine: Annotated[
        Engine, cli.option("serial: in this process; ray: on all cores, or on a Ray cluster.")
    ] = Engine.serial,
    address: Annotated[
        str,
        cli.option(
            "With --engine ray: local starts Ray on this machine, auto finds the cluster it belongs "
            "to, else the cluster's address.",
            "ADDRESS",
        ),
    ] = "local",
    workers: Annotated[
        int | None, cli.option("With --engine ray: most workers that embed.", "N", False)
    ] = None,
    as_json: cli.JsonOption = False,
) -> int:
    """Read documents, cut them into chunks, embed them and keep them in a store on disk.

    Folders are searched for text, Markdown, RST, HTML, Word and PDF files. Other types are left out
    and counted, hidden files left out; a file that you name is read whatever its suffix. Run it again
    whenever documents change: files with the same content are skipped, changed ones replaced, and those that
    are gone from PATH are removed. An interrupted run loses nothing; the next one finishes it.

    What cannot be read below a folder is named on standard error and skipped. A file that was opened but
    holds no readable text (binary, a broken pdf) is taken out of the store, and the exit code stays 0. Of a
    file or folder that could not even be opened the store keeps what it has, and the exit code is 4. With
    --json, both are under "skipped". Links to folders are not followed, but named.

    With --engine ray, files are read, segmented and embedded on all cores of this machine or of a Ray
    cluster, whose machines must see them under the same paths.
    """
    from sage_app.pipeline.progress import ingest_bar
    from sage_app.pipeline.settings import SageConfig

    cli.require_packages(embedder, store=store)
    sage = open_sage(
        store,
        segmenter=cli.make_segmenter(segmenter, target_tokens, max_tokens, min_tokens, strategy, threshold),
        embedder=embedder,
        base_url=base_url,
        offline=True,
        config=SageConfig(context=not no_context),
    )
    with sage, ingest_bar() as bar:
        if engine is Engine.ray:
            from sage_app.ray import ingest_with_ray

            report = ingest_with_ray(
                sage.store,
                paths,
                sage.segmenter,
                sage.embedder,
                address=address,
                workers=workers,
                encoding=encoding,
                rebuild=rebuild,
                progress=bar,
                context=sage.config.context,
            )
        else:
            report = sage.ingest(paths, progress=bar, encoding=encoding, rebuild=rebuild)
    if as_json:
        cli.print_json(report.to_dict())
    else:
        show_report(report, sage.store.location)
    return 0 if report.complete else EXIT_INCOMPLETE


def show_report(report: IngestReport, store: str) -> None:
    """What an ingest did, in a few lines; files that could not be read go to standard error."""
    from sage_app.documents.discovery import named_types

    counts = {name: len(getattr(report, name)) for name in ("added", "changed", "unchanged", "removed")}
    parts = [f"{count} {name}" for name, count in counts.items() if count]
    cli.say(
        f"{', '.join(parts) or 'nothing to do'}; {counted(report.chunks, 'chunk')} written "
        f"in {report.seconds:.1f} s"
    )
    cli.say(
        f"{store} holds {counted(report.chunks_in_store, 'chunk')} of "
        f"{counted(report.documents_in_store, 'document')}"
    )
    if not report.complete:
        cli.say("not complete: what could not be opened is as it was in the store")
    if report.other_types:
        cli.say(f"left out: {named_types(report.other_types)}")
    if report.missing:
        gone = sorted({_highest_missing(source) for source in report.missing})
        named = " ".join(shlex.quote(path) for path in gone[:_MOST_NAMED])
        cli.say(
            f"the store also has {counted(len(report.missing), 'document')} from elsewhere whose files no "
            f"longer exist; to remove: sage-rag ingest --store {shlex.quote(store)} {named}"
            f"{f' ... ({len(gone)} paths; --json names the files)' if len(gone) > _MOST_NAMED else ''}"
        )
    for skipped in report.skipped:
        cli.complain(f"skipped: {one_line(skipped.reason)}")


def _highest_missing(source: str) -> str:
    """The file, or the highest folder above it that does not exist: no other documents are below that."""
    path = Path(source)
    while not path.parent.exists():
        path = path.parent
    return str(path)
