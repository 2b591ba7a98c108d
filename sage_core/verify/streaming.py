"""Judges an answer sentence by sentence while it is written; no LLM is called."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar, get_args

from sage_core.errors import InputError
from sage_core.feedback.types import AnswerMark, StopOn
from sage_core.text.sentences import split_sentences
from sage_core.text.spans import Span
from sage_core.verify.claims import MAX_CLAIMS, Claim, claims_or_unsure, split_claims, unread_claim
from sage_core.verify.judge import LocalJudge, shared_judge
from sage_core.verify.local_check import ends_answer
from sage_core.verify.marks import claims_of, marks_between

# A sentence may have ended before what begins here. Whether it has, the splitter says.
_MAY_END = re.compile(r"[.!?…][^\w\s]*(?:\s+\S|[ \t]*\n)|\n\s*\S|[。！？]\S")
# The end of a line after a full stop needs no more to show it.
_LINE_ENDED = re.compile(r"[.!?…。！？][^\w\s]*\s*\n\s*\Z")
# Where a sentence or a line ends so far: what comes next says whether it has ended.
_ENDED = re.compile(r"[.!?:…。！？][^\w\s]*(?=\s*\Z)|(?=\n\W*\Z)")
_TAIL = 40  # Characters after an end in which it is looked at again: words after it may tell more.
_BLOCK = re.compile(r"\n\s*\n")
# A paragraph is parted anew with each sentence; of one with more characters, or more sentences, only the end
# is: what stands before the last ones has no say in where the next one ends. Chosen by hand.
_LONG_PARAGRAPH, _CONTEXT = 2_000, 500  # characters
_MANY, _LAST = 40, 10  # sentences
# What has gone on for so many characters without an end is looked at again when it has grown by an eighth.
_LONG_SENTENCE = 1_000

Piece = TypeVar("Piece")


class StreamMarks:
    """Marks of an answer that is still being written: those of a sentence come before the next one begins.

    All marks together are those of `mark_answer`, save where only what follows shows how a sentence was
    meant, as a heading is known by the line under it. The time they take grows with the answer as its length
    does, however it is written.

    Examples:
        >>> marks = StreamMarks(["The ferry leaves at seven. It takes 40 minutes."], stop_on="contradicted")
        >>> for piece in ("The ferry ", "leaves at seven.", " It takes", " 55 minutes.", " It is ", "blue."):
        ...     print(*(f"{mark.support}: {mark.text}" for mark in marks.feed(piece) if mark.text.strip()))
        ...     if marks.stopped:
        ...         break
        <BLANKLINE>
        <BLANKLINE>
        supported: The ferry leaves at seven.
        <BLANKLINE>
        unsupported: It takes 55 minutes.
        >>> marks.text
        'The ferry leaves at seven. It takes 55 minutes.'

    Args:
        passages: What the answer is made from, in any order.
        question: The question; an answer of a few words is read together with it.
        judge: Shared with the rest of the process where None.
        stop_on: ``"contradicted"`` ends the answer after the first sentence that the passages contradict
            (`Claim.refuted`); ``"unsupported"``, also after one that they hardly support; None never does.

    Raises:
        InputError: For passages that are one text, and another ``stop_on``.
    """

    def __init__(
        self,
        passages: Sequence[str],
        *,
        question: str = "",
        judge: LocalJudge | None = None,
        stop_on: StopOn | None = None,
    ) -> None:
        if isinstance(passages, str):
            raise InputError("passages is a list of texts, not one text")
        if stop_on not in (None, *get_args(StopOn)):
            raise InputError(f"stop_on is {', '.join(get_args(StopOn))} or None, not {stop_on!r}")
        self._passages = tuple(passages)
        self._question = question
        self._judge = judge if judge is not None else shared_judge()
        self._stop_on = stop_on
        self._judged = 0  # Characters of the text that have marks.
        self._claimed = 0  # Claims among them.
        self._start = 0  # From where on the text is parted into sentences.
        self._look_from = 0  # Characters without marks below which no sentence is looked for.
        self.text = ""
        """The answer so far; of a stopped one without what came after the sentence that stopped it."""
        self.stopped = False
        """Whether a sentence ended the answer, see ``stop_on``."""

    def may_end(self, piece: str) -> bool:
        """Whether `feed` has work to do: with the first piece, and where a sentence may have ended."""
        if not self.text:
            return True
        tail = self.text[max(self._judged, len(self.text) - _TAIL) :]
        return _MAY_END.search(tail + piece) is not None

    def feed(self, piece: str) -> tuple[AnswerMark, ...]:
        """Add a piece of the answer; the parts of the sentences that it shows to have ended."""
        if self.stopped:
            return ()
        ended = self.may_end(piece)
        if not self.text:  # The passages are taken apart before the first sentence ends.
            self._claims_at("", list)
        self.text += piece
        if not (ended and self._may_look()):
            return ()
        spans = [span.shift(self._start) for span in split_sentences(self.text[self._start :])]
        end = spans[-1].start if spans else self._judged
        if _LINE_ENDED.search(self.text, max(self._judged, len(self.text) - _TAIL)):
            end = len(self.text)
        while end > self._judged and self.text[end - 1].isspace():
            end -= 1
        if end <= self._judged:
            rest = len(self.text) - self._judged
            self._look_from = rest + rest // 8 if rest > _LONG_SENTENCE else 0
            return ()
        marks = self._marks(end)
        self._move_start(spans)
        return marks

    def _may_look(self) -> bool:
        return len(self.text) - self._judged >= self._look_from

    def _move_start(self, spans: Sequence[Span]) -> None:
        """Go on at the paragraph of the first text without marks, or at one of its last sentences."""
        for blank in _BLOCK.finditer(self.text, self._start, self._judged):
            self._start = blank.end()
        if len(spans) > _MANY:
            self._start = max(self._start, spans[-_LAST].start)
        elif self._judged - self._start > _LONG_PARAGRAPH:
            before = (span.start for span in spans if span.start <= self._judged - _CONTEXT)
            self._start = max(before, default=self._start)

    def looks_ahead(self) -> bool:
        """Whether `look_ahead` has work to do: the answer so far ends as a sentence or a line does."""
        return not self.stopped and self._may_look() and self._ended() > self._judged

    def look_ahead(self) -> None:
        """Judge the last sentence while the piece is awaited that shows that it has ended.

        The judge knows the result when `feed` asks for it.
        """
        if self.looks_ahead():
            so_far = self.text[: self._ended()]
            self._claims_at(so_far, lambda: self._claims(so_far, self._judged, len(so_far)))

    def _ended(self) -> int:
        """Where the last sentence or line may have ended; 0 where none has."""
        match = _ENDED.search(self.text, max(0, len(self.text) - _TAIL))
        return match.end() if match else 0

    def finish(self) -> tuple[AnswerMark, ...]:
        """The parts of what had not ended when the stream did."""
        if self.stopped or self._judged == len(self.text):
            return ()
        return self._marks(len(self.text), whole=self._judged == 0)

    def _marks(self, end: int, *, whole: bool = False) -> tuple[AnswerMark, ...]:
        begin, self._judged, self._look_from = self._judged, end, 0
        if whole:
            claims = claims_or_unsure(
                lambda: claims_of(self.text, self._passages, self._question, self._judge), self.text
            )
        else:
            claims = self._claims_at(self.text, lambda: self._claims(self.text, begin, end), begin, end)
            self._claimed += len(claims)
        marks = marks_between(self.text, begin, end, claims, self._passages)
        if any(ends_answer(mark, self._stop_on) for mark in marks):
            self.stopped = True
            self.text = self.text[:end]
        return marks

    def _claims_at(
        self, text: str, spans: Callable[[], list[Span]], begin: int = 0, end: int = 0
    ) -> list[Claim]:
        """The judge's claims; one that nobody is sure of, from ``begin`` to ``end``, where it fails."""

        def judged() -> list[Claim]:
            own = spans()
            left = max(0, MAX_CLAIMS - self._claimed)
            claims = self._judge.claims_at(text, own[:left], self._passages)
            return [*claims, *(unread_claim(text, span) for span in own[left:])]

        return claims_or_unsure(judged, text, begin, end)

    def _claims(self, text: str, begin: int, end: int) -> list[Span]:
        """The claims of a text that stand from ``begin`` to ``end``."""
        spans = [span.shift(self._start) for span in split_claims(text[self._start :])]
        return [span for span in spans if begin <= span.start and span.end <= end]


