"""What is trained, kind by kind: how batches are drawn, what the loss is, what held-out documents say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sage_core.segmentation.models.context import ContextConfig
from sage_core.segmentation.models.encoder import ENCODER_TABLES, EncoderConfig
from sage_core.segmentation.models.transformer import TOKENIZER_FILE, TransformerPairNet
from sage_train.context_net import ContextNet
from sage_train.corpus import Corpus
from sage_train.folders import save_folder
from sage_train.mining import NegativeMix, mine_pairs
from sage_train.networks import PairNet, sentence_batch, tensors_of
from sage_train.transformer import config_of


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's data.

    Attributes:
        sentences: What is encoded.
        real: Pair models: (2, pairs), which of the sentences are left and right. Context model: (windows,
            length), 0 for padding.
        same: The labels of the logits, in their order.
    """

    sentences: Any
    real: Tensor
    same: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        return Batch(self.sentences.to(device), self.real.to(device), self.same.to(device))


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
        """Logits and labels of all neighbors in the held-out documents."""
        ...

    def config(self) -> dict[str, Any]:
        """The model's part of ``config.json``."""
        ...

    def save(self, folder: Path, config: dict[str, Any]) -> None:
        """Write the weights beside ``config.json``."""
        ...


class PairTask:
    """Algorithm 1: pairs of sentences."""

    def __init__(
        self, net: PairNet | TransformerPairNet, train: Corpus, held: Corpus, *, mix: NegativeMix,
        positive_share: float | None, token_dropout: float, batch_size: int,
    ) -> None:  # fmt: skip
        self.net: nn.Module = net
        self._train, self._held = train, held
        self._mix, self._positive_share = mix, positive_share
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
        vectors = self._vectors(batch)
        scores: Tensor = self.net(vectors[batch.real[0]], vectors[batch.real[1]])
        return scores

    def _vectors(self, batch: Batch) -> Tensor:
        vectors: Tensor = self.net.get_submodule("encoder")(batch.sentences)[0]
        return vectors

    def held_out(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Logits and labels of all neighbors in the held-out documents."""
        gaps = self._held.gaps
        logits = []
        device = next(self.net.parameters()).device
        with torch.inference_mode():
            for start in range(0, len(gaps), self._batch_size):
                right = gaps[start : start + self._batch_size]
                pairs = np.stack([right - 1, right], 1)
                batch = self._batch(self._held, pairs, np.zeros(len(right), np.float32), 0.0, None)
                logits.append(self.logits(batch.to(device)).cpu().numpy())
        return np.concatenate(logits), ~self._held.starts[gaps]

    def config(self) -> dict[str, Any]:
        """The model's part of ``config.json``."""
        assert isinstance(self.net, PairNet)
        hidden = self.net.hidden.weight.shape[1]
        return {"kind": "pair", "encoder": asdict(self.net.encoder.config), "hidden": hidden}

    def save(self, folder: Path, config: dict[str, Any]) -> None:
        """Write the weights beside ``config.json``."""
        save_folder(folder, config, tensors_of(self.net), tables=ENCODER_TABLES)

    def _batch(
        self, corpus: Corpus, pairs: NDArray[np.int64], labels: NDArray[np.float32], drop: float,
        rng: np.random.Generator | None,
    ) -> Batch:  # fmt: skip
        sentences, places = np.unique(pairs.T, return_inverse=True)
        return Batch(
            self._sentences(corpus, sentences, drop, rng),
            torch.from_numpy(places.reshape(2, -1)),
            torch.from_numpy(labels),
        )

    def _sentences(
        self, corpus: Corpus, chosen: NDArray[np.int64], drop: float, rng: np.random.Generator | None
    ) -> Any:
        assert isinstance(self.net, PairNet)
        return sentence_batch(corpus, chosen, self.net.encoder.config, drop=drop, rng=rng)


class Texts(tuple[str, ...]):
    """Sentences as they are, on every device."""

    def to(self, device: torch.device) -> Texts:
        """Themselves."""
        return self


class TransformerTask(PairTask):
    """Algorithm 1 with a transformer as f_e, trained together with the MLP, or frozen."""

    def config(self) -> dict[str, Any]:
        """The model's part of ``config.json``."""
        assert isinstance(self.net, TransformerPairNet)
        return {"kind": "transformer", **config_of(self.net)}

    def save(self, folder: Path, config: dict[str, Any]) -> None:
        """Write the weights in float32, by the names of torch, and the tokenizer."""
        assert isinstance(self.net, TransformerPairNet)
        tensors = {name: value.detach().cpu().numpy() for name, value in self.net.state_dict().items()}
        save_folder(folder, config, tensors, dtype=np.float32)
        (folder / TOKENIZER_FILE).write_text(self.net.encoder.tokenizer.to_str(), encoding="utf-8")

    def _vectors(self, batch: Batch) -> Tensor:
        vectors: Tensor = self.net.get_submodule("encoder")(batch.sentences)
        return vectors

    def _sentences(
        self, corpus: Corpus, chosen: NDArray[np.int64], drop: float, rng: np.random.Generator | None
    ) -> Texts:
        return Texts(corpus.texts[chosen])


class ContextTask:
    """Windows of documents; every gap in them is judged at once."""

    def __init__(
        self, train: Corpus, held: Corpus, encoder: EncoderConfig, context: ContextConfig, *,
        dropout: float, token_dropout: float, batch_size: int, window: int,
    ) -> None:  # fmt: skip
        self.net: nn.Module = ContextNet(encoder, context, dropout)
        self._train, self._held, self._encoder, self._context = train, held, encoder, context
        self._token_dropout, self._batch_size, self._window = token_dropout, batch_size, window

    def steps(self) -> int:
        """About how many batches a pass has."""
        return max(1, -(-len(self._train.starts) // self._batch_size))

    def epoch(self, rng: np.random.Generator) -> Iterator[Batch]:
        """Windows cut anew at random places; those of like length share a batch."""
        windows = _random_windows(self._train, self._window, rng)
        windows = windows[rng.permutation(len(windows))]
        group = _GROUP * max(1, self._batch_size // self._window)
        for start in range(0, len(windows), group):
            some = windows[start : start + group]
            batches = list(
                _packed(some[np.argsort(some[:, 1] - some[:, 0], kind="stable")], self._batch_size)
            )
            for i in rng.permutation(len(batches)):
                yield self._batch(self._train, batches[i], self._token_dropout, rng)

    def logits(self, batch: Batch) -> Tensor:
        """Logits of the real gaps, window by window."""
        scores = self.net(batch.sentences, batch.real)
        real = (batch.real[:, :-1] * batch.real[:, 1:]) > 0
        chosen: Tensor = scores[real]
        return chosen

    def held_out(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Logits and labels of all neighbors in the held-out documents, cut into windows side by side."""
        bounds = self._held.documents
        windows = [
            (start, min(start + _EVALUATED, high))
            for low, high in pairwise(bounds.tolist())
            for start in range(low, high, _EVALUATED)
            if min(start + _EVALUATED, high) - start > 1
        ]
        ordered = np.array(sorted(windows, key=lambda window: window[1] - window[0]), np.int64).reshape(-1, 2)
        logits, same = [], []
        device = next(self.net.parameters()).device
        with torch.inference_mode():
            for some in _packed(ordered, self._batch_size):
                batch = self._batch(self._held, some, 0.0, None)
                logits.append(self.logits(batch.to(device)).cpu().numpy())
                same.append(batch.same.numpy() > 0)
        return np.concatenate(logits), np.concatenate(same)

    def config(self) -> dict[str, Any]:
        """The model's part of ``config.json``."""
        return {"kind": "context", "encoder": asdict(self._encoder), "context": asdict(self._context)}

    def save(self, folder: Path, config: dict[str, Any]) -> None:
        """Write the weights beside ``config.json``."""
        save_folder(folder, config, tensors_of(self.net), tables=ENCODER_TABLES)

    def _batch(
        self, corpus: Corpus, windows: NDArray[np.int64], drop: float, rng: np.random.Generator | None
    ) -> Batch:
        length = int((windows[:, 1] - windows[:, 0]).max())
        sentences = windows[:, :1] + np.arange(length)
        real = sentences < windows[:, 1:]
        sentences[~real] = -1
        right = sentences[:, 1:][real[:, 1:]]
        return Batch(
            sentence_batch(corpus, sentences.ravel(), self._encoder, drop=drop, rng=rng),
            torch.from_numpy(real.astype(np.float32)),
            torch.from_numpy((~corpus.starts[right]).astype(np.float32)),
        )


_GROUP = 20  # batches among which windows are sorted by length
_EVALUATED = 512  # sentences a window when nothing is learned


def _random_windows(corpus: Corpus, window: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """(w, 2) first and last-but-one sentence of windows; long documents are cut, the first cut at random."""
    found: list[tuple[int, int]] = []
    for low, high in pairwise(corpus.documents.tolist()):
        start = low
        if high - low > window:
            start += int(rng.integers(0, window // 2))
            if start - low > 1:
                found.append((low, start))
        while start < high:
            if min(start + window, high) - start > 1:
                found.append((start, min(start + window, high)))
            start += window
    return np.array(found, np.int64).reshape(-1, 2)


def _packed(windows: NDArray[np.int64], batch_size: int) -> Iterator[NDArray[np.int64]]:
    """Runs of windows, in their order, of about ``batch_size`` sentences with padding."""
    start, longest = 0, 0
    for i, length in enumerate((windows[:, 1] - windows[:, 0]).tolist()):
        longest = max(longest, length)
        if (i + 1 - start) * longest >= batch_size:
            yield windows[start : i + 1]
            start, longest = i + 1, 0
    if start < len(windows):
        yield windows[start:]
