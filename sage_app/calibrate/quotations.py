"""Where a quotation stands in documents, whatever became of its white space, case and quotation marks."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path, PurePath
from typing import Any

from sage_app.calibrate.cut import RankedQuestion
from sage_app.documents.reader import Document
from sage_app.pipeline.results import Retrieval
from sage_core._checks import likely_typo
from sage_core.errors import InputError
from sage_core.text.spans import Span

MOST_PLACES = 10
"""A quotation that stands in more places is too short to say which one is meant."""

# Fewer letters and digits are not looked for without their punctuation.
_LEAST_LETTERS = 12
_KEYS = ("question", "quote", "quotes", "source", "evidence")
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»″〝〞＂", '"'),
        **dict.fromkeys("‘’‚‛‹›′`´＇", "'"),
        **dict.fromkeys("‐‑‒–—―−﹘－", "-"),
        # Not seen, and often lost where a text is copied.
        **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),
        "…": "...",
    }
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a part of an answer stands: a span of one document."""

    document: str
    span: Span


@dataclass(frozen=True, slots=True)
class QuotedQuestion:
    """A question with the quotations that answer it.

    Attributes:
        text: The question.
        quotes: What answers it, as it stands in the documents; all of them are needed.
        source: The document that is quoted: its path, or how that ends; empty for any.
    """

    text: str
    quotes: tuple[str, ...]
    source: str = ""


@dataclass(frozen=True, slots=True)
class LocatedQuestion:
    """A question whose quotations were found.

    Attributes:
        text: The question.
        evidence: For each quotation the places where it stands, any of which will do.
    """

    text: str
    evidence: tuple[tuple[Evidence, ...], ...]


@dataclass(frozen=True, slots=True)
class Unlocated:
    """A question that cannot be used.

    Attributes:
        text: The question.
        quote: The quotation in question.
        reason: Why it cannot be used.
    """

    text: str
    quote: str
    reason: str


def read_questions(path: str | Path) -> list[QuotedQuestion]:
    """Read a file with a JSON object on each line: ``question`` and ``quote``, a text or a list of texts.

    ``source``, the document's path or how that ends, may be added where a quotation stands in several. The
    questions of an evaluation set are read too: the texts of their evidence are the quotations. Further
    fields are left alone.

    Raises:
        InputError: Where the file cannot be read, a line is malformed or has a misspelled field, or there
            is none; the message names file and line.
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
    for key in data:
        # Other fields are the user's own; one that is nearly ours, in its place, is misspelled.
        if (meant := likely_typo(key, _KEYS)) and meant not in data:
            raise InputError(f"{where}: there is no field {key!r}; did you mean {meant!r}?")
    text, source = data.get("question"), data.get("source") or ""
    if not isinstance(text, str) or not isinstance(source, str):
        raise InputError(f"{where}: 'question' and 'source' must be texts")
    if not text.strip():
        raise InputError(f"{where}: the question is blank")
    quotes = _quotes(data)
    if not quotes or not all(isinstance(quote, str) and quote.strip() for quote in quotes):
        raise InputError(f"{where}: 'quote' must be what answers the question, as it stands in the document")
    return QuotedQuestion(text.strip(), tuple(quotes), source.strip())


def _quotes(data: Mapping[str, Any]) -> list[Any]:
    quotes: list[Any] = []
    for value in (data.get("quote"), data.get("quotes")):
        quotes += value if isinstance(value, list) else [] if value is None else [value]
    evidence = data.get("evidence") or []
    entries = evidence if isinstance(evidence, list) else [evidence]
    return quotes + [entry.get("text") if isinstance(entry, dict) else None for entry in entries]


def locate(
    questions: Sequence[QuotedQuestion], documents: Sequence[Document]
) -> tuple[list[LocatedQuestion], list[Unlocated]]:
    """Find every quotation in the documents.

    White space, case, typographic quotation marks, dashes and soft hyphens may differ. A quotation that is
    not found so is looked for by its letters and digits alone, for marks of Markdown and the like.

    Returns:
        The questions whose quotations were all found, in their order, and the others with the reason.
    """
    indexed = [_Indexed(document) for document in documents]
    located: list[LocatedQuestion] = []
    missing: list[Unlocated] = []
    for question in questions:
        named = [d for d in indexed if _is_source(d.document.source, question.source)]
        if not named:
            reason = f"there is no document {question.source!r}"
            missing.append(Unlocated(question.text, question.quotes[0], reason))
            continue
        places: list[tuple[Evidence, ...]] = []
        for quote in question.quotes:
            hits = _places(quote, named)
            if 1 <= len(hits) <= MOST_PLACES:
                places.append(tuple(hits))
                continue
            reason = f"stands in {len(hits)} places: quote more, or name the source"
            missing.append(Unlocated(question.text, quote, reason if hits else "not found"))
            break
        else:
            located.append(LocatedQuestion(question.text, tuple(places)))
    return located, missing


def _is_source(source: str, requested: str) -> bool:
    if not requested:
        return True
    parts, end = PurePath(source).parts, PurePath(requested).parts
    return source == requested or parts[-len(end) :] == end


def _places(quote: str, documents: Iterable[_Indexed]) -> list[Evidence]:
    documents = list(documents)
    plain, _ = _normalized(quote, letters=False)
    hits = [e for d in documents for e in d.find(plain.strip(), letters=False)]
    letters, _ = _normalized(quote, letters=True)
    if not hits and len(letters) >= _LEAST_LETTERS:
        hits = [e for d in documents for e in d.find(letters, letters=True)]
    return hits


class _Indexed:
    """A document, with its text as quotations are compared."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._forms: dict[bool, tuple[str, array[int]]] = {}

    def find(self, quote: str, *, letters: bool) -> list[Evidence]:
        if not quote:
            return []
        if letters not in self._forms:
            self._forms[letters] = _normalized(self.document.text, letters=letters)
        text, at = self._forms[letters]
        hits: list[Evidence] = []
        start = text.find(quote)
        while start >= 0 and len(hits) <= MOST_PLACES:
            end = start + len(quote)
            if _whole(text, start, end) or letters:
                hits.append(Evidence(self.document.source, Span(at[start], at[end - 1] + 1)))
            start = text.find(quote, end)
        return hits


