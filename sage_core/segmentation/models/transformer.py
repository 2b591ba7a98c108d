"""The paper's model with a transformer as f_e (Algorithm 1), on torch; training uses the same classes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as f
from transformers import AutoConfig, AutoModel

from sage_core.embedding.ops import Tensors, sigmoid
from sage_core.errors import ModelError
from sage_core.segmentation.models.pair import by_document

TOKENIZER_FILE = "tokenizer.json"
_BATCH = 64  # sentences encoded together, those of like length beside each other


class TransformerEncoder(nn.Module):
    """f_e: texts to vectors (n, size), by a transformer whose token vectors are pooled.

    Its own tokenizer file is followed to the letter, which transformers 5 does for no class but one, and no
    prompt is put before a text.

    Args:
        transformer: Gives ``last_hidden_state``, in float32.
        tokenizer: Of `tokenizers`; what it says of truncation and padding is overruled.
        pooling: ``"mean"`` or ``"cls"``.
        normalize: Whether vectors have length 1.
        max_tokens: Only so many first tokens of a text are read.
        pad: Id of the padding token.
    """

    def __init__(
        self, transformer: nn.Module, tokenizer: Tokenizer, *, pooling: str, normalize: bool, max_tokens: int,
        pad: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.transformer = transformer
        self.tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_tokens)
        self.settings = {"pooling": pooling, "normalize": normalize, "max_tokens": max_tokens, "pad": pad}

    def train(self, mode: bool = True) -> TransformerEncoder:
        """As in torch, but that a frozen transformer has no dropout."""
        return super().train(mode and next(self.parameters()).requires_grad)

    def forward(self, texts: Sequence[str]) -> Tensor:
        """(n, size) vectors."""
        rows = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        ids = np.full((len(rows), max(map(len, rows))), self.settings["pad"])
        mask = np.zeros(ids.shape, np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        device = next(self.transformer.parameters()).device
        seen = torch.from_numpy(mask).to(device)
        tokens = self.transformer(
            input_ids=torch.from_numpy(ids).to(device), attention_mask=seen
        ).last_hidden_state
        if self.settings["pooling"] == "cls":
            vectors: Tensor = tokens[:, 0]
        else:
            vectors = (tokens * seen[..., None]).sum(1) / seen.sum(1, keepdim=True)
        return f.normalize(vectors, dim=1) if self.settings["normalize"] else vectors


class TransformerPairNet(nn.Module):
    """f_e, and an MLP over (x1, x2, x1 - x2, x1 * x2) of ``hidden`` units. Gives logits of P(same)."""

    def __init__(self, encoder: TransformerEncoder, size: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.encoder = encoder
        self.hidden = nn.Linear(4 * size, hidden)
        self.output = nn.Linear(hidden, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """(p,) logits from the vectors (p, size) of both sentences of p pairs."""
        features = self.dropout(torch.cat([left, right, left - right, left * right], -1))
        logits: Tensor = self.output(self.dropout(f.relu(self.hidden(features))))[:, 0]
        return logits


class TransformerModel:
    """A trained `TransformerPairNet` as a `BoundaryModel`, on a GPU if torch finds one.

    Args:
        folder: Where its tokenizer is.
        config: ``architecture`` (the configuration of transformers), ``encoder`` (settings of
            `TransformerEncoder`), ``size``, ``hidden``, ``tokenizer`` (SHA-256 of its file), ``calibration``.
        tensors: Weights of the net, by the names of torch.
        fingerprint: Identifies them.

    Raises:
        ModelError: If weights, tokenizer and configuration do not fit, or this transformers cannot build it.
    """

    def __init__(self, folder: Path, config: dict[str, Any], tensors: Tensors, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._scale, self._shift = (np.float32(config["calibration"][name]) for name in ("scale", "shift"))
        try:
            stored = (folder / TOKENIZER_FILE).read_bytes()
            if hashlib.sha256(stored).hexdigest() != config["tokenizer"]:
                raise ModelError(f"{TOKENIZER_FILE} is not the one that the model was trained with")
            architecture = dict(config["architecture"])
            described = AutoConfig.for_model(architecture.pop("model_type"), **architecture)
            encoder = TransformerEncoder(
                AutoModel.from_config(described, dtype=torch.float32),
                Tokenizer.from_buffer(stored),
                **config["encoder"],
            )
            net = TransformerPairNet(encoder, int(config["size"]), int(config["hidden"]))
            net.load_state_dict({name: torch.from_numpy(value) for name, value in tensors.items()})
        except (OSError, RuntimeError, ImportError) as error:
            made = config.get("versions")
            raise ModelError(f"the transformer cannot be built ({error}); it was made by {made}") from error
        self._net = net.to("cuda" if torch.cuda.is_available() else "cpu").eval()

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """P(same) for every pair of neighbors; see ``protocol.BoundaryModel``."""
        texts = list(dict.fromkeys(text for document in documents for text in document))
        if not texts:
            return [np.zeros(0, np.float32) for _ in documents]
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        place = {texts[i]: rank for rank, i in enumerate(order)}
        batches = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
        with torch.inference_mode():
            vectors = torch.cat([self._net.encoder([texts[i] for i in batch]) for batch in batches])
            read = vectors[[place[text] for document in documents for text in document]]
            logits = self._net(read[:-1], read[1:]).cpu().numpy()
        same = sigmoid(logits * self._scale + self._shift)
        return by_document(same, [len(document) for document in documents])
