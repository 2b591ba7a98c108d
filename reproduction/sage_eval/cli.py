"""`sage-rag eval`: remake the papers' tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sage_app.cli.options import (
    DEFAULT_EMBEDDER,
    DEFAULT_TIMEOUT,
    BaseUrlOption,
    EmbedderOption,
    JsonOption,
    ModelOption,
    TimeoutOption,
    console,
    make_answerer,
    print_json,
)
from sage_core.errors import InputError

if TYPE_CHECKING:
    from sage_app.answers import Answerer
    from sage_core.embedding.protocol import Embedder
    from sage_eval.experiment import Experiment
    from sage_eval.plan import Plan
    from sage_eval.readers import Reader
    from sage_eval.runner import Outcome

HELP = """
Remake the tables of the SAGE paper and of "The Chronicles of RAG", or run an experiment of your own.

\b
  sage-rag eval list                          experiments, data sets, methods
  sage-rag eval run table3 --data dev         on the development sets, without an LLM
  sage-rag eval run table3 --data sets/       on Parquet files of the hub in sets/quality, sets/qasper
  sage-rag eval report sage-eval/table3-...   write the report again
  sage-rag eval make-questions PATH -o NAME   questions about your own documents, written by an LLM

An interrupted run continues when the same command is given again.
"""
EXAMPLES = """
\b
Examples:
  sage-rag eval run table4 --data dev --questions 20
  sage-rag eval run chronicles-table6 --data dev --questions 100
  sage-rag eval run table3 --data sets/ --model gpt-4o-mini --concurrency 4
  sage-rag eval run scalability --data dev
  sage-rag eval run mine.json --data books/potter      # books/potter_docs.jsonl, books/potter_questions.jsonl
