"""Spreadsheets and slides as Markdown: sheets and slides under a heading each."""

from __future__ import annotations

import io
import logging
import re
import zipfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from html import escape
from typing import Any

from sage_app.documents.discovery import Parsed
from sage_app.documents.docx import check_archive
from sage_app.documents.html import read_html
from sage_core._checks import counted
from sage_core.errors import InputError

logger = logging.getLogger(__name__)

_MEDIA = re.compile(r"(?i)/media/|\.(?:png|jpe?g|gif|svg|webp|emf|wmf|ttf|otf|woff2?|mp[34])$")


def read_office(kind: str, data: bytes, *, name: str = "the file") -> Parsed:
    """Text, title and headings of an ``xlsx`` or ``pptx`` file.

    Formulas count by the values that were saved with them, numbers as they are shown. Merged cells are
    filled, an empty row ends a table, empty columns are left out. What is hidden is left out, and a warning
    counts it. Values of charts are a table; speaker's notes stand below their slide.

    Raises:
        InputError: For a damaged or encrypted file, or one that unpacks to too much.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            check_archive(archive, name, lambda part: bool(_MEDIA.search(part)))
        title, markup, hidden = _READERS[kind](data)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # whatever zip, XML and the library meet in a damaged file
        raise InputError(
            f"{name} is not a readable .{kind} file, or is encrypted: {str(error) or type(error).__name__}"
        ) from error
    if hidden:
        logger.warning(
            "%s: %s hidden and left out", name, counted(hidden, "slide" if kind == "pptx" else "part")
        )
    page = read_html(markup, name=name, whole=True)
    return page._replace(title=" ".join(title.split()) or page.title)


# A currency or other words, colors and conditions, quoted words, an escaped sign, room of a sign's width.
_AROUND = re.compile(r'\[\$([^\]-]*)[^\]]*\]|\[[^\]]*\]|"([^"]*)"|\\(.)|_.|\*.')
_NUMBER = re.compile(r"[#0?][#0?,]*(?:\.([#0?]*))?")


def _spreadsheet(data: bytes) -> tuple[str, str, int]:
    from openpyxl import load_workbook

    # Read-only, a book has neither merged cells nor hidden rows.
    book = load_workbook(io.BytesIO(data), data_only=True)
    parts: list[str] = []
    hidden = sum(sheet.sheet_state != "visible" for sheet in book.worksheets)
    for sheet in (sheet for sheet in book.worksheets if sheet.sheet_state == "visible"):
        rows = {number for number, row in sheet.row_dimensions.items() if row.hidden}
        columns = {
            column
            for letters in sheet.column_dimensions.values()
            if letters.hidden
            for column in range(letters.min, letters.max + 1)
        }
        hidden += len(rows) + len(columns)
        filled = {
            (cell.row, cell.column): _shown(area.start_cell)
            for area in sheet.merged_cells.ranges
            for row in area.rows
            for cell in (sheet.cell(*place) for place in row)
        }
        parts.append(f"<h2>{escape(sheet.title)}</h2>")
        table: list[list[str]] = []
        for cells in [*sheet.iter_rows(), ()]:
            if cells and cells[0].row in rows:
                continue
            row = [
                filled.get((c.row, c.column)) or _shown(c)
                for c in cells
                if getattr(c, "column", 0) not in columns
            ]
            if any(row):
                table.append(row)
            elif len(table) > 1 or (table and not (cells and _several(table[0]))):
                parts += _titled(table)  # a row of names may stand apart
                table = []
        if parts[-1].startswith("<h2>"):  # an empty sheet
            parts.pop()
    return book.properties.title or "", "".join(parts), hidden


def _several(row: list[str]) -> bool:
    """Whether a row has several texts; a title that fills merged cells is one."""
    return len({cell for cell in row if cell}) > 1


def _titled(table: list[list[str]]) -> Iterator[str]:
    """The rows that are one text above a table, and the table, without empty columns."""
    while len(table) > 1 and not _several(table[0]):
        yield f"<p>{escape(next(filter(None, table.pop(0))))}</p>"
    used = [column for column in range(len(table[0])) if any(row[column] for row in table)]
    yield _table([[row[column] for column in used] for row in table])


def _shown(cell: Any) -> str:
    """The value of a cell as its sheet shows it, as far as that is known."""
    value, form = cell.value, str(cell.number_format).split(";")[0]
    if isinstance(value, timedelta):
        seconds = round(value.total_seconds())
        rest = f":{seconds % 60:02}" if "s" in form or seconds % 60 else ""
        return f"{seconds // 3600}:{seconds // 60 % 60:02}{rest}"
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value).removesuffix(" 00:00:00")  # of a date
    clean = _AROUND.sub(r"\1\2\3", form)
    found = _NUMBER.search(clean)
    if found is None or set("E/") & set(clean):
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    grouped, places = "," in found[0], len(found[1] or "")
    text = f"{abs(value) * (100 if '%' in clean else 1):{',' if grouped else ''}.{places}f}"
    if (found[1] or "").endswith("#"):
        text = text.rstrip("0").rstrip(".")
    whole, point, rest = text.partition(".")
    text = f"{whole.zfill(found[0].partition('.')[0].count('0'))}{point}{rest}"
    return f"{'-' if value < 0 else ''}{clean[: found.start()]}{text}{clean[found.end() :]}".strip()


def _table(rows: list[list[str]]) -> str:
    lines: list[str] = []
    for number, row in enumerate(rows):
        tag = "td" if number else "th"
        lines.append("".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row))
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _slides(data: bytes) -> tuple[str, str, int]:
    from pptx import Presentation

    show = Presentation(io.BytesIO(data))
    parts: list[str] = []
    hidden = [slide.slide_id for slide in show.slides if slide._element.get("show") == "0"]
    for number, slide in enumerate(show.slides, 1):
        if slide.slide_id in hidden:
            continue
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
            elif getattr(shape, "has_chart", False):
                series = list(shape.chart.series)
                names = map(str, next(iter(shape.chart.plots)).categories)
                values = zip(
                    *([f"{v:g}" if v is not None else "" for v in s.values] for s in series), strict=False
                )
                table = [["", *(each.name or "" for each in series)]]
                parts.append(_table(table + [[a, *row] for a, row in zip(names, values, strict=False)]))
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            parts += _paragraphs(slide.notes_slide.notes_text_frame)
    return show.core_properties.title or "", "".join(parts), len(hidden)


def _shapes(shapes: Any) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _shapes(shape.shapes)
        else:
            yield shape


def _paragraphs(frame: Any) -> list[str]:
    texts = [paragraph.text.strip() for paragraph in frame.paragraphs]
    return [f"<p>{escape(text)}</p>" for text in texts if text]


_READERS: dict[str, Callable[[bytes], tuple[str, str, int]]] = {
    "xlsx": _spreadsheet,
    "pptx": _slides,
}
