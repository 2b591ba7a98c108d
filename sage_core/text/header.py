"""A short line that says where a chunk stands: its document's title and the headings above it.

It goes before the text wherever a model reads the chunk (embedding, word index, reranker), and never into the
text that is stored or sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sage_core.text.tokens import TokenCounter

SEPARATOR = " > "
"""Between the parts of a header."""

MAX_HEADER_TOKENS = 64
"""A longer header would say more than the chunk."""


def header_parts(text: str, title: str | None, headings: Sequence[str] = ()) -> tuple[str, ...]:
    """What a header of ``text`` should say, outermost first.

    Args:
        text: The chunk. A heading with which it begins is left out: it says that itself.
        title: Of the document; None or blank for none.
        headings: Above the chunk, outermost first.

    Returns:
        The title and the headings with single spaces, blank ones and immediate repetitions left out.
    """
    parts: list[str] = []
    for part in (title or "", *headings):
        line = " ".join(part.split())
        if line and (not parts or parts[-1].casefold() != line.casefold()):
            parts.append(line)
    beginning = " ".join(text[: 2 * sum(map(len, parts)) + 64].split()).lstrip("#=*_>-. \t").casefold()
    while parts and beginning.startswith(parts[-1].casefold()):
        parts.pop()
    return tuple(parts)


def make_headers(
    texts: Sequence[str],
    parts: Sequence[Sequence[str]],
    *,
    counter: TokenCounter,
    window: int,
    max_tokens: int = MAX_HEADER_TOKENS,
) -> list[str]:
    """Headers that fit into an embedding model's window together with their texts.

    What is too long is shortened from the outside in: first the title goes, then the outer headings; the
    innermost one is cut after as many words as fit.

    Args:
        texts: The chunks.
        parts: From `header_parts`, for each.
        counter: Counts tokens as the embedding model does.
        window: Most tokens of a header and its text together.
        max_tokens: Most tokens of a header.

    Returns:
        One line per text, ``"Title > Heading"``; empty where there is nothing to say, or no room.
    """
    if not any(parts):
        return [""] * len(texts)
    lengths = counter.count_many(list(texts))
    cache: dict[tuple[tuple[str, ...], int], str] = {}
    headers = []
    for length, own in zip(lengths, parts, strict=True):
        room = min(max_tokens, window - length)
        key = (tuple(own), room)
        if key not in cache:
            cache[key] = _fitted(key[0], room, counter)
        headers.append(cache[key])
    return headers


def with_header(header: str, text: str) -> str:
    """What a model reads of a chunk: the header as a line of its own, where there is one, then the text."""
    return f"{header}\n{text}" if header else text


def fit_parts(parts: Sequence[str], fits: Callable[[Sequence[str]], bool]) -> tuple[str, ...]:
    """As much of a header as fits, shortened from the outside in.

    Args:
        parts: Of the header, outermost first.
        fits: Whether these parts fit. What fits must still fit when shortened.

    Returns:
        The longest tail of ``parts`` that fits; else the innermost one, cut after as many words as fit; else
        nothing.
    """
    for first in range(len(parts)):
        if fits(parts[first:]):
            return tuple(parts[first:])
    words = parts[-1].split(" ") if parts else []
    low, high = 0, len(words)
    while low < high:  # the most words that fit
        middle = (low + high + 1) // 2
        if fits([" ".join(words[:middle])]):
            low = middle
        else:
            high = middle - 1
    return (" ".join(words[:low]),) if low else ()


def _fitted(parts: tuple[str, ...], room: int, counter: TokenCounter) -> str:
    if room < 1:
        return ""
    return SEPARATOR.join(fit_parts(parts, lambda some: counter.count(SEPARATOR.join(some)) <= room))
