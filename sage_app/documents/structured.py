"""Tables of values, reStructuredText, notebooks, JSON, mail and RTF as text."""

from __future__ import annotations

import contextlib
import csv
import email
import email.policy
import io
import itertools
import json
import logging
import re
from collections.abc import Iterator, Sequence
from email.message import Message
from html import unescape

from sage_app.documents.discovery import Parsed
from sage_core.errors import InputError
from sage_core.text.headings import Heading, find_headings

logger = logging.getLogger(__name__)


_DELIMITERS = ",;\t|"
_LONG_LINE = 400  # characters a line on average, from which on JSON is taken for minified
_MOST_GROWTH = 8  # times its length, by indentation; values eight deep grow fourfold
_LONGEST_FIELD = 20_000  # characters of a header: 500 addresses; its parser takes quadratic time and memory


def read_csv(text: str) -> str:
    """Comma-, semicolon- or tab-separated values as a Markdown table; a text of one column as it stands."""
    said = re.match("\ufeff?sep=(.)\r?\n", text)  # Excel's
    body = text[said.end() :] if said else text
    first = next((line for line in body.lstrip("\ufeff").splitlines() if line.strip()), "")
    delimiter = said[1] if said else max(_DELIMITERS, key=first.count)
    try:
        rows = [
            row for row in csv.reader(io.StringIO(body.lstrip("\ufeff")), delimiter=delimiter) if any(row)
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
_SIMPLE_BORDER = re.compile(r"( *)=+(?: +=+)+ *")
_GRID_TABLE = re.compile(r"^( *)\+(?:-+\+)+ *\n(?:\1[+|].*[+|] *(?:\n|\Z))+", re.M)

_Rows = list[list[list[str]]]
"""Of each cell the text of its lines, which are joined once: a cell may be as long as the file."""


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
    read = _LIST_TABLE.sub(lambda match: _or_as_it_stands(match[0], _list_rows(match)), plain)
    read = _with_simple_tables(read)
    read = _GRID_TABLE.sub(lambda match: _or_as_it_stands(match[0], _grid_rows(match[0])), read)
    return read if read != plain else text


def _or_as_it_stands(source: str, rows: _Rows) -> str:
    """The rows as a table, with the line breaks that followed it; the source where they are no table."""
    if len(rows) < 2 or len(rows[0]) < 2 or any(len(row) != len(rows[0]) for row in rows):
        return source
    joined = [[" ".join(parts) for parts in row] for row in rows]
    return _table(joined).rstrip() + source[len(source.rstrip()) :]


def _list_rows(match: re.Match[str]) -> _Rows:
    rows: _Rows = []
    first = re.search(r"^( *)\* -", match[3], re.M)
    indent = len(first[1]) + 2 if first else -1  # columns before the dash of a row's second cell
    for line in match[3].splitlines():
        item = re.match(r"\s*(\* - |\* -$)?(- |-$)?(.*)", line)
        if item is None or not line.strip():
            continue
        if item[1]:
            rows.append([[item[3]]])
        elif rows and item[2] and len(line) - len(line.lstrip()) == indent:
            rows[-1].append([item[3]])
        elif rows:
            rows[-1][-1].append(line)
        else:
            return []
    header = re.search(r":header-rows:\s*[1-9]", match[2])
    return rows if header or not rows else [[[""]] * len(rows[0]), *rows]


def _with_simple_tables(text: str) -> str:
    """Simple tables: border, names, border, rows, border; each border is that of the first line."""
    lines = text.split("\n")
    places: dict[str, list[int]] = {}
    for number in reversed([n for n, line in enumerate(lines) if _SIMPLE_BORDER.fullmatch(line)]):
        places.setdefault(lines[number].rstrip(), []).append(number)
    parts: list[str] = []
    done = 0
    for number, line in enumerate(lines):
        if number < done or not (borders := places.get(line.rstrip())):
            continue
        while borders[-1] < number:  # within the table before
            borders.pop()
        if len(borders) > 2:
            end = borders[-3] + 1
            rows = _simple_rows(lines[number:end], borders[-2] - number)
            parts += [*lines[done:number], _or_as_it_stands("\n".join(lines[number:end]), rows)]
            done = end
    return "\n".join([*parts, *lines[done:]])


def _simple_rows(lines: Sequence[str], second: int) -> _Rows:
    """Rows of a table whose second border is line ``second``."""
    columns = [m.span() for m in re.finditer("=+", lines[0])]
    if len(columns) * len(lines) > 4 * sum(map(len, lines)):  # rows far shorter than the border
        return []
    head, body = (_columns_of(part, columns) for part in (lines[1:second], lines[second + 1 : -1]))
    if not head or not body:
        return []
    rows = [list(map(list, zip(*head, strict=True)))]
    for row in body:
        if row[0] or len(rows) == 1:
            rows.append([[cell] for cell in row])
        else:  # A line that goes on leaves the first column empty.
            _go_on(rows[-1], row)
    return rows


def _go_on(row: list[list[str]], cells: Sequence[str]) -> None:
    for parts, cell in zip(row, cells, strict=True):
        parts.append(cell)


def _columns_of(lines: Sequence[str], columns: Sequence[tuple[int, int]]) -> list[list[str]]:
    """The lines' cells; nothing where a line does not keep to the columns, so that it is no table's."""
    starts, ends = [start for start, _ in columns], [end for _, end in columns]
    found = []
    for line in lines:
        if any(line[end:start].strip() for end, start in zip(ends, starts[1:], strict=False)):
            return []
        if line.strip() and not set(line.strip()) <= set("- "):
            found.append([line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)])
    return found