def _whole(text: str, start: int, end: int) -> bool:
    """Whether no word is cut in two, as "art" would be found in "heart"."""
    before = start > 0 and text[start - 1].isalnum() and text[start].isalnum()
    after = end < len(text) and text[end - 1].isalnum() and text[end].isalnum()
    return not (before or after)


def _normalized(text: str, *, letters: bool) -> tuple[str, array[int]]:
    """The text as it is compared, and for each of its characters the index in ``text``."""
    parts: list[str] = []
    at = array("L")
    blank = True
    for match in re.finditer(r"\s+|\S", text):
        character = match[0]
        if character.isspace():
            if not letters and not blank:
                parts.append(" ")
                at.append(match.start())
                blank = True
            continue
        plain = character.translate(_PLAIN).casefold()
        if letters:
            plain = "".join(c for c in plain if c.isalnum())
        if plain:
            parts.append(plain)
            at.extend([match.start()] * len(plain))
            blank = False
    return "".join(parts), at


def ranked_question(question: LocatedQuestion, ranking: Retrieval) -> RankedQuestion:
    """The candidates of a question for `calibrate`."""
    held = [Evidence(c.chunk.source, Span(c.chunk.start, c.chunk.end)) for c in ranking.candidates]
    # Rounded, and never rising, whatever the order in which shares are added up.
    losses = accumulate((round(1 - _recall(question, held[:k]), 9) for k in range(len(held) + 1)), min)
    return RankedQuestion(
        tuple(c.score for c in ranking.candidates), tuple(c.tokens for c in ranking.candidates), tuple(losses)
    )


def _recall(question: LocatedQuestion, held: Sequence[Evidence]) -> float:
    """Share of the quotations' characters that is held, each at the place of which most is."""
    shares = [max(_covered(place, held) for place in places) for places in question.evidence]
    return sum(shares) / len(shares)


def _covered(place: Evidence, held: Sequence[Evidence]) -> float:
    """Share of a place that the spans hold; those of one document do not overlap."""
    start, end = place.span
    inside = sum(
        max(0, min(end, h.span.end) - max(start, h.span.start)) for h in held if h.document == place.document
    )
    return min(inside / (end - start), 1.0)