"""

READERS = ("auto", "llm", "local", "extractive", "none", "scripted")

app = typer.Typer(name="eval", help=HELP, no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """Show the experiments, data sets and methods, a line each."""
    from sage_eval.datasets import dataset_names
    from sage_eval.experiment import experiment_names, load_experiment
    from sage_eval.methods import method_names

    experiments = {name: load_experiment(name).about for name in experiment_names()}
    methods = list(method_names())
    if as_json:
        print_json({"experiments": experiments, "datasets": dataset_names(), "methods": methods})
        return
    _show("Experiments", experiments)
    _show("Data sets", dataset_names())
    console().print("[bold]Methods[/]\n  " + ", ".join(methods))


@app.command(epilog=EXAMPLES)
def run(
    experiment: Annotated[
        str, typer.Argument(metavar="NAME", help="A name that `list` shows, or a JSON file of your own.")
    ],
    data: Annotated[
        str | None,
        typer.Option(
            help="dev (the experiment's development sets), dev/NAME (one of them), a folder with "
            "Parquet files of the published sets by name, or PREFIX of PREFIX_docs.jsonl and "
            "PREFIX_questions.jsonl.",
            metavar="DIR",
            show_default="from the hub",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder of the run.", metavar="DIR", show_default="sage-eval/..."
        ),
    ] = None,
    questions: Annotated[
        int | None,
        typer.Option(help="So many questions of each set.", metavar="N", show_default="all"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the sample of questions.")] = 0,
    methods: Annotated[
        list[str] | None,
        typer.Option(help="Run this row only; repeat it.", metavar="ROW", show_default="all"),
    ] = None,
    reader: Annotated[
        str,
        typer.Option(
            help="Who answers: auto (an LLM where there is one, else extractive, or none for tables of "
            "retrieval), llm, local (--model is a reading model of transformers, such as UnifiedQA), "
            "extractive, none, scripted (a server that makes answers up, to time calls).",
            metavar="NAME",
        ),
    ] = "auto",
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline", help="No LLM, no embeddings of a server, no download: nothing leaves this machine."
        ),
    ] = False,
    timeout: TimeoutOption = DEFAULT_TIMEOUT,
    embedder: EmbedderOption = DEFAULT_EMBEDDER,
    judge: Annotated[
        str | None,
        typer.Option(
            help="LLM that compares answers with references, at the same server.",
            metavar="NAME",
            show_default="the one that answers",
        ),
    ] = None,
    reranker: Annotated[
        str | None,
        typer.Option(
            help="Reranker of rows that name none: hybrid, or a cross-encoder by name or folder.",
            metavar="NAME",
            show_default="hybrid",
        ),
    ] = None,
    row_reader: Annotated[
        list[str] | None,
        typer.Option(
            help="Reading model of a row that has one of its own, as ROW=MODEL; repeat it.",
            metavar="ROW=MODEL",
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(
            help='Prices of LLMs, money for a million tokens: {"gpt-4o-mini": {"prompt": 0.15, "completion": '
            "0.6}}.",
            metavar="FILE",
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(help="Questions asked at a time.", metavar="N")] = 1,
    language: Annotated[str, typer.Option(help="Of texts and answers: en or pt.", metavar="NAME")] = "en",
    cache: Annotated[
        Path, typer.Option(help="Folder where embeddings are kept for the next run.", metavar="DIR")
    ] = Path("sage-eval/embeddings"),
    fresh: Annotated[
        bool,
        typer.Option("--fresh/--resume", help="Throw earlier results away, or go on where they stop."),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail where a row was left out, as where a question failed.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run an experiment, and write its report.

    Results go to a folder, a line each, as they come. Run the same command again to go on after a break and
    to ask failed questions again. Without an LLM the extractive answerer shows passages, which the
    report says; then only what it says of retrieval, tokens and time is worth comparing.
    """
    from sage_eval.execute import execute, plan
    from sage_eval.experiment import load_experiment
    from sage_eval.plan import RunOptions
    from sage_eval.report import write_report
    from sage_eval.terminal import eval_bar

    found = load_experiment(experiment)
    options = RunOptions(
        data,
        output,
        questions,
        seed,
        tuple(methods or ()),
        fresh,
        concurrency,
        cache,
        language,
        base_url,
        offline,
        reranker,
        _row_readers(row_reader or ()),
        _prices(prices),
    )
    from sage_app.models import named_embedder

    embedding = named_embedder(embedder)

    def llm() -> Answerer:
        return make_answerer(None if reader == "local" else model, base_url, offline, timeout)

    server = "given" if base_url else "default"
    grader = None if judge is None else lambda: make_answerer(judge, base_url, offline, timeout)
    asked = Asked(reader, llm, embedding, server, model, grader)
    with no_downloads(offline), choose_reader(found, asked) as who:
        planned = plan(found, who, embedding, options)
        if not as_json:
            _announce(planned)
        with eval_bar() as bar:
            outcome = execute(planned, progress=bar)
    report = write_report(planned.folder)
    if as_json:
        print_json(_outcome_dict(outcome, report))
    else:
        _show_outcome(outcome, planned.folder, report)
    missing = outcome.failed or outcome.unasked or (strict and outcome.left_out)
    if missing or not (outcome.answered or outcome.kept):
        raise typer.Exit(1)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.")],
) -> None:
    """Write the report of a run again from the results in its folder."""
    from sage_eval.report import write_report

    console().print(f"written to {write_report(folder)}", markup=False)


@app.command("make-questions")
def make_questions(
    paths: Annotated[list[Path], typer.Argument(help="Files or folders.", metavar="PATH...")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder and name of the set.", metavar="PREFIX")
    ],
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    timeout: TimeoutOption = DEFAULT_TIMEOUT,
    limit: Annotated[
        int | None, typer.Option(help="So many passages, drawn by chance.", metavar="N", show_default="all")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 0,
    evidence: Annotated[
        str, typer.Option(help="What counts as evidence: answer (its words) or chunk (as in the paper).")
    ] = "answer",
) -> None:
    """Have an LLM write a question about each passage of your documents (The Chronicles, section 2)."""
    from sage_app.answers import LLMAnswerer
    from sage_app.documents import find_documents, read_document
    from sage_eval.datasets import save_dataset
    from sage_eval.question_maker import make_dataset
    from sage_eval.records import EvalDocument

    if evidence not in ("answer", "chunk"):
        raise InputError(f"--evidence is answer or chunk, not {evidence!r}")
    answerer = make_answerer(model, base_url, False, timeout)
    if not isinstance(answerer, LLMAnswerer):
        raise InputError("questions are written by an LLM: set OPENAI_API_KEY, or give --base-url")
    found = find_documents(paths).files.values()
    documents = [EvalDocument(str(path), read_document(path).text) for path in found]
    made = make_dataset(
        documents, answerer.chat, name=output.name, evidence=cast("Any", evidence), limit=limit, seed=seed
    )
    files = save_dataset(made.dataset, output)
    states = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in made.states.items())
    console().print(
        f"{len(made.dataset.questions)} questions ({states}), {made.usage.total:,} tokens: {files[1]}\n"
        f"ask them with: sage-rag eval run chronicles-table6 --data {output}",
        markup=False,
    )


