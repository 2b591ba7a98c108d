"""From the pieces chosen to the context sent: as ranked, in document order, or with their neighbors."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

from sage_core.errors import InputError
from sage_core.text.spans import Span
from sage_core.text.tokens import TokenCounter
from sage_eval.methods.context import Order, Passage, build_context
from sage_eval.records import Piece


class Arrangement(Protocol):
    """Makes the context of the pieces chosen. Used by several threads after `prepare`."""

    def describe(self) -> object:
        """What changes the context, JSON-ready."""
        ...

    def prepare(self, texts: Mapping[Hashable, str], pieces: Sequence[Piece]) -> None:
        """Told the documents' texts and all pieces, before questions come."""
        ...

    def arrange(self, chosen: Sequence[Piece]) -> tuple[Piece, ...]:
        """The context of pieces chosen, which are best first."""
        ...


class AsRanked:
    """Best first, nothing changed."""

    def describe(self) -> object:
        return "rank"

    def prepare(self, texts: Mapping[Hashable, str], pieces: Sequence[Piece]) -> None:
        """Nothing to do."""

    def arrange(self, chosen: Sequence[Piece]) -> tuple[Piece, ...]:
        return tuple(chosen)


class Assembled:
    """What `build_context` makes: no duplicates, a token budget, document order, joins.

    Args:
        order: ``"document"`` or ``"rank"``.
        max_tokens: Most tokens of the context; None for no limit.
        counter: Counts them.
    """

    def __init__(self, order: Order, max_tokens: int | None, counter: TokenCounter) -> None:
        if max_tokens is not None and max_tokens < 1:
            raise InputError(f"a budget is at least 1 token, not {max_tokens}")
        self._order = order
        self._max_tokens = max_tokens
        self._counter = counter
        self._texts: Mapping[Hashable, str] = {}

    def describe(self) -> object:
        return {"order": self._order, "budget": self._max_tokens, "counter": self._counter.name}

    def prepare(self, texts: Mapping[Hashable, str], pieces: Sequence[Piece]) -> None:
        """Keep the texts, which say what lies between two pieces."""
        self._texts = texts

    def arrange(self, chosen: Sequence[Piece]) -> tuple[Piece, ...]:
        passages = build_context(
            [Passage(p.text, p.document, p.span) for p in chosen],
            order=self._order,
            max_tokens=self._max_tokens,
            counter=self._counter,
            sources=self._texts,
        )
        return tuple(Piece(p.text, str(p.document), p.span) for p in passages)


class SentenceWindow:
    """Each sentence with its neighbors; windows that touch become one (Chronicles of RAG, appendix B).

    Windows are sent best first, a joined one at the place of its best sentence.

    Args:
        size: Neighbors on either side.
    """

    def __init__(self, size: int = 3) -> None:
        if size < 0:
            raise InputError(f"a window has at least 0 neighbors, not {size}")
        self._size = size
        self._texts: Mapping[Hashable, str] = {}
        self._spans: dict[str, list[Span]] = {}

    def describe(self) -> object:
        return {"window": self._size}

    def prepare(self, texts: Mapping[Hashable, str], pieces: Sequence[Piece]) -> None:
        """Keep where the sentences of each document lie."""
        spans: dict[str, list[Span]] = {}
        for piece in pieces:
            if piece.span is not None:
                spans.setdefault(piece.document, []).append(piece.span)
        self._texts, self._spans = texts, spans

    def arrange(self, chosen: Sequence[Piece]) -> tuple[Piece, ...]:
        windows = [self._window(piece) for piece in chosen]
        joined = build_context(windows, order="document", sources=self._texts)
        joined.sort(key=lambda passage: min(passage.members))
        return tuple(Piece(p.text, str(p.document), p.span) for p in joined)

    def _window(self, piece: Piece) -> Passage:
        if piece.span is None:
            return Passage(piece.text, piece.document)
        spans = self._spans[piece.document]
        at = bisect_left(spans, piece.span)
        first, last = spans[max(0, at - self._size)], spans[min(len(spans) - 1, at + self._size)]
        span = Span(first.start, last.end)
        return Passage(span.of(self._texts[piece.document]), piece.document, span)
