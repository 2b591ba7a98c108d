"""LangChain's compressors that write scores (Flashrank, Cohere, Jina) behind the reranker protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import BaseDocumentCompressor, Document

from sage_core.errors import InputError
from sage_core.selection.scales import Scale

_POSITION = "_sage_position"


class CompressorScores:
    """A reranker that asks a LangChain compressor, whatever its own ``top_n``.

    A document that it leaves out gets NaN: it ranks last and never counts as evidence.

    Args:
        compressor: Writes a score into the metadata of the documents it returns.
        scale: What its scores are.
        key: Under which key.
    """

    def __init__(self, compressor: BaseDocumentCompressor, scale: Scale, key: str) -> None:
        self.compressor = compressor
        self.scale: Scale = scale
        self.key = key
        self.name = type(compressor).__name__

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score per text.

        Raises:
            InputError: Where it returns documents without a score, or numbers that cannot be of the scale.
        """
        if not texts:
            return []
        return self._read(self._for(texts).compress_documents(_documents(texts), query), len(texts))

    async def ascore(self, query: str, texts: Sequence[str]) -> list[float]:
        """`score` without blocking the event loop."""
        if not texts:
            return []
        given = await self._for(texts).acompress_documents(_documents(texts), query)
        return self._read(given, len(texts))

    def _for(self, texts: Sequence[str]) -> BaseDocumentCompressor:
        """The compressor, or a copy that returns as many documents as it is given."""
        top_n = getattr(self.compressor, "top_n", None)
        if not isinstance(top_n, int) or top_n >= len(texts):
            return self.compressor
        return self.compressor.model_copy(update={"top_n": len(texts)})

    def _read(self, given: Sequence[Document], n: int) -> list[float]:
        scores = [float("nan")] * n
        for document in given:
            position: Any = document.metadata.get(_POSITION)
            if self.key not in document.metadata or not isinstance(position, int):
                raise InputError(
                    f"{self.name} returned documents without their metadata, or without "
                    f"metadata[{self.key!r}]: only compressors with scores can rerank here"
                )
            scores[position] = float(document.metadata[self.key])
        if self.scale == "probability" and any(s < 0 or s > 1 for s in scores):
            raise InputError(
                f"{self.name} gave scores outside 0..1: say what they are with scale='logit', 'cosine' or "
                "'unbounded'"
            )
        return scores


def _documents(texts: Sequence[str]) -> list[Document]:
    return [Document(text, metadata={_POSITION: i}) for i, text in enumerate(texts)]
