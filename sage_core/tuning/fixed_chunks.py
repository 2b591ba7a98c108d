"""Chunks of a fixed size, whole sentences each: the splitting of naive RAG."""

from __future__ import annotations

from collections.abc import Iterable

from sage_core._checks import check_int
from sage_core.segmentation.long_sentences import split_long, weigh
from sage_core.text.sentences import split_sentences
from sage_core.text.spans import Span
from sage_core.text.tokens import TokenCounter, get_counter


class FixedChunker:
    """Whole sentences, as many as fit a size; a longer sentence is cut (the paper's naive RAG).

    Args:
        tokens: Hard limit of a chunk.
        counter: The token counter or its name.

    Raises:
        InputError: For a limit below 1.
    """

    def __init__(self, tokens: int, *, counter: str | TokenCounter = "bert") -> None:
        self._room = check_int("tokens", tokens, minimum=1)
        self._counter = get_counter(counter) if isinstance(counter, str) else counter
        self.fingerprint = f"fixed({tokens}, overlap=0, {self._counter.name})"

    def segment_many(self, texts: Iterable[str]) -> list[list[Span]]:
        """Spans of the chunks of each text."""
        return [self._segment(text) for text in texts]

    def _segment(self, text: str) -> list[Span]:
        """As many whole sentences as fit, again and again; pieces of one that does not fit alone."""
        room, counter = self._room, self._counter
        sentences = split_sentences(text)
        units = [
            part
            for span, count in zip(
                sentences, weigh(counter, [s.of(text) for s in sentences], room), strict=True
            )
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
