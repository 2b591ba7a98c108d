"""Reasoning that a model writes before or between its answer: found, left out, and kept out of streams."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator

_NAMES = "think|thinking|thought|reasoning|seed:think"
_OPEN = rf"<(?P<name>{_NAMES})>|\[(?P<mark>THINK)\]"
_CLOSE = rf"</(?:{_NAMES})>|\[/THINK\]"
_TAG = re.compile(rf"(?i)(?P<open>{_OPEN})|{_CLOSE}")
# The beginning of a tag at the end of a piece: "<thi".
_BEGUN = re.compile(r"[<\[][/\w:]{0,12}\Z")


def reasoning_spans(text: str) -> list[tuple[int, int]]:
    """Where reasoning stands in a reply, tags included.

    A block from ``<think>`` or ``[THINK]`` to its end; one that never ends if it begins a line; and all that
    stands before an end without a beginning, since some prompts open the block themselves.
    """
    spans: list[tuple[int, int]] = []
    opened: int | None = None
    for tag in _TAG.finditer(text):
        if tag["open"]:
            opened = tag.start() if opened is None else opened
        elif opened is not None:
            spans.append((opened, tag.end()))
            opened = None
        else:
            spans = [(0, tag.end())]
    if opened is not None and not text[:opened].rpartition("\n")[2].strip():
        spans.append((opened, len(text)))
    return spans


def without_reasoning(text: str) -> str:
    """A reply without its reasoning; the very text if it has none."""
    spans = reasoning_spans(text)
    if not spans:
        return text
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    parts = (text[a:b].strip() for a, b in zip(ends, starts, strict=True))
    return "\n".join(part for part in parts if part)


def blanked_reasoning(text: str) -> str:
    """A reply with blanks in place of its reasoning, so that places in it stay true."""
    for start, end in reasoning_spans(text):
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    return text


class AnswerStream:
    """Tells the answer from the reasoning in a text that comes in pieces.

    What comes before an end without a beginning was shown when the end comes.

    Examples:
        >>> stream = AnswerStream()
        >>> [stream.feed(piece) for piece in ("<thi", "nk>At nine?</think>", "At ", "seven.")]
        ['', '', 'At ', 'seven.']
    """

    def __init__(self) -> None:
        self._held = ""
        self._inside = False
        self._line = ""  # The line so far, up to what is held: a block that never ends must begin it.

    def feed(self, piece: str) -> str:
        """What of the text so far is shown now."""
        self._held += piece
        shown = ""
        while tag := _TAG.search(self._held):
            if not self._inside:
                shown += self._shown(self._held[: tag.start()])
                self._held = self._held[tag.start() if tag["open"] else tag.end() :]
                self._inside = bool(tag["open"])
            elif close := re.search(rf"(?i){_CLOSE}", self._held):
                self._held, self._inside = self._held[close.end() :], False
            else:
                return shown
        if not self._inside:
            begun = _BEGUN.search(self._held)
            at = begun.start() if begun else len(self._held)
            shown += self._shown(self._held[:at])
            self._held = self._held[at:]
        return shown

    def finish(self) -> str:
        """What was held back and is no reasoning after all."""
        held, self._held = self._held, ""
        return "" if self._inside and not self._line.strip() else self._shown(held)

    def _shown(self, text: str) -> str:
        if not self._line and not text.strip():
            return ""  # Blanks before the answer.
        text = text if self._line else text.lstrip()
        self._line = (self._line + text).rpartition("\n")[2] or "\n"
        return text


def answer_pieces(pieces: Iterator[str], written: list[str] | None = None) -> Generator[str, None, None]:
    """The pieces of an answer without its reasoning; ``written`` gets all of them as they are."""
    stream = AnswerStream()
    for piece in pieces:
        if written is not None:
            written.append(piece)
        if shown := stream.feed(piece):
            yield shown
    if rest := stream.finish():
        yield rest


async def aanswer_pieces(
    pieces: AsyncIterator[str], written: list[str] | None = None
) -> AsyncGenerator[str, None]:
    """`answer_pieces`, awaited; the pieces are closed with the reader, which ends a generation."""
    stream = AnswerStream()
    try:
        async for piece in pieces:
            if written is not None:
                written.append(piece)
            if shown := stream.feed(piece):
                yield shown
    finally:
        if (close := getattr(pieces, "aclose", None)) is not None:
            await close()
    if rest := stream.finish():
        yield rest
