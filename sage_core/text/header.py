"""A short line that says where a chunk stands: its document's title and the headings above it.

It goes before the text wherever a model reads the chunk (embedding, word index, reranker), and never into the
text that is stored or sent.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

from sage_core.text.tokens import TokenCounter

SEPARATOR = " > "
"""Between the parts of a header."""

MAX_HEADER_TOKENS = 64
"""A longer header would say more than the chunk."""


def header_parts(text: str, title: str | None, headings: Sequence[str] = ()) -> tuple[str, ...]:
    """What a header of a chunk should say, outermost first: the document's title, and the headings above it.

    Parts have single spaces; blank ones and immediate repetitions are left out, and a heading with which the
    chunk begins: it says that itself.
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
) -> list[str]:
    """Headers ``"Title > Heading"`` that fit into an embedding model's window together with their texts.

    What is too long is shortened from the outside in: first the title goes, then the outer headings; the
    innermost one is cut after as many words as fit. Empty where there is nothing to say, or no room.

    Args:
        texts: The chunks.
        parts: From `header_parts`, for each.
        counter: Counts tokens as the embedding model does.
        window: Most tokens of a header and its text together.
    """
    if not any(parts):
        return [""] * len(texts)
    lengths = counter.count_many(list(texts))
    cache: dict[tuple[tuple[str, ...], int], str] = {}
    headers = []
    for length, own in zip(lengths, parts, strict=True):
        room = min(MAX_HEADER_TOKENS, window - length)
        key = (tuple(own), room)
        if key not in cache:
            cache[key] = fitted_header(own, room, counter)
        headers.append(cache[key])
    return headers


def with_header(header: str, text: str) -> str:
    """What a model reads of a chunk: the header as a line of its own, where there is one, then the text."""
    return f"{header}\n{text}" if header else text


def fit_parts(parts: Sequence[str], fits: Callable[[Sequence[str]], bool]) -> tuple[str, ...]:
    """As much of a header as fits: its longest tail that does; else as many words of the innermost part.

    What fits must still fit when shortened.
    """
    for first in range(len(parts)):
        if fits(parts[first:]):
            return tuple(parts[first:])
    words = parts[-1].split(" ") if parts else []
    numbers = range(1, len(words) + 1)
    most = bisect.bisect_left(numbers, True, key=lambda n: not fits([" ".join(words[:n])]))
    return (" ".join(words[:most]),) if most else ()


def fitted_header(parts: Sequence[str], room: int, counter: TokenCounter) -> str:
    """A header of as many of these parts as fit in ``room`` tokens."""
    line = SEPARATOR.join(parts)
    if len(line) <= room and line.isascii():  # no token is shorter than a character
        return line
    if room < 1:
        return ""
    return SEPARATOR.join(fit_parts(parts, lambda some: counter.count(SEPARATOR.join(some)) <= room))
