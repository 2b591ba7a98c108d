"""The network that reader and entailment are trained in, from the folder of a cross-encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import BertConfig, BertModel

from sage_core.embedding.storage import load_folder

SEED = 1
FROZEN = 2  # Lowest layers that stay as they are.


class Network(torch.nn.Module):
    """A BERT with three heads on its first position and one on every token."""

    def __init__(self, start: Path) -> None:
        super().__init__()
        torch.manual_seed(SEED)
        self.config, tensors, _ = load_folder(start)
        quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        self.bert = BertModel(BertConfig(**self.config["bert"], **quiet), add_pooling_layer=True)
        width = self.bert.config.hidden_size
        self.heads = torch.nn.Linear(width, 3)  # Answerable, supported, relevant.
        self.span = torch.nn.Linear(width, 2)
        weight, bias = tensors.pop("classifier.weight"), tensors.pop("classifier.bias")
        own = tensors.get("heads.weight", np.concatenate([weight, 0.5 * weight]))
        own_bias = tensors.get("heads.bias", np.concatenate([bias, 0.5 * bias]))
        tensors["heads.weight"] = np.concatenate([own, weight])
        tensors["heads.bias"] = np.concatenate([own_bias, bias])
        self.load_state_dict({n: torch.from_numpy(v) for n, v in tensors.items()}, strict=False)
        for weights in (*self.bert.embeddings.parameters(), *self.bert.encoder.layer[:FROZEN].parameters()):
            weights.requires_grad_(False)

    def forward(self, ids: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the heads ``(n, 3)``, and of first and last token ``(n, width, 2)``."""
        out = self.bert(input_ids=ids, token_type_ids=kinds, attention_mask=(ids != 0).long())
        tokens = self.span(out.last_hidden_state).float()
        # Only the passage, and the first position for "no answer".
        outside = (kinds == 0) & (torch.arange(ids.shape[1], device=ids.device) > 0)
        return self.heads(out.pooler_output).float(), tokens.masked_fill(outside[..., None], -1e4)


def padded(encoded: Sequence[Any]) -> tuple[Tensor, Tensor]:
    """Ids and types of pairs, padded with zeros."""
    ids = torch.zeros((len(encoded), max(len(e.ids) for e in encoded)), dtype=torch.long)
    kinds = torch.zeros_like(ids)
    for row, pair in enumerate(encoded):
        ids[row, : len(pair.ids)] = torch.tensor(pair.ids)
        kinds[row, : len(pair.ids)] = torch.tensor(pair.type_ids)
    return ids, kinds
