"""Chunks as a store keeps them, and how they are named."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from sage_core.text.header import with_header


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document.

    Attributes:
        id: Unique in the store, the same whenever the same content is ingested from the same path.
        text: Its text: the document's text from ``start`` to ``end``.
        source: The document's absolute path.
        start: Offset of its first character in the text as read (`sage_app.documents.reader.Document`).
        end: Offset after its last character.
        page: Page of a PDF on which it starts, from 1; None otherwise.
        position: Its number in the document, from 0.
        title: The title that the document gives itself.
        headings: Headings above it, outermost first; then, where it begins in the middle of a table, a list
            or a block of code, the names of the columns, the lead-in or the scope.
        header: What models read before its text (`sage_core.text.header`); empty where nothing is known.
    """

    id: str
    text: str
    source: str
    start: int
    end: int
    page: int | None = None
    position: int = 0
    title: str | None = None
    headings: tuple[str, ...] = ()
    header: str = ""

    @property
    def text_for_models(self) -> str:
        """The header and the text: what is embedded, indexed and reranked."""
        return with_header(self.header, self.text)

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        fields = asdict(self)
        del fields["header"]  # it says nothing to a reader
        return {**fields, "headings": list(self.headings)}


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk and its cosine similarity to the question.

    Attributes:
        chunk: The chunk.
        similarity: Its cosine similarity.
        by_words: Its place, from 0, among what the word index found for the question; None if it did not.
        copies: Chunks of the same text elsewhere, as far as the search came upon them.
    """

    chunk: Chunk
    similarity: float
    by_words: int | None = None
    copies: tuple[Chunk, ...] = ()


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to put into a store.

    Attributes:
        source: Its absolute path.
        digest: Digest of its content.
        chunks: Its chunks, at least one, with ids from `chunk_ids`.
        vectors: Their unit vectors, shape ``(len(chunks), d)``.
        title: The title the document gives itself.
        stat: What the file system said of the file; see `DocumentRecord.stat`.
    """

    source: str
    digest: str
    chunks: Sequence[Chunk]
    vectors: NDArray[np.float32]
    title: str | None = None
    stat: str = ""


def document_id(source: str) -> str:
    """The key of a document in the store."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def version_of(source: str, digest: str) -> str:
    """The key of the chunks made of one content of one document."""
    return f"{document_id(source)}-{digest[:12]}"


def chunk_ids(source: str, digest: str, spans: Iterable[tuple[int, int]]) -> list[str]:
    """Ids of a document's chunks: the same for the same path, content and spans."""
    prefix = version_of(source, digest)
    return [f"{prefix}-{start}-{end}" for start, end in spans]
