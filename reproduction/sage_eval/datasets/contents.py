"""What a reader of a format gives, and files read so that an error says exactly where they are wrong."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeVar

from sage_core.errors import InputError
from sage_core.text.spans import Span
from sage_eval.records import EvalDocument, EvalQuestion, Evidence

__all__ = [
    "Contents",
    "Record",
    "TextBuilder",
    "Wanted",
    "evidence_of",
    "find_file",
    "occurrences",
    "read_csv",
    "read_json_lines",
    "read_json_object",
    "shown",
    "split_name",
    "unique",
]

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


def open_text(path: Path) -> TextIO:
    """Open a text file, gzipped or not; InputError where it cannot be opened."""
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
        return path.open(encoding="utf-8-sig", newline="")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def read_json_lines(path: Path, what: str) -> Iterator[Record]:
    """The JSON objects of a file with one a line, else InputError; blank lines are passed over."""
    with open_text(path) as file:
        number = 0
        while line := guarded(path, file.readline):
            number += 1
            if line.strip():
                yield _parsed_line(line, f"{path}, line {number}", what)


def _parsed_line(line: str, where: str, what: str) -> Record:
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not valid JSON ({error.msg}); {what} has one object a line") from error
    if not isinstance(data, dict):
        raise InputError(f"{where}: {what} has one JSON object a line, not {shown(data)}")
    return Record(data, where)


def guarded(path: Path, read: Callable[[], Any]) -> Any:
    """What ``read`` gives, with errors of reading and decoding as ours."""
    try:
        return read()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except (OSError, EOFError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {error}; is the download complete?") from error


def read_json_object(path: Path, what: str) -> Record:
    """The JSON object that a file holds.

    Raises:
        InputError: Where it cannot be read or is no JSON object.
    """
    with open_text(path) as file:
        text = guarded(path, file.read)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}: not valid JSON ({error.msg}); {what} is one JSON object: "
            "is the download complete?"
        ) from error
    if not isinstance(data, dict):
        raise InputError(f"{path}: {what} is one JSON object, not {shown(data)}")
    return Record(data, str(path))


def read_csv(path: Path, columns: tuple[str, ...]) -> Iterator[Record]:
    """The rows of a CSV file by column name.

    Raises:
        InputError: Where it cannot be read, or a column or cell is missing.
    """
    # Whole stories stand in one cell.
    csv.field_size_limit(max(csv.field_size_limit(), 1 << 27))
    with open_text(path) as file:
        reader = csv.DictReader(file)
        header = guarded(path, lambda: reader.fieldnames) or ()
        if missing := [c for c in columns if c not in header]:
            raise InputError(f"{path}, line 1: no column {', '.join(missing)}; it has {', '.join(header)}")
        while (row := guarded(path, lambda: next(reader, None))) is not None:
            record = Record(row, f"{path}, line {reader.line_num}")
            if None in row or any(row[c] is None for c in columns):
                raise record.error(f"the row must have {len(header)} cells, as the first line says")
            yield record


def find_file(path: Path, patterns: tuple[str, ...], what: str) -> Path:
    """``path`` where it is a file, else the first file of the folder that a pattern fits.

    Args:
        path: A file or folder.
        patterns: Glob patterns, most wanted first; ``**`` looks into folders below.
        what: What is looked for, for the message.

    Raises:
        InputError: Where there is none; the message names the patterns.
    """
    if path.is_file():
        return path
    if not path.is_dir():
        raise InputError(f"there is no file or folder {path}: give the path of {what}")
    for pattern in patterns:
        found = sorted(p for p in path.glob(pattern) if p.is_file())
        if found:
            return found[0]
    raise InputError(f"no {what} in the folder {path}: looked for {', '.join(patterns)}")


_SPLITS = {
    "train": "train",
    "dev": "validation",
    "valid": "validation",
    "val": "validation",
    "validation": "validation",
    "test": "test",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a reader.

    Attributes:
        split: ``"train"``, ``"validation"`` or ``"test"``, or another name as given.
        pooled: Whether documents are to be searched together.
        skip_missing: Whether documents whose text is not there are left out, with their questions.
        limit: How many questions are wanted, of those that `order` puts first; None for all. A reader may
            give more: this only saves reading texts of which most would be thrown away.
        seed: Of that order.
    """

    split: str
    pooled: bool = False
    skip_missing: bool = False
    limit: int | None = None
    seed: int = 0

    def order(self, n: int) -> list[int]:
        """The positions below ``n`` in the order in which questions are drawn."""
        positions = list(range(n))
        if self.limit is not None and self.limit < n:
            random.Random(self.seed).shuffle(positions)
        return positions


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