@app.command("train-embedding")
def train_embedding(
    data: Annotated[str, typer.Option(help="A data set: its name, or the beginning of two files.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the matrix (safetensors).")],
    embedder: Annotated[
        str, typer.Option(help="all-MiniLM-L6-v2, a name or folder, or openai.", metavar="NAME")
    ] = "sbert",
    size: Annotated[int, typer.Option(help="Columns of the matrix.")] = 2048,
    seed: Annotated[int, typer.Option(help="Of every random choice.")] = 0,
) -> None:
    """Train a matrix over an embedding model ("Custom ADA-002" of The Chronicles, section 5.1.3)."""
    from sage_eval.datasets import load_dataset
    from sage_eval.methods import FixedChunker
    from sage_eval.question_maker import CHUNK_TOKENS
    from sage_eval.retrievers.custom import train_matrix
    from sage_eval.retrievers.factory import ModelPool

    dataset = load_dataset(data)
    texts = {document.id: document.text for document in dataset.documents}
    chunks = {i: FixedChunker(CHUNK_TOKENS).segment_many([text])[0] for i, text in texts.items()}
    pairs = [
        (question.text, span.of(texts[place.document]))
        for question in dataset.questions
        for place in question.evidence[:1]
        for span in chunks[place.document]
        if span.start <= place.span.start < span.end
    ]
    found = train_matrix(pairs, ModelPool().embedder(embedder), output, size=size, seed=seed)
    console().print(
        f"{found.pairs} held-out pairs told apart: {found.before:.1%} by the embedding model, "
        f"{found.after:.1%} with the matrix\nin an experiment: "
        f'{{"kind": "custom", "matrix": "{output}", "base": "{embedder}"}}',
        markup=False,
    )


