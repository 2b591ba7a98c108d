"""From log-odds to chunks: the paper's threshold, and the best segmentation under length limits.

Both work on plain lists: ``lengths[i]`` tokens of unit ``i``, and ``keep[i]``, the log-odds (model, layout
and threshold together) that units ``i`` and ``i + 1`` belong to one chunk. A segmentation is the list of its
chunk starts.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

GLUED = 500.0
"""Log-odds from which on a gap is cut only where the hard limit forces it (after a heading)."""

SHORT_CHUNK_COST = 3.0
"""Log-odds for a chunk of no length, beside its size cost; falls linearly to 0 at ``min_tokens``."""

SIZE_WEIGHT = 4.0
"""Log-odds for a chunk of e times the usual size, or one e-th of it.

Chosen by retrieval on training and development questions, together with the usual size and with
``Layout.together``: see `benchmarks/board.py`."""

_MOST_PASSES = 14
_MOST_PRICE = 100.0  # far below GLUED: no target parts a heading from its text
# Beside a long table, whose rows no target parts, sentences are not cut apart for the mean.
_MOST_DISCOUNT = 6.0
_MOST_WITHOUT_TARGET = 5.0  # nor does the default mean part table rows or pieces of a sentence (6)
_SAME_PRICE = 0.02  # where sentences are all alike the number jumps at one price, which no search gets past
_CLOSE = 0.03  # a mean this near to the target, as a share of it, is met


@dataclass(frozen=True, slots=True)
class SizeCost:
    """What a chunk costs for its size alone, in log-odds: ``weight * ln(size / usual) ** 2``.

    Attributes:
        usual: The size that costs nothing.
        max_tokens: The hard limit.
        min_tokens: Chunks below it cost more; 0 makes all chunks below ``usual`` free.
        weight: Cost of a chunk of e times the usual size.
    """

    usual: int
    max_tokens: int
    min_tokens: int
    weight: float = SIZE_WEIGHT

    @property
    def table(self) -> list[float]:
        """Cost by size, from 0 to ``max_tokens``."""
        return _costs(self.usual, self.max_tokens, self.min_tokens, self.weight)


@lru_cache(maxsize=64)
def _costs(usual: int, max_tokens: int, min_tokens: int, weight: float) -> list[float]:
    costs = [weight * math.log(max(size, 1) / usual) ** 2 for size in range(max_tokens + 1)]
    for size in range(min(min_tokens, max_tokens + 1)):
        costs[size] += SHORT_CHUNK_COST * (1 - size / min_tokens)
    if not min_tokens:
        costs[: usual + 1] = [0.0] * len(costs[: usual + 1])
    return costs


def optimal_boundaries(
    lengths: Sequence[int], keep: Sequence[float], size_cost: SizeCost, price: float = 0.0
) -> list[int]:
    """The segmentation of least cost under a hard limit.

    Minimizes the summed ``keep`` of the gaps that are cut, plus for every chunk its size cost and ``price``.
    Dynamic programming over the end of the last chunk: linear in the number of units, times the most units a
    chunk holds.

    Args:
        lengths: Tokens of each of ``n`` units, each at least 1.
        keep: ``n - 1`` log-odds for "same chunk".
        size_cost: What a chunk of each size costs. No chunk of two units or more is longer than its
            ``max_tokens``. (One unit may be: it cannot be cut here.)
        price: Log-odds for every chunk, whatever its size: a high price makes fewer chunks.

    Returns:
        First unit of every chunk, ascending, starting with 0; empty for no units.
    """
    if not lengths:
        return []
    max_tokens = size_cost.max_tokens
    charge = [cost + price for cost in size_cost.table] if price else size_cost.table
    opening = [0.0]  # opening[i]: least cost of the first i units with a cut after them
    origin = [0]  # origin[i]: where the last chunk of that solution starts
    for end, (gap, length) in enumerate(zip([*keep, 0.0], lengths, strict=True), start=1):
        start = chosen = end - 1
        size = length
        least = opening[start] + charge[min(size, max_tokens)]
        while start:
            start -= 1
            size += lengths[start]
            if size > max_tokens:
                break
            cost = opening[start] + charge[size]
            if cost <= least:  # a tie keeps together, as P(same) = threshold does
                least, chosen = cost, start
        opening.append(least + gap)
        origin.append(chosen)
    starts: list[int] = []
    end = len(lengths)
    while end:
        end = origin[end]
        starts.append(end)
    return starts[::-1]


def sized_boundaries(
    lengths: Sequence[int], keep: Sequence[float], size_cost: SizeCost, *, or_less: bool = False
) -> list[int]:
    """The best segmentation whose mean size is ``size_cost.usual``, as nearly as whole units allow.

    With ``or_less`` a smaller mean is left as it is. A larger one is left where tables, long sentences and
    whatever else belongs together forbid more chunks.

    One price for every chunk of the text is found by interpolation, so that the number of chunks is the
    text's length over the target, whatever the model's calibration. Which gaps are cut at that price is
    still for `optimal_boundaries` to say. Linear in the units, a few passes.
    """
    number = sum(lengths) / size_cost.usual
    tolerance = max(0.5, _CLOSE * number)
    starts = optimal_boundaries(lengths, keep, size_cost)
    if or_less and len(starts) >= number:
        return starts
    many: list[int] = []  # of the solutions with too many chunks the one with the fewest
    few: list[int] = []
    low, high = -math.inf, math.inf
    price, step = 0.0, 1.0
    most = _MOST_WITHOUT_TARGET if or_less else _MOST_PRICE
    least = min(most, _MOST_DISCOUNT)
    for _ in range(_MOST_PASSES):
        if abs(len(starts) - number) <= tolerance:
            return starts
        if len(starts) > number:  # a higher price makes fewer
            low, many = price, starts
        else:
            high, few = price, starts
        if not many or not few:
            if price in (-least, most):
                break
            price += step if len(starts) > number else -step
            price = max(-least, min(most, price))
            step *= 2
        elif high - low < _SAME_PRICE:
            break
        else:
            # The number falls about exponentially with the price: interpolate its logarithm.
            share = math.log(len(many) / number) / math.log(len(many) / len(few))
            price = low + (high - low) * min(0.75, max(0.25, share))
        starts = optimal_boundaries(lengths, keep, size_cost, price)
    if not many or not few:
        return starts
    return _spliced(many, few, lengths, size_cost.usual)


def _spliced(many: list[int], few: list[int], lengths: Sequence[int], target: int) -> list[int]:
    """Stretches of two segmentations in turn, changing over where both cut, so that the mean is ``target``.

    Where all units are alike, no price gives a mean between two sizes. At the price in question both are
    optimal, and so is whatever changes over between them at a common cut.
    """
    ends = [0, *itertools.accumulate(lengths)]
    common = sorted(set(many) & set(few))
    result: list[int] = []
    for start, stop in itertools.pairwise([*common, len(lengths)]):
        number = ends[stop] / target - len(result)
        options = [starts[bisect_left(starts, start) : bisect_left(starts, stop)] for starts in (many, few)]
        misses = [abs(len(option) - number) for option in options]
        result += options[misses.index(min(misses))]
    return result


def threshold_boundaries(
    lengths: Sequence[int], keep: Sequence[float], coarse_tokens: int, max_tokens: int, min_tokens: int
) -> list[int]:
    """The paper's segmentation (section IV): coarse windows, each cut wherever ``keep`` is negative.

    Windows are whole units of at most ``coarse_tokens`` together. A chunk above ``max_tokens`` is cut
    further, by `optimal_boundaries`, whose arguments and result these are; one below ``min_tokens`` (0 is the
    paper) joins the neighbor of its window that it most likely belongs to, if it fits.
    """
    whole = SizeCost(max_tokens, max_tokens, 0)  # no cost for size: only the limit counts
    starts: list[int] = []
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
            inner = optimal_boundaries(lengths[first:last], keep[first : last - 1], whole)
            runs = sorted({*runs, *(first + offset for offset in inner)})
        starts += _join_short(runs, lengths, keep, max_tokens, min_tokens)
        start = stop
    return starts


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
