"""Other people's splitters on sentences that are given to them, as boundaries at the gaps of those sentences.

Each is handed exactly our sentences (by its own sentence-splitter hook, its own separator, or one sentence a
line) with the paragraph breaks withheld; whatever chunks it returns are mapped back to gaps by counting
characters that are not white space. Vectors are all-MiniLM-L6-v2, computed once for each distinct text.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.text.tokens import get_counter

Splitter = Callable[[Sequence[str]], NDArray[np.bool_]]

_SEPARATOR = "\u241e"
_STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "the",
        "and",
        "or",
        "but",
        "if",
        "of",
        "at",
        "by",
        "for",
        "with",
        "about",
        "to",
        "from",
        "in",
        "on",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "it",
        "its",
        "this",
        "that",
        "he",
        "she",
        "they",
        "we",
        "you",
        "his",
        "her",
        "their",
        "as",
        "not",
        "no",
        "so",
        "than",
        "then",
        "there",
        "these",
        "those",
        "which",
        "who",
        "will",
        "would",
        "can",
        "could",
    ]
)


class CachedVectors:
    """all-MiniLM-L6-v2, each distinct text embedded once."""

    def __init__(self) -> None:
        self._embedder = MiniLMEmbedder()
        self._known: dict[str, NDArray[np.float32]] = {}

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, 384) unit vectors."""
        fresh = list(dict.fromkeys(text for text in texts if text not in self._known))
        if fresh:
            self._known.update(zip(fresh, self._embedder.embed_documents(fresh), strict=True))
        return np.stack([self._known[text] for text in texts])


def gaps_of(sentences: Sequence[str], chunks: Sequence[str]) -> NDArray[np.bool_]:
    """At which gaps of the sentences the chunks end; an end inside a sentence counts at the nearest gap."""
    ends = np.cumsum([_solid(text) for text in sentences])[:-1]
    found = np.zeros(len(ends), bool)
    for end in np.cumsum([_solid(text) for text in chunks])[:-1]:
        if len(ends):
            found[int(np.abs(ends - end).argmin())] = True
    return found


def _solid(text: str) -> int:
    return len("".join(text.replace(_SEPARATOR, " ").split()))


def llama_index(vectors: CachedVectors, percentile: int) -> Splitter:
    """LlamaIndex's SemanticSplitterNodeParser."""
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.node_parser import SemanticSplitterNodeParser
    from llama_index.core.schema import Document

    class Embedding(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embeddings([text])[0]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return [row.tolist() for row in vectors(texts)]

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    def split(sentences: Sequence[str]) -> NDArray[np.bool_]:
        parser = SemanticSplitterNodeParser(
            embed_model=Embedding(embed_batch_size=512),
            breakpoint_percentile_threshold=percentile,
            sentence_splitter=lambda text: [f"{s} " for s in sentences],
        )
        nodes = parser.get_nodes_from_documents([Document(text=" ".join(sentences))])
        return gaps_of(sentences, [node.get_content() for node in nodes])

    return split


def langchain(vectors: CachedVectors, percentile: int) -> Splitter:
    """LangChain's SemanticChunker (langchain-experimental)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from langchain_experimental.text_splitter import SemanticChunker

    class Embedding:
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            """Many vectors."""
            return [row.tolist() for row in vectors(texts)]

    chunker = SemanticChunker(
        Embedding(), sentence_split_regex=_SEPARATOR, breakpoint_threshold_amount=float(percentile)
    )
    return lambda sentences: gaps_of(sentences, chunker.split_text(_SEPARATOR.join(sentences)))


def chonkie(vectors: CachedVectors, threshold: float) -> Splitter:
    """The SemanticChunker of chonkie."""
    from chonkie import SemanticChunker
    from chonkie.embeddings import BaseEmbeddings

    class Embedding(BaseEmbeddings):
        @property
        def dimension(self) -> int:
            """Width."""
            return 384

        def embed(self, text: str) -> NDArray[np.float32]:
            """One vector."""
            return vectors([text])[0]

        def embed_batch(self, texts: list[str]) -> list[NDArray[np.float32]]:
            """Many vectors."""
            return list(vectors(texts)) if texts else []

        def get_tokenizer(self) -> Any:
            """Counts characters: the limit on size is out of reach anyway."""
            return len

    chunker = SemanticChunker(
        Embedding(), threshold=threshold, delim="\n", min_characters_per_sentence=1, chunk_size=1_000_000
    )

    def split(sentences: Sequence[str]) -> NDArray[np.bool_]:
        text = "\n".join(" ".join(s.split()) for s in sentences)
        return gaps_of(sentences, [chunk.text for chunk in chunker.chunk(text)])

    return split


def text_tiling() -> Splitter:
    """TextTiling (Hearst 1997), nltk's; every gap offered to it as a paragraph break."""
    from nltk.tokenize import TextTilingTokenizer

    tiler = TextTilingTokenizer(stopwords=_STOP_WORDS)

    def split(sentences: Sequence[str]) -> NDArray[np.bool_]:
        text = "\n\n" + "\n\n".join(" ".join(s.split()) for s in sentences)
        try:
            return gaps_of(sentences, tiler.tokenize(text))
        except (ValueError, IndexError):  # too short for its block comparison
            return np.zeros(max(len(sentences) - 1, 0), bool)

    return split


def fixed_size(tokens: int) -> Splitter:
    """Whole sentences packed up to a number of tokens."""
    counter = get_counter("bert")

    def split(sentences: Sequence[str]) -> NDArray[np.bool_]:
        found = np.zeros(max(len(sentences) - 1, 0), bool)
        room = tokens
        for i, (_, size) in enumerate(pairwise(counter.count_many(sentences))):
            room -= size
            if room < size:
                found[i], room = True, tokens
        return found

    return split
