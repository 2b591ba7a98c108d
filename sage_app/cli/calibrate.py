"""`sage-rag calibrate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_app.cli import options as cli
from sage_app.pipeline.opening import DEFAULT_TIMEOUT
from sage_core._checks import counted
from sage_core.errors import InputError
from sage_core.text.sanitize import one_line

if TYPE_CHECKING:
    from sage_app.calibrate.cut import Calibrated
    from sage_app.calibrate.quotations import Evidence
    from sage_app.documents.reader import Document
    from sage_app.store import Store

EXAMPLES = """
\b
Examples:
  sage-rag calibrate questions.jsonl --store .sage --keep 0.9
  sage-rag calibrate questions.jsonl --store .sage --keep 0.9 --confidence 0.95 -o settings.json
  sage-rag ask "When does it open?" --store .sage --settings settings.json
\b
A line of questions.jsonl:
  {"question": "When does the ferry leave?", "quote": "The ferry leaves at seven."}
"""


def calibrate(
    questions: cli.QuestionsArgument,
    store: cli.StoreOption = ".sage",
    keep: Annotated[float, cli.option("Share of the evidence to keep, on average.", "SHARE")] = 0.9,
    confidence: Annotated[
        float | None, cli.option("Promise it with this probability; takes more tokens.", "P", "on average")
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Settings file to write.", metavar="FILE", parser=cli.path_argument
        ),
    ] = Path("sage-settings.json"),
    seed: Annotated[int, cli.option("Of the questions that choose the kind of cut.")] = 0,
    settings: cli.SettingsOption = None,
    embedder: cli.EmbedderOption = cli.DEFAULT_EMBEDDER,
    base_url: cli.BaseUrlOption = None,
    timeout: cli.TimeoutOption = DEFAULT_TIMEOUT,
    encoding: cli.EncodingOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Find the cut that keeps the share of the evidence you ask for, at the fewest tokens.

    Searches the store for questions of your own whose answers are quoted from its documents, and calibrates
    how many of the candidates are kept. The promise is for further questions like these. It goes into a
    settings file, with the other settings as they stand (--settings), and holds for the store, embedding
    model and reranker that it was measured with.
    """
    from sage_app.calibrate.cut import calibrate as find_cut
    from sage_app.calibrate.quotations import locate, ranked_question, read_questions
    from sage_app.pipeline.opening import open_sage
    from sage_app.pipeline.settings import SageSettings
    from sage_core import __version__

    cli.require_packages(embedder, store=store)
    if not 0 < keep < 1:
        raise InputError(f"--keep is a share between 0 and 1, such as 0.9, not {keep:g}")
    base = cli.load_settings(settings, embedder)
    if output.exists():
        SageSettings.load(output)  # a file that holds something else is not written over
    quoted = read_questions(questions)
    with open_sage(store, settings=base, base_url=base_url, timeout=timeout, offline=True) as sage:
        documents = _documents(sage.store, encoding)
        located: list[tuple[str, list[tuple[Evidence, ...]]]] = []
        unlocated: list[dict[str, str]] = []
        for question in quoted:
            try:
                located.append((question.text, locate(question, documents)))
            except InputError as error:
                unlocated.append({"question": question.text, "reason": str(error)})
        if not located:
            raise InputError(
                f"none of the {len(quoted)} questions can be used: a quotation stands in a document as it is "
                f"written there; the first: {unlocated[0]['reason']}"
            )
        rankings = [sage.retrieve(text) for text, _ in located]
    result = find_cut(
        [ranked_question(places, r) for (_, places), r in zip(located, rankings, strict=True)],
        loss=1 - keep,
        confidence=confidence,
        scale=rankings[0].scale,
        seed=seed,
    )
    chosen = replace(
        base,
        selection=result.selection,
        made_by={"sage_rag": __version__, "command": "sage-rag calibrate"},
        measured={**result.to_dict(), "questions_not_used": len(unlocated), "seed": seed},
    )
    chosen.save(output)
    if as_json:
        cli.print_json({**result.to_dict(), "unlocated": unlocated, "settings_file": str(output)})
        return
    for item in unlocated:
        cli.say(f"not used: {one_line(item['question'])} ({one_line(item['reason'])[:120]})", "yellow")
    show(result, output)


def _documents(store: Store, encoding: str | None) -> list[Document]:
    """The documents of the store, read again; what cannot be read, or has changed, is named."""
    from sage_app.documents.reader import read_document

    documents: list[Document] = []
    for record in store.documents():
        try:
            document = read_document(record.source, encoding=encoding)
            if document.digest != record.digest:
                raise InputError(f"{record.source} has changed since it was ingested: ingest it again")
            documents.append(document)
        except InputError as error:
            cli.complain(f"left out: {one_line(str(error))}")
    if not documents:
        raise InputError("no document of the store can be read")
    return documents


def show(result: Calibrated, output: Path) -> None:
    """The cut, what it keeps and costs, and where it was written."""
    from rich.table import Table

    how = "on average" if result.confidence is None else f"with probability {result.confidence:g}"
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("promise", f"at least {1 - result.limit:.1%} of the evidence is kept, {how}")
    table.add_row("cut", f"{result.family}: {result.parameter:g}")
    table.add_row(
        f"on {counted(result.questions, 'question')}",
        f"{1 - result.loss:.1%} kept, {result.tokens:,.0f} tokens",
    )
    cli.console().print(table)
    cli.say(f"settings: {output}")
