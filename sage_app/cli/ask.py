"""`sage-rag ask`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_app.cli import options as cli
from sage_app.pipeline.opening import DEFAULT_TIMEOUT, asks_llm, open_sage
from sage_core.errors import LLMError
from sage_core.feedback import DEFAULT_FEEDBACK

if TYPE_CHECKING:
    from sage_app.pipeline.results import Answer, Retrieval
    from sage_app.pipeline.sage import Sage

EXAMPLES = """
\b
Examples:
  sage-rag ask "When does the ferry leave?" --store .sage
  OPENAI_API_KEY=... sage-rag ask "Why was it closed?" --model gpt-4o-mini
  sage-rag ask "Why?" --base-url http://localhost:11434/v1 --model llama3.1
  sage-rag ask "Which?" --option north --option south --json
  sage-rag ask "When does the ferry leave?" --html report.html
  sage-rag ask "When does the ferry leave?" --chat
"""


def ask(
    question: Annotated[str, typer.Argument(help="The question, in quotes.")],
    store: cli.StoreOption = ".sage",
    option: Annotated[
        list[str] | None, cli.option("An option of a multiple-choice question; repeat it.", "TEXT")
    ] = None,
    model: cli.ModelOption = None,
    base_url: cli.BaseUrlOption = None,
    offline: cli.OfflineOption = False,
    timeout: cli.TimeoutOption = DEFAULT_TIMEOUT,
    settings: cli.SettingsOption = None,
    candidates: Annotated[
        int, cli.option("Chunks fetched before reranking; by words, half as many more.", "N")
    ] = 60,
    no_context: cli.NoContextOption = False,
    min_context_tokens: Annotated[
        int | None, cli.option("Fewest tokens to send, in whole chunks.", "N", "250")
    ] = None,
    max_context_tokens: Annotated[
        int | None, cli.option("Most tokens of the chunks sent; the lowest scored go first.", "N", "1,000")
    ] = None,
    max_rounds: Annotated[
        int, cli.option("Most rounds of answer and grade.", "N")
    ] = DEFAULT_FEEDBACK.max_rounds,
    critic: Annotated[
        str,
        cli.option(
            "Who grades: llm; auto, a local judge where it is sure and the LLM where it is not; local, "
            "without a call. Without an LLM the local judge grades in any case.",
            "NAME",
        ),
    ] = DEFAULT_FEEDBACK.critic,
    embedder: cli.EmbedderOption = cli.DEFAULT_EMBEDDER,
    html: cli.HtmlOption = None,
    details: Annotated[
        bool,
        typer.Option("--details", help="Also show the candidates' scores and where the list was cut."),
    ] = False,
    as_json: cli.JsonOption = False,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="Show the answer while an LLM writes it, each sentence checked as it ends."
        ),
    ] = False,
    chat: Annotated[
        bool, typer.Option("--chat", help="Stay open for more questions, one a line; an empty line ends it.")
    ] = False,
) -> None:
    """Ask the documents in a store.

    Shows the answer with its sources, its grade, and the tokens sent; --details adds the candidates with
    their scores and where the list was cut, --html writes it all as a page. Without a key or a server the
    best passages are shown, the sentence that comes closest in bold. If the LLM fails, the ranking is
    shown, and the exit code is 3.
    """
    from sage_app.pipeline.settings import SageConfig, SageSettings
    from sage_core.feedback import FeedbackConfig
    from sage_core.selection import SelectionConfig

    cli.require_packages(embedder, llm=asks_llm(model, base_url, offline), store=store)
    chosen = SelectionConfig() if settings is None else SageSettings.load(settings).selection
    selection = chosen.updated(min_context_tokens=min_context_tokens, max_context_tokens=max_context_tokens)
    feedback = FeedbackConfig(max_rounds=max_rounds, selection=selection, critic=critic)
    sage = open_sage(
        store,
        embedder=embedder,
        model=model,
        base_url=base_url,
        offline=offline,
        timeout=timeout,
        config=SageConfig(candidates, feedback=feedback, context=not no_context),
    )
    show: Callable[..., object] = (
        print_answer if as_json else partial(show_answer, stream=stream, details=details)
    )
    with sage:
        show(sage, question, option, html)
        while chat and (following := _next_question()):
            try:
                show(sage, following, None, html)
            except LLMError as error:  # the next question may find the server again
                cli.complain(f"no answer: {error}", "red")


def _next_question() -> str:
    """A line of standard input, without white space around it; empty at the end of the input."""
    if sys.stdin.isatty():
        cli.console(stderr=True).print("\nNext question (an empty line ends): ", end="")
    return sys.stdin.readline().strip()


def show_answer(
    sage: Sage,
    question: str,
    options: list[str] | None = None,
    html: Path | None = None,
    *,
    stream: bool = False,
    details: bool = False,
) -> Answer:
    """Answer and show; the ranking comes first with ``details``, and where the LLM fails."""
    from sage_app.rendering.terminal import answer_view, retrieval_view, watch_answer

    out = cli.console()
    retrieval = sage.retrieve(question)
    if details:
        out.print(retrieval_view(retrieval))
        out.print()

    def answering() -> Answer:
        if stream:
            return watch_answer(sage.stream(retrieval, options), out)
        return sage.answer(retrieval, options)

    try:
        answer = _answer_with_page(retrieval, html, answering)
    except (LLMError, KeyboardInterrupt):
        if not details:
            out.print(retrieval_view(retrieval))
        raise
    out.print(answer_view(answer))
    if retrieval.selection.low_confidence:
        cli.complain(f"little here bears on the question: at best {retrieval.selection.best_probability:.3f}")
    if html is not None:
        cli.say(f"page    {html}")
    return answer


def print_answer(sage: Sage, question: str, options: list[str] | None, html: Path | None) -> None:
    """`show_answer` as JSON; where the LLM fails, the retrieval and the error."""
    retrieval = sage.retrieve(question)
    try:
        answer = _answer_with_page(retrieval, html, lambda: sage.answer(retrieval, options))
    except LLMError as error:
        cli.print_json({"error": str(error), "retrieval": retrieval.to_dict()})
        raise
    marks = [{**m.to_dict(), "candidate": answer.candidate_of(m)} for m in answer.marks()]
    cli.print_json({**answer.to_dict(), "marks": marks})


def _answer_with_page(retrieval: Retrieval, html: Path | None, answering: Callable[[], Answer]) -> Answer:
    """Answer, and write the page; where the LLM fails, a page of the retrieval and the error."""
    from sage_app.rendering.html import answer_report, retrieval_report, write_page

    try:
        answer = answering()
    except LLMError as error:
        if html is not None:
            write_page(html, retrieval_report(retrieval, error=str(error)))
        raise
    if html is not None:
        write_page(html, answer_report(answer))
    return answer
