"""What a reader of a format gives, and files read so that an error says exactly where they are wrong."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sage_core.errors import InputError
from sage_core.text.spans import Span
from sage_core.tuning.contents import Record, guarded, open_text, read_json_lines, shown
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
