"""`sage-rag segment`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sage_app.cli import options as cli

EXAMPLES = """
\b
Examples:
  sage-rag segment README.md
  sage-rag segment report.pdf --target-tokens section
  sage-rag segment report.pdf --html cuts.html
  sage-rag segment notes.txt --json | jq '.chunks[].text'
"""


def segment(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A text, Markdown, HTML, Word or PDF file; - for standard input."
        ),
    ],
    settings: cli.SettingsOption = None,
    segmenter: cli.SegmenterOption = "default",
    target_tokens: cli.TargetTokensOption = None,
    max_tokens: cli.MaxTokensOption = None,
    min_tokens: cli.MinTokensOption = None,
    strategy: cli.StrategyOption = "optimal",
    threshold: cli.ThresholdOption = 0.55,
    encoding: cli.EncodingOption = None,
    html: cli.HtmlOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Show where a text is cut and why, and what the model thought at every sentence boundary.

    Chunks are printed in alternating colors; a number within a chunk is P(same), the probability that the
    sentences before and after it belong together. Offsets are characters of the text as read. Needs no
    optional package for txt and md.
    """
    from sage_app.documents.reader import decode, read_document
    from sage_app.rendering.terminal import segments_view
    from sage_core.errors import InputError
    from sage_core.paths import kind_of

    if file == "-":
        text = decode(sys.stdin.buffer.read(), encoding, name="standard input")
        if not text.strip():
            raise InputError("standard input holds no text")
    else:
        if kind_of(Path(file)) == "folder":
            raise InputError(f"segment takes one file, and {file} is a folder: name a file in it")
        text = read_document(file, encoding=encoding).text
    model = cli.make_segmenter(segmenter, target_tokens, max_tokens, min_tokens, strategy, threshold)
    view = model.explain(text)
    if html is not None:
        from sage_app.rendering.html import segmentation_report, write_page

        name = "standard input" if file == "-" else Path(file).name
        write_page(html, segmentation_report(view, name=name))
    if as_json:
        source = {"source": file, "counter": model.counter.name, "max_tokens": model.max_tokens}
        cli.print_json({**source, **view.to_dict()})
    else:
        cli.console().print(segments_view(view))
        if html is not None:
            cli.say(f"page: {html}")
