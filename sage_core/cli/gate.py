"""`sage-rag gate` and `sage-rag questions`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_core.cli.options import (
    DEFAULT_EMBEDDER,
    EmbedderOption,
    EncodingOption,
    JsonOption,
    SettingsOption,
    StoreOption,
    console,
    path_argument,
    print_json,
    require_packages,
)
from sage_core.cli.tune import read_documents
from sage_core.errors import InputError
from sage_core.rendering.sanitize import one_line
from sage_core.rendering.wording import counted

if TYPE_CHECKING:
    from sage_core.tuning.gate import Comparison, Outcome, Search
    from sage_core.tuning.quotations import QuotedQuestion

EXAMPLES = """
\b
Examples:
  sage-rag gate questions.jsonl --retriever app:retriever --save baseline.json
  sage-rag gate questions.jsonl --retriever app:retriever --against baseline.json
  sage-rag gate questions.jsonl --store .sage --against baseline.json
\b
app:retriever is a LlamaIndex or LangChain retriever in app.py, or a function without arguments that makes it.
"""

QUESTIONS_EXAMPLES = """
\b
Examples:
  sage-rag questions docs/ -o questions.jsonl
  sage-rag gate questions.jsonl --store .sage --save baseline.json
"""

EXIT_WORSE = 1
FEW_QUESTIONS = 50


def gate(
    questions: Annotated[
        Path,
        typer.Argument(
            metavar="QUESTIONS",
            help="Questions, a JSON object a line: question, and quote, what answers it.",
            parser=path_argument,
        ),
    ],
    against: Annotated[
        Path | None,
        typer.Option(
            help="The baseline to compare with; exit code 1 where retrieval is worse.",
            metavar="FILE",
            parser=path_argument,
            show_default=False,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Write the figures as a baseline.", metavar="FILE", parser=path_argument, show_default=False
        ),
    ] = None,
    retriever: Annotated[
        str | None,
        typer.Option(help="A retriever by import path; without one, the store's.", metavar="MODULE:NAME"),
    ] = None,
    store: StoreOption = ".sage",
    settings: SettingsOption = None,
    embedder: EmbedderOption = DEFAULT_EMBEDDER,
    seed: Annotated[int, typer.Option(help="Of the resampling.")] = 0,
    as_json: JsonOption = False,
) -> int:
    """Fail where retrieval has become worse than a committed baseline.

    Asks a retriever of any make every question, and counts the share of the quotations that it returns within
    250, 500 and 1,000 tokens and in all. The paired difference to the baseline decides: of retrievers that
    are as good as before, at most one in twenty is called worse. Use it in CI, with 100 questions or more.
    """
    from sage_core.tuning.gate import compare, load_baseline, save_baseline
    from sage_core.tuning.quotations import read_questions

    if against is None and save is None:
        raise InputError("say what to compare with, --against FILE, or write a baseline first, --save FILE")
    if save is not None and not save.absolute().parent.is_dir():
        raise InputError(f"there is no folder {save.absolute().parent} for the baseline")
    read = read_questions(questions)
    before = None if against is None else load_baseline(against)
    outcomes = _measured(retriever, store, settings, embedder, read)
    comparison = None if before is None else compare(before, outcomes, seed=seed)
    if save is not None:
        save_baseline(outcomes, save)
    if as_json:
        print_json(
            {
                "questions": len(outcomes),
                "baseline_file": None if save is None else str(save),
                "comparison": None if comparison is None else comparison.to_dict(),
            }
        )
    else:
        _show(comparison, outcomes, save)
    return EXIT_WORSE if comparison is not None and comparison.worse else 0


def _measured(
    retriever: str | None, store: str, settings: str | None, embedder: str, read: list[QuotedQuestion]
) -> dict[str, Outcome]:
    from sage_core.pipeline.opening import open_sage
    from sage_core.pipeline.settings import SageSettings
    from sage_core.tuning.gate import as_search, load_retriever

    if retriever is not None:
        return _with_bar(load_retriever(retriever), read)
    require_packages(embedder, store=store)
    base = SageSettings(embedder=embedder) if settings is None else SageSettings.load(settings)
    with open_sage(store, settings=base, offline=True) as sage:
        return _with_bar(as_search(sage), read)


def _with_bar(search: Search, read: list[QuotedQuestion]) -> dict[str, Outcome]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from sage_core.tuning.gate import measure

    columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=len(read))
        return measure(search, read, progress=lambda done: bar.update(task, completed=done))


def _show(comparison: Comparison | None, outcomes: dict[str, Outcome], save: Path | None) -> None:
    from rich.table import Table

    out = console()
    if comparison is not None:
        table = Table(box=None, pad_edge=False)
        for column in ("evidence within", "before", "now", "change", "90 %"):
            table.add_column(column, justify="left" if column == "evidence within" else "right")
        rows = zip(comparison.names, comparison.before, comparison.after, comparison.differences, strict=True)
        for name, old, new, change in rows:
            table.add_row(
                name,
                f"{old:.1%}",
                f"{new:.1%}",
                f"{100 * change.value:+.1f}",
                f"{100 * change.low:+.1f} to {100 * change.high:+.1f}",
            )
        change = comparison.overall
        table.add_row(
            "mean",
            "",
            "",
            f"{100 * change.value:+.1f}",
            f"{100 * change.low:+.1f} to {100 * change.high:+.1f}",
            style="bold",
        )
        out.print(table)
        old_tokens, new_tokens = comparison.tokens
        out.print(f"tokens a question: {old_tokens:,.0f} before, {new_tokens:,.0f} now")
        verdict = "WORSE" if comparison.worse else "not worse"
        out.print(f"{verdict} on {counted(comparison.n, 'question')} (p = {change.p:.3f})", style="bold")
        if comparison.n < FEW_QUESTIONS:
            out.print(
                f"With fewer than {FEW_QUESTIONS} questions only large losses are noticed.", style="yellow"
            )
        if comparison.worse:
            out.print("The questions that lost most:")
            for question, old, new in comparison.lost:
                out.print(
                    f"  {old:.0%} to {new:.0%}  {one_line(question)[:100]}", markup=False, soft_wrap=True
                )
    else:
        shares = [o.evidence for o in outcomes.values()]
        means = [sum(column) / len(shares) for column in zip(*shares, strict=True)]
        out.print(
            f"{counted(len(outcomes), 'question')}: evidence within 250, 500, 1,000 tokens and in all "
            + " / ".join(f"{m:.1%}" for m in means),
            soft_wrap=True,
        )
    if save is not None:
        out.print(f"baseline: {save}", markup=False, soft_wrap=True)


def questions(
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
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="File to write.", metavar="FILE", parser=path_argument),
    ] = Path("questions.jsonl"),
    limit: Annotated[int, typer.Option(help="At most so many.", metavar="N")] = 100,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    encoding: EncodingOption = None,
) -> None:
    """Make questions about your documents, without an LLM, for `sage-rag gate`.

    From headings, definitions and rare words of sentences, each with the sentence that answers it. They tell
    whether retrieval became better or worse; how good it is for people, only questions of people tell.
    """
    from sage_core.tuning.made_questions import make_questions

    if output.exists():
        raise InputError(f"{output} is there already: name another file (-o), or remove it")
    if not output.absolute().parent.is_dir():
        raise InputError(f"there is no folder {output.absolute().parent} for the questions")
    made = make_questions(read_documents(paths or [], store, encoding), limit=limit, seed=seed)
    # The file is for a repository: no folder of this machine, only what tells documents apart.
    names = Counter(Path(source).name for source in {q.source for q in made})
    lines: list[dict[str, str]] = []
    for question in made:
        parts = Path(question.source).parts
        end = parts[-1:] if names[parts[-1]] == 1 else parts[-3:]
        lines.append({"question": question.text, "quote": question.quotes[0], "source": "/".join(end)})
    output.write_text("".join(json.dumps(x, ensure_ascii=False) + "\n" for x in lines), encoding="utf-8")
    console().print(
        f"{counted(len(made), 'question')}: {output}; look through them before you rely on them",
        markup=False,
        soft_wrap=True,
    )
