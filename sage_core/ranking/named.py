"""Rerankers by name, for command lines and configurations."""

from __future__ import annotations

from pathlib import Path

from sage_core._checks import check_folder, likely_typo
from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError
from sage_core.ranking.cross_encoder import CrossEncoderReranker
from sage_core.ranking.generative import GenerativeReranker
from sage_core.ranking.hybrid import HybridReranker
from sage_core.ranking.packed import BUNDLED
from sage_core.ranking.protocol import Reranker
from sage_core.ranking.similarity import SimilarityReranker

HYBRID = "hybrid"
HYBRID_CROSSED = f"{HYBRID}+{BUNDLED}"
NONE = "none"
GENERATIVE = "generative:"
"""Before the name of a model that generates."""


def named_reranker(name: str, *, embedder: Embedder | None = None, device: str | None = None) -> Reranker:
    """The reranker of a name.

    Args:
        name: ``"hybrid"``, the offline default; ``"hybrid+sage-minilm"``, the same with the logit of the
            bundled cross-encoder; ``"sage-minilm"``, that cross-encoder alone; ``"generative:NAME"``, a model
            that generates, such as monoT5 or Qwen3-Reranker, by name or folder; ``"none"``, the cosines of
            the search; any other name or folder is a cross-encoder's.
        embedder: Gives the hybrid's embeddings; all-MiniLM-L6-v2 where None.
        device: Where a cross-encoder or a model that generates runs.

    Raises:
        InputError: For a blank name, one that is nearly another, a folder that is not there, and a device
            with ``"hybrid"`` or ``"none"``, which have no model of their own.
    """
    if not name.strip():
        raise InputError(
            f"the reranker's name is blank: say {HYBRID!r}, {HYBRID_CROSSED!r}, {BUNDLED!r}, "
            f"{GENERATIVE + 'NAME'!r}, or a cross-encoder's name or folder"
        )
    known = (HYBRID, HYBRID_CROSSED, BUNDLED, NONE)
    meant = likely_typo(name, known)
    if meant is not None:
        raise InputError(f"no reranker {name!r}: did you mean {meant!r}? There are {', '.join(known)}")
    kind, colon, model = name.partition(":")
    # No name on the hub has a colon; on Windows a path may have one, after a letter.
    if colon and len(kind) > 1 and not name.startswith(GENERATIVE) and not Path(name).exists():
        raise InputError(f"no reranker {name!r}: did you mean {GENERATIVE + model!r}?")
    check_folder("cross-encoder", name)
    if name == HYBRID_CROSSED:
        return HybridReranker(embedder, cross_encoder=CrossEncoderReranker(BUNDLED, device=device))
    if name.startswith(GENERATIVE):
        return GenerativeReranker(name.removeprefix(GENERATIVE), device=device)
    if name not in (HYBRID, NONE):
        return CrossEncoderReranker(name, device=device)
    if device is not None:
        raise InputError(f"device is for a cross-encoder given by name; {name!r} has none")
    return HybridReranker(embedder) if name == HYBRID else SimilarityReranker(embedder)
