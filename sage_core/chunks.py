"""Chunks as a store keeps them, and how they are named."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document.

    Attributes:
        id: Unique in the store, the same whenever the same content is ingested from the same path.
        text: Its text: the document's text from ``start`` to ``end``.
        source: The document's absolute path.
        start: Offset of its first character in the text as read (`sage_core.documents.Document`).
        end: Offset after its last character.
        page: Page of a PDF on which it starts, from 1; None otherwise.
    """

    id: str
    text: str
    source: str
    start: int
    end: int
    page: int | None = None

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk and its cosine similarity to the question."""

    chunk: Chunk
    similarity: float


def document_id(source: str) -> str:
    """The key of a document in the store."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def chunk_ids(source: str, digest: str, spans: Iterable[tuple[int, int]]) -> list[str]:
    """Ids of a document's chunks: the same for the same path, content and spans."""
    prefix = f"{document_id(source)}-{version_of(digest)}"
    return [f"{prefix}-{start}-{end}" for start, end in spans]


def version_of(digest: str) -> str:
    """The part of a digest that tells the versions of a document apart."""
    return digest[:12]