def marked_stream(
    pieces: Iterator[Piece], marks: StreamMarks, text_of: Callable[[Piece], str] = str
) -> Iterator[Piece | AnswerMark]:
    """The pieces of an answer, and the marks of each sentence before the piece that begins the next one.

    Where the marks stop, ``pieces`` are closed, which ends a generation at the server.

    Examples:
        >>> marks = StreamMarks(["The ferry leaves at seven."])
        >>> found = marked_stream(iter(["The ferry leaves at", " seven.", " It is blue."]), marks)
        >>> [piece if isinstance(piece, str) else piece.support for piece in found][:4]
        ['The ferry leaves at', ' seven.', 'supported', ' It is blue.']

    Args:
        pieces: What the model writes, in order.
        marks: Takes the text; not used for another answer.
        text_of: The text of a piece.
    """
    shown = 0
    try:
        for piece in pieces:
            text = text_of(piece)
            yield from marks.feed(text)
            # A long piece may hold the end of the sentence that stops the answer.
            if not marks.stopped or shown < len(marks.text):
                yield piece
            if marks.stopped:
                return
            shown += len(text)
            marks.look_ahead()
        yield from marks.finish()
    finally:
        if (close := getattr(pieces, "close", None)) is not None:
            close()


async def amarked_stream(
    pieces: AsyncIterator[Piece], marks: StreamMarks, text_of: Callable[[Piece], str] = str
) -> AsyncIterator[Piece | AnswerMark]:
    """`marked_stream` for an async iterator; sentences are judged in a thread."""
    shown = 0
    try:
        async for piece in pieces:
            text = text_of(piece)
            new_marks = await asyncio.to_thread(marks.feed, text) if marks.may_end(text) else marks.feed(text)
            for mark in new_marks:
                yield mark
            if not marks.stopped or shown < len(marks.text):
                yield piece
            if marks.stopped:
                return
            shown += len(text)
            if marks.looks_ahead():
                await asyncio.to_thread(marks.look_ahead)
        for mark in await asyncio.to_thread(marks.finish):
            yield mark
    finally:
        close: Any = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
