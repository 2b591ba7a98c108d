"""`sage-rag demo`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_app.cli import options as cli
from sage_app.cli.ask import show_answer
from sage_app.cli.ingest import show_report
from sage_app.pipeline.opening import DEFAULT_TIMEOUT, asks_llm, open_sage
from sage_core.errors import InputError, LLMError

if TYPE_CHECKING:
    from sage_app.pipeline.results import Answer
    from sage_app.pipeline.sage import Sage

EXAMPLES = """
\b
Examples:
  sage-rag demo
  OPENAI_API_KEY=... sage-rag demo --model gpt-4o-mini
  sage-rag demo --base-url http://localhost:11434/v1 --model llama3.1
"""

QUESTIONS: tuple[tuple[str, str], ...] = (
    ("answered in one place", "How long does the tank on Kirk Hill last if the power fails?"),
    ("answered in a table", "How many guillemots were there in 2024?"),
    (
        "spread over documents",
        "What happened on the island in the nine weeks after the cable failed in 2003?",
    ),
    ("not in the documents", "What is the name of the island's doctor?"),
)

# A stretch with several changes of subject, to show where the text is cut.
EXCERPT_SOURCE, EXCERPT_FROM, EXCERPT_TO = "lighthouse-history.txt", "The longest service", "VISITS."


def documents_folder() -> Path:
    """The sample documents: those of the installed package, else those of the source tree.

    Raises:
        InputError: Where there are none.
    """
    here = Path(__file__).resolve().parents[1]
    for folder in (here / "demo_documents", here.parent / "demo" / "documents"):
        if folder.is_dir():
            return folder
    raise InputError("the sample documents are not installed: use `sage-rag ingest` with your own")


def demo(
    context: typer.Context,
    store: Annotated[
        Path,
        typer.Option("--store", "-s", help="Folder of the store.", metavar="DIR", parser=cli.path_argument),
    ] = Path(".demo"),
    model: cli.ModelOption = None,
    base_url: cli.BaseUrlOption = None,
    offline: cli.OfflineOption = False,
    timeout: cli.TimeoutOption = DEFAULT_TIMEOUT,
) -> None:
    """Ingest sample documents about an island, ask four questions, and show every step.

    One question is answered in one place, one in a table, one is spread over documents, and one has no
    answer in them. It runs offline, and passages are shown without an LLM, unless --model or
    --base-url asks for one.
    """
    from sage_app.pipeline.progress import ingest_bar

    # A key or a server in the environment is there for other programs too.
    if getattr(context.get_parameter_source("base_url"), "name", "") == "ENVIRONMENT" and not model:
        base_url = None
    offline = offline or not (model or base_url)
    cli.require_packages(llm=asks_llm(model, base_url, offline))
    began = time.perf_counter()
    folder = documents_folder()
    sage = open_sage(store, model=model, base_url=base_url, offline=offline, timeout=timeout)
    out = cli.console()
    with sage:
        out.rule(f"1. Ingest {_shown(folder)}", align="left")
        with ingest_bar() as bar:
            report = sage.ingest(folder, progress=bar)
        show_report(report, str(store))
        out.rule("2. How a text is cut", align="left")
        _show_excerpt(sage, folder)
        answers = _ask_all(sage)
    by = answers[0].answerer if answers else "nobody"
    cli.say(f"answered by: {by}; {time.perf_counter() - began:.0f} s in all")
    cli.say(f"all of it as pages for a browser: {_shown(_reports(sage))}")


def _shown(path: Path) -> Path:
    """The path as a person would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _show_excerpt(sage: Sage, folder: Path) -> None:
    from sage_app.documents.reader import read_document
    from sage_app.rendering.terminal import segments_view
    from sage_core.segmentation import Segmenter

    text = read_document(folder / EXCERPT_SOURCE).text
    text = text[text.index(EXCERPT_FROM) : text.index(EXCERPT_TO)].rstrip()
    segmenter = sage.segmenter
    assert isinstance(segmenter, Segmenter)
    view = segmenter.explain(text)
    cli.console().print(segments_view(view))
    view.save_html(_reports(sage) / "how-a-text-is-cut.html")


def _reports(sage: Sage) -> Path:
    """Where the pages go: a folder in that of the store."""
    folder = Path(sage.store.location) / "reports"
    folder.mkdir(exist_ok=True)
    return folder


def _ask_all(sage: Sage) -> list[Answer]:
    """Ask the questions; an LLM that fails costs its answers, not the demo, unless it gives none at all."""
    answers: list[Answer] = []
    failure: LLMError | None = None
    for number, (kind, question) in enumerate(QUESTIONS, start=3):
        cli.console().rule(f"{number}. A question: {kind}", align="left")
        cli.say(question, "bold")
        try:
            page = _reports(sage) / f"question-{number - 2}.html"
            answers.append(show_answer(sage, question, html=page, details=True))
        except LLMError as error:
            failure = error
            cli.complain(f"no answer: {error}", "red")
    if failure is not None and not answers:
        raise failure
    return answers
