"""Algorithm 1 with a transformer as the encoder."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as f

from sage_core.errors import InputError
from sage_core.segmentation.models.ops import Tensors
from sage_core.segmentation.models.transformer import ENCODER_FOLDER, load_sentence_transformer, vector_size
from sage_core.segmentation.training.corpus import Corpus
from sage_core.segmentation.training.mining import NegativeMix, mine_pairs
from sage_core.segmentation.training.networks import Linear
from sage_core.segmentation.training.tasks import Batch


@dataclass(frozen=True, slots=True)
class TokenizedBatch:
    """Distinct sentences as a transformer reads them, and which of them each side of each pair is."""

    tokens: Mapping[str, Tensor]
    left: Tensor
    right: Tensor

    def to(self, device: torch.device) -> TokenizedBatch:
        """The same batch on a device."""
        tokens = {name: value.to(device) for name, value in self.tokens.items()}
        return TokenizedBatch(tokens, self.left.to(device), self.right.to(device))


class TransformerPairNet(nn.Module):
    """A sentence-transformers model, features (x1, x2, x1 - x2, x1 * x2) and an MLP.

    Vectors are scaled to entries of about 1: in unit vectors the products would be too small to learn from.
    """

    def __init__(self, encoder: nn.Module, size: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.hidden = Linear(4 * size, hidden)
        self.output = Linear(hidden, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: TokenizedBatch) -> Tensor:
        """(p,) logits of P(same)."""
        vectors = self.encoder(dict(batch.tokens))["sentence_embedding"]
        vectors = f.normalize(vectors, dim=-1) * vectors.shape[-1] ** 0.5
        left, right = vectors[batch.left], vectors[batch.right]
        features = self.dropout(torch.cat([left, right, left - right, left * right], -1))
        scores: Tensor = self.output(self.dropout(f.relu(self.hidden(features))))[..., 0]
        return scores


class TransformerTask:
    """Pairs of sentences, each distinct sentence of a batch encoded once."""

    def __init__(
        self, train: Corpus, held: Corpus, name_or_path: str, *, mix: NegativeMix, hidden: int,
        positive_share: float | None, dropout: float, batch_size: int, max_tokens: int,
    ) -> None:  # fmt: skip
        if train.texts is None or held.texts is None:
            raise InputError(
                "a transformer needs the sentences themselves: index_corpus(..., keep_texts=True)"
            )
        self._model = load_sentence_transformer(name_or_path, "cpu")
        self._model.max_seq_length = min(max_tokens, self._model.max_seq_length or max_tokens)
        self.net: nn.Module = TransformerPairNet(self._model, vector_size(self._model), hidden, dropout)
        self._train, self._held = train, held
        self._mix, self._positive_share, self._hidden = mix, positive_share, hidden
        self._batch_size = batch_size
        self._tokenizing = threading.Lock()  # fast tokenizers cannot be shared by threads
        self._pairs = len(mine_pairs(train, mix, np.random.default_rng(0), positive_share=positive_share)[1])

    def steps(self) -> int:
        """About how many batches a pass has."""
        return max(1, -(-self._pairs // self._batch_size))

    def epoch(self, rng: np.random.Generator) -> Iterator[Batch]:
        """Pairs mined anew and shuffled."""
        pairs, labels = mine_pairs(self._train, self._mix, rng, positive_share=self._positive_share)
        for start in range(0, len(pairs), self._batch_size):
            rows = slice(start, start + self._batch_size)
            yield self._batch(self._train, pairs[rows], labels[rows])

    def logits(self, batch: Batch) -> Tensor:
        """Logits of the batch's pairs."""
        scores: Tensor = self.net(batch.sentences)
        return scores

    def held_out(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Logits and labels of all neighbours in the held-out documents."""
        gaps = self._held.gaps
        device = next(self.net.parameters()).device
        logits = []
        with torch.inference_mode():
            for start in range(0, len(gaps), self._batch_size):
                right = gaps[start : start + self._batch_size]
                batch = self._batch(
                    self._held, np.stack([right - 1, right], 1), np.zeros(len(right), np.float32)
                )
                logits.append(self.logits(batch.to(device)).cpu().numpy())
        return np.concatenate(logits), ~self._held.starts[gaps]

    def config(self) -> dict[str, Any]:
        """The model's part of ``config.json``."""
        return {"kind": "transformer", "hidden": self._hidden}

    def tensors(self) -> Tensors:
        """Weights of the MLP."""
        return {
            name: value.detach().cpu().numpy().astype(np.float32)
            for name, value in self.net.named_parameters()
            if not name.startswith("encoder.")
        }

    def write(self, folder: Path) -> None:
        """Save the trained encoder beside the MLP, as safetensors."""
        encoder: Any = self.net.get_submodule("encoder")
        encoder.save(str(folder / ENCODER_FOLDER), safe_serialization=True, create_model_card=False)

    def _batch(self, corpus: Corpus, pairs: NDArray[np.int64], labels: NDArray[np.float32]) -> Batch:
        assert corpus.texts is not None
        distinct, where = np.unique(pairs, return_inverse=True)
        places = torch.from_numpy(where.reshape(-1, 2))
        with self._tokenizing:
            tokens = self._model.tokenizer(
                [corpus.texts[i] for i in distinct.tolist()],
                padding=True,
                truncation=True,
                max_length=self._model.max_seq_length,
                return_tensors="pt",
            )
        sentences = TokenizedBatch(dict(tokens), places[:, 0], places[:, 1])
        return Batch(sentences, torch.ones(2, len(pairs)), torch.from_numpy(labels))
