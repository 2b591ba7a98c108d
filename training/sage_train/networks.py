"""Torch twins of the encoder and the pair model; names and shapes are those of the numpy side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as f

from sage_core.embedding.ops import LAYER_NORM_EPSILON, Tensors
from sage_core.segmentation.models.encoder import MEAN_PRIOR, EncoderConfig, edge_positions
from sage_train.corpus import Corpus


@dataclass(frozen=True, slots=True)
class SentenceBatch:
    """Some sentences of a corpus as tensors (n sentences, t tokens).

    Attributes:
        ids: (t,) token ids.
        offsets: (n,) where each sentence starts in ``ids``.
        owners: (t,) which sentence a token is in.
        keep: (t,) 0 for tokens dropped in this step, else 1.
        edges: (n, lead + tail) ids of first and last tokens.
        edge_keep: (n, lead + tail) 0 where there is none or it is dropped.
        surface: (n, SURFACE_SIZE).
    """

    ids: Tensor
    offsets: Tensor
    owners: Tensor
    keep: Tensor
    edges: Tensor
    edge_keep: Tensor
    surface: Tensor

    def to(self, device: torch.device) -> SentenceBatch:
        """The same batch on a device."""
        return SentenceBatch(*(getattr(self, name).to(device) for name in self.__slots__))


def sentence_batch(
    corpus: Corpus,
    sentences: NDArray[np.int64],
    config: EncoderConfig,
    *,
    drop: float = 0.0,
    rng: np.random.Generator | None = None,
) -> SentenceBatch:
    """Sentences by index, tokens dropped with probability ``drop``; an index of -1 is an empty one."""
    real = sentences >= 0
    rows = np.where(real, sentences, 0)
    lengths = np.where(
        real, np.minimum(corpus.offsets[rows + 1] - corpus.offsets[rows], config.max_tokens), 0
    )
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    tokens = np.repeat(corpus.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
    ids = corpus.ids[tokens].astype(np.int64)
    where, inside = edge_positions(offsets, config.lead, config.tail)
    edges = ids[where] if len(ids) else where
    keep = np.ones(len(ids), np.float32)
    if drop and rng is not None:
        keep = (rng.random(len(ids)) >= drop).astype(np.float32)
        inside = inside & (rng.random(inside.shape) >= drop)
    return SentenceBatch(
        torch.from_numpy(ids),
        torch.from_numpy(offsets[:-1].copy()),
        torch.from_numpy(np.repeat(np.arange(len(rows)), lengths)),
        torch.from_numpy(keep),
        torch.from_numpy(edges),
        torch.from_numpy(inside.astype(np.float32)),
        torch.from_numpy(corpus.surface[rows] * real[:, None].astype(np.float32)),
    )


class Linear(nn.Module):
    """A linear layer with its weight as (in, out), as numpy multiplies it."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """``x @ weight + bias``."""
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


class EmbeddingTable(nn.Module):
    """An embedding table that may start from given rows."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, width) * 0.5)
        self.weight: nn.Parameter | None = None


class SentenceNet(nn.Module):
    """``StaticEncoder`` in torch."""

    def __init__(self, config: EncoderConfig, dropout: float) -> None:
        super().__init__()
        self.config = config
        self.mean = EmbeddingTable(config.vocabulary, config.mean_size)
        self.mean.weight = nn.Parameter(torch.zeros(config.vocabulary))
        self.edge = EmbeddingTable(config.vocabulary, config.edge_size)
        self.input = Linear(config.inputs, config.size)
        self.input_norm = nn.LayerNorm(config.size, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: SentenceBatch) -> tuple[Tensor, Tensor]:
        """Sentence vectors (n, size) and weighted means (n, mean_size)."""
        assert self.mean.weight is not None
        weights = torch.exp(self.mean.weight)[batch.ids] * batch.keep
        total = f.embedding_bag(
            batch.ids, self.mean.table, batch.offsets, mode="sum", per_sample_weights=weights
        )
        mass = torch.zeros(len(batch.offsets), device=total.device).index_add(0, batch.owners, weights)
        means = total / (mass + MEAN_PRIOR)[:, None]
        edges = f.embedding(batch.edges, self.edge.table) * batch.edge_keep[..., None]
        inputs = self.dropout(torch.cat([means, edges.flatten(1), batch.surface], 1))
        return f.relu(self.input_norm(self.input(inputs))), means


class PairNet(nn.Module):
    """The paper's model: features (x1, x2, x1 - x2, x1 * x2) and an MLP. Gives logits of P(same)."""

    def __init__(self, config: EncoderConfig, hidden: int, dropout: float) -> None:
        super().__init__()
        self.encoder = SentenceNet(config, dropout)
        self.hidden = Linear(4 * config.size, hidden)
        self.output = Linear(hidden, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """(p,) logits from the vectors (p, size) of both sentences of p pairs."""
        features = self.dropout(torch.cat([left, right, left - right, left * right], -1))
        scores: Tensor = self.output(self.dropout(f.relu(self.hidden(features))))[..., 0]
        return scores


def load_tensors(net: nn.Module, tensors: Tensors) -> None:
    """Copy the numpy weights of a model into its twin."""
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.copy_(torch.from_numpy(tensors[name.removeprefix("encoder.")]))


def tensors_of(net: nn.Module) -> Tensors:
    """The weights by their numpy names."""
    return {
        name.removeprefix("encoder."): value.detach().cpu().numpy().astype(np.float32)
        for name, value in net.named_parameters()
    }