@contextmanager
def no_downloads(wanted: bool) -> Iterator[None]:
    """Keep the Hugging Face libraries from asking the hub within the block, where that is wanted."""
    if not wanted:
        yield
        return
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    constants: Any = sys.modules.get("huggingface_hub.constants")  # has read the environment already
    online = constants is not None and not constants.HF_HUB_OFFLINE
    if constants is not None:
        constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        if constants is not None and online:
            constants.HF_HUB_OFFLINE = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says of who answers.

    Attributes:
        kind: One of `READERS`.
        llm: Makes the LLM, or the extractive answerer where there is none.
        embedder: Of the extractive answerer.
        server: What the record says of the LLM's server.
        model: Name of the reading model, for ``"local"``.
        judge: Makes the LLM that compares answers with references; None for the one that answers.
    """

    kind: str
    llm: Callable[[], Answerer]
    embedder: Embedder
    server: str = "default"
    model: str | None = None
    judge: Callable[[], Answerer] | None = None


@contextmanager
def choose_reader(experiment: Experiment, asked: Asked) -> Iterator[Reader]:
    """Who answers; a scripted server runs as long as the block.

    Raises:
        InputError: For an unknown kind, or an LLM that there is neither a key nor a server for.
    """
    from sage_app.answers import ExtractiveAnswerer, LLMAnswerer
    from sage_app.models import OpenAIChat
    from sage_eval import readers
    from sage_eval.scripted_server import MODEL, Latency, ScriptedServer

    kind = asked.kind
    if kind not in READERS:
        raise InputError(f"--reader is one of {', '.join(READERS)}, not {kind!r}")
    if kind == "auto":
        kind = "llm" if isinstance(asked.llm(), LLMAnswerer) else _without_llm(experiment)
    grader = asked.judge() if asked.judge is not None else None
    if grader is not None and not isinstance(grader, LLMAnswerer):
        raise InputError("--judge needs OPENAI_API_KEY or --base-url, and no --offline")
    judge = None if grader is None else grader.chat
    found = asked.llm() if kind == "llm" else None
    if kind == "llm" and not isinstance(found, LLMAnswerer):
        raise InputError("--reader llm needs OPENAI_API_KEY or --base-url, and no --offline")
    if kind == "llm" and isinstance(found, LLMAnswerer):
        yield readers.Reader(readers.LLM, found, found.chat, asked.server, judge)
    elif kind == "local":
        from sage_eval.local_readers import LocalReader

        if not asked.model:
            raise InputError("--reader local needs --model: the name or folder of a reading model")
        local = LocalReader(asked.model, critic=ExtractiveAnswerer())
        yield readers.Reader(readers.LOCAL, local, judge=judge)
    elif kind == "extractive":
        yield readers.Reader(readers.EXTRACTIVE, readers.ExtractiveReader(), judge=judge)
    elif kind == "none":
        yield readers.Reader(readers.NO_ANSWERER, readers.NoReader())
    else:
        latency = Latency(**experiment.options.get("latency", {}))
        with ScriptedServer(latency) as scripted:
            chat = OpenAIChat(MODEL, base_url=scripted.base_url, api_key="none")
            yield readers.Reader(readers.SCRIPTED, LLMAnswerer(chat), None, "scripted")


def _row_readers(given: Sequence[str]) -> dict[str, str]:
    """Reading model by row, from ROW=MODEL."""
    pairs = [text.partition("=") for text in given]
    if wrong := [row for row, sign, model in pairs if not (row.strip() and sign and model.strip())]:
        raise InputError(f"--row-reader is ROW=MODEL, not {wrong[0]!r}")
    return {row.strip(): model.strip() for row, _, model in pairs}


def _prices(file: Path | None) -> dict[str, tuple[float, float]]:
    from sage_eval.prices import PriceList

    if file is None:
        return {}
    return {name: (p.prompt, p.completion) for name, p in PriceList.from_file(file).prices.items()}


def _without_llm(experiment: Experiment) -> str:
    if experiment.kind == "scalability":
        return "scripted"
    return "extractive" if experiment.needs_reader else "none"


def _announce(planned: Plan) -> None:
    """What will be run, before it takes its time."""
    out = console()
    out.print(planned.experiment.title, style="bold", markup=False)
    sets = ", ".join(f"{d.name} ({len(d.questions)} questions)" for d in planned.datasets)
    rows = f"{len(planned.experiment.rows)} methods; " if planned.experiment.rows else ""
    label = planned.reader.answerer.label
    out.print(f"{sets}{'; ' if sets else ''}{rows}answers: {label}", markup=False)


def _show_outcome(outcome: Outcome, folder: Path, report: Path) -> None:
    from sage_eval.results import read_results
    from sage_eval.terminal import result_lines

    out = console()
    results = read_results(folder)
    for line in result_lines(results):
        out.print(line, markup=False, highlight=False)
    for row, reason in outcome.left_out.items():
        out.print(f"left out: {row}: {reason}", style="yellow", markup=False)
    if outcome.left_out:
        count = f"{len(outcome.left_out)} of {len(results.rows)} rows left out"
        out.print(
            f"{count}, for the reasons above; --strict makes that an error", style="yellow", markup=False
        )
    if outcome.failed or outcome.unasked:
        out.print(
            f"{outcome.failed} questions failed, {outcome.unasked} were not asked after them: run it again "
            "to ask those, and only those",
            style="yellow",
            markup=False,
        )
        errors = dict.fromkeys(error for failed in results.failed.values() for error in failed.values())
        for error in list(errors)[:3]:
            out.print(f"failed: {error}", style="yellow", markup=False)
    out.print(f"{outcome.answered} results new, {outcome.kept} from before; report: {report}", markup=False)


def _outcome_dict(outcome: Outcome, report: Path) -> dict[str, object]:
    return {
        "answered": outcome.answered,
        "kept": outcome.kept,
        "failed": outcome.failed,
        "unasked": outcome.unasked,
        "left_out": dict(outcome.left_out),
        "report": str(report),
    }


def _show(title: str, lines: dict[str, str]) -> None:
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=None, show_header=False)
    table.add_column(no_wrap=True, style="cyan")
    table.add_column()
    for name, about in lines.items():
        table.add_row(f"  {name}", about)
    console().print(table)
