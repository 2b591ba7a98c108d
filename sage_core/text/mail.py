"""Mail in text: where messages begin, who wrote them, and what they quote.

A message begins with its fields ("From: ...", "Date: ..."), or with the line that introduces a quotation
("On Monday, ... wrote:").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sage_core.text.lines import Line

_FIELD = re.compile(
    r"(?:\*\*)?(from|to|cc|bcc|date|sent|subject|reply-to|von|an|gesendet|datum|betreff|de|à|envoyé|objet|para|enviado"
    r"|fecha|asunto|da|inviato|data|oggetto|a)\s?:(?:\*\*)?\s+(\S.*)\Z",
    re.IGNORECASE,
)
_WRITER = frozenset(["from", "von", "de", "da"])
_SUBJECT = frozenset(["subject", "betreff", "objet", "asunto", "oggetto"])
_DATE = frozenset(["date", "sent", "gesendet", "datum", "envoyé", "fecha", "enviado", "data", "inviato"])
_WROTE = re.compile(
    r"(?:on|am|le|el|il)\s\S.{4,160}\b(?:wrote|schrieb|a écrit|escribió|ha scritto)\b.{0,80}[:：]\Z",
    re.IGNORECASE,
)
_FORWARDED = re.compile(
    r"-{2,}\s?(?:original message|forwarded message|ursprüngliche nachricht|weitergeleitete nachricht"
    r"|message d'origine|mensaje original|messaggio originale)\s?-{2,}\Z|begin forwarded message:\Z",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\W\d_]{2}")
_SIGNATURE_LINES = 8
_MOST_FIELDS = 12
_FIRSTS = frozenset("-bBOoAaLlEeIi")  # of what else may begin a message


class Message(NamedTuple):
    """The head of a message: its lines, and what they say.

    Attributes:
        first: Index of its first line.
        end: Just after the last line of the head.
        words: Writer, date and subject, as far as they are told.
        depth: How deep it is quoted.
    """

    first: int
    end: int
    words: str
    depth: int


def messages(lines: Sequence[Line]) -> Iterator[Message]:
    """The heads of the messages in a text, in order. Linear in the lines."""
    index = 0
    while index < len(lines):
        line = lines[index]
        first = index
        if line.text[0] not in _FIRSTS and ":" not in line.text[:16]:  # after the longest name
            index += 1
            continue
        if line.text[0] in "-bB" and _FORWARDED.match(line.text) and index + 1 < len(lines):
            index += 1
        end, fields = _fields(lines, index)
        if fields:
            yield Message(first, end, _summary(fields), line.quote)
            index = end
        elif end := _introduction(lines, index):
            words = " ".join(part.text for part in lines[index:end])
            yield Message(first, end, words.rstrip(":： "), line.quote)
            index = end
        else:
            index = first + 1


def _fields(lines: Sequence[Line], first: int) -> tuple[int, dict[str, str]]:
    """Just after the fields that begin at a line, the writer's among them, and the fields; none for one."""
    fields: dict[str, str] = {}
    index = first
    while index < min(len(lines), first + _MOST_FIELDS):
        line = lines[index]
        match = _FIELD.match(line.text) if len(line.text) < 1000 else None
        if match is None or line.quote != lines[first].quote or (index > first and line.spaced):
            break
        fields.setdefault(match[1].lower(), match[2])
        index += 1
    writer = next((fields[name] for name in fields if name in _WRITER), "")
    # "From: 9:00 / To: 17:00" is no message.
    return (index, fields) if len(fields) > 1 and _NAME.search(writer) else (first, {})


def _introduction(lines: Sequence[Line], first: int) -> int:
    """Just after "On ... wrote:", which may be wrapped, where a quotation follows; 0 elsewhere."""
    line = lines[first]
    for end in (first + 1, first + 2):
        if (
            end >= len(lines)
            or lines[end - 1].quote != line.quote
            or (end > first + 1 and lines[end - 1].spaced)
        ):
            return 0
        if lines[end].quote > line.quote:
            words = " ".join(part.text for part in lines[first:end])
            if len(words) < 300 and _WROTE.match(words):
                return end
    return 0


def _summary(fields: dict[str, str]) -> str:
    parts = [
        next((fields[name] for name in fields if name in names), "") for names in (_WRITER, _DATE, _SUBJECT)
    ]
    return ", ".join(part for part in parts if part)


def signatures(lines: Sequence[Line]) -> Iterator[tuple[int, int]]:
    """First and last line of every signature below its mark, ``--``."""
    for index, line in enumerate(lines):
        if line.text == "--":
            end = index + 1
            while end < min(len(lines), index + _SIGNATURE_LINES) and not lines[end].spaced:
                end += 1
            if end > index + 1:
                yield index, end - 1
