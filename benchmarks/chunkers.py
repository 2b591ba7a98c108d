"""Our segmenter and other people's splitters as functions from a text to spans.

Another one is a line in `CHUNKERS`: a function of a text, and of an embedder for those that need one, that
gives spans; `spaced` finds the spans of chunks that a splitter returns as texts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.segmentation import BoundaryModel, Segmenter
from sage_core.segmentation.limits import Size, Strategy
from sage_core.text.spans import Span
from sage_core.text.tokens import get_counter

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
Chunker = Callable[[str, Embed], list[Span]]


def located(text: str, chunks: Iterable[str]) -> list[Span]:
    """Where chunks that follow each other stand in ``text``, without the white space at their ends."""
    spans: list[Span] = []
    cursor = 0
    for bare in filter(None, map(str.strip, chunks)):
        start = text.index(bare, cursor)
        cursor = start + len(bare)
        spans.append(Span(start, cursor))
    return spans


def overlapping(text: str, chunks: Sequence[str]) -> list[Span]:
    """The same of chunks that may overlap; where a text repeats itself, the last place that leaves no gap."""
    spans: list[Span] = []
    start, end = -1, 0
    for bare in filter(None, map(str.strip, chunks)):
        gap = len(text) - end - len(text[end:].lstrip())
        near = text.rfind(bare, start + 1, end + gap + len(bare))
        start = near if near >= 0 else text.index(bare, start + 1)
        end = start + len(bare)
        spans.append(Span(start, end))
    return spans


def spaced(text: str, chunks: Iterable[str]) -> list[Span]:
    """The same of chunks whose white space was changed: by their other characters, one after the other."""
    solid = [i for i, sign in enumerate(text) if not sign.isspace()]
    spans: list[Span] = []
    at = 0
    for chunk in chunks:
        length = sum(not sign.isspace() for sign in chunk)
        if length:
            spans.append(Span(solid[at], solid[at + length - 1] + 1))
        at += length
    return spans


def sage(
    target_tokens: int | Size | None = None,
    strategy: Strategy = "optimal",
    model: str | BoundaryModel = "default",
) -> Chunker:
    """Our segmenter, with its defaults or others."""
    segmenter = cache(lambda: Segmenter(model, target_tokens=target_tokens, strategy=strategy))
    return lambda text, embed: segmenter().segment(text)


class Indifferent:
    """A model without an opinion: what sentences, layout and length limits do alone."""

    fingerprint = "indifferent"

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """How often neighbors share a paragraph in the training data, everywhere."""
        return [np.full(max(0, len(document) - 1), 0.8, np.float32) for document in documents]


def llama_index(size: int, overlap: int) -> Chunker:
    """LlamaIndex's SentenceSplitter, its sizes in cl100k tokens."""

    @cache
    def splitter() -> Callable[[str], list[str]]:
        from llama_index.core.node_parser import SentenceSplitter

        return SentenceSplitter(chunk_size=size, chunk_overlap=overlap).split_text

    return lambda text, embed: overlapping(text, splitter()(text))


def llama_index_embedding(embed: Embed) -> Any:
    """An embedder as LlamaIndex wants it."""
    from llama_index.core.embeddings import BaseEmbedding

    class Embedding(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embeddings([text])[0]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return embed(texts).tolist()

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    return Embedding()


def llama_index_semantic(text: str, embed: Embed) -> list[Span]:
    """LlamaIndex's SemanticSplitterNodeParser with its defaults."""
    from llama_index.core.node_parser import SemanticSplitterNodeParser
    from llama_index.core.schema import Document

    parser = SemanticSplitterNodeParser(embed_model=llama_index_embedding(embed))
    nodes = parser.get_nodes_from_documents([Document(text=text)])
    return located(text, [node.get_content() for node in nodes])


def langchain(size: int, overlap: int) -> Chunker:
    """LangChain's RecursiveCharacterTextSplitter, its sizes in characters."""

    def split(text: str, embed: Embed) -> list[Span]:
        from langchain_text_splitters import RecursiveCharacterTextSplitter

        splitter = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap)
        return overlapping(text, splitter.split_text(text))

    return split


