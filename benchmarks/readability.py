"""What a reader of single chunks misses, counted without an LLM, per 1,000 chunks.

    python benchmarks/readability.py [--size 130] [--documents 5]

Documents: those of ``tests/fixtures/structure`` and the first of three development sets (``SAGE_DATA``).
Counted are chunks that begin with a pronoun or a connective ("However, it ..."), that end with a heading,
that begin in the middle of a table or a list whose columns or lead-in are named neither in the chunk nor in
its context, and that begin in the middle of a sentence. Only our chunks have a context: what both adapters
write into ``header_path``. The splitters are those of ``structure.py``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
from pathlib import Path

from structure import FOLDER, marked_documents, splitters

from sage_core.text.blocks import points_back
from sage_core.text.continuations import Continuations
from sage_core.text.headings import find_headings
from sage_core.text.outline import Outline
from sage_core.text.sentences import split_sentences

DATA = Path(os.environ.get("SAGE_DATA", "../shared/data")) / "dev"
SETS = ("qasper_leval", "cuad_leval", "nq_leval")


def texts(documents: int) -> list[str]:
    """The fixture's documents and the first of each development set."""
    found = [document.text for document in marked_documents(FOLDER)]
    for name in SETS:
        path = DATA / f"{name}_docs.jsonl.gz"
        if not path.is_file():
            print(f"left out: {name} (no {path}: set SAGE_DATA)", file=sys.stderr)
            continue
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            found += [
                json.loads(line)["text"][:60_000] for line, _ in zip(lines, range(documents), strict=False)
            ]
    return found


def main() -> None:
    """Cut, count, print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=130, help="most tokens of a chunk")
    parser.add_argument("--documents", type=int, default=5, help="of each development set")
    options = parser.parse_args()
    documents = texts(options.documents)
    names = ("pronoun first", "heading last", "no columns or lead-in", "begins in a sentence")
    print(f"{len(documents)} documents, {sum(map(len, documents)):,} characters\n")
    print("| splitter | chunks | " + " | ".join(names) + " |\n|---|---|" + "---|" * len(names))
    for name, make in splitters(options.size):
        try:
            split = make()
        except ImportError as error:
            print(f"left out: {name} ({error})", file=sys.stderr)
            continue
        counts, chunks = [0] * len(names), 0
        for text in documents:
            spans = split(text)
            chunks += len(spans)
            starts = {start for start, _ in split_sentences(text)}
            heads = {heading.end for heading in find_headings(text)}
            missing = Continuations(text).above(spans)
            known = [context.headings for context in Outline(text, {}).contexts(spans)]
            for span, inner, path in zip(spans, missing, known, strict=True):
                context = path if name == "sage-rag" else ()
                counts[0] += points_back(text, span)
                counts[1] += span.end in heads
                counts[2] += bool(inner) and inner[-1] not in context
                counts[3] += span.start not in starts
        print(f"| {name} | {chunks} | " + " | ".join(f"{1000 * c / chunks:.0f}" for c in counts) + " |")


if __name__ == "__main__":
    main()
