"""The torch twin of ``context.ContextModel``. Parameter names and shapes are those of the numpy side."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as f

from sage_core.embedding.ops import LAYER_NORM_EPSILON, NORM_FLOOR
from sage_core.segmentation.models.context import NEAR, SIMILARITIES, WINDOWS, ContextConfig, hash_signs
from sage_core.segmentation.models.encoder import EncoderConfig
from sage_train.networks import Linear, SentenceBatch, SentenceNet


class ContextNet(nn.Module):
    """Logits of P(same) at every gap of windows of documents."""

    def __init__(self, encoder: EncoderConfig, config: ContextConfig, dropout: float) -> None:
        super().__init__()
        self.config = config
        self.encoder = SentenceNet(encoder, dropout)
        self.topic = Linear(encoder.mean_size, config.topic_size, bias=False)
        self.rarity = nn.Parameter(torch.zeros(encoder.vocabulary))
        self.gap = Linear(4 * encoder.size + 2 * SIMILARITIES, config.width)
        self.blocks = nn.ModuleList(Block(config, dilation, dropout) for dilation in config.dilations)
        self.final_norm = nn.LayerNorm(config.width, eps=LAYER_NORM_EPSILON)
        self.output = Linear(config.width, 1)
        self.dropout = nn.Dropout(dropout)
        signs = torch.from_numpy(hash_signs(encoder.vocabulary, config.hash_words))
        self.register_buffer("signs", signs, persistent=False)
        self.signs: Tensor

    def forward(self, batch: SentenceBatch, real: Tensor) -> Tensor:
        """Logits (windows, length - 1) of windows; ``real`` (windows, length) is 0 for padding."""
        windows, length = real.shape
        vectors, means = self.encoder(batch)
        mask = real[..., None]
        x = self.dropout(vectors).view(windows, length, -1) * mask
        weights = self.rarity[batch.ids] * batch.keep
        names = f.embedding_bag(batch.ids, self.signs, batch.offsets, mode="sum", per_sample_weights=weights)
        topics = self.topic(means)
        similar = [similarities(part.view(windows, length, -1) * mask) for part in (topics, names)]
        left, right = x[:, :-1], x[:, 1:]
        gaps = mask[:, :-1] * mask[:, 1:]
        hidden = self.gap(torch.cat([left, right, left - right, left * right, *similar], -1)) * gaps
        for block in self.blocks:
            hidden = block(hidden, gaps)
        scores: Tensor = self.output(f.relu(self.final_norm(hidden)))[..., 0]
        return scores


class Block(nn.Module):
    """Norm, depthwise convolution along the document, MLP; added to its input."""

    def __init__(self, config: ContextConfig, dilation: int, dropout: float) -> None:
        super().__init__()
        self.dilation = dilation
        self.norm = nn.LayerNorm(config.width, eps=LAYER_NORM_EPSILON)
        self.along = DepthwiseConv(config.kernel, config.width)
        self.up = Linear(config.width, config.width * config.expansion)
        self.down = Linear(config.width * config.expansion, config.width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, gaps: Tensor) -> Tensor:
        """(windows, gaps, width) to the same."""
        normed = self.norm(hidden) * gaps
        half = len(self.along.weight) // 2 * self.dilation
        along = f.conv1d(
            normed.transpose(1, 2),
            self.along.weight.T[:, None],
            self.along.bias,
            padding=half,
            dilation=self.dilation,
            groups=normed.shape[-1],
        ).transpose(1, 2)
        change: Tensor = self.dropout(self.down(f.relu(self.up(along))))
        return (hidden + change) * gaps


class DepthwiseConv(nn.Module):
    """Weights of a depthwise convolution, (kernel, width)."""

    def __init__(self, kernel: int, width: int) -> None:
        super().__init__()
        bound = kernel**-0.5
        self.weight = nn.Parameter(torch.empty(kernel, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(width))


def similarities(rows: Tensor) -> Tensor:
    """(windows, length - 1, SIMILARITIES) from (windows, length, d); see ``context.similarities``."""
    length = rows.shape[1]
    reach = max(WINDOWS)
    rows = f.pad(rows, (0, 0, reach, reach))
    at = slice(reach, reach + length - 1)
    unit = _unit(rows)
    apart = [(unit[:, :-k] * unit[:, k:]).sum(-1) for k in range(1, 2 * NEAR)]
    columns = [apart[a + b][:, at.start - a : at.stop - a] for a in range(NEAR) for b in range(NEAR)]
    sums, size = rows, 1
    for window in WINDOWS:
        sums = sums + f.pad(sums, (0, 0, size, 0))[:, :-size]
        size = window
        unit = _unit(sums)
        columns.append((unit[:, :-window] * unit[:, window:]).sum(-1)[:, at])
    return torch.stack(columns, -1)


def _unit(rows: Tensor) -> Tensor:
    return rows / rows.square().sum(-1, keepdim=True).clamp(min=NORM_FLOOR**2).sqrt()
