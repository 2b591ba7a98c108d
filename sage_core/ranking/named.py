"""Rerankers by name, for command lines and configurations."""

from __future__ import annotations

from pathlib import Path

from sage_core._checks import check_folder, check_installed, likely_typo
from sage_core.errors import InputError
from sage_core.ranking.cross_encoder import CrossEncoderReranker
from sage_core.ranking.hybrid import HybridReranker
from sage_core.ranking.packed import OFFLINE, is_packed, offline_folder, require_offline_folder
from sage_core.ranking.protocol import Reranker
from sage_core.ranking.similarity import SimilarityReranker

HYBRID = "hybrid"
HYBRID_CROSSED = f"{HYBRID}+{OFFLINE}"
NONE = "none"


def offline_rerankers() -> tuple[str, ...]:
    """Names of the rerankers that need no download; sage-minilm among them where it is installed."""
    return (HYBRID, NONE) if offline_folder() is None else (HYBRID_CROSSED, HYBRID, NONE)


def named_reranker(name: str, *, device: str | None = None) -> Reranker:
    """The reranker of a name.

    Args:
        name: ``"hybrid"``, the offline default; ``"hybrid+sage-minilm"``, the same with the logit of the
            cross-encoder of sage-rag-models; ``"sage-minilm"``, that one alone; ``"none"``, the scores of the
            search; any other name or folder is a cross-encoder's (a Qwen3-Reranker counts as one).
        device: Where a cross-encoder runs.

    Raises:
        InputError: For a blank name, one that is nearly another, a folder that is not there, and a device
            with ``"hybrid"`` or ``"none"``, which have no model of their own.
        ModelError: For sage-minilm, where sage-rag-models is not installed.
        MissingExtraError: For another cross-encoder, without sentence-transformers.
    """
    check_folder("cross-encoder", name)
    if not name.strip():
        raise InputError(
            f"the reranker's name is blank: say {HYBRID!r}, {HYBRID_CROSSED!r}, {OFFLINE!r}, "
            "or a cross-encoder's name or folder"
        )
    known = (HYBRID, HYBRID_CROSSED, OFFLINE, NONE)
    meant = likely_typo(name, known)
    if meant is not None:
        raise InputError(f"no reranker {name!r}: did you mean {meant!r}? There are {', '.join(known)}")
    # Now, not at the first question: the weights are a distribution of their own.
    if name in (OFFLINE, HYBRID_CROSSED):
        require_offline_folder()
    if name == HYBRID_CROSSED:
        return HybridReranker(cross_encoder=CrossEncoderReranker(OFFLINE, device=device))
    if name not in known and not is_packed(Path(name)):
        check_installed(f"the cross-encoder {name!r}", "models", "sentence_transformers")
    if name not in (HYBRID, NONE):
        return CrossEncoderReranker(name, device=device)
    if device is not None:
        raise InputError(f"device is for a cross-encoder given by name; {name!r} has none")
    return HybridReranker() if name == HYBRID else SimilarityReranker()