def langchain_semantic(text: str, embed: Embed) -> list[Span]:
    """LangChain's SemanticChunker with its defaults."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from langchain_experimental.text_splitter import SemanticChunker
    from langchain_core.embeddings import Embeddings

    class Embedding(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return embed(texts).tolist()

        def embed_query(self, text: str) -> list[float]:
            return self.embed_documents([text])[0]

    # It joins sentences by single spaces.
    return spaced(text, SemanticChunker(Embedding()).split_text(text))


def chonkie_recursive(text: str, embed: Embed) -> list[Span]:
    """Chonkie's RecursiveChunker, 100 of our tokens; words longer than that are cut by characters."""
    from chonkie import RecursiveChunker
    from chonkie.tokenizer import CharacterTokenizer

    class Tokenizer(CharacterTokenizer):
        def count_tokens(self, text: str) -> int:
            return get_counter("bert").count(text)

    chunker = RecursiveChunker(Tokenizer(), chunk_size=100)
    return spaced(text, [c.text for c in chunker.chunk(text)])


def chonkie_semantic(text: str, embed: Embed) -> list[Span]:
    """Chonkie's SemanticChunker, at most 200 of our tokens, else its defaults."""
    from chonkie import SemanticChunker
    from chonkie.embeddings import BaseEmbeddings

    class Embedding(BaseEmbeddings):
        @property
        def dimension(self) -> int:
            return 384

        def embed(self, text: str) -> NDArray[np.float32]:
            return embed([text])[0]

        def embed_batch(self, texts: list[str]) -> list[NDArray[np.float32]]:
            return list(embed(texts)) if texts else []

        def get_tokenizer(self) -> Any:
            return get_counter("bert").count

    return spaced(text, [c.text for c in SemanticChunker(Embedding(), chunk_size=200).chunk(text)])


def semchunk(size: int) -> Chunker:
    """semchunk, its sizes in our tokens."""

    @cache
    def splitter() -> Callable[[str], list[str]]:
        from semchunk import chunkerify

        return chunkerify(get_counter("bert").count, size)

    return lambda text, embed: located(text, splitter()(text))


def semantic_text_splitter(text: str, embed: Embed) -> list[Span]:
    """semantic-text-splitter (Rust), 100 of our tokens."""
    from semantic_text_splitter import TextSplitter

    return located(text, TextSplitter.from_callback(get_counter("bert").count, 100).chunks(text))


def docling(text: str, embed: Embed) -> list[Span]:
    """Docling's HybridChunker, 130 of our tokens, over paragraphs as docling itself would read them."""
    from docling_core.transforms.chunker.hybrid_chunker import HybridChunker
    from docling_core.transforms.chunker.tokenizer.base import BaseTokenizer
    from docling_core.types.doc import DocItemLabel, DoclingDocument

    class Tokenizer(BaseTokenizer):
        def count_tokens(self, text: str) -> int:
            return get_counter("bert").count(text)

        def get_max_tokens(self) -> int:
            return 130

        def get_tokenizer(self) -> Any:
            return self.count_tokens

    document = DoclingDocument(name="text")
    for paragraph in filter(None, map(str.strip, text.split("\n\n"))):
        document.add_text(DocItemLabel.TEXT, paragraph)
    return spaced(text, [c.text for c in HybridChunker(tokenizer=Tokenizer()).chunk(document)])


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


CHUNKERS: dict[str, Chunker] = {
    "LlamaIndex SentenceSplitter(1024, 200)": llama_index(1024, 200),
    "LlamaIndex SentenceSplitter(256, 20)": llama_index(256, 20),
    "LlamaIndex SentenceSplitter(100, 0)": llama_index(100, 0),
    "LlamaIndex SemanticSplitterNodeParser": llama_index_semantic,
    "LangChain RecursiveCharacterTextSplitter(1000, 200)": langchain(1000, 200),
    "LangChain RecursiveCharacterTextSplitter(400, 0)": langchain(400, 0),
    "LangChain SemanticChunker": langchain_semantic,
    "chonkie RecursiveChunker(100)": chonkie_recursive,
    "chonkie SemanticChunker(200)": chonkie_semantic,
    "semchunk(100)": semchunk(100),
    "semchunk(200)": semchunk(200),
    "semantic-text-splitter(100)": semantic_text_splitter,
    "docling HybridChunker(130)": docling,
    "ClusterSemantic(200), rebuilt": cluster_semantic(200),
    "sage-rag": sage(),
    "sage-rag, target 50": sage(50),
    "sage-rag, target 200": sage(200),
    "sage-rag without its model": sage(model=Indifferent()),
}
