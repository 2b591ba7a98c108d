"""One text: its sentences and their probabilities in, chunks within the limit out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sage_core.segmentation.boundaries import (
    GLUED,
    SizeCost,
    optimal_boundaries,
    sized_boundaries,
    threshold_boundaries,
)
from sage_core.segmentation.layout import Layout, Sentences, evidence
from sage_core.segmentation.limits import Limits
from sage_core.segmentation.long_sentences import split_long
from sage_core.segmentation.structure import hold_units, part_sections, whole_blocks
from sage_core.text.language import LETTERS, sample
from sage_core.text.lexicon import PROSE_WORDS
from sage_core.text.lines import Line
from sage_core.text.spans import Span
from sage_core.text.tokens import TokenCounter

_LONG_TABLE = 10_000
_PIECE_KEEP = 6.0  # log-odds that two pieces of one long sentence belong together
# White space to Python, not to every tokenizer.
_ODD_SPACE = re.compile(r"[\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")
_CERTAIN = 1e-6

_FEW_WORDS = 20
_ENGLISH_SHARE = 0.12  # of the words; English prose has 0.3 and more, lists and tables about 0.1
_LEAST_TRUST = 0.25


def english_trust(text: str) -> float:
    """How much a model trained on English says about a text, from 0.25 to 1.

    A sample of the text is read: the share of common English words among its words, 0.12 and more giving
    full weight, falling in proportion to 0.25 where there are none. Fewer than 20 words are too few to tell:
    then the script decides, Latin letters for 1, any other for 0.25.
    """
    words = LETTERS.findall(sample(text).lower())
    if len(words) < _FEW_WORDS:
        letters = "".join(words)
        latin = sum(sign < "\u0250" for sign in letters)
        return 1.0 if 2 * latin >= len(letters) else _LEAST_TRUST
    share = sum(map(PROSE_WORDS.__contains__, words)) / len(words)
    return min(1.0, max(_LEAST_TRUST, share / _ENGLISH_SHARE))


@dataclass(slots=True)
class _Units:
    """Sentences, or pieces of those that are too long."""

    spans: list[Span]
    lengths: list[int]
    keep: list[float]
    tables: frozenset[Span]
    """Units that are a table with its heading, and may be above the limit."""


def log_odds(probabilities: NDArray[np.float32]) -> NDArray[np.float64]:
    """Log-odds of probabilities, to three decimals.

    The rounding makes decisions independent of how a batch was packed, which moves a float32's last bits.
    """
    p = np.clip(probabilities.astype(np.float64), _CERTAIN, 1 - _CERTAIN)
    p[np.isnan(p)] = 0.5
    return np.asarray(np.round(np.log(p / (1 - p)), 3), dtype=np.float64)


def chunks(
    text: str,
    spans: list[Span],
    read: tuple[list[Line], dict[int, int]],
    lengths: list[int],
    probabilities: NDArray[np.float32],
    limits: Limits,
    counter: TokenCounter,
    layout: Layout,
    *,
    trust: float = 1.0,
    sums: bool = False,
) -> list[Span]:
    """Chunks of one text; none counts more than ``limits.max_tokens``, but a single character that does.

    Args:
        text: The source.
        spans: Its ``n`` sentences.
        read: Its lines and headings, see `sage_core.text.blocks.classified`.
        lengths: Their tokens, at least 1 each.
        probabilities: P(same) of the ``n - 1`` gaps.
        limits: Sizes, threshold and strategy.
        counter: Measures joined chunks where lengths do not simply add up.
        layout: Weights of the layout.
        trust: Weight of the model's log-odds, from 0 to 1; see `english_trust`.
        sums: Whether a chunk has as many tokens as its sentences together.
    """
    if not spans:
        return []
    bias = float(log_odds(np.array([limits.threshold], dtype=np.float32))[0])
    votes = (trust * (log_odds(probabilities) - bias)).tolist()
    sentences = Sentences.of(text, spans, read)
    keep = [a + b for a, b in zip(votes, evidence(sentences, layout, votes, trust), strict=True)]
    if limits.target_tokens is None or limits.by_topic:  # a target asks for sections together
        keep = part_sections(keep, sentences, lengths, limits.max_tokens)
    keep = hold_units(keep, sentences, lengths, limits.max_tokens)
    whole = whole_blocks(sentences, lengths, limits.max_tokens, limits.most_of_a_table)
    units = _joined(spans, lengths, keep, whole)
    if max(lengths) > limits.max_tokens or max(keep, default=0.0) >= GLUED:
        units = _fit_units(text, units, counter, limits.max_tokens)
    if limits.strategy == "optimal":
        # A limit that stands for none needs no table of costs beyond the text.
        most = min(limits.max_tokens, max(_LONG_TABLE, sum(units.lengths)))
        size_cost = SizeCost(limits.usual_tokens, most, limits.min_tokens)
        if limits.by_topic:
            starts = optimal_boundaries(units.lengths, units.keep, size_cost)
        else:
            or_less = limits.target_tokens is None
            starts = sized_boundaries(units.lengths, units.keep, size_cost, or_less=or_less)
    else:
        starts = threshold_boundaries(
            units.lengths, units.keep, limits.coarse_tokens, limits.max_tokens, limits.min_tokens
        )
    ranges = list(zip(starts, [*starts[1:], len(units.spans)], strict=True))
    doubtful = _doubtful(text, units.spans, ranges, counter, sums)
    result: list[Span] = []
    for first, last in ranges:
        if (first, last) in doubtful:
            table = units.spans[first] in units.tables
            most = limits.most_of_a_table if table else limits.max_tokens
            result += _measured(text, units, first, last, counter, most, doubtful[first, last])
        else:
            result.append(Span(units.spans[first].start, units.spans[last - 1].end))
    return result


def _joined(spans: list[Span], lengths: list[int], keep: list[float], whole: list[tuple[int, int]]) -> _Units:
    """Units that are the sentences, but for each range of ``whole``, which is one."""
    if not whole:
        return _Units(spans, lengths, keep, frozenset())
    units = _Units([], [], [], frozenset(Span(spans[a].start, spans[b].end) for a, b in whole))
    done = 0
    for first, last in [*whole, (len(spans), len(spans))]:
        units.spans += spans[done:first]
        units.lengths += lengths[done:first]
        units.keep += keep[done:first]
        if first < len(spans):
            units.spans.append(Span(spans[first].start, spans[last].end))
            units.lengths.append(sum(lengths[first : last + 1]))
            units.keep += keep[last : last + 1]
        done = last + 1
    return units


def _fit_units(text: str, units: _Units, counter: TokenCounter, limit: int) -> _Units:
    """Cut sentences above the limit, and those that leave no room for the heading before them."""
    fitted = _Units([], [], [], units.tables)
    heading = 0  # tokens of the headings just before
    for index, (span, length) in enumerate(zip(units.spans, units.lengths, strict=True)):
        room = limit - heading if heading <= limit // 2 else limit
        if index:
            fitted.keep.append(units.keep[index - 1])
        if length > room and span not in units.tables:
            pieces = split_long(text, span, counter, limit, room)
            fitted.spans += [piece for piece, _ in pieces]
            fitted.lengths += [weight for _, weight in pieces]
            fitted.keep += [_PIECE_KEEP] * (len(pieces) - 1)
        else:
            fitted.spans.append(span)
            fitted.lengths.append(length)
        heads = index < len(units.keep) and units.keep[index] >= GLUED
        heading = heading + length if heads else 0
    return fitted


def _doubtful(
    text: str, spans: Sequence[Span], ranges: list[tuple[int, int]], counter: TokenCounter, sums: bool
) -> dict[tuple[int, int], int]:
    """The chunks that may have more tokens than their units together, each with its tokens as it stands."""
    if sums:
        odd = _ODD_SPACE.search(text) is not None
        touching = [end == start for (_, end), (start, _) in itertools.pairwise(spans)]
        if not odd and not any(touching):
            return {}
        ranges = [
            (a, b)
            for a, b in ranges
            if any(touching[a : b - 1]) or (odd and _ODD_SPACE.search(text, spans[a].start, spans[b - 1].end))
        ]
    counts = counter.count_many([text[spans[a].start : spans[b - 1].end] for a, b in ranges])
    return dict(zip(ranges, counts, strict=True))


def _measured(
    text: str, units: _Units, first: int, last: int, counter: TokenCounter, limit: int, count: int
) -> list[Span]:
    """The chunk of units ``first`` to ``last`` with ``count`` tokens; cut at its weakest gaps if too long."""
    result: list[Span] = []
    pending = [(first, last, count)]
    while pending:
        first, last, count = pending.pop()
        span = Span(units.spans[first].start, units.spans[last - 1].end)
        if count <= limit:
            result.append(span)
        elif last - first == 1:
            result += [piece for piece, _ in split_long(text, span, counter, limit, limit)]
        else:
            weakest = min(range(first + 1, last), key=lambda i: units.keep[i - 1])
            for a, b in ((weakest, last), (first, weakest)):
                pending.append((a, b, counter.count(text[units.spans[a].start : units.spans[b - 1].end])))
    return result
