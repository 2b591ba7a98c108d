"""Our segmenter and other chunkers as functions from a text to spans."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sage_core.segmentation import BoundaryModel, Layout, Segmenter
from sage_core.segmentation.limits import Size, Strategy
from sage_core.text.spans import Span
from sage_core.text.tokens import get_counter

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
Chunker = Callable[[str, Embed], list[Span]]


def sage(
    target_tokens: int | Size | None = None,
    max_tokens: int | None = None,
    min_tokens: int | None = None,
    threshold: float = 0.55,
    strategy: Strategy = "optimal",
    layout: Layout | None = None,
    model: str | BoundaryModel = "default",
) -> Chunker:
    """Our segmenter, with its defaults or others."""
    segmenter = Segmenter(
        model,
        target_tokens=target_tokens,
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        threshold=threshold,
        strategy=strategy,
        layout=layout,
    )
    return lambda text, embed: segmenter.segment(text)


class Indifferent:
    """A model without an opinion: what sentences, layout and length limits do alone."""

    fingerprint = "indifferent"

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """How often neighbors share a paragraph in the training data, everywhere."""
        return [np.full(max(0, len(document) - 1), 0.8, np.float32) for document in documents]


def llama_index_sentences(size: int) -> Chunker:
    """LlamaIndex SentenceSplitter without overlap, its sizes in cl100k tokens."""

    @cache
    def splitter() -> Callable[[str], list[str]]:
        from llama_index.core.node_parser import SentenceSplitter

        return SentenceSplitter(chunk_size=size, chunk_overlap=0).split_text

    return lambda text, embed: located(text, splitter()(text))


def semchunk(size: int) -> Chunker:
    """semchunk, its sizes in the tokens of our counter."""

    @cache
    def splitter() -> Callable[[str], list[str]]:
        try:
            from semchunk import chunkerify
        except ImportError:
            sys.exit("semchunk is not installed: pip install semchunk, or leave it out of --chunkers")
        chunker: Callable[[str], list[str]] = chunkerify(get_counter("bert").count, size)
        return chunker

    return lambda text, embed: located(text, splitter()(text))


def cluster_semantic(size: int, piece: int = 50) -> Chunker:
    """The idea of Chroma's ClusterSemanticChunker, rebuilt: small pieces, grouped by dynamic programming.

    Groups of at most ``size // piece`` pieces, so that the summed similarity (above its mean) within groups
    is highest.
    """

    def chunk(text: str, embed: Embed) -> list[Span]:
        from langchain_text_splitters import RecursiveCharacterTextSplitter

        splitter = RecursiveCharacterTextSplitter(
            separators=["\n\n", "\n", ".", "?", "!", " ", ""],
            chunk_size=piece,
            chunk_overlap=0,
            keep_separator="end",
            length_function=get_counter("bert").count,
        )
        pieces = located(text, splitter.split_text(text))
        vectors = embed([span.of(text) for span in pieces])
        similar = vectors @ vectors.T
        similar -= similar.mean()
        np.fill_diagonal(similar, 0)
        best, origin = [0.0], [0]
        for end in range(1, len(pieces) + 1):
            starts = range(max(0, end - size // piece), end)
            gains = [best[start] + float(similar[start:end, start:end].sum()) for start in starts]
            best.append(max(gains))
            origin.append(starts[int(np.argmax(gains))])
        spans: list[Span] = []
        end = len(pieces)
        while end:
            spans.append(Span(pieces[origin[end]].start, pieces[end - 1].end))
            end = origin[end]
        return spans[::-1]

    return chunk


def located(text: str, chunks: Iterable[str]) -> list[Span]:
    """Where chunks that follow each other stand in ``text``."""
    spans: list[Span] = []
    cursor = 0
    for chunk in chunks:
        bare = chunk.strip()
        start = text.find(bare, cursor)
        if start < 0:
            sys.exit(f"a chunk is no slice of its source: {bare[:80]!r}")
        cursor = start + len(bare)
        spans.append(Span(start, cursor))
    return [span for span in spans if span.end > span.start]


CHUNKERS: dict[str, Chunker] = {
    "sage": sage(),
    "sage_pair": sage(model="pair"),
    "sage_context": sage(model="context"),
    "sage_threshold": sage(strategy="threshold"),
    "sage_without_model": sage(model=Indifferent()),
    "sage_sentence": sage("sentence"),
    "sage_passage": sage("passage"),
    "sage_section": sage("section"),
    "sage_topic": sage("topic"),
    **{f"sage_{n}": sage(n) for n in (50, 65, 80, 100, 150, 200)},
    **{f"sage_{n}_without_model": sage(n, model=Indifferent()) for n in (65, 80, 100)},
    **{f"li_sentence_{n}": llama_index_sentences(n) for n in (50, 80, 100, 120, 200)},
    **{f"semchunk_{n}": semchunk(n) for n in (80, 100, 110, 115, 120, 200)},
    "cluster_100": cluster_semantic(100),
    "cluster_200": cluster_semantic(200),
}
