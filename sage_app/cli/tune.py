"""`sage-rag tune` and `sage-rag questions`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sage_app.cli import options as cli
from sage_app.pipeline.opening import DEFAULT_TIMEOUT
from sage_core._checks import counted
from sage_core.errors import InputError
from sage_core.text.sanitize import one_line

if TYPE_CHECKING:
    from sage_app.documents.reader import Document
    from sage_app.tuning.quotations import Unlocated
    from sage_app.tuning.tuner import Comparison, FewerTokens, TuneProgress, Tuning

EXAMPLES = """
\b
Examples:
  sage-rag tune --store .sage --questions questions.jsonl
  sage-rag tune docs/ --questions questions.jsonl -o sage-settings.json
  sage-rag ingest docs/ --settings sage-settings.json --rebuild
\b
A line of questions.jsonl:
  {"question": "When does the ferry leave?", "quote": "The ferry leaves at seven."}
"""

QUESTIONS_EXAMPLES = """
\b
Examples:
  sage-rag questions docs/ -o questions.jsonl
  sage-rag tune docs/ --questions questions.jsonl
"""

EXIT_INTERRUPTED = 130
_TITLES = {
    "chunks": "How documents are cut",
    "ranking": "How candidates are ranked",
    "selection": "How many are kept, at no more tokens than as it stands",
}


def tune(
    context: typer.Context,
    paths: cli.DocumentsArgument = None,
    store: cli.StoreOption = ".sage",
    questions: Annotated[
        Path,
        cli.option(
            "Questions, a JSON object a line: question, and quote, what answers it as it stands in the "
            "document (or a list of such texts).",
            "FILE",
            parser=cli.path_argument,
        ),
    ] = Path("questions.jsonl"),
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Settings file to write. Unless named, written only where a change is recommended.",
            metavar="FILE",
            parser=cli.path_argument,
        ),
    ] = Path("sage-settings.json"),
    minutes: Annotated[float, cli.option("Most minutes it may take.", "N")] = 10.0,
    seed: Annotated[int, cli.option("Of samples and resamples.")] = 0,
    settings: cli.SettingsOption = None,
    rerankers: Annotated[
        list[str] | None,
        typer.Option(
            "--reranker",
            help="Compare this reranker; repeat it.",
            metavar="NAME",
            show_default="hybrid and none",
        ),
    ] = None,
    embedder: cli.EmbedderOption = cli.DEFAULT_EMBEDDER,
    base_url: cli.BaseUrlOption = None,
    timeout: cli.TimeoutOption = DEFAULT_TIMEOUT,
    encoding: cli.EncodingOption = None,
    as_json: cli.JsonOption = False,
) -> int:
    """Find out which settings suit your documents, with questions of your own.

    Compares chunk sizes, rerankers, context and selection rules by how much of the quotations they bring
    within the same number of tokens. What is better by more than noise goes into a settings file for
    --settings, Sage.from_settings and both frameworks; else the settings stay as they are. The store is only
    read. Ctrl-C shows what has been compared; another run begins anew.
    """
    from sage_app.models import named_embedder
    from sage_app.pipeline.progress import progress_bar
    from sage_app.tuning.quotations import read_questions
    from sage_app.tuning.tuner import TuneOptions
    from sage_app.tuning.tuner import tune as run_tuning

    cli.require_packages(embedder)
    options = TuneOptions(minutes=minutes, seed=seed, base=cli.load_settings(settings, embedder))
    if rerankers:
        options = replace(options, rerankers=tuple(rerankers))
    check_output(output)
    if not questions.exists():
        raise InputError(
            f"no questions at {questions}: write some, a JSON object a line, "
            '{"question": ..., "quote": what answers it, as it stands in a document}; or make some, '
            f"sage-rag questions PATH -o {questions}"
        )
    quoted = read_questions(questions)
    documents = read_documents(paths or [], store, encoding)
    embedding = named_embedder(embedder, base_url=base_url, timeout=timeout)
    with progress_bar("tuning", cli.console(stderr=True)) as report:

        def show_progress(state: TuneProgress) -> None:
            report(state.done, state.variant, state.seconds_left)

        result = run_tuning(documents, quoted, embedding, options, progress=show_progress)
    named = getattr(context.get_parameter_source("output"), "name", "") != "DEFAULT"
    path = output if named or result.changed else None
    if path is not None:
        result.settings.save(path)
    if as_json:
        cli.print_json({**result.to_dict(), "settings_file": None if path is None else str(path)})
    else:
        show(result, path)
    return 0 if result.finished else EXIT_INTERRUPTED


def check_output(path: Path) -> None:
    """Refuse to write over a file that is no settings file, before any work."""
    from sage_app.pipeline.settings import SageSettings

    if path.exists():
        try:
            SageSettings.load(path)
        except InputError as error:
            raise InputError(
                f"{path} is there already, and no settings file ({error}): name another"
            ) from None
    elif not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder {path.absolute().parent} for the settings file")


def read_documents(paths: Sequence[Path], store: str, encoding: str | None) -> list[Document]:
    """The documents below ``paths``, or those of the store, read again; what cannot be read is named."""
    from sage_app.documents.discovery import expand_sources
    from sage_app.documents.reader import read_document
    from sage_app.store import open_store

    if paths:
        files = list(expand_sources(paths, []).values())
    else:
        with closing(open_store(store)) as opened:
            files = [Path(record.source) for record in opened.documents()]
    documents: list[Document] = []
    for file in files:
        try:
            documents.append(read_document(file, encoding=encoding))
        except InputError as error:
            cli.complain(f"left out: {one_line(str(error))}")
    if not documents:
        what = ", ".join(map(str, paths)) or f"the store at {store}"
        raise InputError(f"no document of {what} can be read")
    return documents


def questions(
    paths: cli.DocumentsArgument = None,
    store: cli.StoreOption = ".sage",
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write.", metavar="FILE", parser=cli.path_argument)
    ] = Path("questions.jsonl"),
    limit: Annotated[int, cli.option("At most so many.", "N")] = 100,
    seed: Annotated[int, cli.option("Of the draw.")] = 0,
    encoding: cli.EncodingOption = None,
) -> None:
    """Make questions about your documents, without an LLM, for `sage-rag tune`, `calibrate` and `eval gate`.

    From headings, definitions and rare words of sentences, each with the sentence that answers it. They tell
    whether retrieval became better or worse; how good it is for people, only questions of people tell.
    """
    from sage_app.tuning.made_questions import make_questions

    if output.exists():
        raise InputError(f"{output} is there already: name another file (-o), or remove it")
    if not output.absolute().parent.is_dir():
        raise InputError(f"there is no folder {output.absolute().parent} for the questions")
    made = make_questions(read_documents(paths or [], store, encoding), limit=limit, seed=seed)
    # The file is for a repository: no folder of this machine, only what tells documents apart.
    names = Counter(Path(source).name for source in {q.source for q in made})
    lines: list[str] = []
    for question in made:
        parts = Path(question.source).parts
        source = "/".join(parts[-1:] if names[parts[-1]] == 1 else parts[-3:])
        line = {"question": question.text, "quote": question.quotes[0], "source": source}
        lines.append(f"{json.dumps(line, ensure_ascii=False)}\n")
    try:
        output.write_text("".join(lines), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror or error}") from error
    cli.say(f"{counted(len(made), 'question')}: {output}; look through them before you rely on them")


# -- output ----------------------------------------------------------------------------------------------


def show(result: Tuning, path: Path | None) -> None:
    """Tables of every stage, what is recommended, and where it was written; None for nowhere."""
    from sage_app.tuning.tuner import BUDGETS

    out = cli.console()
    for warning in result.warnings:
        out.print(warning, style="yellow")
    show_unlocated(result.unlocated)
    out.print(
        f"{counted(result.questions, 'question')}; recall: share of the quotations within "
        f"{' / '.join(map(str, BUDGETS))} tokens; gain: of their mean; ms: of a search"
    )
    for stage, rows in groupby(result.comparisons, key=lambda c: c.variant.stage):
        out.print("", _table(_TITLES[stage], list(rows)), sep="\n")
    for name, reason in result.left_out.items():
        out.print(f"not compared: {name}: {reason}", style="yellow")
    out.print(f"\n{recommendation(result)}")
    if result.fewer_tokens is not None:
        out.print(cheaper(result.fewer_tokens))
    if path is None:
        out.print("No settings file was written: the settings stay as they are (-o FILE writes them).")
        return
    cli.say(f"settings: {path}")
    if result.changed:
        cli.say(f"use them: sage-rag ingest PATH --settings {path} --rebuild, then ask --settings {path}")


def show_unlocated(unlocated: Iterable[Unlocated]) -> None:
    """The questions that could not be used, and why."""
    for item in unlocated:
        cli.say(
            f"not used: {one_line(item.text)} ({one_line(item.reason)}: {one_line(item.quote)[:80]!r})",
            "yellow",
        )


def recommendation(result: Tuning) -> str:
    """What the settings file holds, in a sentence or two."""
    changes = [c for c in result.comparisons if c.chosen and c.difference is not None]
    noise = (
        f"A gain counts where its {100 * (1 - 0.05 / max(result.planned, 1)):.1f} % interval leaves out 0: "
        f"{result.planned} comparisons are planned, and without that one in twenty would look real by chance."
    )
    if not changes:
        return f"Recommended: the settings as they stand. No difference is clear of noise. {noise}"
    named = "; ".join(f"{c.variant.name} ({_points(c)})" for c in changes)
    return (
        f"Recommended: {named}. {noise} The best of several looks a little better than it is: "
        "check with other questions."
    )


def cheaper(fewer: FewerTokens) -> str:
    """How few tokens keep the evidence, in a sentence."""
    evidence, tokens = fewer.evidence, fewer.tokens
    settings = fewer.selection.keywords.items()
    config = ", ".join(f"{name}={value!r}" for name, value in settings if value not in (None, "auto"))
    points, low, high = (100 * value for value in (evidence.value, evidence.low, evidence.high))
    return (
        f"Fewer tokens, the same evidence: SelectionConfig({config}) sends {tokens.value:+,.0f} tokens "
        f"[{tokens.low:+,.0f}, {tokens.high:+,.0f}] a question, with {points:+.1f} points "
        f"[{low:+.1f}, {high:+.1f}] of the quotations. It is not in the settings file."
    )


def _points(comparison: Comparison) -> str:
    d = comparison.difference
    return "" if d is None else f"{100 * d.value:+.1f} [{100 * d.low:+.1f}, {100 * d.high:+.1f}] points"


def _table(title: str, rows: Sequence[Comparison]) -> Any:
    from rich.table import Table
    from rich.text import Text

    selection = rows[0].variant.stage == "selection"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("")
    table.add_column("settings", overflow="fold")
    last = {"chunks": "chunks", "ranking": "ms", "selection": "tokens"}[rows[0].variant.stage]
    for name in ("kept recall %" if selection else "recall %", last, "gain in points"):
        table.add_column(name, justify="right", no_wrap=True)
    for c in rows:
        f = c.figures
        if selection:
            cells = [f"{100 * f.selected.mean():.1f}", f"{f.tokens.mean():,.0f}"]
        else:
            # Whole percents fit into 80 columns; the settings file and --json have more digits.
            each = "/".join(f"{100 * v:.0f}" for v in f.at_budgets.mean(axis=0))
            cells = [each, f"{f.chunks:,}" if last == "chunks" else f"{1000 * f.seconds:,.0f}"]
        gain = _points(c).removesuffix(" points")
        if c.difference is not None and not c.clear:
            gain += ", worse" if c.difference.high < 0 else ", noise"
        # A rule says its family itself; both do not fit into 80 columns.
        name = c.variant.name.rpartition(": ")[2]
        table.add_row("*" if c.chosen else "", Text(name), *cells, gain)
    return table
