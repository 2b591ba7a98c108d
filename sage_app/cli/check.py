"""`sage-rag check`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from sage_app.cli import options as cli

EXAMPLES = """
\b
Examples:
  sage-rag check answer.md --against docs/
  sage-rag check answer.md --against docs/ --html report.html
  my-app "When?" | sage-rag check - --against docs/ --question "When?" --json
"""
EXIT_CHECK = 5


def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The answer, a text; - for standard input.")],
    against: Annotated[
        list[Path],
        typer.Option("--against", help="File or folder with the documents.", parser=cli.path_argument),
    ],
    question: Annotated[str, typer.Option("--question", help="What was asked.")] = "",
    encoding: cli.EncodingOption = None,
    html: cli.HtmlOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Check each statement of an answer against documents; no LLM is asked.

    Exit code 5 if a statement is contradicted, misattributed or not found. Numbers of passages in the answer
    are not looked at: it was made from other passages.
    """
    from sage_app.documents.reader import decode, read_document
    from sage_app.pipeline.sage import Sage
    from sage_core.verify import Source, split_claims
    from sage_core.verify import check as check_answer
    from sage_core.verify.judge import CITATION

    if file == "-":
        answer = decode(sys.stdin.buffer.read(), encoding, name="standard input")
    else:
        answer = read_document(file, encoding=encoding).text
    answer = CITATION.sub("", answer)
    passages: dict[str, tuple[str, Source]] = {}
    with tempfile.TemporaryDirectory() as folder, Sage(folder) as sage:
        sage.ingest(against, encoding=encoding)
        for span in split_claims(answer):
            found = sage.retrieve(f"{question} {span.of(answer)}")
            for hit, text in zip(found.hits, found.prompt_texts(found.selection), strict=True):
                place = Path(hit.chunk.source).name
                passages[hit.chunk.id] = (
                    f"# {place}\n\n{text}",
                    Source(hit.chunk.text, str(hit.chunk.page or "")),
                )
    texts, sources = [p for p, _ in passages.values()], [s for _, s in passages.values()]
    verdict = check_answer(question, texts, answer, sources=sources)
    if html is not None:
        from sage_app.rendering.html import verdict_report, write_page

        write_page(html, verdict_report(verdict, name=file))
    if as_json:
        cli.print_json(verdict.to_dict())
    else:
        cli.say(verdict.report())
        if html is not None:
            cli.say(f"page: {html}")
    if any(mark.support in ("contradicted", "misattributed", "not found") for mark in verdict.marks):
        raise typer.Exit(EXIT_CHECK)