def _grid_rows(source: str) -> _Rows:
    lines = [line.strip() for line in source.splitlines()]
    at = [i for i, c in enumerate(lines[0]) if c == "+"]
    rows: _Rows = []
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
        cells = [line[a + 1 : b] for a, b in itertools.pairwise(at)]
        if begins:
            rows.append([[cell] for cell in cells])
        else:
            _go_on(rows[-1], cells)
        begins = False
    return rows if header or not rows else [[[""]] * len(rows[0]), *rows]


_CUE = re.compile(r"(?m)^(?:\d+:)?\d\d:\d\d[.,]\d{3} +--> .*$")
_CUE_TAG = re.compile(r"<v(?:\.[^ <>]*)? ([^<>]*)>|</?[^<>]*>|\{\\[^{}]*\}")


def read_captions(text: str) -> str:
    """The words of captions (SRT, WebVTT), a paragraph for each speaker; no stamps, and no words twice."""
    paragraphs: list[tuple[str, list[str]]] = []
    for block in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n")):
        if (time := _CUE.search(block)) is None:
            continue  # a header, a note, a style
        for line in block[time.end() :].splitlines():
            speaker = next((m[1].strip() for m in _CUE_TAG.finditer(line) if m[1]), "")
            said = " ".join(unescape(_CUE_TAG.sub("", line)).split())
            if not paragraphs or (speaker and speaker != paragraphs[-1][0]):
                paragraphs.append((speaker, []))
            if said and said not in paragraphs[-1][1][-2:]:  # captions that roll repeat their lines
                paragraphs[-1][1].append(said)
    texts = [f"{speaker}: {' '.join(said)}".removeprefix(": ") for speaker, said in paragraphs if said]
    return "\n\n".join(texts) + "\n" if texts else ""


_BLANKS = r"(?:[ \t\f]*\n){%s,9}"
_PAGE_BREAK = re.compile(
    rf"\n{_BLANKS % 1}([^\n]*?(\d+)[^\d\n]*)\n{_BLANKS % 0}\f?([^\n]*\S[^\n]*)\n{_BLANKS % 1}"
)


