"""`sage-rag tune`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sage_core.cli.options import (
    DEFAULT_EMBEDDER,
    BaseUrlOption,
    EmbedderOption,
    EncodingOption,
    JsonOption,
    ModelOption,
    SettingsOption,
    StoreOption,
    TimeoutOption,
    console,
    path_argument,
    print_json,
    require_packages,
)
from sage_core.errors import InputError
from sage_core.pipeline.opening import DEFAULT_TIMEOUT, make_answerer
from sage_core.rendering.sanitize import one_line
from sage_core.rendering.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from sage_core.documents.reader import Document
    from sage_core.tuning.quotations import QuotedQuestion
    from sage_core.tuning.tuner import Comparison, FewerTokens, TuneProgress, Tuning

EXAMPLES = """
\b
Examples:
  sage-rag tune --store .sage --questions questions.jsonl
  sage-rag tune docs/ --questions questions.jsonl -o sage-settings.json
  sage-rag tune docs/ --questions made.jsonl --make-questions 100 --model gpt-4o-mini
  sage-rag ingest docs/ --settings sage-settings.json --rebuild
\b
A line of questions.jsonl:
  {"question": "When does the ferry leave?", "quote": "The ferry leaves at seven."}
"""

EXIT_INTERRUPTED = 130
_SECONDS = 10.0
_TITLES = {
    "chunks": "How documents are cut",
    "ranking": "How candidates are ranked",
    "selection": "How many are kept, at no more tokens than as it stands",
}


def tune(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH...]",
            help="Files and folders; without any, the documents of the store.",
            parser=path_argument,
            show_default=False,
        ),
    ] = None,
    store: StoreOption = ".sage",
    questions: Annotated[
        Path,
        typer.Option(
            help="Questions, a JSON object a line: question, and quote, what answers it as it stands in the "
            "document (or a list of such texts).",
            metavar="FILE",
            parser=path_argument,
        ),
    ] = Path("questions.jsonl"),
    make_questions: Annotated[
        int | None,
        typer.Option(
            help="First have an LLM write so many questions about the documents into --questions.",
            metavar="N",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Settings file to write. Unless named, written only where a change is recommended.",
            metavar="FILE",
            parser=path_argument,
        ),
    ] = Path("sage-settings.json"),
    minutes: Annotated[float, typer.Option(help="Most minutes it may take.", metavar="N")] = 10.0,
    seed: Annotated[int, typer.Option(help="Of samples and resamples.")] = 0,
    settings: SettingsOption = None,
    rerankers: Annotated[
        list[str] | None,
        typer.Option(
            "--reranker",
            help="Compare this reranker; repeat it.",
            metavar="NAME",
            show_default="hybrid+sage-minilm, hybrid and none",
        ),
    ] = None,
    embedder: EmbedderOption = DEFAULT_EMBEDDER,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    timeout: TimeoutOption = DEFAULT_TIMEOUT,
    encoding: EncodingOption = None,
    as_json: JsonOption = False,
) -> int:
    """Find out which settings suit your documents, with questions of your own.

    Compares chunk sizes, rerankers, context and selection rules by how much of the quotations they bring
    within the same number of tokens. What is better by more than noise goes into a settings file for
    --settings, Sage.from_settings and both frameworks; else the settings stay as they are. The store is only
    read. Ctrl-C shows what has been compared; another run begins anew.
    """
    from sage_core.embedding import named_embedder
    from sage_core.pipeline.settings import SageSettings
    from sage_core.tuning.quotations import read_questions
    from sage_core.tuning.tuner import TuneOptions
    from sage_core.tuning.tuner import tune as run_tuning

    require_packages(embedder, llm=make_questions is not None)
    base = SageSettings(embedder=embedder) if settings is None else SageSettings.load(settings)
    options = TuneOptions(minutes=minutes, seed=seed, base=base)
    if rerankers:
        options = replace(options, rerankers=tuple(rerankers))
    check_output(output)
    if make_questions is None:
        if not questions.exists():
            raise InputError(
                f"no questions at {questions}: write some, a JSON object a line, "
                '{"question": ..., "quote": what answers it, as it stands in a document}; or have an LLM '
                "write some, --make-questions 100 --model NAME"
            )
        read = read_questions(questions)
    elif questions.exists():
        raise InputError(f"{questions} is there already: leave --make-questions out, or name another file")
    documents = read_documents(paths or [], store, encoding)
    if make_questions is not None:
        read = _made(documents, questions, make_questions, model, base_url, timeout, seed)
    embedding = named_embedder(embedder, base_url=base_url, timeout=timeout)
    with tune_bar() as bar:
        found = run_tuning(documents, read, embedding, options, progress=bar)
    named = getattr(context.get_parameter_source("output"), "name", "") != "DEFAULT"
    written = output if named or found.changed else None
    if written is not None:
        found.settings.save(written)
    if as_json:
        print_json({**found.to_dict(), "settings_file": None if written is None else str(written)})
    else:
        show(found, written)
    return 0 if found.finished else EXIT_INTERRUPTED


def check_output(path: Path) -> None:
    """Refuse to write over a file that is no settings file, before any work."""
    from sage_core.pipeline.settings import SageSettings

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
    from sage_core.documents.discovery import expand_sources
    from sage_core.documents.reader import read_document
    from sage_core.store import open_store

    if paths:
        files = list(expand_sources(paths, []).values())
        what = ", ".join(map(str, paths))
    else:
        kept = open_store(store)
        try:
            files = [Path(record.source) for record in kept.documents()]
        finally:
            kept.close()
        what = f"the store at {store}"
    found: list[Document] = []
    err = console(stderr=True)
    for file in files:
        try:
            found.append(read_document(file, encoding=encoding))
        except InputError as error:
            err.print(f"left out: {one_line(str(error))}", markup=False, style="yellow")
    if not found:
        raise InputError(f"no document of {what} can be read")
    return found


def _made(
    documents: Sequence[Document],
    path: Path,
    count: int,
    model: str | None,
    base_url: str | None,
    timeout: float,
    seed: int,
) -> list[QuotedQuestion]:
    """Questions that an LLM writes, kept in a file to be read and corrected."""
    from sage_core.answering import LLMAnswerer
    from sage_core.embedding.minilm import MiniLMEmbedder
    from sage_core.text.sentences import split_sentences
    from sage_core.tuning.questions import make_dataset
    from sage_core.tuning.quotations import QuotedQuestion
    from sage_core.tuning.records import EvalDocument

    if count < 1:
        raise InputError(f"--make-questions is at least 1, not {count}")
    answerer = make_answerer(model, base_url, False, MiniLMEmbedder(), timeout)
    if not isinstance(answerer, LLMAnswerer):
        raise InputError("questions are written by an LLM: set OPENAI_API_KEY, or give --base-url")
    made = make_dataset(
        [EvalDocument(d.source, d.text) for d in documents],
        answerer.chat,
        evidence="answer",
        limit=count,
        seed=seed,
    )
    texts = {d.source: d.text for d in documents}
    sentences = {s: split_sentences(texts[s]) for s in {q.document for q in made.dataset.questions}}
    found: list[QuotedQuestion] = []
    for question in made.dataset.questions:
        [evidence] = question.evidence
        start, end = evidence.span
        around = [s for s in sentences[evidence.document] if s.start < end and start < s.end]
        text = texts[evidence.document]
        quote = text[around[0].start : around[-1].end] if around else evidence.span.of(text)
        found.append(QuotedQuestion(question.text, (quote.strip(),), evidence.document))
    lines = [
        json.dumps({"question": q.text, "quote": q.quotes[0], "source": q.source}, ensure_ascii=False)
        for q in found
    ]
    try:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    console(stderr=True).print(
        f"{counted(len(found), 'question')} written to {path} ({made.usage.total:,} tokens): read them "
        "before you rely on what follows; they use the words of the passages, which real questions do not",
        markup=False,
        soft_wrap=True,
    )
    return found


# -- output ----------------------------------------------------------------------------------------------


@contextmanager
def tune_bar(out: Console | None = None) -> Iterator[Callable[[TuneProgress], None]]:
    """A bar on standard error, or a line now and then where there is no terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    out = out or console(stderr=True)
    if not out.is_terminal:
        yield _lines(out)
        return
    columns = (
        TextColumn("[bold]Tuning"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task("reading", total=1.0, left="")

        def show_progress(state: TuneProgress) -> None:
            bar.update(task, completed=state.done, description=state.variant, left=_left(state.seconds_left))

        yield show_progress


def _lines(out: Console) -> Callable[[TuneProgress], None]:
    told = time.monotonic()

    def show_progress(state: TuneProgress) -> None:
        nonlocal told
        if time.monotonic() - told >= _SECONDS:
            told = time.monotonic()
            left = _left(state.seconds_left)
            out.print(f"tuning: {state.done:.0%}, {state.variant}{', ' if left else ''}{left}", markup=False)

    return show_progress


def _left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s left" if minutes else f"{rest} s left"


def show(found: Tuning, path: Path | None) -> None:
    """Tables of every stage, what is recommended, and where it was written; None for nowhere."""
    from sage_core.tuning.tuner import BUDGETS

    out = console()
    for warning in found.warnings:
        out.print(warning, style="yellow", markup=False)
    for item in found.unlocated:
        out.print(
            f"not used: {one_line(item.text)} ({one_line(item.reason)}: {one_line(item.quote)[:80]!r})",
            style="yellow",
            markup=False,
        )
    out.print(
        f"{counted(found.questions, 'question')}; recall: share of the quotations within "
        f"{' / '.join(map(str, BUDGETS))} tokens; gain: of their mean; ms: of a search",
        markup=False,
    )
    for stage, rows in groupby(found.comparisons, key=lambda c: c.variant.stage):
        out.print()
        out.print(_table(_TITLES[stage], list(rows), found))
    for name, reason in found.left_out.items():
        out.print(f"not compared: {name}: {reason}", style="yellow", markup=False)
    out.print()
    out.print(recommendation(found), markup=False)
    if found.fewer_tokens is not None:
        out.print(cheaper(found.fewer_tokens), markup=False)
    if path is None:
        out.print("No settings file was written: the settings stay as they are (-o FILE writes them).")
        return
    out.print(f"settings: {path}", markup=False, soft_wrap=True)
    if found.changed:
        out.print(
            f"use them: sage-rag ingest PATH --settings {path} --rebuild, then ask --settings {path}",
            markup=False,
            soft_wrap=True,
        )


def recommendation(found: Tuning) -> str:
    """What the settings file holds, in a sentence or two."""
    changes = [c for c in found.comparisons if c.chosen and c.difference is not None]
    noise = (
        f"A gain counts where its {100 * (1 - 0.05 / max(found.planned, 1)):.1f} % interval leaves out 0: "
        f"{found.planned} comparisons are planned, and without that one in twenty would look real by chance."
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


def _table(title: str, rows: Sequence[Comparison], found: Tuning) -> Any:
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
