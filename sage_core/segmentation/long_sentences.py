"""Sentences longer than the limit: cut between records, after a comma, else at white space, else anywhere."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from sage_core.text.spans import Span, trim
from sage_core.text.tokens import TokenCounter

CHARS_PER_TOKEN = 32
"""So many characters count as one token at least: an unknown token may hide any number of them."""

_LINE_STARTS = re.compile(r"\n\s*(\S)")
# Where a long text is cut, the best first: between records, between cells, after clauses, after those of
# scripts without spaces and values of data, at white space.
_BREAKS = (
    re.compile(r"\s*\n\s*"),
    re.compile(r"(?<=\|)\s+"),
    re.compile(r"(?<=[,;:)—–，；、،])\s+"),
    re.compile(r'(?<=[，；、：])|(?<=[]}"\d],)(?=["\[{])'),
    re.compile(r"\s+"),
    re.compile("(?<=\u200b)"),  # where words end in scripts that write no spaces (Khmer)
)
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")
_SLACK = 0.9  # pieces aim at this share of the limit, so that few turn out too long
_MOST_MARKS = 16  # accents and joiners looked through before a cut inside a character is accepted


def token_lengths(counter: TokenCounter, texts: list[str], limit: int) -> list[int]:
    """Tokens of each text, at least 1. One far above ``limit`` is not counted, only known to be too long."""
    most = limit * CHARS_PER_TOKEN
    if max(map(len, texts), default=0) > most:
        counts = counter.count_many([text if len(text) <= most else "" for text in texts])
    else:
        counts = counter.count_many(texts)
    return [
        max(count, -(-len(text) // CHARS_PER_TOKEN), 1) for count, text in zip(counts, texts, strict=True)
    ]


def split_long(
    text: str, span: Span, counter: TokenCounter, limit: int, first_limit: int
) -> list[tuple[Span, int]]:
    """Cut one long sentence into pieces of about equal size, each with its tokens.

    Pieces have no white space at their ends; together they hold every other character of the sentence.

    Args:
        text: The source.
        span: The sentence, without white space at its ends.
        counter: Measures the pieces.
        limit: Most tokens of a piece. A single character may have more: it is then a piece of its own.
        first_limit: Most tokens of the first piece (less than ``limit`` where a heading stands before it).
    """
    result: list[tuple[Span, int]] = []
    pending = [span]
    while pending:
        piece = pending.pop()
        weight = token_lengths(counter, [piece.of(text)], limit)[0]
        room = limit if result else first_limit
        if weight <= room or piece.end - piece.start == 1:
            result.append((piece, weight))
        elif room < limit:
            pending += _parts(text, piece, [min(0.5, _SLACK * room / weight)])[::-1]
        else:
            count = max(2, -int(-weight // (_SLACK * limit)))
            pending += _parts(text, piece, [part / count for part in range(1, count)])[::-1]
    return result


def fit_window(text: str, spans: Sequence[Span], counter: TokenCounter, window: int) -> list[Span]:
    """Chunks as they are, and in pieces those that an embedding model would not read to their end.

    Args:
        text: The source.
        spans: Its chunks.
        counter: The embedding model's own tokens.
        window: How many of them it reads.
    """
    counts = counter.count_many([span.of(text) for span in spans])
    result: list[Span] = []
    for span, count in zip(spans, counts, strict=True):
        pieces = split_long(text, span, counter, window, window) if count > window else [(span, count)]
        result += [piece for piece, _ in pieces]
    return result


def _parts(text: str, piece: Span, shares: list[float]) -> list[Span]:
    """``piece`` cut near the given shares of its length."""
    length = piece.end - piece.start
    reach = max(1, int(length * shares[0] / 4))
    starts = _LINE_STARTS.findall(text, piece.start, piece.end)
    are_records = bool(starts) and sum(map(str.islower, starts)) <= len(starts) / 4  # of prose, most
    breaks = _BREAKS if are_records else _BREAKS[1:]
    result: list[Span] = []
    start = piece.start
    for share in shares:
        target = piece.start + int(length * share)
        if start + 1 > target or target >= piece.end:
            continue
        low = start + 1 if are_records else max(start + 1, target - reach)
        high = min(piece.end, target + reach)
        cut = _best_break(text, breaks, start, low, target, high)
        left = trim(text, Span(start, cut))
        if left.end > left.start and cut < piece.end:
            result.append(left)
            start = cut
    if not result:  # a few characters: cut in the middle
        start = piece.start + max(1, length // 2)
        result.append(trim(text, Span(piece.start, start)))
    result.append(trim(text, Span(start, piece.end)))
    return [span for span in result if span.end > span.start]


def _best_break(
    text: str, breaks: Sequence[re.Pattern[str]], start: int, low: int, target: int, high: int
) -> int:
    """A place in ``low..high`` to cut: of the first kind of ``breaks`` there, the nearest to ``target``.

    Where there is none, the last space after ``start``; a word is cut in two only where it fills the piece.
    """
    for pattern in breaks:
        if places := [match.start() for match in pattern.finditer(text, low, high)]:
            return min(places, key=lambda at: abs(at - target))
    # No space near the target: rather a short piece than a word in two.
    earlier = text.rfind(" ", start, low)
    if earlier > start:
        return earlier
    near = range(max(low, target - _MOST_MARKS), min(high, target + _MOST_MARKS))
    free = (at for at in near if not _joined(text[at - 1], text[at]))
    return min(free, key=lambda at: abs(at - target), default=target)


def _joined(before: str, after: str) -> bool:
    """Whether the two characters are (probably) parts of what a reader sees as one."""
    if after in _JOINERS or before == "\u200d":
        return True
    return unicodedata.combining(after) != 0 or "\U0001f3fb" <= after <= "\U0001f3ff"
