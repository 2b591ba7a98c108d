"""Cross-encoders as small folders: a BERT whose matrices are 8-bit rows, unpacked when loaded; numpy."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from sage_core.embedding.pairs import PAIR_TOKENS, PairEncoder
from sage_core.embedding.storage import CONFIG_FILE
from sage_core.errors import InputError, ModelError

OFFLINE = "sage-minilm"
"""Name of the cross-encoder whose weights are the distribution sage-rag-models."""

KIND = "cross-encoder"


def offline_folder() -> Path | None:
    """Where the weights of `OFFLINE` are; None if they are not installed."""
    spec = importlib.util.find_spec("sage_rag_models")
    return None if spec is None or spec.origin is None else Path(spec.origin).with_name(OFFLINE)


def require_offline_folder() -> Path:
    """As `offline_folder`; ModelError, with what to install, where the weights are missing."""
    folder = offline_folder()
    if folder is None:
        raise ModelError(
            f"the weights of {OFFLINE!r} are not installed: in a clone of the repository of sage-rag, "
            "pip install ./packages/sage-rag-models"
        )
    return folder


def is_packed(folder: Path) -> bool:
    """Whether a folder holds what `sage_train.folders.pack` writes."""
    try:
        config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and config.get("kind") == KIND


class PackedCrossEncoder(PairEncoder):
    """A packed cross-encoder, unpacked and ready. It runs on the CPU.

    Args:
        folder: What `sage_train.folders.pack` wrote.
        device: ``"cpu"`` or None.
        max_length: Most word pieces of a pair; beyond, the longer of the two is read by its beginning. None
            for 256.

    Raises:
        InputError: For another device.
        ModelError: Where the folder does not hold such a model.
    """

    def __init__(self, folder: Path, *, device: str | None = None, max_length: int | None = None) -> None:
        if device not in (None, "cpu"):
            raise InputError(
                f"the packed cross-encoder {folder.name!r} runs on the CPU, not on {device!r}: leave "
                "device out, or give the name of a cross-encoder that sentence-transformers loads"
            )
        super().__init__(folder, "classifier", max_tokens=max_length or PAIR_TOKENS)
        if self.config.get("kind") != KIND:
            raise ModelError(f"{folder} does not hold a packed cross-encoder")
