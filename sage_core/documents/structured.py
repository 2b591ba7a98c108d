"""Tables of values, notebooks, mail and JSON as text: what the standard library can read."""

from __future__ import annotations

import csv
import email
import email.policy
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
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
    return _table(rows)


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table; the first names the columns."""
    lines = [_row(row) for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"


_LIST_TABLE = re.compile(
    r"^( *)\.\. list-table::.*\n((?:\1[ \t]+:.*\n)*)[ \t]*\n((?:\1[ \t]+\S.*(?:\n|\Z)|[ \t]*\n)+)", re.M
)
_SIMPLE_TABLE = re.compile(
    r"^( *)(=+(?: +=+)+) *\n((?:.*\n)*?)\1\2 *\n((?:.*\n)*?)\1\2 *$", re.M
)  # Border, names, border, rows, border.
_GRID_TABLE = re.compile(r"^( *)\+(?:-+\+)+ *\n(?:\1[+|].*[+|] *(?:\n|\Z))+", re.M)


def read_rst(text: str) -> str:
    r"""Text of reStructuredText, its tables as Markdown tables; a table of another shape as it stands.

    Examples:
        >>> print(read_rst("=====  ====\nName   Size\n=====  ====\nLarch  5 m\n=====  ====\n"))
        | Name | Size |
        |---|---|
        | Larch | 5 m |
        <BLANKLINE>
    """
    plain = text.replace("\r\n", "\n")
    read = _converted(_LIST_TABLE, _list_rows, plain)
    read = _converted(_SIMPLE_TABLE, _simple_rows, read)
    read = _converted(_GRID_TABLE, _grid_rows, read)
    return read if read != plain else text


def _converted(pattern: re.Pattern[str], rows: Callable[[re.Match[str]], list[list[str]]], text: str) -> str:
    return pattern.sub(lambda match: _or_as_it_stands(match, rows(match)), text)


def _or_as_it_stands(match: re.Match[str], rows: Sequence[Sequence[str]]) -> str:
    """The rows as a table, with the line breaks that followed it; the match where they are no table."""
    if len(rows) < 2 or len(rows[0]) < 2 or any(len(row) != len(rows[0]) for row in rows):
        return match[0]
    ends = len(match[0]) - len(match[0].rstrip())
    return _table(rows).rstrip() + match[0][len(match[0]) - ends :]


def _list_rows(match: re.Match[str]) -> list[list[str]]:
    rows: list[list[str]] = []
    for line in match[3].splitlines():
        item = re.match(r"\s*(\* - |\* -$)?(- |-$)?(.*)", line)
        if item is None or not line.strip():
            continue
        if item[1]:
            rows.append([item[3].strip()])
        elif rows and item[2] and len(line) - len(line.lstrip()) == _cell_indent(match[3]):
            rows[-1].append(item[3].strip())
        elif rows:
            rows[-1][-1] = f"{rows[-1][-1]} {line.strip()}".strip()
        else:
            return []
    header = re.search(r":header-rows:\s*[1-9]", match[2])
    return rows if header else [[""] * len(rows[0]), *rows] if rows else []


def _cell_indent(body: str) -> int:
    """Columns before the dash of a row's second cell."""
    first = re.search(r"^( *)\* -", body, re.M)
    return len(first[1]) + 2 if first else -1


def _simple_rows(match: re.Match[str]) -> list[list[str]]:
    columns = [(m.start(), m.end()) for m in re.finditer("=+", match[1] + match[2])]
    head, body = _columns_of(match[3], columns), _columns_of(match[4], columns)
    if not head or not body:
        return []
    rows = [[" ".join(" ".join(parts).split()) for parts in zip(*head, strict=True)]]
    for row in body:
        if row[0] or len(rows) == 1:
            rows.append(row)
        else:  # A line that goes on leaves the first column empty.
            rows[-1] = [" ".join(f"{a} {b}".split()) for a, b in zip(rows[-1], row, strict=True)]
    return rows


def _columns_of(body: str, columns: Sequence[tuple[int, int]]) -> list[list[str]]:
    """The lines' cells; nothing where a line does not keep to the columns, so that it is no table's."""
    starts, ends = [start for start, _ in columns], [end for _, end in columns]
    found = []
    for line in body.splitlines():
        if any(line[end:start].strip() for end, start in zip(ends, starts[1:], strict=False)):
            return []
        if line.strip() and not set(line.strip()) <= set("- "):
            found.append([line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)])
    return found


def _grid_rows(match: re.Match[str]) -> list[list[str]]:
    lines = [line.strip() for line in match[0].splitlines()]
    at = [i for i, c in enumerate(lines[0]) if c == "+"]
    rows: list[list[str]] = []
    begins = True
    header = False
    for line in lines[1:]:
        if len(line) != len(lines[0]) or any(line[i] not in "+|" for i in at):
            return []  # Cells over several columns or rows.
        if set(line) <= set("+-="):
            begins, header = True, header or (len(rows) == 1 and "=" in line)
            continue
        if "+" in (line[i] for i in at):
            return []
        cells = [line[a + 1 : b].strip() for a, b in itertools.pairwise(at)]
        if begins:
            rows.append(cells)
        else:
            rows[-1] = [" ".join(f"{a} {b}".split()) for a, b in zip(rows[-1], cells, strict=True)]
        begins = False
    return rows if header or not rows else [[""] * len(rows[0]), *rows]


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
