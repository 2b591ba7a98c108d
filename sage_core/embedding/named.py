"""Embedding models by name, for command lines and configurations."""

from __future__ import annotations

import os
from pathlib import Path

from sage_core._checks import check_folder, likely_typo
from sage_core.embedding.local import LocalEmbedder
from sage_core.embedding.minilm import BUNDLED, DEFAULT_EMBEDDER, MiniLMEmbedder
from sage_core.embedding.openai import OpenAIEmbedder
from sage_core.embedding.protocol import Embedder
from sage_core.embedding.sentence_transformer import SentenceTransformerEmbedder
from sage_core.errors import InputError

OPENAI = "openai:"
"""Before the name of a model behind OpenAI's interface."""

_HOSTED = ("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002")


def named_embedder(
    name: str, *, base_url: str | None = None, timeout: float = 60.0, device: str | None = None
) -> Embedder:
    """The embedding model of a name.

        >>> named_embedder("openai:text-embedding-3-small").name
        'text-embedding-3-small'

    Args:
        name: ``"all-MiniLM-L6-v2"``, which is bundled; any other sentence-transformers name or folder;
            ``"openai:MODEL"`` for a model of OpenAI, or of a server with the same interface.
        base_url: Address of that server, up to ``/v1``; ``OPENAI_BASE_URL``, else OpenAI's, where None.
            Ignored for models that run here.
        timeout: Seconds that one request may take.
        device: As `local_embedder`.

    Raises:
        InputError: For a blank name, one that is nearly another, or a folder that is not there.
    """
    check_folder("embedding model", name)
    if not name.strip() or name.strip() == OPENAI:
        raise InputError(
            f"the embedding model's name is blank: say 'all-MiniLM-L6-v2', a name or folder of "
            f"sentence-transformers, or '{OPENAI}text-embedding-3-small'"
        )
    elsewhere = base_url or os.environ.get("OPENAI_BASE_URL")  # whose models nobody knows
    meant = _meant(name, elsewhere is not None)
    if meant is not None:
        raise InputError(
            f"no embedding model {name!r}: did you mean {meant!r}? There are {DEFAULT_EMBEDDER!r}, any name "
            f"or folder of sentence-transformers, and '{OPENAI}MODEL'"
        )
    if name.startswith(OPENAI):
        return OpenAIEmbedder(name.removeprefix(OPENAI), base_url=base_url, timeout=timeout)
    return local_embedder(name, device)


def local_embedder(name: str, device: str | None = None) -> LocalEmbedder:
    """The embedding model of a name, in this process.

        >>> local_embedder("all-MiniLM-L6-v2")
        MiniLMEmbedder()

    Args:
        name: ``"all-MiniLM-L6-v2"``, which is bundled, or a name or folder of sentence-transformers.
        device: As in torch; None chooses. The bundled model runs on the CPU; with another device
            sentence-transformers loads the original from the hub.
    """
    if name in BUNDLED and device in (None, "cpu"):
        return MiniLMEmbedder()
    return SentenceTransformerEmbedder(name, device=device)


def _meant(name: str, elsewhere: bool) -> str | None:
    """The name that was probably meant; None if this one may be right."""
    kind, colon, model = name.partition(":")
    if f"{kind}{colon}" == OPENAI:
        typo = None if elsewhere else likely_typo(model, _HOSTED)
        return None if typo is None else f"{OPENAI}{typo}"
    if name.rpartition("/")[2] in _HOSTED:
        return f"{OPENAI}{name.rpartition('/')[2]}"
    # No name on the hub has a colon; on Windows a path may have one, after a letter.
    if colon and len(kind) > 1 and not Path(name).exists():
        return f"{OPENAI}{model}"
    return likely_typo(name, (DEFAULT_EMBEDDER,))
