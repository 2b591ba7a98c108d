"""What a reader of a format gives, and files read so that an error says exactly where they are wrong."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sage_core.errors import InputError
from sage_core.text.spans import Span
from sage_eval.records import EvalDocument, EvalQuestion, Evidence

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Record:
    """A JSON object, and where it stands, so that its errors can say so.

    Attributes:
        data: The object.
        where: Its file and line, or its place in the file.
    """

    data: Mapping[str, Any]
    where: str

    def error(self, problem: str) -> InputError:
        """An error about this record."""
        return InputError(f"{self.where}: {problem}")

    def text(self, key: str, *, default: str | None = None) -> str:
        """A field that is a text (numbers are taken as texts: some files write ids so), else InputError."""
        value = self.data.get(key, default)
        if value is None and default is not None:
            return default
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return str(value)
        return self._of(key, value, str, "a text")

    def integer(self, key: str) -> int:
        """A field that is a whole number, else InputError."""
        value = self.data.get(key)
        if isinstance(value, bool):
            raise self.error(f"{key!r} must be a whole number, not {value!r}")
        return self._of(key, value, int, "a whole number")

    def texts(self, key: str) -> tuple[str, ...]:
        """A field that is a list of texts, else InputError; empty where it is not there."""
        values = self._of(key, self.data.get(key) or [], list, "a list of texts")
        if not all(isinstance(v, str) for v in values):
            raise self.error(f"{key!r} must be a list of texts")
        return tuple(values)

    def records(self, key: str, *, required: bool = True) -> list[Record]:
        """A field that is a list of objects, each knowing its place, else InputError."""
        value = self.data.get(key)
        if value is None and not required:
            return []
        items = self._of(key, value, list, "a list of objects")
        records = [Record(item, f"{self.where}, {key}[{i}]") for i, item in enumerate(items)]
        for record in records:
            if not isinstance(record.data, Mapping):
                raise record.error(f"must be an object, not {shown(record.data)}")
        return records

    def _of(self, key: str, value: Any, kind: type[_T], what: str) -> _T:
        if key not in self.data and value is None:
            fields = ", ".join(sorted(map(str, self.data)))[:200] or "none"
            raise self.error(f"the field {key!r} is missing (there are: {fields})")
        if not isinstance(value, kind):
            raise self.error(f"{key!r} must be {what}, not {shown(value)}")
        return value


def shown(value: object) -> str:
    """A value, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_json_lines(path: Path, what: str) -> Iterator[Record]:
    """The JSON objects of a file, one a line, gzipped or not, else InputError; blank lines do not count."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8-sig")
                if text.strip():
                    yield _parsed_line(text, f"{path}, line {number}", what)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except (OSError, EOFError) as error:
        raise InputError(f"cannot read {path}: {error}; is the download complete?") from error


def _parsed_line(line: str, where: str, what: str) -> Record:
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not valid JSON ({error.msg}); {what} has one object a line") from error
    if not isinstance(data, dict):
        raise InputError(f"{where}: {what} has one JSON object a line, not {shown(data)}")
    return Record(data, where)


_SPLITS = {
    "train": "train",
    "dev": "validation",
    "valid": "validation",
    "val": "validation",
    "validation": "validation",
    "test": "test",
}


@dataclass(slots=True)
class Contents:
    """Documents and questions as they are read.

    Attributes:
        source: The file they came from.
        documents: By id, in order.
        questions: In order.
    """

    source: str
    documents: dict[str, EvalDocument] = field(default_factory=dict)
    questions: list[EvalQuestion] = field(default_factory=list)

    def add(self, document: EvalDocument, questions: Iterable[EvalQuestion] = ()) -> None:
        """Add a document and questions about it."""
        self.documents[document.id] = document
        self.questions.extend(questions)

    def free_id(self, wanted: str) -> str:
        """``wanted``, with a number behind it where a document already has that id."""
        found, number = wanted, 1
        while found in self.documents:
            number += 1
            found = f"{wanted} ({number})"
        return found


def split_name(split: str) -> str:
    """The one name of a split that goes by several (``dev``, ``valid``, ``validation``)."""
    return _SPLITS.get(split.lower(), split)


def unique(texts: Iterable[str]) -> tuple[str, ...]:
    """Each text once, in order."""
    return tuple(dict.fromkeys(texts))


def evidence_of(document: str, spans: Iterable[Span]) -> tuple[Evidence, ...]:
    """Spans of one document as evidence, each once, in their order in the document."""
    return tuple(Evidence(document, span) for span in sorted(set(spans)))


@dataclass(slots=True)
class TextBuilder:
    """Puts a document together from parts, and knows where each part came to stand."""

    separator: str = "\n\n"
    _parts: list[str] = field(default_factory=list)
    _length: int = 0

    def add(self, part: str) -> Span:
        """Add a part behind the others; where it stands (empty for an empty part)."""
        if not part:
            return Span(self._length, self._length)
        start = self._length + (len(self.separator) if self._parts else 0)
        self._parts.append(part)
        self._length = start + len(part)
        return Span(start, self._length)

    @property
    def text(self) -> str:
        """The document so far."""
        return self.separator.join(self._parts)


def occurrences(text: str, part: str) -> Iterator[int]:
    """Where ``part`` starts in ``text``, again and again."""
    position = text.find(part) if part else -1
    while position >= 0:
        yield position
        position = text.find(part, position + 1)
