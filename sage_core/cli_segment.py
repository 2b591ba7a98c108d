"""`sage-rag segment`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sage_core.cli_options import (
    EncodingOption,
    JsonOption,
    MaxTokensOption,
    MinTokensOption,
    SegmenterOption,
    StrategyOption,
    ThresholdOption,
    console,
    make_segmenter,
    print_json,
)

EXAMPLES = """
\b
Examples:
  sage-rag segment README.md
  sage-rag segment report.pdf --max-tokens 60
  sage-rag segment notes.txt --json | jq '.chunks[].text'
"""


def segment(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A txt, md, html or pdf file; - for standard input.")
    ],
    segmenter: SegmenterOption = "default",
    max_tokens: MaxTokensOption = None,
    min_tokens: MinTokensOption = None,
    strategy: StrategyOption = "optimal",
    threshold: ThresholdOption = 0.55,
    encoding: EncodingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show where a text is cut, and what the model thought at every sentence boundary.

    Chunks are printed in alternating colours; a number within a chunk is P(same), the probability that the
    sentences before and after it belong together. Offsets are characters of the text as read. Needs no
    optional package for txt and md.
    """
    from sage_core.documents import decode, read_document
    from sage_core.errors import InputError
    from sage_core.rendering.segments import SegmentedText, segments_view

    if file == "-":
        text = decode(sys.stdin.buffer.read(), encoding, name="standard input")
        if not text.strip():
            raise InputError("standard input holds no text")
    else:
        text = read_document(file, encoding=encoding).text
    model = make_segmenter(segmenter, max_tokens, min_tokens, strategy, threshold)
    chunks = model.segment(text)
    tokens = model.counter.count_many([span.of(text) for span in chunks])
    segmented = SegmentedText(text, chunks, tokens, model.boundaries(text))
    if as_json:
        source = {"source": file, "counter": model.counter.name, "max_tokens": model.max_tokens}
        print_json({**source, **segmented.to_dict()})
    else:
        console().print(segments_view(segmented))
