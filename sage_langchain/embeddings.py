"""all-MiniLM-L6-v2 for LangChain, bundled: no key, no server, no download at run time."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from sage_core.embedding import MiniLMEmbedder


class MiniLMEmbeddings(Embeddings):
    """An embedding model that works offline: all-MiniLM-L6-v2, bundled: numpy alone.

        from langchain_core.vectorstores import InMemoryVectorStore
        from sage_langchain import MiniLMEmbeddings

        store = InMemoryVectorStore(MiniLMEmbeddings())

    For any other model there is ``HuggingFaceEmbeddings`` of langchain-huggingface.

    Examples:
        >>> len(MiniLMEmbeddings().embed_query("When does the ferry leave?"))
        384
    """

    def __init__(self) -> None:
        self._embedder = MiniLMEmbedder()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages: one vector of length 1 for each text."""
        rows: list[list[float]] = self._embedder.embed_documents(texts).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """Embed a question: a vector of length 1."""
        vector: list[float] = self._embedder.embed_query(text).tolist()
        return vector
