"""Embedding models by name, for command lines and configurations."""

from __future__ import annotations

from sage_core._checks import check_folder
from sage_core.embedding.openai import OpenAIEmbedder
from sage_core.embedding.protocol import Embedder
from sage_core.embedding.sentence_transformer import SentenceTransformerEmbedder
from sage_core.errors import InputError

OPENAI = "openai:"
"""Before the name of a model behind OpenAI's interface."""


def named_embedder(
    name: str, *, base_url: str | None = None, timeout: float = 60.0, device: str | None = None
) -> Embedder:
    """The embedding model of a name.

        >>> named_embedder("openai:text-embedding-3-small").name
        'text-embedding-3-small'

    Args:
        name: ``"all-MiniLM-L6-v2"`` or any other sentence-transformers name or folder; ``"openai:MODEL"``
            for a model of OpenAI, or of a server with the same interface.
        base_url: Address of that server, up to ``/v1``; ``OPENAI_BASE_URL``, else OpenAI's, where None.
            Ignored for models that run here.
        timeout: Seconds that one request may take.
        device: Where a model that runs here is put, as in torch; None chooses.

    Raises:
        InputError: For a blank name, or a folder that is not there.
    """
    if not name.strip() or name.strip() == OPENAI:
        raise InputError(
            f"the embedding model's name is blank: say 'all-MiniLM-L6-v2', a name or folder of "
            f"sentence-transformers, or '{OPENAI}text-embedding-3-small'"
        )
    check_folder("embedding model", name)
    if name.startswith(OPENAI):
        return OpenAIEmbedder(name.removeprefix(OPENAI), base_url=base_url, timeout=timeout)
    return SentenceTransformerEmbedder(name, device=device)