def without_pages(text: str) -> str:
    """A text in pages without their headers and feet; a sentence that goes on behind them is one.

    Feet have a number that rises by one from page to page, and headers are the same on each.
    """
    breaks = list(_PAGE_BREAK.finditer(text))
    numbers = {(" ".join(m[3].split()), int(m[2])) for m in breaks if len(m[2]) < 6}
    parts, done = [], 0
    for found in breaks:
        header, number = " ".join(found[3].split()), int(found[2]) if len(found[2]) < 6 else -1
        if not numbers & {(header, number - 1), (header, number + 1)}:
            continue
        ended = text[: found.start()].rstrip()[-1:] in ".!?:"
        parts += [text[done : found.start()], "\n\n" if ended else "\n"]
        done = found.end()
    return "".join([*parts, text[done:]]) if parts else text


def read_json(text: str) -> str:
    """JSON as it stands; minified, with a line for every value, unless deep nesting makes that huge."""
    if len(text) < _LONG_LINE * (text.count("\n") + 1):
        return text
    parts: list[str] = []
    size = 0
    try:
        for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(json.loads(text)):
            parts.append(part)
            size += len(part)
            if size > _MOST_GROWTH * len(text):
                return text
    except (ValueError, RecursionError):
        return text
    return "".join(parts)


def read_notebook(text: str, *, name: str = "the file") -> str:
    """The cells of a Jupyter notebook as Markdown, code in fences, no outputs; InputError for other files."""
    try:
        notebook = json.loads(text)
        about = notebook.get("metadata") or {}
        names = (about.get("language_info", {}).get("name"), about.get("kernelspec", {}).get("language"))
        cells = list(_cells(notebook, str(next(filter(None, names), "python"))))
    except (ValueError, RecursionError, TypeError, AttributeError, KeyError) as error:
        raise InputError(f"{name} is not a readable notebook: {error}") from error
    return "\n\n".join(cells) + "\n" if cells else ""


def _cells(notebook: dict[str, list[dict[str, object]]], language: str) -> Iterator[str]:
    for cell in notebook["cells"]:
        source = cell["source"]
        content = "".join(map(str, source)) if isinstance(source, list) else str(source)
        if not content.strip():
            continue
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", content)), default=0))
        code = f"{fence}{language.lower()}\n{content.strip()}\n{fence}"
        yield code if cell["cell_type"] == "code" else content.strip()


