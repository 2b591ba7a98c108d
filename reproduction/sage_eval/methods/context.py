"""From selected chunks to the context that is sent: duplicates out, a token budget, document order, joins.

Text is never changed: passages are dropped, ordered or put together, and a joined passage is again an exact
slice of its document.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sage_core.errors import InputError
from sage_core.text.spans import Span
from sage_core.text.tokens import TokenCounter, get_counter

Order = Literal["rank", "document"]
ORDERS: tuple[Order, ...] = ("rank", "document")


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


def build_context(
    chunks: Sequence[Passage],
    *,
    order: Order = "document",
    join: bool = True,
    max_tokens: int | None = None,
    counter: TokenCounter | None = None,
    sources: Mapping[Hashable, str] | None = None,
) -> list[Passage]:
    """Turn selected chunks into context.

    First exact duplicates go: a text already there, or a span that lies inside another of the same document
    (the one with the better rank gives the place). Then, from the worst rank up, chunks go until the rest
    fits ``max_tokens``; the best always stays. What is left is put in order and joined.

    Args:
        chunks: Best first, as selected. ``members`` is ignored and set anew.
        order: ``"document"``: documents by their best chunk, chunks within one by position; those of unknown
            place stay where their rank puts them, as a document of their own. ``"rank"``: best first.
        join: With document order, make one passage of chunks that touch or overlap, and of chunks with only
            white space between them, which is taken from ``sources``.
        max_tokens: Most tokens of all passages together, counted chunk by chunk; None for no limit.
        counter: Counts tokens; None for the bundled word-piece counter.
        sources: Whole text by document. A segmenter's chunks end before the white space that follows them, so
            without it nobody knows what lies between two of them.

    Returns:
        Passages whose ``members`` say which chunks they hold.

    Raises:
        InputError: For a span that does not hold its text, an unknown order, or a limit below 1.
    """
    if order not in ORDERS:
        raise InputError(f"unknown order {order!r}: 'rank' or 'document'")
    if max_tokens is not None and max_tokens < 1:
        raise InputError(f"max_tokens must be at least 1, not {max_tokens}")
    sources = sources or {}
    for chunk in chunks:
        _check_span(chunk, sources.get(chunk.document))
    passages = without_duplicates(chunks)
    if max_tokens is not None:
        passages = _within_budget(passages, max_tokens, counter or get_counter("bert"))
    if order == "rank":
        return passages
    ordered = _document_order(passages)
    return _joined(ordered, sources) if join else ordered


def _check_span(chunk: Passage, source: str | None) -> None:
    """Raise InputError where a chunk cannot be, or is not, what lies at its span."""
    span = chunk.span
    if span is None:
        return
    if span.start < 0 or span.end - span.start != len(chunk.text):
        raise InputError(f"a chunk of {len(chunk.text)} characters cannot lie at {tuple(span)}")
    if source is not None and span.of(source) != chunk.text:
        raise InputError(f"the document {chunk.document!r} has another text at {tuple(span)} than its chunk")


def _within_budget(passages: Sequence[Passage], max_tokens: int, counter: TokenCounter) -> list[Passage]:
    """The longest run of best passages that fits; at least the best one."""
    total = 0
    for i, count in enumerate(counter.count_many([p.text for p in passages])):
        total += count
        if total > max_tokens and i:
            return list(passages[:i])
    return list(passages)


def _document_order(passages: Sequence[Passage]) -> list[Passage]:
    """Documents by their best passage; within one, by position."""
    groups: dict[Hashable, list[Passage]] = {}
    for i, passage in enumerate(passages):
        key = ("unknown place", i) if passage.span is None else ("document", passage.document)
        groups.setdefault(key, []).append(passage)
    return [p for group in groups.values() for p in sorted(group, key=lambda p: p.span or Span(0, 0))]


def _joined(passages: Sequence[Passage], sources: Mapping[Hashable, str]) -> list[Passage]:
    """One passage of each run of passages with nothing, or white space of the source, between them."""
    result: list[Passage] = []
    for passage in passages:
        whole = _join(result[-1], passage, sources.get(passage.document)) if result else None
        if whole is None:
            result.append(passage)
        else:
            result[-1] = whole
    return result


def _join(first: Passage, second: Passage, source: str | None) -> Passage | None:
    """Two passages in document order as one, or None if something lies between them."""
    if first.span is None or second.span is None or first.document != second.document:
        return None
    span = Span(first.span.start, max(first.span.end, second.span.end))
    members = first.members + second.members
    overlap = first.span.end - second.span.start
    if overlap >= 0:
        text = first.text + second.text[overlap:]
    elif source is not None and source[first.span.end : second.span.start].isspace():
        text = span.of(source)
    else:
        return None
    return Passage(text, first.document, span, members)
