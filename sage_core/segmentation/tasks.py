"""What is trained, kind by kind: how batches are drawn, what the loss is, what held-out documents say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sage_core.segmentation.encoder import EncoderConfig
from sage_core.segmentation.mining import Corpus, NegativeMix, mine_pairs
from sage_core.segmentation.networks import PairNet, SentenceBatch, sentence_batch


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's data; ``where`` says which entries of the network's output are judged against ``same``."""

    sentences: SentenceBatch
    rows: int
    where: Tensor
    same: Tensor


class Task(Protocol):
    """A kind of model in training."""

    net: nn.Module

    def epoch(self, rng: np.random.Generator) -> Iterator[Batch]:
        """One pass over the training documents, in random order."""
        ...

    def steps(self) -> int:
        """About how many batches a pass has."""
        ...

    def logits(self, batch: Batch) -> Tensor:
        """Logits of P(same) where they are judged."""
        ...

    def held_out(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Logits and labels of all neighbours in the held-out documents."""
        ...

    def config(self) -> dict[str, Any]:
        """The model's part of ``config.json``."""
        ...


class PairTask:
    """Algorithm 1: pairs of sentences."""

    def __init__(
        self, train: Corpus, held: Corpus, encoder: EncoderConfig, *, mix: NegativeMix, hidden: int,
        positive_share: float | None, dropout: float, token_dropout: float, batch_size: int,
    ) -> None:  # fmt: skip
        self.net: nn.Module = PairNet(encoder, hidden, dropout)
        self._train, self._held, self._encoder = train, held, encoder
        self._mix, self._positive_share, self._hidden = mix, positive_share, hidden
        self._token_dropout, self._batch_size = token_dropout, batch_size
        self._pairs = len(mine_pairs(train, mix, np.random.default_rng(0), positive_share=positive_share)[1])

    def steps(self) -> int:
        """About how many batches a pass has."""
        return max(1, -(-self._pairs // self._batch_size))

    def epoch(self, rng: np.random.Generator) -> Iterator[Batch]:
        """Pairs mined anew and shuffled."""
        pairs, labels = mine_pairs(self._train, self._mix, rng, positive_share=self._positive_share)
        for start in range(0, len(pairs), self._batch_size):
            rows = slice(start, start + self._batch_size)
            yield self._batch(self._train, pairs[rows], labels[rows], self._token_dropout, rng)

    def logits(self, batch: Batch) -> Tensor:
        """Logits of the batch's pairs."""
        vectors, _ = self.net.get_submodule("encoder")(batch.sentences)
        scores: Tensor = self.net(vectors[: batch.rows], vectors[batch.rows :])
        return scores

    def held_out(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Logits and labels of all neighbours in the held-out documents."""
        gaps = self._held.gaps
        logits = []
        device = next(self.net.parameters()).device
        with torch.inference_mode():
            for start in range(0, len(gaps), self._batch_size):
                right = gaps[start : start + self._batch_size]
                pairs = np.stack([right - 1, right], 1)
                batch = self._batch(self._held, pairs, np.zeros(len(right), np.float32), 0.0, None)
                moved = Batch(batch.sentences.to(device), batch.rows, batch.where, batch.same)
                logits.append(self.logits(moved).cpu().numpy())
        return np.concatenate(logits), ~self._held.starts[gaps]

    def config(self) -> dict[str, Any]:
        """The model's part of ``config.json``."""
        return {"kind": "pair", "encoder": self._encoder.as_dict(), "hidden": self._hidden}

    def _batch(
        self, corpus: Corpus, pairs: NDArray[np.int64], labels: NDArray[np.float32], drop: float,
        rng: np.random.Generator | None,
    ) -> Batch:  # fmt: skip
        sentences = np.concatenate([pairs[:, 0], pairs[:, 1]])
        return Batch(
            sentence_batch(corpus, sentences, self._encoder, drop=drop, rng=rng),
            len(pairs),
            torch.ones(len(pairs), dtype=torch.bool),
            torch.from_numpy(labels),
        )