class _ShortFields(email.policy.EmailPolicy):
    """Cuts a header before it is parsed."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[: _LONGEST_FIELD // (10 if name.lower().startswith("content-") else 1)]


def read_email(data: bytes, *, name: str = "the file") -> Parsed:
    """Text and subject of a message: who wrote it to whom and when, then what it says, and what it forwards.

    All texts that are shown come in their order; of two forms of one text the plain one, unless it is a stub;
    of an invitation its lines. Names of attached files stand below. The messages of a mailbox (``.mbox``)
    and of a digest stand one after the other, each below its subject. Messages that cannot be read are left
    out of a mailbox, and a warning counts them.

    Raises:
        InputError: For a message that cannot be read, and a mailbox that has no other.
        MissingExtraError: For one that is only HTML, without lxml.
    """
    heads = list(_MBOX_START.finditer(data)) if data.startswith(b"From ") else []
    if not heads:
        read = _with_headings([_message(data, name)])
        return read._replace(
            title=read.headings[0].text if read.headings and not read.headings[0].start else None
        )
    texts: list[str] = []
    unreadable: list[InputError] = []
    for head, stop in zip(heads, [*(head.start() for head in heads[1:]), len(data)], strict=True):
        try:
            texts.append(_message(data[head.end() : stop].replace(b"\n>From ", b"\nFrom "), name))
        except InputError as error:
            unreadable.append(error)
    if not texts:
        raise unreadable[0]
    if unreadable:
        left_out = f"{len(unreadable)} of {len(heads)} messages cannot be read and are left out"
        logger.warning("%s: %s; the first: %s", name, left_out, unreadable[0])
    return _with_headings(texts)


# A line that begins a message of a mailbox: "From mara@example.org Tue Mar  4 08:12:01 2025".
_MBOX_START = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From \S[^\n]*\d\d:\d\d[^\n]*\d{4}[^\n]*\n")
_SUBJECT = "\x1e# "  # a heading of ours, not of a message's own text
_SHOWN = re.compile(r"(?im)^(SUMMARY|DTSTART|DTEND|LOCATION|DESCRIPTION)[^:\n]*:(.*)")
_STUB = 0.5  # of the words of the HTML


def _with_headings(messages: Sequence[str]) -> Parsed:
    text, headings = "", list[Heading]()
    for number, piece in enumerate(re.split(f"(?m)^{_SUBJECT[0]}", "\n".join(messages))):
        if number:
            found = find_headings(piece.partition("\n")[0], "markdown")
            headings += [h._replace(start=h.start + len(text), end=h.end + len(text)) for h in found]
        text += piece
    return Parsed(text, None, headings)


def _message(data: bytes, name: str) -> str:
    try:
        text = _message_text(email.message_from_bytes(data, policy=_ShortFields()), name)
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{name} is not a readable message: {error}") from error
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"


def _message_text(message: Message, name: str) -> str:
    subject = " ".join(str(message["Subject"] or "").split())
    fields = [
        f"{field}: {' '.join(str(value).split())}"
        for field in ("From", "To", "Cc", "Date")
        if (value := message[field])
    ]
    files = [file for part in message.walk() if (file := part.get_filename())]
    attached = f"Attached: {', '.join(files)}" if files else ""
    head = f"{_SUBJECT}{subject}" if subject else ""
    return "\n\n".join(filter(None, (head, "\n".join(fields), _shown(message, name), attached)))


def _shown(part: Message, name: str) -> str:
    """The text that a part of a message shows."""
    kind = part.get_content_type()
    if part.is_multipart():
        children = [child for child in part.get_payload() if isinstance(child, Message)]
        if kind == "message/rfc822":
            return "\n".join(_message_text(child, name) for child in children)
        texts = [(child.get_content_type(), _shown(child, name)) for child in children]
        if kind == "multipart/alternative":
            forms = [text for form, text in texts if form != "text/calendar" and text]
            longest = max(forms, key=lambda text: len(text.split()), default="")
            plain = forms[0] if forms and len(forms[0].split()) > _STUB * len(longest.split()) else longest
            return "\n\n".join(filter(None, [plain, *(t for form, t in texts if form == "text/calendar")]))
        return "\n\n".join(text for _, text in texts if text)
    if part.get_content_maintype() != "text" or part.get_content_disposition() == "attachment":
        return ""
    data = part.get_payload(decode=True)
    text = _decoded(data if isinstance(data, bytes) else b"", part.get_content_charset())
    text = text.replace("\r\n", "\n").strip()
    if kind == "text/html" and text:
        from sage_app.documents.html import read_html

        return read_html(text, name=name).text
    if kind == "text/calendar":  # its lines are folded
        shown = _SHOWN.findall(re.sub(r"\n[ \t]|\\(?=[\\,;])", "", text))
        text = "\n".join(f"{field.title()}: {said}" for field, said in shown)
    return text


def _decoded(data: bytes, charset: str | None) -> str:
    """Text as UTF-8, if it is that or says nothing else; a byte that no set explains costs one character."""
    latin = charset in ("iso-8859-1", "us-ascii", None)  # what calls itself so is Windows-1252
    names = ["cp1252" if latin else charset, "utf-8"]
    if not data.isascii() or latin:  # signs of seven bits may stand for other scripts
        names.reverse()
    for encoding in names[:-1] if charset == "utf-8" or latin else names:
        with contextlib.suppress(LookupError, ValueError):  # an unknown set, or one of no text
            return data.decode(str(encoding))
    text = data.decode("utf-8", "surrogateescape")
    return re.sub("[\udc80-\udcff]", lambda m: bytes([ord(m[0]) - 0xDC00]).decode("cp1252", "replace"), text)
