"""Cross-encoders as small folders: a BERT whose matrices are 8-bit rows, unpacked to float32 when loaded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.sentence_transformer import pack_by_length, quiet_loading
from sage_core.errors import MissingExtraError, ModelError
from sage_core.segmentation.models.storage import CONFIG_FILE, load_folder, save_folder
from sage_core.text.wordpiece import TOKENIZER_FILE

BUNDLED = "sage-minilm"
"""Name of the cross-encoder that comes with this package."""

BUNDLED_FOLDER = Path(__file__).parent / "weights" / BUNDLED

_KIND = "cross-encoder"
_OF_THE_JUDGE = ("heads.", "span.")  # Heads of `sage_core.answering.LocalJudge`, which reads the same file.
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
        MissingExtraError: Where torch or transformers is not installed.
        ModelError: Where the folder does not hold such a model.
    """

    def __init__(self, folder: Path, *, device: str | None = None, max_length: int | None = None) -> None:
        try:
            import torch
            from tokenizers import Tokenizer
            from transformers import BertConfig, BertForSequenceClassification
        except ImportError as error:
            raise MissingExtraError("a cross-encoder", "models") from error
        config, tensors, _ = load_folder(folder)
        if config.get("kind") != _KIND:
            raise ModelError(f"{folder} does not hold a packed cross-encoder")
        try:
            with quiet_loading():
                model = BertForSequenceClassification(BertConfig(**config["bert"], num_labels=1))
            ranking = {n: v for n, v in tensors.items() if not n.startswith(_OF_THE_JUDGE)}
            model.load_state_dict({n: torch.from_numpy(v) for n, v in ranking.items()})
        except Exception as error:  # a configuration can be wrong in as many ways as BERT has settings
            raise ModelError(f"{folder}: the weights do not fit the configuration ({error})") from error
        accelerator = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self._device = torch.device(device or accelerator)
            self._model: Any = model.float().eval().to(self._device)
        except (RuntimeError, AssertionError) as error:
            raise ModelError(f"cannot use the device {device!r} for the cross-encoder ({error})") from error
        self._budget = _PASS_TOKENS if self._device.type == "cpu" else _PASS_TOKENS_ACCELERATOR
        self._tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
        longest = min(max_length or _LONGEST, int(config["bert"]["max_position_embeddings"]))
        self._tokenizer.enable_truncation(longest, strategy="longest_first")

    def predict(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """One raw logit per pair of question and text, shape ``(len(pairs),)``."""
        import torch

        encoded = self._tokenizer.encode_batch(list(pairs))
        logits = np.zeros(len(pairs), dtype=np.float32)
        with torch.inference_mode():
            for batch in pack_by_length([len(e.ids) for e in encoded], self._budget):
                longest = max(len(encoded[i].ids) for i in batch)
                shape = (len(batch), longest)
                ids, kinds, mask = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
                for row, i in enumerate(batch):
                    n = len(encoded[i].ids)
                    ids[row, :n] = torch.tensor(encoded[i].ids)
                    kinds[row, :n] = torch.tensor(encoded[i].type_ids)
                    mask[row, :n] = 1
                out = self._model(
                    input_ids=ids.to(self._device),
                    token_type_ids=kinds.to(self._device),
                    attention_mask=mask.to(self._device),
                )
                logits[batch] = out.logits[:, 0].float().cpu().numpy()
        return logits
