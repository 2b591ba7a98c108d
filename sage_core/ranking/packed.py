"""Cross-encoders as small folders: a BERT whose matrices are 8-bit rows, unpacked when loaded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.bert import Bert
from sage_core.embedding.sentence_transformer import pack_by_length, quiet_loading
from sage_core.errors import MissingExtraError, ModelError
from sage_core.segmentation.models.storage import CONFIG_FILE, load_folder, save_folder
from sage_core.text.wordpiece import TOKENIZER_FILE

BUNDLED = "sage-minilm"
"""Name of the cross-encoder that comes with this package."""

BUNDLED_FOLDER = Path(__file__).parent / "weights" / BUNDLED

_KIND = "cross-encoder"
_LONGEST = 256  # Word pieces of a pair, where nobody says.
_PASS_TOKENS = 4_096  # Word pieces, padding included, of one forward pass: best on a CPU.
_PASS_TOKENS_ACCELERATOR = 65_536
_SETTINGS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "hidden_act",
)


def is_packed(folder: Path) -> bool:
    """Whether a folder holds what `pack` writes."""
    try:
        config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("kind") == _KIND


def pack(source: Path, target: Path, about: dict[str, Any] | None = None) -> None:
    """Write a trained cross-encoder as a packed folder, a quarter of its size.

    Args:
        source: A folder of transformers with a BERT for sequence classification with one output, on the
            uncased English vocabulary.
        target: Where to write ``model.safetensors`` and ``config.json``.
        about: Added to the configuration, for the record.
    """
    from transformers import AutoModelForSequenceClassification

    with quiet_loading():
        model = AutoModelForSequenceClassification.from_pretrained(source)
    tensors = {name: value.float().numpy() for name, value in model.state_dict().items()}
    tables = [n for n, v in tensors.items() if v.ndim == 2 and len(v) > 1]
    bert = {name: getattr(model.config, name) for name in _SETTINGS}
    save_folder(target, {**(about or {}), "kind": _KIND, "bert": bert}, tensors, tables=tables)


class PackedCrossEncoder:
    """A packed cross-encoder, unpacked and ready.

    Args:
        folder: What `pack` wrote.
        device: ``"cpu"``, ``"cuda"``, ...; None for an accelerator where there is one.
        max_length: Most word pieces of a pair; beyond, the longer of the two is read by its beginning. None
            for 256.

    Raises:
        MissingExtraError: Where torch is not installed.
        ModelError: Where the folder does not hold such a model.
    """

    def __init__(self, folder: Path, *, device: str | None = None, max_length: int | None = None) -> None:
        try:
            import torch
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtraError("a cross-encoder", "models") from error
        config, tensors, _ = load_folder(folder)
        if config.get("kind") != _KIND:
            raise ModelError(f"{folder} does not hold a packed cross-encoder")
        try:
            chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
            torch.zeros(1, device=chosen)
        except (RuntimeError, AssertionError) as error:
            raise ModelError(f"cannot use the device {device!r} for the cross-encoder ({error})") from error
        self._budget = _PASS_TOKENS if chosen.type == "cpu" else _PASS_TOKENS_ACCELERATOR
        self._tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
        longest = min(max_length or _LONGEST, int(config["bert"]["max_position_embeddings"]))
        self._tokenizer.enable_truncation(longest, strategy="longest_first")
        try:
            # In float32: a score must not depend on the other questions of a shared batch.
            self._bert = Bert(tensors, config["bert"], device=chosen)
            if len(tensors["classifier.weight"]) != 1:
                raise ValueError("the classifier has several labels")
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{folder}: the weights do not fit the configuration ({error})") from error

    def predict(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """One raw logit per pair of question and text, shape ``(len(pairs),)``."""
        import torch

        encoded = self._tokenizer.encode_batch(list(pairs))
        logits = np.zeros(len(pairs), dtype=np.float32)
        with torch.inference_mode():
            for batch in pack_by_length([len(e.ids) for e in encoded], self._budget):
                pooled, _ = self._bert.read([encoded[i] for i in batch])
                logits[batch] = self._bert.linear(pooled, "classifier")[:, 0].cpu().numpy()
        return logits
