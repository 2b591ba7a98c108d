"""The model for any language: runs of letters that both sides of a gap share, and the shape of sentences.

It knows no word of any language. Sentences are compared by their runs of four letters, or by pairs of
characters in scripts without spaces, weighted by how few sentences of the document have them; likeness is
standardized within the document. A linear model, trained in English (`training/train_grams.py`), sees each
gap beside its neighbors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.ops import Floats, sigmoid
from sage_core.text.keywords import MARKS, UNSPACED

COEFFICIENTS = Path(__file__).parents[1] / "weights" / "grams.json"
REACH = 2  # gaps on each side that count too
_PIECE, _HALO = 2048, 16  # sentences judged together, and those beside them that are read too
_READ = 1000  # characters of a sentence
_NEAR, _WINDOWS = 3, (2, 4, 8)  # single sentences, and windows of them, that are compared across a gap
_DEPTH = 3  # gaps on each side among which a dip of likeness is deep
_SPREAD = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F], np.uint32)
_DIGIT, _COMMA = re.compile(r"\d"), re.compile(r"[,،，、;；:：]")


def gram_probabilities(sentences: Sequence[str]) -> NDArray[np.float32]:
    """P(same) for every pair of neighboring sentences of a document."""
    coefficients, bias = _fitted()
    result = np.zeros(max(len(sentences) - 1, 0), np.float32)
    for start in range(0, len(result), _PIECE):
        first = max(start - _HALO, 0)
        read = [text[:_READ] for text in sentences[first : start + _PIECE + 1 + _HALO]]
        seen = beside(features(read))
        result[start : start + _PIECE] = sigmoid(seen @ coefficients + bias)[start - first :][:_PIECE]
    return result


@cache
def _fitted() -> tuple[Floats, np.float32]:
    values = json.loads(COEFFICIENTS.read_bytes())
    return np.array(values["coefficients"], np.float32), np.float32(values["bias"])


def beside(rows: Floats) -> Floats:
    """Each gap's features after those of its neighbors, `REACH` on each side."""
    padded = np.pad(rows, ((REACH, REACH), (0, 0)))
    return np.hstack([padded[i : i + len(rows)] for i in range(2 * REACH + 1)])


def features(sentences: Sequence[str]) -> Floats:
    """A row for each of the gaps between ``n`` sentences."""
    n, most = len(sentences), max(_WINDOWS)
    gap, place = np.arange(n - 1)[:, None], np.arange(2 * most)
    # (gap, 2 * most, 2 * most): what the sentences around a gap share with each other
    first, apart = np.minimum.outer(place, place), np.abs(np.subtract.outer(place, place))
    shared = np.pad(_shared(sentences), ((0, 0), (most, most)))[apart, gap[..., None] + first + 1]
    before, after = (index.ravel() for index in np.indices((_NEAR, _NEAR)))
    pairs: list[tuple[Any, Any]] = [(most - 1 - before, most + after)]
    pairs += [(slice(most - window, most), slice(most, most + window)) for window in _WINDOWS]
    cosines = []
    for left, right in pairs:
        parts = [shared[:, i, j] for i, j in ((left, right), (left, left), (right, right))]
        both, one, other = (x if x.ndim == 2 else x.sum((1, 2))[:, None] for x in parts)
        cosines.append(both / np.sqrt(np.maximum(one * other, 1e-9)))
    likeness = np.hstack(cosines)
    there = np.ones_like(likeness, bool)
    there[:, : len(before)] = (gap >= before) & (gap + 1 + after < n)
    likeness = _standardized(likeness, there)
    windows = likeness[:, len(before) :]
    around = np.pad(windows, ((_DEPTH, _DEPTH), (0, 0)), constant_values=-np.inf)
    views = np.stack([around[i : i + n - 1] for i in range(2 * _DEPTH + 1)])
    depth = views[: _DEPTH + 1].max(0) + views[_DEPTH:].max(0) - 2 * windows
    shape = _shape(sentences)
    return np.hstack([likeness, depth, shape[:-1], shape[1:]]).astype(np.float32)


def _standardized(values: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Columns with mean 0 and spread 1 where they are ``there``, and 0 elsewhere."""
    count = np.maximum(there.sum(0), 1)
    centered = np.where(there, values - (values * there).sum(0) / count, 0)
    result: NDArray[np.float64] = centered / (np.sqrt((centered**2).sum(0) / count) + 1e-3)
    return result


def _shape(sentences: Sequence[str]) -> NDArray[np.float64]:
    """Length of each sentence, within the document; digits and commas."""
    lengths = np.log([[max(len(text), 1)] for text in sentences])
    signs = [[min(len(sign.findall(text)), 3) for sign in (_DIGIT, _COMMA)] for text in sentences]
    return np.hstack([_standardized(lengths, np.ones_like(lengths, bool)), np.log1p(signs)])


@cache
def _kinds() -> NDArray[np.uint8]:
    """Of each character of the first plane: 0 parts words, 1 is of a word, 2 of a script without spaces."""
    plane = "".join(chr(code) if not 0xD800 <= code < 0xE000 else " " for code in range(0x10000))
    kinds = np.zeros(len(plane), np.uint8)
    for kind, pattern in ((1, re.compile(rf"[\w{MARKS}]")), (2, UNSPACED)):
        for found in pattern.finditer(plane):
            kinds[found.start() : found.end()] = kind
    return kinds


def _shared(sentences: Sequence[str]) -> NDArray[np.float64]:
    """``(2 * most, n)``: how much sentence ``i`` shares with sentence ``i + d``, in row ``d``."""
    n, most = len(sentences), 2 * max(_WINDOWS)
    lowered = [f" {text.lower()} " for text in sentences]
    letters = np.frombuffer("".join(lowered).encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint32)
    owners = np.repeat(np.arange(n), [len(text) for text in lowered])
    kinds = _kinds()[np.minimum(letters, 0xFFFF)]
    keep = (kinds > 0) | np.append(True, kinds[:-1] > 0)  # one space between words
    owners, kinds = owners[keep], np.pad(kinds[keep], (0, 3))
    letters = np.pad(np.where(kinds[:-3], letters[keep], 32), (0, 3))
    runs = np.lib.stride_tricks.sliding_window_view(letters, 4).copy()
    first, second, third, fourth = (kinds[i : i + len(runs)] for i in range(4))
    pairs = (first == 2) & (second == 2)
    runs[pairs, 2:] = 0
    taken = pairs | (first < 2) & (second == 1) & (third == 1) & (fourth < 2)
    codes = ((runs[taken] @ _SPREAD) >> np.uint32(16)).astype(np.int64)
    found, times = np.unique(codes * n + owners[taken], return_counts=True)
    codes, owners = np.divmod(found, n)
    holders = np.bincount(codes, minlength=1 << 16)[codes]
    weights = np.sqrt(times) * np.maximum(np.log((n + 1) / (holders + 0.5)), 0.05)
    result = np.zeros(most * n)
    for step in range(most):  # holders of a code stand one after the other
        end = max(len(codes) - step, 0)
        apart = owners[step:] - owners[:end]
        near = (codes[step:] == codes[:end]) & (apart < most)
        places, products = apart * n + owners[:end], weights[step:] * weights[:end]
        result += np.bincount(places[near], products[near], len(result))
    return result.reshape(most, n)
