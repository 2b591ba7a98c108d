"""all-MiniLM-L6-v2 for LangChain, bundled: no key, no server, no download at run time."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from sage_core.embedding import DEFAULT_EMBEDDER, local_embedder
from sage_core.errors import InputError


class MiniLMEmbeddings(Embeddings):
    """An embedding model that works offline: all-MiniLM-L6-v2, bundled: numpy alone.

        from langchain_core.vectorstores import InMemoryVectorStore
        from sage_langchain import MiniLMEmbeddings

        store = InMemoryVectorStore(MiniLMEmbeddings())

    It is the model that the default reranker is calibrated for. Any other sentence-transformers model works
    by its name or folder; ``HuggingFaceEmbeddings`` of langchain-huggingface does the same with more options.

    Examples:
        >>> len(MiniLMEmbeddings().embed_query("When does the ferry leave?"))
        384

    Args:
        model_name: Name or folder of a sentence-transformers model; ``model`` is the same.
        device: As in torch; None chooses.

    Raises:
        MissingExtraError: When embedding with another model, without sentence-transformers:
            ``pip install "sage-rag[models]"``.
        ModelError: When embedding, for a model that cannot be loaded.
    """

    def __init__(
        self, model_name: str | None = None, *, model: str | None = None, device: str | None = None
    ) -> None:
        if model_name is not None and model is not None:
            raise InputError("model and model_name are the same: give one of them")
        self._embedder = local_embedder(model_name or model or DEFAULT_EMBEDDER, device)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._embedder.name!r})"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages: one vector of length 1 for each text."""
        rows: list[list[float]] = self._embedder.embed_documents(texts).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """Embed a question: a vector of length 1."""
        vector: list[float] = self._embedder.embed_query(text).tolist()
        return vector
