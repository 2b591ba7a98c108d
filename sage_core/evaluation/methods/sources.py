"""Where the pieces of an index come from: chunks of documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from sage_core.evaluation.methods.chunking import SharedSpans
from sage_core.evaluation.methods.timing import Stopwatch
from sage_core.evaluation.protocols import ProgressCallback
from sage_core.evaluation.records import EvalDocument, Piece
from sage_core.llm.usage import TokenUsage
from sage_core.pipeline.ingest import DocumentSegmenter
from sage_core.text.tokens import without_lone_surrogates


class PieceSource(Protocol):
    """Makes the pieces that are indexed."""

    def describe(self) -> object:
        """What changes the pieces, JSON-ready."""
        ...

    def pieces(
        self, documents: Sequence[EvalDocument], watch: Stopwatch, progress: ProgressCallback | None
    ) -> tuple[list[Piece], Mapping[str, TokenUsage]]:
        """The pieces of all documents in order, and the LLM usage by role."""
        ...


class ChunkSource:
    """The chunks of a chunker.

    Args:
        chunker: Cuts.
        shared: Cuts made before.
    """

    def __init__(self, chunker: DocumentSegmenter, shared: SharedSpans) -> None:
        self._chunker = chunker
        self._shared = shared

    def describe(self) -> object:
        """The chunker's fingerprint, and its repr where it says more."""
        fingerprint = self._chunker.fingerprint
        shown = repr(self._chunker)
        return fingerprint if shown.startswith("<") else f"{shown} {fingerprint[:16]}"

    def pieces(
        self, documents: Sequence[EvalDocument], watch: Stopwatch, progress: ProgressCallback | None
    ) -> tuple[list[Piece], Mapping[str, TokenUsage]]:
        """See `PieceSource.pieces`."""
        found: list[Piece] = []
        with watch.stage("segment"):
            cuts = self._shared.spans(self._chunker, [document.text for document in documents])
        for document, spans in zip(documents, cuts, strict=True):
            found += [Piece(span.of(document.text), document.id, span) for span in spans]
        if progress is not None:
            progress("segment", len(documents), len(documents))
        return found, {}


def readable(documents: Sequence[EvalDocument]) -> list[EvalDocument]:
    """The documents as models can read them: lone surrogates replaced, every position as it was."""
    return [replace(d, text=without_lone_surrogates(d.text)) for d in documents]
