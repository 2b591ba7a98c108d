"""Spreadsheets and slides as Markdown: sheets and slides under a heading each."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from sage_app.documents.docx import check_archive
from sage_app.documents.html import HtmlPage, read_html
from sage_core.errors import InputError

_MEDIA = re.compile(r"(?i)/media/|\.(?:png|jpe?g|gif|svg|webp|emf|wmf|ttf|otf|woff2?|mp[34])$")


def read_office(kind: str, data: bytes, *, name: str = "the file") -> HtmlPage:
    """Text, title and headings of an ``xlsx`` or ``pptx`` file.

    Formulas count by the values that were saved with them; empty rows and columns are left out. Speaker's
    notes stand below their slide.

    Raises:
        InputError: For a damaged or encrypted file, or one that unpacks to too much.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            check_archive(archive, name, lambda part: bool(_MEDIA.search(part)))
        title, markup = _READERS[kind](data)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # whatever zip, XML and the library meet in a damaged file
        raise InputError(
            f"{name} is not a readable .{kind} file, or is encrypted: {str(error) or type(error).__name__}"
        ) from error
    page = read_html(markup, name=name, whole=True)
    return page._replace(title=" ".join(title.split()) or page.title)


def _spreadsheet(data: bytes) -> tuple[str, str]:
    from openpyxl import load_workbook

    book = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    parts: list[str] = []
    for sheet in book.worksheets:
        rows = [[_cell(value) for value in row] for row in sheet.iter_rows(values_only=True)]
        rows = [row for row in rows if any(row)]
        used = [
            column for column in range(max(map(len, rows), default=0)) if any(_at(r, column) for r in rows)
        ]
        if rows:
            table = _table([[_at(row, column) for column in used] for row in rows])
            parts.append(f"<h2>{escape(sheet.title)}</h2>{table}")
    return book.properties.title or "", "".join(parts)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value)
    return text.removesuffix(" 00:00:00")  # a date


def _at(row: list[str], column: int) -> str:
    return row[column] if column < len(row) else ""


def _table(rows: list[list[str]]) -> str:
    lines: list[str] = []
    for number, row in enumerate(rows):
        tag = "td" if number else "th"
        lines.append("".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row))
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _slides(data: bytes) -> tuple[str, str]:
    from pptx import Presentation

    show = Presentation(io.BytesIO(data))
    parts: list[str] = []
    for number, slide in enumerate(show.slides, 1):
        heading = slide.shapes.title
        words = heading.text_frame.text.strip() if heading is not None else ""
        parts.append(f"<h2>{escape(' '.join(words.split()) or f'Slide {number}')}</h2>")
        for shape in _shapes(slide.shapes):
            if heading is not None and shape.shape_id == heading.shape_id:
                continue
            if shape.has_text_frame:
                parts += _paragraphs(shape.text_frame)
            elif getattr(shape, "has_table", False):
                parts.append(_table([[cell.text for cell in row.cells] for row in shape.table.rows]))
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            parts += _paragraphs(slide.notes_slide.notes_text_frame)
    return show.core_properties.title or "", "".join(parts)


def _shapes(shapes: Any) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _shapes(shape.shapes)
        else:
            yield shape


def _paragraphs(frame: Any) -> list[str]:
    texts = [paragraph.text.strip() for paragraph in frame.paragraphs]
    return [f"<p>{escape(text)}</p>" for text in texts if text]


_READERS: dict[str, Callable[[bytes], tuple[str, str]]] = {
    "xlsx": _spreadsheet,
    "pptx": _slides,
}
