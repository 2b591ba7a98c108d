"""Files of JSON lines, read so that an error says exactly where they are wrong."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

from sage_core.errors import InputError

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
