"""From log-odds to chunks: the paper's threshold, and the best segmentation under length limits.

Both work on plain lists: ``lengths[i]`` tokens of unit ``i``, and ``keep[i]``, the log-odds (model, layout
and threshold together) that units ``i`` and ``i + 1`` belong to one chunk. A segmentation is the list of its
chunk starts.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

GLUED = 500.0
"""Log-odds from which on a gap is cut only where the hard limit forces it (after a heading)."""

SHORT_CHUNK_COST = 3.0
"""Log-odds charged for a chunk of no length at all; falls linearly to 0 at ``min_tokens``."""

LONG_CHUNK_COST = 4.0
"""Log-odds charged for a chunk of ``max_tokens``; grows with the square above ``min_tokens``.

Chosen by retrieval (``benchmarks/chunk_retrieval.py``): chunks of two or three sentences find evidence
better than full ones, and the model then has a choice where to cut.
"""


def optimal_cuts(
    lengths: Sequence[int], keep: Sequence[float], max_tokens: int, min_tokens: int
) -> list[int]:
    """The segmentation of highest likelihood under a hard maximum and a soft minimum.

    Minimises the summed ``keep`` of the gaps that are cut, plus a charge for chunks that are short and one
    for chunks that are long: a prior on lengths, as in wtpsplit. Dynamic programming over the end of the last
    chunk: linear in the number of units, times the most units a chunk holds.

    Args:
        lengths: Tokens of each of ``n`` units, each at least 1.
        keep: ``n - 1`` log-odds for "same chunk".
        max_tokens: No chunk of two units or more is longer. (One unit may be: it cannot be cut here.)
        min_tokens: Chunks shorter than this are avoided unless the evidence is strong; chunks of just this
            length cost nothing.

    Returns:
        First unit of every chunk, ascending, starting with 0; empty for no units.
    """
    if not lengths:
        return []
    charge = _charges(max_tokens, min_tokens)
    best = [0.0]  # best[i]: least cost of the first i units
    origin = [0]  # origin[i]: where the last chunk of that solution starts
    for end in range(1, len(lengths) + 1):
        start = end - 1
        size = lengths[start]
        least = best[start] + charge[min(size, max_tokens)]
        if start:
            least += keep[start - 1]
        chosen = start
        while start:
            start -= 1
            size += lengths[start]
            if size > max_tokens:
                break
            cost = best[start] + charge[size]
            if start:
                cost += keep[start - 1]
            if cost <= least:  # a tie keeps together, as P(same) = threshold does
                least, chosen = cost, start
        best.append(least)
        origin.append(chosen)
    cuts: list[int] = []
    end = len(lengths)
    while end:
        end = origin[end]
        cuts.append(end)
    return cuts[::-1]


@lru_cache(maxsize=64)
def _charges(max_tokens: int, min_tokens: int) -> list[float]:
    """What a chunk of each size from 0 to ``max_tokens`` costs."""
    room = max(1, max_tokens - min_tokens)
    short = [SHORT_CHUNK_COST * (1 - size / min_tokens) for size in range(min_tokens)]
    return short + [LONG_CHUNK_COST * (extra / room) ** 2 for extra in range(max_tokens - min_tokens + 1)]


def threshold_cuts(
    lengths: Sequence[int], keep: Sequence[float], coarse_tokens: int, max_tokens: int, min_tokens: int
) -> list[int]:
    """The paper's segmentation (section IV): coarse windows, each cut wherever ``keep`` is negative.

    Windows are whole units of at most ``coarse_tokens`` together. A chunk above ``max_tokens`` is cut
    further, by ``optimal_cuts``; one below ``min_tokens`` joins the neighbour of its window that it most
    likely belongs to, if it fits.

    Args:
        lengths: Tokens of each of ``n`` units, each at least 1.
        keep: ``n - 1`` log-odds for "same chunk".
        coarse_tokens: Limit of a window.
        max_tokens: Limit of a chunk.
        min_tokens: Chunks shorter than this are joined where possible; 0 is the paper.

    Returns:
        First unit of every chunk, as ``optimal_cuts``.
    """
    cuts: list[int] = []
    start = 0
    while start < len(lengths):
        stop = start + 1
        size = lengths[start]
        while stop < len(lengths) and size + lengths[stop] <= coarse_tokens:
            size += lengths[stop]
            stop += 1
        while stop < len(lengths) and stop - start > 1 and keep[stop - 1] >= GLUED:
            stop -= 1  # a window does not end with a heading either
        runs = [start, *(i for i in range(start + 1, stop) if keep[i - 1] < 0), stop]
        for first, last in itertools.pairwise(runs):
            if sum(lengths[first:last]) <= max_tokens:
                continue
            inner = optimal_cuts(lengths[first:last], keep[first : last - 1], max_tokens, 0)
            runs = sorted({*runs, *(first + cut for cut in inner)})
        cuts += _join_short(runs, lengths, keep, max_tokens, min_tokens)
        start = stop
    return cuts


def _join_short(
    runs: list[int], lengths: Sequence[int], keep: Sequence[float], max_tokens: int, min_tokens: int
) -> list[int]:
    """``runs`` (starts, and the end of the window last) without the starts that leave a chunk too short."""
    sizes = [sum(lengths[a:b]) for a, b in itertools.pairwise(runs)]
    index = 0
    while index < len(sizes):
        if sizes[index] >= min_tokens:
            index += 1
            continue
        left = keep[runs[index] - 1] if index and sizes[index - 1] + sizes[index] <= max_tokens else None
        fits_right = index + 1 < len(sizes) and sizes[index] + sizes[index + 1] <= max_tokens
        right = keep[runs[index + 1] - 1] if fits_right else None
        if left is None and right is None:
            index += 1
        elif right is None or (left is not None and left >= right):
            sizes[index - 1 : index + 1] = [sizes[index - 1] + sizes[index]]
            del runs[index]
            index -= 1
        else:
            sizes[index : index + 2] = [sizes[index] + sizes[index + 1]]
            del runs[index + 1]
    return runs[:-1]
