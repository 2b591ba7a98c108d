"""Cuts where no person would cut: documents of 14 kinds with units and sections marked by hand.

    python benchmarks/structure.py [--size 130] [--target topic] [--join] [--held-out] [--documents "*-[45]"]

The documents are in ``tests/fixtures/structure``. A cut is forbidden where it lies inside a unit (a clause,
a table, an item with what is below it, a heading with the beginning of its text, a function, a reply) that
would have fitted into a chunk of ``--size`` tokens, which is the limit of every splitter (by our counter).
With ``--join`` the documents of a kind are one file. Headings: how many that begin a unit are the end
of a chunk. Sections: the share of marked sections that begin a chunk. Mixed: chunks with two subjects,
such as the letters of two writers. The rules of our segmenter were written with 97 of the 127 documents
at hand; ``--held-out`` takes the 30 others, whose marks were set before anything was run on them.
``--documents`` takes the files of a pattern. Packages that are not installed (semchunk, chonkie, docling) are
left out and named. Docling reads the documents as Markdown.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

sys.path.insert(0, str(Path(__file__).parents[1]))
from chunkers import located

from sage_core.segmentation import Segmenter
from sage_core.segmentation.limits import DEFAULT_MAX_TOKENS, Size
from sage_core.text.spans import Span
from sage_core.text.tokens import get_counter
from tests.core.segmentation.marked import (
    forbidden_cuts,
    marked_documents,
    missed_cuts,
    mixed_chunks,
    parted_headings,
)

FOLDER = Path(__file__).parents[1] / "tests" / "fixtures" / "structure"
Splitter = Callable[[str], Sequence[Span]]
count = get_counter("bert").count


def splitters(size: int, target: Size | None = None) -> Iterator[tuple[str, Callable[[], Splitter]]]:
    """Name of each splitter, and how to make it."""

    def sage() -> Splitter:
        # At its default limit a table may have twice as many tokens, as for everybody who sets no limit.
        most = None if size == DEFAULT_MAX_TOKENS and target is None else size
        return Segmenter(max_tokens=most, target_tokens=target).segment

    def recursive() -> Splitter:
        from langchain_text_splitters import RecursiveCharacterTextSplitter

        made = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=0, length_function=count)
        return lambda text: located(text, made.split_text(text))

    def markdown() -> Splitter:
        from langchain_text_splitters import MarkdownTextSplitter

        made = MarkdownTextSplitter(chunk_size=size, chunk_overlap=0, length_function=count)
        return lambda text: located(text, made.split_text(text))

    def sentences() -> Splitter:
        from llama_index.core.node_parser import SentenceSplitter

        def words(text: str) -> list[str]:
            return ["x"] * count(text)

        made = SentenceSplitter(chunk_size=size, chunk_overlap=0, tokenizer=words)
        return lambda text: located(text, made.split_text(text))

    def semchunk() -> Splitter:
        from semchunk import chunkerify

        made = chunkerify(count, size)
        return lambda text: located(text, made(text))

    def chonkie() -> Splitter:
        from chonkie import RecursiveChunker

        made = RecursiveChunker(tokenizer=count, chunk_size=size)
        return lambda text: located(text, [chunk.text for chunk in made.chunk(text)])

    def docling() -> Splitter:
        from docling.backend.md_backend import MarkdownDocumentBackend  # noqa: F401
        from docling_core.transforms.chunker.hybrid_chunker import HybridChunker
        from docling_core.transforms.chunker.tokenizer.base import BaseTokenizer

        class Tokens(BaseTokenizer):
            def count_tokens(self, text: str) -> int:
                return count(text)

            def get_max_tokens(self) -> int:
                return size

            def get_tokenizer(self) -> object:
                return count

        made = HybridChunker(tokenizer=Tokens())
        return lambda text: docling_spans(text, made)

    yield "sage-rag", sage
    yield "LangChain RecursiveCharacterTextSplitter", recursive
    yield "LangChain MarkdownTextSplitter", markdown
    yield "LlamaIndex SentenceSplitter", sentences
    yield "semchunk", semchunk
    yield "chonkie RecursiveChunker", chonkie
    yield "docling HybridChunker", docling


def docling_spans(text: str, chunker: Any) -> list[Span]:
    """Chunks of docling, each from the end of the one before to where its own last words stand.

    They are written anew and are no slices; headings and columns are told beside them, and count as theirs.
    """
    from docling.backend.md_backend import MarkdownDocumentBackend
    from docling.datamodel.base_models import InputFormat
    from docling.datamodel.document import InputDocument

    stream = BytesIO(text.encode())
    source = InputDocument(
        path_or_stream=stream, format=InputFormat.MD, backend=MarkdownDocumentBackend, filename="document.md"
    )
    spans: list[Span] = []
    end = 0
    for chunk in chunker.chunk(MarkdownDocumentBackend(source, stream).convert()):
        words = re.findall(r"\w+", chunk.text)
        tails = (re.search(r"\W+".join(words[-n:]), text[end:]) for n in (8, 6, 4, 2, 1))
        place = next(filter(None, tails), None)
        if not words or place is None:
            continue
        start = end + len(text[end:]) - len(text[end:].lstrip())
        closing = re.match(r"[^\w\n#]*", text[end + place.end() :])  # the full stop, the end of a row
        end += place.end() + (closing.end() if closing else 0)
        spans.append(Span(start, end))
    return spans


def main() -> None:
    """Cut, count, print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=DEFAULT_MAX_TOKENS, help="most tokens of a chunk")
    parser.add_argument("--target", choices=get_args(Size), help="target_tokens of our segmenter")
    parser.add_argument("--held-out", action="store_true", help="the documents that no rule was written with")
    parser.add_argument("--documents", default="*", help="pattern of the files' names, without .txt")
    parser.add_argument("--show", action="store_true", help="print what is wrong with our chunks")
    options = parser.parse_args()
    documents = [
        document
        for document in marked_documents(FOLDER)
        if fnmatchcase(document.kind, options.documents) and (document.held_out or not options.held_out)
    ]
    sections = sum(len(d.wanted) for d in documents)
    units = sum(len(d.units) for d in documents)
    print(f"{len(documents)} documents, {units} units, {sections} sections; at most {options.size} tokens\n")
    print(
        "| splitter | tokens a chunk | cuts | forbidden | headings parted | sections that begin one | mixed |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, make in splitters(options.size, options.target):
        try:
            split = make()
        except ImportError as error:
            print(f"left out: {name} ({error})", file=sys.stderr)
            continue
        cut = [(document, split(document.text)) for document in documents]
        chunks = sum(len(spans) for _, spans in cut)
        cuts = chunks - len(cut)
        tokens = sum(count(document.text) for document in documents)
        bad = sum(len(forbidden_cuts(d, spans, options.size, count)) for d, spans in cut)
        parted = sum(len(parted_headings(d, spans)) for d, spans in cut)
        missed = sum(len(missed_cuts(d, spans)) for d, spans in cut)
        mixed = sum(len(mixed_chunks(d, spans)) for d, spans in cut)
        print(
            f"| {name} | {tokens / chunks:.0f} | {cuts} | {bad} ({bad / max(cuts, 1):.1%}) | {parted} "
            f"| {1 - missed / sections:.0%} | {mixed} ({mixed / chunks:.1%}) |"
        )
        if options.show and name == "sage-rag":
            for d, spans in cut:
                print(f"{d.name}: {len(spans)} chunks")
                for tear in forbidden_cuts(d, spans, options.size, count):
                    print("  forbidden:", tear)
                for place in mixed_chunks(d, spans):
                    print(f"  mixed: {place!r}")
                for place in missed_cuts(d, spans):
                    print(f"  missed: {place!r}")


if __name__ == "__main__":
    main()
