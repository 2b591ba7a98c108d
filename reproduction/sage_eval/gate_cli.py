"""`sage-rag eval gate`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sage_app.cli import options as cli
from sage_core._checks import counted
from sage_core.errors import InputError
from sage_core.text.sanitize import one_line

if TYPE_CHECKING:
    from sage_app.tuning.quotations import QuotedQuestion
    from sage_app.tuning.statistics import Difference
    from sage_eval.gate import Comparison, Outcome

EXAMPLES = """
\b
Examples:
  sage-rag eval gate questions.jsonl --retriever app:retriever --save baseline.json
  sage-rag eval gate questions.jsonl --retriever app:retriever --against baseline.json
  sage-rag eval gate questions.jsonl --store .sage --against baseline.json
\b
app:retriever is a LlamaIndex or LangChain retriever in app.py, or a function without arguments that makes it.
"""

EXIT_WORSE = 1
FEW_QUESTIONS = 50


def gate(
    questions: cli.QuestionsArgument,
    against: Annotated[
        Path | None,
        cli.option(
            "The baseline to compare with; exit code 1 where retrieval is worse.",
            "FILE",
            False,
            parser=cli.path_argument,
        ),
    ] = None,
    save: Annotated[
        Path | None, cli.option("Write the figures as a baseline.", "FILE", False, parser=cli.path_argument)
    ] = None,
    retriever: Annotated[
        str | None, cli.option("A retriever by import path; without one, the store's.", "MODULE:NAME")
    ] = None,
    store: cli.StoreOption = ".sage",
    settings: cli.SettingsOption = None,
    embedder: cli.EmbedderOption = cli.DEFAULT_EMBEDDER,
    seed: Annotated[int, cli.option("Of the resampling.")] = 0,
    as_json: cli.JsonOption = False,
) -> int:
    """Fail where retrieval has become worse than a committed baseline.

    Asks a retriever of any make every question, and counts the share of the quotations that it returns within
    250, 500 and 1,000 tokens and in all. The paired difference to the baseline decides: of retrievers that
    are as good as before, at most one in twenty is called worse. Use it in CI, with 100 questions or more.
    """
    from sage_app.tuning.quotations import read_questions
    from sage_eval.gate import compare, load_baseline, save_baseline

    if against is None and save is None:
        raise InputError("say what to compare with, --against FILE, or write a baseline first, --save FILE")
    if save is not None and not save.absolute().parent.is_dir():
        raise InputError(f"there is no folder {save.absolute().parent} for the baseline")
    quoted = read_questions(questions)
    before = None if against is None else load_baseline(against)
    outcomes = _measured(retriever, store, settings, embedder, quoted)
    comparison = None if before is None else compare(before, outcomes, seed=seed)
    if save is not None:
        save_baseline(outcomes, save)
    if as_json:
        cli.print_json(
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
    retriever: str | None, store: str, settings: str | None, embedder: str, questions: list[QuotedQuestion]
) -> dict[str, Outcome]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from sage_app.pipeline.opening import open_sage
    from sage_eval.gate import as_search, load_retriever, measure

    columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with ExitStack() as opened:
        if retriever is not None:
            search = load_retriever(retriever)
        else:
            cli.require_packages(embedder, store=store)
            base = cli.load_settings(settings, embedder)
            search = as_search(opened.enter_context(open_sage(store, settings=base, offline=True)))
        bar = opened.enter_context(Progress(*columns, console=cli.console(stderr=True), transient=True))
        task = bar.add_task("", total=len(questions))
        return measure(search, questions, progress=lambda done: bar.update(task, completed=done))


def _show(comparison: Comparison | None, outcomes: dict[str, Outcome], save: Path | None) -> None:
    if comparison is not None:
        _show_comparison(comparison)
    else:
        shares = [o.evidence for o in outcomes.values()]
        means = [sum(column) / len(shares) for column in zip(*shares, strict=True)]
        cli.say(
            f"{counted(len(outcomes), 'question')}: evidence within 250, 500, 1,000 tokens and in all "
            + " / ".join(f"{m:.1%}" for m in means)
        )
    if save is not None:
        cli.say(f"baseline: {save}")


def _show_comparison(comparison: Comparison) -> None:
    from rich.table import Table

    out = cli.console()
    table = Table("evidence within", box=None, pad_edge=False)
    for column in ("before", "now", "change", "90 %"):
        table.add_column(column, justify="right")
    rows = zip(comparison.names, comparison.before, comparison.after, comparison.differences, strict=True)
    for name, old, new, change in rows:
        table.add_row(name, f"{old:.1%}", f"{new:.1%}", *_points(change))
    table.add_row("mean", "", "", *_points(comparison.overall), style="bold")
    out.print(table)
    old_tokens, new_tokens = comparison.tokens
    out.print(f"tokens a question: {old_tokens:,.0f} before, {new_tokens:,.0f} now")
    verdict = "WORSE" if comparison.worse else "not worse"
    out.print(
        f"{verdict} on {counted(comparison.n, 'question')} (p = {comparison.overall.p:.3f})", style="bold"
    )
    if comparison.n < FEW_QUESTIONS:
        out.print(f"With fewer than {FEW_QUESTIONS} questions only large losses are noticed.", style="yellow")
    if comparison.worse:
        out.print("The questions that lost most:")
        for question, old, new in comparison.lost:
            cli.say(f"  {old:.0%} to {new:.0%}  {one_line(question)[:100]}")


def _points(change: Difference) -> tuple[str, str]:
    """A change in percentage points, and its interval."""
    return f"{100 * change.value:+.1f}", f"{100 * change.low:+.1f} to {100 * change.high:+.1f}"
