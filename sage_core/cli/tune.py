"""`sage-rag tune`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sage_core.cli import options as cli
from sage_core.errors import InputError
from sage_core.pipeline.opening import DEFAULT_TIMEOUT, make_answerer
from sage_core.rendering.sanitize import one_line
from sage_core.rendering.wording import counted

if TYPE_CHECKING:
    from sage_core.documents.reader import Document
    from sage_core.tuning.quotations import QuotedQuestion, Unlocated
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
    make_questions: Annotated[
        int | None,
        cli.option(
            "First have an LLM write so many questions about the documents into --questions.", "N", False
        ),
    ] = None,
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
            show_default="hybrid+sage-minilm, hybrid and none",
        ),
    ] = None,
    embedder: cli.EmbedderOption = cli.DEFAULT_EMBEDDER,
    model: cli.ModelOption = None,
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
    from sage_core.embedding import named_embedder
    from sage_core.rendering.terminal.progress import progress_bar
    from sage_core.tuning.quotations import read_questions
    from sage_core.tuning.tuner import TuneOptions
    from sage_core.tuning.tuner import tune as run_tuning

    cli.require_packages(embedder, llm=make_questions is not None)
    options = TuneOptions(minutes=minutes, seed=seed, base=cli.load_settings(settings, embedder))
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
        quoted = read_questions(questions)
    elif questions.exists():
        raise InputError(f"{questions} is there already: leave --make-questions out, or name another file")
    documents = read_documents(paths or [], store, encoding)
    if make_questions is not None:
        quoted = _made(documents, questions, make_questions, model, base_url, timeout, seed)
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
    quoted: list[QuotedQuestion] = []
    for question in made.dataset.questions:
        [evidence] = question.evidence
        start, end = evidence.span
        around = [s for s in sentences[evidence.document] if s.start < end and start < s.end]
        text = texts[evidence.document]
        quote = text[around[0].start : around[-1].end] if around else evidence.span.of(text)
        quoted.append(QuotedQuestion(question.text, (quote.strip(),), evidence.document))
    write_questions(path, [(q.text, q.quotes[0], q.source) for q in quoted])
    cli.complain(
        f"{counted(len(quoted), 'question')} written to {path} ({made.usage.total:,} tokens): read them "
        "before you rely on what follows; they use the words of the passages, which real questions do not",
        "",
    )
    return quoted


def write_questions(path: Path, questions: Iterable[tuple[str, str, str]]) -> None:
    """A file of questions, each with its quotation and source."""
    lines = (
        json.dumps(dict(zip(("question", "quote", "source"), each, strict=True)), ensure_ascii=False)
        for each in questions
    )
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


# -- output ----------------------------------------------------------------------------------------------


def show(result: Tuning, path: Path | None) -> None:
    """Tables of every stage, what is recommended, and where it was written; None for nowhere."""
    from sage_core.tuning.tuner import BUDGETS

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
