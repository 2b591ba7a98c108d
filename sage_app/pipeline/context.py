"""From selected chunks to the context that is sent; text is never changed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from sage_core.text.spans import Span


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of context.

    Attributes:
        text: Its text.
        document: Which document it comes from; None if unknown.
        span: Where it lies in that document, so that ``document_text[span.start:span.end] == text``; None
            where unknown.
        members: Positions, in the caller's list, of the chunks that it is made of, in document order.
    """

    text: str
    document: Hashable = None
    span: Span | None = None
    members: tuple[int, ...] = ()


def without_duplicates(chunks: Sequence[Passage]) -> list[Passage]:
    """Selected chunks as context, best first, each text once.

    Exact duplicates go: a text already there, or a span that lies inside another of the same document, which
    then has the better place of the two.

    Args:
        chunks: Best first. ``members`` is ignored and set anew.
    """
    unique: list[Passage] = []
    for passage in (replace(c, members=(i,)) for i, c in enumerate(chunks)):
        if any(_holds(other, passage) for other in unique):
            continue
        inside = [i for i, other in enumerate(unique) if _holds(passage, other)]
        if inside:
            unique[inside[0]] = passage
            unique = [p for i, p in enumerate(unique) if i not in inside[1:]]
        else:
            unique.append(passage)
    return unique


def _holds(outer: Passage, inner: Passage) -> bool:
    """Whether ``inner`` says nothing that ``outer`` does not."""
    if outer.text == inner.text:
        return True
    if outer.span is None or inner.span is None or outer.document != inner.document:
        return False
    return outer.span.start <= inner.span.start and inner.span.end <= outer.span.end
