"""Tables of values, notebooks, mail and JSON as text: what the standard library can read."""

from __future__ import annotations

import csv
import email
import email.policy
import io
import json
from collections.abc import Iterator, Sequence
from email.message import EmailMessage
from typing import NamedTuple

from sage_core.errors import InputError
from sage_core.text.headings import Heading
from sage_core.text.links import Hyperlink


class Parsed(NamedTuple):
    """What was read of a file: see `sage_core.documents.reader.Document`."""

    text: str
    title: str | None = None
    page_starts: Sequence[int] = ()
    headings: Sequence[Heading] = ()
    links: Sequence[Hyperlink] = ()


_DELIMITERS = ",;\t|"
_LONG_LINE = 400  # characters a line on average, from which on JSON is taken for minified


def read_csv(text: str) -> str:
    """Comma-, semicolon- or tab-separated values as a Markdown table; a text of one column as it stands."""
    first = next((line for line in text.lstrip("\ufeff").splitlines() if line.strip()), "")
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        rows = [
            row for row in csv.reader(io.StringIO(text.lstrip("\ufeff")), delimiter=delimiter) if any(row)
        ]
    except csv.Error:  # a field of more than 128 KB, a line break in a bare field
        return text
    if len(rows) < 2 or len(rows[0]) < 2:
        return text
    lines = [_row(row) for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"


def read_json(text: str) -> str:
    """JSON as it stands; minified, with a line for every value."""
    if len(text) < _LONG_LINE * (text.count("\n") + 1):
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def read_notebook(text: str, *, name: str = "the file") -> str:
    """The cells of a Jupyter notebook as Markdown, code in fences, no outputs; InputError for other files."""
    try:
        notebook = json.loads(text)
        cells = list(_cells(notebook))
    except (ValueError, RecursionError, TypeError, AttributeError, KeyError) as error:
        raise InputError(f"{name} is not a readable notebook: {error}") from error
    return "\n\n".join(cells) + "\n" if cells else ""


def _cells(notebook: dict[str, list[dict[str, object]]]) -> Iterator[str]:
    for cell in notebook["cells"]:
        source = cell["source"]
        content = "".join(map(str, source)) if isinstance(source, list) else str(source)
        if not content.strip():
            continue
        yield f"```python\n{content.strip()}\n```" if cell["cell_type"] == "code" else content.strip()


def read_email(data: bytes, *, name: str = "the file") -> tuple[str, str | None]:
    """Text and subject of a message: who wrote it to whom and when, then what it says; no attachments.

    Raises:
        InputError: For a message that cannot be decoded.
        MissingExtraError: For one that is only HTML, without lxml.
    """
    try:
        message = email.message_from_bytes(data, policy=email.policy.default)
        subject = " ".join(str(message["Subject"] or "").split())
        fields = [
            f"{field}: {' '.join(str(message[field]).split())}"
            for field in ("From", "To", "Cc", "Date")
            if message[field]
        ]
        part = message.get_body(("plain", "html")) if isinstance(message, EmailMessage) else None
        body = str(part.get_content()) if part is not None else ""
        html = part is not None and part.get_content_type() == "text/html"
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{name} is not a readable message: {error}") from error
    if html and body.strip():
        from sage_core.documents.html import read_html

        body = read_html(body, name=name).text
    head = [f"# {subject}"] if subject else []
    parts = [*head, "\n".join(fields), body.replace("\r\n", "\n").strip()]
    clean = "\n\n".join(part for part in parts if part)
    return clean.encode("utf-8", "replace").decode("utf-8") + "\n", subject or None
