"""Questions whose answers are quoted from documents, and where the quotations stand."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from sage_app.calibrate.cut import RankedQuestion
from sage_app.documents.reader import Document
from sage_app.pipeline.results import Retrieval
from sage_core.errors import InputError
from sage_core.text.spans import Span

MOST_PLACES = 10
"""A quotation that stands in more places is too short to say which one is meant."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a part of an answer stands: a span of one document."""

    document: str
    span: Span


@dataclass(frozen=True, slots=True)
class QuotedQuestion:
    """A question with the quotations that answer it, as they stand in the documents; all are needed."""

    text: str
    quotes: tuple[str, ...]


def read_questions(path: str | Path) -> list[QuotedQuestion]:
    """Read a file with a JSON object on each line: ``question`` and ``quote``, a text or a list of texts.

    The questions of an evaluation set are read too: the texts of their evidence are the quotations. Further
    fields are left alone.

    Raises:
        InputError: If the file cannot be read, a line is malformed or has a misspelled field, or there is
            none; the message names file and line.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    questions = [_question(line, f"{path}, line {n}") for n, line in enumerate(lines, 1) if line.strip()]
    if not questions:
        raise InputError(f'{path} holds no questions: a line each, {{"question": ..., "quote": ...}}')
    return questions


def _question(line: str, where: str) -> QuotedQuestion:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid JSON ({error}); each line holds one object") from error
    if not isinstance(data, dict):
        raise InputError(f"{where}: one JSON object a line, not {line.strip()[:60]}")
    text = data.get("question")
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{where}: 'question' must be a text that is not blank")
    evidence = [e.get("text") if isinstance(e, dict) else None for e in _listed(data.get("evidence"))]
    quotes = [*_listed(data.get("quote")), *_listed(data.get("quotes")), *evidence]
    if not quotes or not all(isinstance(quote, str) and quote.strip() for quote in quotes):
        raise InputError(f"{where}: 'quote' must be what answers the question, as it stands in the document")
    return QuotedQuestion(text.strip(), tuple(quotes))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def locate(question: QuotedQuestion, documents: Sequence[Document]) -> list[tuple[Evidence, ...]]:
    """For each quotation the places where it stands, any of which will do; white space and case may differ.

    Raises:
        InputError: For one that stands nowhere, or in too many places.
    """
    places = [_places(quote, documents) for quote in question.quotes]
    for quote, found in zip(question.quotes, places, strict=True):
        if not 1 <= len(found) <= MOST_PLACES:
            reason = f"stands in {len(found)} places: quote more" if found else "not found"
            raise InputError(f"{reason}: {quote!r}")
    return places


def _places(quote: str, documents: Sequence[Document]) -> tuple[Evidence, ...]:
    words = r"\s+".join(map(re.escape, quote.split()))
    pattern = re.compile(rf"(?i)(?:\b|(?=\W)){words}(?:\b|(?<=\W))")  # no part of a word
    return tuple(
        Evidence(document.source, Span(*match.span()))
        for document in documents
        for match in pattern.finditer(document.text)
    )


def ranked_question(places: Sequence[Sequence[Evidence]], ranking: Retrieval) -> RankedQuestion:
    """The candidates of a question for `calibrate`, with what `locate` gave for it."""
    candidates = ranking.candidates
    held = [Evidence(c.chunk.source, Span(c.chunk.start, c.chunk.end)) for c in candidates]

    def lost(k: int) -> float:
        """Share of the quotations' characters that k candidates lack, each where most of it is held."""
        shares = [max(_covered(place, held[:k]) for place in found) for found in places]
        return round(1 - sum(shares) / len(shares), 9)

    # Never rising, whatever the order in which shares are added up.
    losses = accumulate(map(lost, range(len(held) + 1)), min)
    return RankedQuestion(
        tuple(c.score for c in candidates), tuple(c.tokens for c in candidates), tuple(losses)
    )


def _covered(place: Evidence, held: Sequence[Evidence]) -> float:
    """Share of a place that the spans hold; those of one document do not overlap."""
    start, end = place.span
    inside = sum(
        max(0, min(end, h.span.end) - max(start, h.span.start)) for h in held if h.document == place.document
    )
    return min(inside / (end - start), 1.0)
