"""Spans: half-open ranges of characters in the caller's own string. Text is never rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sage_core.errors import InputError


class Span(NamedTuple):
    """Characters ``start`` to ``end`` (exclusive) of some text, in Python string indices.

    Examples:
        >>> Span(4, 7).of("The cat sat.")
        'cat'
    """

    start: int
    end: int

    def of(self, text: str) -> str:
        """The characters of ``text`` that this span covers."""
        return text[self.start : self.end]

    def shift(self, offset: int) -> Span:
        """The same span, ``offset`` characters later."""
        return Span(self.start + offset, self.end + offset)


def trim(text: str, span: Span) -> Span:
    """``span`` without white space at its ends; empty (at ``span.start``) where nothing else is in it."""
    piece = text[span.start : span.end]
    left = len(piece) - len(piece.lstrip())
    length = len(piece.strip())
    if not length:
        return Span(span.start, span.start)
    return Span(span.start + left, span.start + left + length)


def check_tiling(text: str, spans: Iterable[tuple[int, int] | str]) -> list[Span]:
    """Spans that come from somebody else's code (a custom sentence splitter), checked, trimmed and not empty.

    ``spans`` are ``(start, end)`` pairs: ordered, not overlapping, together covering every character that is
    not white space. Or the sentences themselves, each of which is looked for after the one before.

    Raises:
        InputError: Where a pair is out of range, out of order, or text between two pairs is lost.
    """
    result: list[Span] = []
    cursor = 0
    for start, end in _pairs(text, spans):
        if not 0 <= start <= end <= len(text):
            raise InputError(f"span ({start}, {end}) lies outside a text of {len(text)} characters")
        if start < cursor:
            raise InputError(f"span ({start}, {end}) starts before the previous one ends at {cursor}")
        if text[cursor:start].strip():
            raise InputError(f"the text between characters {cursor} and {start} is in no span")
        inner = trim(text, Span(start, end))
        if inner.end > inner.start:
            result.append(inner)
        cursor = end
    if text[cursor:].strip():
        raise InputError(f"the text after character {cursor} is in no span")
    return result


def _pairs(text: str, spans: Iterable[tuple[int, int] | str]) -> Iterator[tuple[int, int]]:
    """Pairs as they are, sentences where they stand in the text."""
    cursor = 0
    for item in spans:
        if isinstance(item, str):
            sentence = item.strip()
            start = text.find(sentence, cursor)
            if start < 0:
                raise InputError(
                    f"a sentence splitter must not change the text, but it gave {sentence[:60]!r}"
                )
            cursor = start + len(sentence)
            yield start, cursor
            continue
        try:
            start, end = item
        except (TypeError, ValueError):
            raise InputError(
                f"a sentence splitter gives (start, end) pairs or the sentences themselves, not {item!r}"
            ) from None
        yield start, end
