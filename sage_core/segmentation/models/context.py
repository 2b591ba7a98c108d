"""The model with context: it judges a gap by several sentences on each side.

Every sentence is encoded once. A gap is described by the vectors x1, x2 on its two sides (with x1 - x2, x1
* x2, as in the paper) and by how alike its surroundings are: cosines between single sentences up to three
away and between windows of 2, 4 and 8 sentences, both of projected means (same topic) and of hashed rare
words (same names). Residual blocks of a depthwise convolution along the document and a small MLP then let
each gap see its neighbors. All of it is numpy, linear in the number of sentences, in pieces of bounded
size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.ops import Floats, Tensors, layer_norm, linear, relu, unit_rows
from sage_core.embedding.storage import require
from sage_core.segmentation.models.encoder import EncoderConfig, Tokens, sum_rows, with_zero_row
from sage_core.segmentation.models.pair import EncodedModel

NEAR = 3  # single sentences compared on each side of a gap
WINDOWS = (2, 4, 8)  # sentences on each side whose sums are compared; each twice the one before
_REACH = max(WINDOWS)
SIMILARITIES = NEAR * NEAR + len(WINDOWS)
_PIECE = 1024  # sentences a piece: its arrays stay in the processor's cache


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """Sizes of the part that follows the encoder.

    Attributes:
        width: Of a gap's vector.
        topic_size: Width of the projected means that are compared.
        hash_words: Rare words are compared by random signs in 64 times so many dimensions.
        kernel: Gaps that a convolution sees.
        dilations: One block each; distance between those gaps.
        expansion: Inner width of a block's MLP, in widths.
    """

    width: int = 192
    topic_size: int = 96
    hash_words: int = 4
    kernel: int = 7
    dilations: tuple[int, ...] = (1, 1, 2, 3)
    expansion: int = 2

    @property
    def halo(self) -> int:
        """Sentences on each side that can change a gap's probability."""
        return _REACH + 1 + sum(self.kernel // 2 * dilation for dilation in self.dilations)

    @property
    def padding(self) -> int:
        """Empty rows between two documents: no comparison or convolution reaches across them."""
        return max([_REACH, *(self.kernel // 2 * dilation for dilation in self.dilations)])

    def shapes(self, encoder: EncoderConfig) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors."""
        width, inner = self.width, self.width * self.expansion
        result: dict[str, tuple[int, ...]] = {
            "topic.weight": (encoder.mean_size, self.topic_size),
            "rarity": (encoder.vocabulary,),
            "gap.weight": (4 * encoder.size + 2 * SIMILARITIES, width),
            "gap.bias": (width,),
            "final_norm.weight": (width,),
            "final_norm.bias": (width,),
            "output.weight": (width, 1),
            "output.bias": (1,),
        }
        for i in range(len(self.dilations)):
            result |= {
                f"blocks.{i}.norm.weight": (width,),
                f"blocks.{i}.norm.bias": (width,),
                f"blocks.{i}.along.weight": (self.kernel, width),
                f"blocks.{i}.along.bias": (width,),
                f"blocks.{i}.up.weight": (width, inner),
                f"blocks.{i}.up.bias": (inner,),
                f"blocks.{i}.down.weight": (inner, width),
                f"blocks.{i}.down.bias": (width,),
            }
        return result

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ContextConfig:
        """The configuration that ``config.json`` holds."""
        dilations = tuple(int(value) for value in values["dilations"])
        sizes = {name: int(value) for name, value in values.items() if name != "dilations"}
        return cls(dilations=dilations, **sizes)


class ContextModel(EncodedModel):
    """P(same) from several sentences on each side; ``context`` of the configuration is a `ContextConfig`."""

    kind = "context"

    def __init__(self, config: dict[str, Any], tensors: Tensors, fingerprint: str) -> None:
        super().__init__(config, tensors, fingerprint)
        encoder, self._context = self.encoder.config, ContextConfig.from_dict(config["context"])
        require(tensors, self._context.shapes(encoder))
        self._names = with_zero_row(
            hash_signs(encoder.vocabulary, self._context.hash_words) * tensors["rarity"][:, None]
        )
        first, second, difference, product = np.split(tensors["gap.weight"][: 4 * encoder.size], 4)
        similar = tensors["gap.weight"][4 * encoder.size :]
        # W [x1, x2, x1 - x2, x1 * x2, s] = (Wa + Wc) x1 + (Wb - Wc) x2 + Wd (x1 * x2) + We s
        self._gap = np.concatenate([first + difference, second - difference, product, similar])

    def _logits(self, tokens: Tokens, sizes: Sequence[int]) -> list[Floats]:
        vectors, means = self.encoder.encode_tokens(tokens)
        topics: Floats = means @ self._tensors["topic.weight"]
        names = sum_rows(tokens, self._names)
        result = [np.zeros(max(size - 1, 0), np.float32) for size in sizes]
        for piece in self._pieces(sizes):
            self._score_gaps(piece, vectors, topics, names, result)
        return result

    def _pieces(self, sizes: Sequence[int]) -> Iterator[list[tuple[int, int, int, int, int]]]:
        """Stretches ``(document, its base, first sentence, from gap, to gap)`` packed into pieces."""
        halo = self._context.halo
        piece: list[tuple[int, int, int, int, int]] = []
        room, base = _PIECE, 0
        for number, size in enumerate(sizes):
            for start in range(0, size - 1, _PIECE):
                stop = min(start + _PIECE, size - 1)
                piece.append((number, base, max(0, start - halo), start, stop))
                room -= stop - start + self._context.padding
                if room <= 0:
                    yield piece
                    piece, room = [], _PIECE
            base += size
        if piece:
            yield piece

    def _score_gaps(
        self,
        piece: list[tuple[int, int, int, int, int]],
        vectors: Floats,
        topics: Floats,
        names: Floats,
        result: list[Floats],
    ) -> None:
        padding, halo = self._context.padding, self._context.halo
        rows, places, cursor = [], [], padding
        for number, base, first, _, stop in piece:
            last = min(stop + 1 + halo, len(result[number]) + 1)
            rows.append(np.arange(base + first, base + last))
            places.append(np.arange(cursor, cursor + last - first))
            cursor += last - first + padding
        sentences, place = np.concatenate(rows), np.concatenate(places)
        gaps = np.concatenate([p[:-1] for p in places])
        similar = np.concatenate(
            [similarities(_spread(part[sentences], place, cursor), gaps) for part in (topics, names)], axis=1
        )
        inside = np.concatenate([r[:-1] for r in rows])
        x1, x2 = vectors[inside], vectors[inside + 1]
        hidden: Floats = np.concatenate([x1, x2, x1 * x2, similar], axis=1) @ self._gap
        hidden += self._tensors["gap.bias"]
        for i, dilation in enumerate(self._context.dilations):
            hidden += self._block(hidden, f"blocks.{i}", dilation, gaps, cursor)
        out = linear(relu(layer_norm(hidden, self._tensors, "final_norm")), self._tensors, "output")[:, 0]
        done = 0
        for (number, _, first, start, stop), p in zip(piece, places, strict=True):
            result[number][start:stop] = out[done + start - first : done + stop - first]
            done += len(p) - 1

    def _block(self, hidden: Floats, name: str, dilation: int, gaps: NDArray[np.int64], total: int) -> Floats:
        """One residual block: norm, convolution along the document, MLP."""
        normed = _spread(layer_norm(hidden, self._tensors, f"{name}.norm"), gaps, total)
        kernel = self._tensors[f"{name}.along.weight"]
        half = len(kernel) // 2 * dilation
        inner = np.zeros((total - 2 * half, normed.shape[1]), np.float32)
        for i, weight in enumerate(kernel):
            inner += normed[i * dilation : i * dilation + len(inner)] * weight
        along = inner[gaps - half] + self._tensors[f"{name}.along.bias"]
        return linear(relu(linear(along, self._tensors, f"{name}.up")), self._tensors, f"{name}.down")


def similarities(rows: Floats, gaps: NDArray[np.int64]) -> Floats:
    """How alike the two sides of gaps are.

    Args:
        rows: (r, d) sentence rows, at least ``padding`` rows of zeros before, between and after documents.
        gaps: (g,) row of the sentence before each gap.

    Returns:
        (g, ``SIMILARITIES``) cosines: of sentence pairs up to ``NEAR`` from the gap, then of windows.
    """
    unit = unit_rows(rows)
    apart = [
        np.einsum("rd,rd->r", unit[:-distance], unit[distance:]) for distance in range(1, 2 * NEAR)
    ]  # apart[k - 1][r]: rows r and r + k
    columns = [apart[a + b][gaps - a] for a in range(NEAR) for b in range(NEAR)]
    sums, size = rows, 1
    for window in WINDOWS:  # sums[r]: rows r - window + 1 to r
        sums = sums + np.concatenate([np.zeros((size, rows.shape[1]), np.float32), sums[:-size]])
        size = window
        unit = unit_rows(sums)
        columns.append(np.einsum("rd,rd->r", unit[:-window], unit[window:])[gaps])
    return np.stack(columns, axis=1)


def hash_signs(vocabulary: int, words: int) -> Floats:
    """(vocabulary, 64 * words) random signs of each token, the same everywhere: bits of SplitMix64."""
    index = np.arange(1, vocabulary * words + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z = index * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    bits = np.unpackbits(z.astype("<u8").view(np.uint8).reshape(vocabulary, 8 * words), axis=1)
    return bits.astype(np.float32) * 2.0 - 1.0


def _spread(values: Floats, places: NDArray[np.int64], total: int) -> Floats:
    """Rows put at their places among ``total`` rows of zeros."""
    result = np.zeros((total, values.shape[1]), np.float32)
    result[places] = values
    return result
