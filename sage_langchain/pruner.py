"""`SagePruner`: drop the sentences of documents that do not help with the question."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, BaseDocumentTransformer, Document
from pydantic import ConfigDict, PrivateAttr

from sage_core.errors import InputError
from sage_core.selection import Scale, ScaleName, read_scores
from sage_core.text.spans import Span
from sage_core.verify import SentencePruner
from sage_langchain._runnables import CheckedModel
from sage_langchain.compressor import SCALE_KEY, SCORE_KEY, without_header


class SagePruner(CheckedModel, BaseDocumentCompressor, BaseDocumentTransformer):
    """Replaces each document by the slices of it that help with the question; English, no LLM.

    Goes after what selects documents: as the last of a `DocumentCompressorPipeline`, in a
    `ContextualCompressionRetriever` around a `SageRetriever`, or called with the question. Documents come
    back as exact slices, in their order, at least one of each; ``start_index`` and ``end_index`` in the
    metadata are those of the slice. The documents passed in are never changed. ``SageChain(prune=True)``
    is short for it within a chain.

    Examples:
        >>> from langchain_core.documents import Document
        >>> text = "The ferry leaves at seven. Seals live in the harbor. Bees need flowers in spring."
        >>> found = [Document(text, metadata={"start_index": 100})]
        >>> pruner = SagePruner(threshold=0.5)
        >>> [document] = pruner.compress_documents(found, "When does the ferry leave?")
        >>> document.page_content, document.metadata
        ('The ferry leaves at seven.', {'start_index': 100})

    Attributes:
        threshold: See `sage_core.verify.SentencePruner`.
        score_key: Where the metadata has the score of a document; documents without one count as ranked in
            the order they come.
        scale: What these scores are; None: what `SageCompressor` noted, else probabilities.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    threshold: float | None = None
    score_key: str = SCORE_KEY
    scale: ScaleName | None = None

    _pruner: SentencePruner = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Check the settings."""
        self._pruner = SentencePruner(threshold=self.threshold)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """The slices that help with the question.

        Args:
            documents: What was kept, best first.
            query: The question.
            callbacks: Not used: no model of LangChain's is called.
        """
        return [piece for pieces in self.slices(documents, query) for piece in pieces]

    def slices(self, documents: Sequence[Document], query: str) -> list[list[Document]]:
        """What is left of each document but its header: all of it where nothing was dropped, else slices."""
        # Offsets are those of the text.
        documents = [without_header(d) for d in documents]
        texts = [d.page_content for d in documents]
        if not isinstance(query, str):
            raise InputError(f"query must be a text, not {type(query).__name__}")
        parts = self._pruner.prune(query, texts, *self._scores(documents))
        return [
            [_slice(document, span) for span in part.kept] if part.dropped else [document]
            for document, part in zip(documents, parts, strict=True)
        ]

    def _scores(self, documents: Sequence[Document]) -> tuple[list[float | None] | None, Scale]:
        """The documents' scores and what they are; None if they have none."""
        scores = [d.metadata.get(self.score_key) for d in documents]
        if not any(isinstance(s, int | float) and not isinstance(s, bool) for s in scores):
            return None, "probability"
        noted = next((d.metadata[SCALE_KEY] for d in documents if SCALE_KEY in d.metadata), None)
        read = read_scores(scores, self.scale or noted or "probability", ordered=False)
        return read.scores, read.scale

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """`compress_documents` without blocking the event loop."""
        return await asyncio.to_thread(self.compress_documents, documents, query, callbacks)

    def transform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        """As `compress_documents`.

        Args:
            documents: What was kept.
            **kwargs: ``query``, the question.

        Raises:
            InputError: Without a question.
        """
        return self.compress_documents(documents, _query(kwargs))

    async def atransform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        """`transform_documents` without blocking the event loop."""
        return await self.acompress_documents(documents, _query(kwargs))


def _query(fields: dict[str, Any]) -> str:
    query = fields.get("query")
    if not isinstance(query, str) or set(fields) != {"query"}:
        raise InputError(
            "what helps depends on the question: transform_documents(documents, query=...), or "
            "compress_documents(documents, query)"
        )
    return query


def _slice(document: Document, span: Span) -> Document:
    """A copy with a part of the text, at its own place in the source."""
    metadata = copy.deepcopy(document.metadata)
    start = metadata.get("start_index")
    if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
        metadata["start_index"] = start + span.start
        if "end_index" in metadata:
            metadata["end_index"] = start + span.end
    text = span.of(document.page_content)
    return document.model_copy(update={"page_content": text, "metadata": metadata})
