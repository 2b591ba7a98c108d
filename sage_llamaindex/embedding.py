"""An embedding model for LlamaIndex that works offline."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from pydantic import PrivateAttr

from sage_core.embedding import DEFAULT_EMBEDDER, MiniLMEmbedder
from sage_core.errors import InputError


class MiniLMEmbedding(BaseEmbedding):
    """An embedding model that works offline: all-MiniLM-L6-v2, bundled: numpy alone.

        from llama_index.core import Settings
        from sage_llamaindex import MiniLMEmbedding

        Settings.embed_model = MiniLMEmbedding()

    For any other model there is LlamaIndex's ``HuggingFaceEmbedding``.

    Examples:
        >>> len(MiniLMEmbedding().get_text_embedding("The ferry leaves at seven."))
        384

    Raises:
        InputError: For another ``model_name``.
    """

    _embedder: MiniLMEmbedder = PrivateAttr()

    def __init__(self, model_name: str = DEFAULT_EMBEDDER, **kwargs: Any) -> None:
        if model_name != DEFAULT_EMBEDDER:
            raise InputError(
                f"MiniLMEmbedding is {DEFAULT_EMBEDDER}: for {model_name!r} take HuggingFaceEmbedding"
            )
        super().__init__(model_name=model_name, **kwargs)
        # Cheap: weights are loaded on first use, in whichever process embeds.
        self._embedder = MiniLMEmbedder()

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in serialized pipelines."""
        return "MiniLMEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        vector: list[float] = self._embedder.embed_query(query).tolist()
        return vector

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        rows: list[list[float]] = self._embedder.embed_documents(texts).tolist()
        return rows

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)
