"""Chunks of a fixed size, whole sentences each: the splitting of naive RAG."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from sage_core.errors import InputError
from sage_core.segmentation.long_sentences import split_long, weigh
from sage_core.text.sentences import split_sentences
from sage_core.text.spans import Span
from sage_core.text.tokens import TokenCounter, get_counter

NAIVE_TOKENS = 200
"""Size of the chunks of naive RAG (paper, section VII-A)."""


class FixedChunker:
    """Whole sentences, as many as fit a size; a longer sentence is cut (the paper's naive RAG).

    Args:
        tokens: Hard limit of a chunk.
        overlap: Tokens that a chunk may repeat of the one before, in whole sentences; they count.
        counter: The token counter or its name.

    Raises:
        InputError: For sizes out of range.
    """

    def __init__(
        self, tokens: int = NAIVE_TOKENS, *, overlap: int = 0, counter: str | TokenCounter = "bert"
    ) -> None:
        if tokens < 1 or not 0 <= overlap < tokens:
            raise InputError(
                f"fixed chunks take at least 1 token and an overlap below that, not {tokens} and {overlap}"
            )
        self._room = tokens - overlap
        self._overlap = overlap
        self._counter = get_counter(counter) if isinstance(counter, str) else counter
        self.fingerprint = f"fixed({tokens}, overlap={overlap}, {self._counter.name})"

    def segment_many(self, texts: Iterable[str]) -> list[list[Span]]:
        """Spans of the chunks of each text."""
        return [self._segment(text) for text in texts]

    def _segment(self, text: str) -> list[Span]:
        sentences = split_sentences(text)
        counts = weigh(self._counter, [s.of(text) for s in sentences], self._room)
        spans = self._packed(text, list(zip(sentences, counts, strict=True)))
        return self._overlapping(text, spans, sentences, counts) if self._overlap else spans

    def _packed(self, text: str, units: Sequence[tuple[Span, int]]) -> list[Span]:
        """As many whole sentences as fit, again and again; pieces of one that does not fit alone."""
        room, counter = self._room, self._counter
        units = [
            part
            for span, count in units
            for part in ([(span, count)] if count <= room else split_long(text, span, counter, room, room))
        ]
        result: list[Span] = []
        first = 0
        while first < len(units):
            size, last = units[first][1], first + 1
            while last < len(units) and size + units[last][1] <= room:
                size += units[last][1]
                last += 1
            # What lies between two sentences may count too.
            while (
                last > first + 1
                and counter.count(text[units[first][0].start : units[last - 1][0].end]) > room
            ):
                last -= 1
            result.append(Span(units[first][0].start, units[last - 1][0].end))
            first = last
        return result

    def _overlapping(
        self, text: str, spans: list[Span], sentences: Sequence[Span], counts: Sequence[int]
    ) -> list[Span]:
        """Chunks drawn out backwards over the last sentences of the one before."""
        result = spans[:1]
        last = 0
        for before, span in itertools.pairwise(spans):
            while last < len(sentences) and sentences[last].start < span.start:
                last += 1
            first, size = last, 0
            while (
                first
                and sentences[first - 1].start > before.start
                and size + counts[first - 1] <= self._overlap
            ):
                first -= 1
                size += counts[first]
            limit = self._room + self._overlap
            while first < last and self._counter.count(text[sentences[first].start : span.end]) > limit:
                first += 1
            result.append(Span(sentences[first].start if first < last else span.start, span.end))
        return result
