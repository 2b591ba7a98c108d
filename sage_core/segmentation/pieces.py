"""Sentences longer than the limit: cut at white space, after a comma where there is one, then anywhere."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from sage_core.spans import Span
from sage_core.tokens import TokenCounter

CHARS_PER_TOKEN = 32
"""So many characters count as one token at least: an unknown token may hide any number of them."""

_WORD = re.compile(r"\S+")
_CLAUSE_ENDS = (",", ";", ":", ")", "—", "–", "，", "；", "、", "،")
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")


def weigh(counter: TokenCounter, texts: list[str], limit: int) -> list[int]:
    """Tokens of each text, at least 1. One far above ``limit`` is not counted, only known to be too long."""
    most = limit * CHARS_PER_TOKEN
    if max(map(len, texts), default=0) > most:
        counts = counter.count_many([text if len(text) <= most else "" for text in texts])
    else:
        counts = counter.count_many(texts)
    return [
        max(count, -(-len(text) // CHARS_PER_TOKEN), 1) for count, text in zip(counts, texts, strict=True)
    ]


def split_long(text: str, span: Span, counter: TokenCounter, limit: int, first_limit: int) -> list[Span]:
    """Cut one long sentence into pieces of about equal size.

    Args:
        text: The source.
        span: The sentence.
        counter: Measures the pieces.
        limit: Most tokens of a piece. A single character may have more: it is then a piece of its own.
        first_limit: Most tokens of the first piece (less than ``limit`` where a heading stands before it).

    Returns:
        Pieces in order, without white space at their ends, that hold every other character of the sentence.
    """
    words: list[Span] = []
    for match in _WORD.finditer(text, span.start, span.end):
        words += _slices(text, Span(*match.span()), limit * CHARS_PER_TOKEN)
    weights = weigh(counter, [text[a:b] for a, b in words], limit)
    if max(weights) > limit:
        words = [
            piece
            for word, weight in zip(words, weights, strict=True)
            for piece in _cut_word(text, word, weight, limit, counter)
        ]
        weights = weigh(counter, [text[a:b] for a, b in words], limit)
    result: list[Span] = []
    for piece, first, last in _packed(text, words, weights, limit, first_limit):
        room = first_limit if not result else limit
        if last - first > 1 and counter.count(text[piece.start : piece.end]) > room:
            result += _halved(text, words[first:last], counter, room)
        else:
            result.append(piece)
    return result


def _packed(
    text: str, words: list[Span], weights: list[int], limit: int, first_limit: int
) -> Iterator[tuple[Span, int, int]]:
    """Runs of words of about equal weight, as (span, index of its first word, index after its last)."""
    total = sum(weights)
    target = total / -(-total // limit)
    room = first_limit
    first, size = 0, 0
    for index, weight in enumerate(weights):
        clause = size >= 0.8 * min(target, room) and text.endswith(_CLAUSE_ENDS, 0, words[index - 1].end)
        if index > first and (size + weight > room or size >= min(target, room) or clause):
            yield Span(words[first].start, words[index - 1].end), first, index
            first, size, room = index, 0, limit
        size += weight
    yield Span(words[first].start, words[-1].end), first, len(words)


def _halved(text: str, words: list[Span], counter: TokenCounter, limit: int) -> list[Span]:
    """Words whose joined count is above the sum of their counts: halved until they fit."""
    whole = Span(words[0].start, words[-1].end)
    if len(words) == 1 or counter.count(text[whole.start : whole.end]) <= limit:
        return [whole]
    middle = len(words) // 2
    return _halved(text, words[:middle], counter, limit) + _halved(text, words[middle:], counter, limit)


def _cut_word(text: str, word: Span, weight: int, limit: int, counter: TokenCounter) -> list[Span]:
    """A word above the limit, cut anywhere but inside a character with its accents and joiners."""
    if weight <= limit:
        return [word]
    pending = _slices(text, word, max(1, (word.end - word.start) * limit // weight))[::-1]
    result: list[Span] = []
    while pending:
        piece = pending.pop()
        if piece.end - piece.start > 1 and counter.count(text[piece.start : piece.end]) > limit:
            halves = _slices(text, piece, (piece.end - piece.start + 1) // 2)
            if len(halves) == 1:  # one character with many accents: they have to be parted
                middle = (piece.start + piece.end) // 2
                halves = [Span(piece.start, middle), Span(middle, piece.end)]
            pending += halves[::-1]
        else:
            result.append(piece)
    return result


def _slices(text: str, span: Span, size: int) -> list[Span]:
    """``span`` in slices of about ``size`` characters."""
    result: list[Span] = []
    start = span.start
    while span.end - start > size:
        end = start + size
        while end > start + 1 and end > start + size - 16 and _joined(text[end - 1], text[end]):
            end -= 1
        if _joined(text[end - 1], text[end]):
            end = start + size
            while end < span.end and end < start + size + 16 and _joined(text[end - 1], text[end]):
                end += 1
        result.append(Span(start, end))
        start = end
    if start < span.end:
        result.append(Span(start, span.end))
    return result


def _joined(before: str, after: str) -> bool:
    """Whether the two characters are (probably) parts of what a reader sees as one."""
    if after < "\u0300":
        return False
    if after in _JOINERS or before == "\u200d":
        return True
    return unicodedata.combining(after) != 0 or "\U0001f3fb" <= after <= "\U0001f3ff"
