"""The text of a PDF as paragraphs: lines joined, columns in order, running headers and page numbers left out.

PDFium says which words stand where. From that come lines, from lines paragraphs. The text holds the words of
the pages in reading order, but for hyphens at the ends of lines and what repeats on every page.
"""

from __future__ import annotations

import bisect
import collections
import ctypes
import itertools
import logging
import math
import re
import statistics
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sage_app.documents.discovery import Parsed
from sage_core.errors import InputError, MissingExtraError
from sage_core.text.headings import MAX_HEADING_CHARS, Heading, find_headings
from sage_core.text.lines import CONTENTS_ENTRY, WIDE
from sage_core.text.tokens import get_counter

logger = logging.getLogger(__name__)

# Half of a surrogate pair or a control character cannot be stored as text; broken fonts produce both.
_UNSTORABLE = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_HYPHEN = 2  # PDFium's mark for a hyphen at which a line ends; it gives no line break there
_MOST_CHARS = 50_000_000
_LEAST_PAGE_BYTES = 40  # of a file for each of its pages; a file with fewer repeats one page without end
_MOST_LOST_PAGES = 500  # in a row, after which the number of pages is taken for an error of the file

# PDFium keeps its state in globals: one thread at a time.
_lock = threading.Lock()


@dataclass(slots=True)
class _Line:
    """A line of one column; lengths are points from the left and lower edge of the page."""

    cells: list[str]  # its text, in more than one piece where wide gaps part it
    edges: list[float]  # left edge of each
    x0: float
    x1: float
    y: float  # lower edge of its first word
    size: float  # of the type
    bold: bool
    hyphen: bool  # whether a word is broken at its end
    page: int  # from 0
    column: int = 0  # 0 for the left or only one; -1 for a line across columns
    height: float = 0.0  # from its first to its last line, where cells of a table are wrapped

    @property
    def text(self) -> str:
        return " ".join(self.cells)


@dataclass(slots=True)
class _PageLines:
    width: float
    height: float
    lines: list[_Line] = field(default_factory=list)


@dataclass(slots=True)
class _Paragraph:
    lines: list[_Line]
    joint: str = "\n\n"  # what stands before it
    table: bool = False
    start: int = 0
    end: int = 0


def read_pdf(data: bytes, *, name: str = "the file") -> Parsed:
    """Text, title, page starts and headings of a PDF.

    Paragraphs are parted by blank lines. The title is that of its properties, else its first heading, where
    nothing else has that level. Headings are from its bookmarks where they are found on the pages; else lines
    in larger or bold type, and numbered ones. A link is the line on which it begins.

    Raises:
        InputError: For a damaged file, one that needs a password, or one without text (a scan).
        MissingExtraError: Without pypdfium2.
    """
    try:
        import pypdfium2
    except ImportError:
        raise MissingExtraError("Reading PDF", "files") from None
    with _lock:
        try:
            document = pypdfium2.PdfDocument(data)
        except pypdfium2.PdfiumError as error:
            if getattr(error, "err_code", None) == pypdfium2.raw.FPDF_ERR_PASSWORD:
                raise InputError(
                    f"{name} is encrypted: save a copy without password and ingest that"
                ) from None
            if getattr(error, "err_code", None) == pypdfium2.raw.FPDF_ERR_SECURITY:
                raise InputError(
                    f"{name} is encrypted in a way that cannot be read: save a plain copy"
                ) from None
            raise InputError(f"{name} is not a readable PDF: it may be damaged or cut off") from None
        try:
            pages = _read_pages(document, len(data), name)
            title = _title(document)
            outline = _outline(document)
        except (pypdfium2.PdfiumError, ctypes.ArgumentError, ValueError, OverflowError) as error:
            raise InputError(f"{name} is not a readable PDF: {error}") from error
        finally:
            document.close()
    if not any(page.lines for page in pages):
        raise InputError(f"{name} holds no text: it may be a scan; run OCR on it first")
    _drop_running_lines(pages)
    lines = [line for page in pages for line in page.lines]
    paragraphs = list(_paragraphs(lines, pages))
    text, starts = _write(paragraphs, len(pages))
    headings = _headings(text, paragraphs, outline)
    if title is None and headings and all(h.level > headings[0].level for h in headings[1:]):
        title = headings[0].text
    return Parsed(text, title, headings, starts)


# --- Pages to lines ----------------------------------------------------------------


def _read_pages(document: Any, size: int, name: str) -> list[_PageLines]:
    import pypdfium2

    count = len(document)
    pages: list[_PageLines] = []
    chars = damaged = lost = 0
    for number in range(count):
        lines = _PageLines(0.0, 0.0)
        pages.append(lines)
        if (number - damaged) * _LEAST_PAGE_BYTES > size + 100 * _LEAST_PAGE_BYTES:
            raise InputError(f"{name} has {count:,} pages, far more than its {size:,} bytes can hold")
        try:
            page = document[number]
            lost = 0
            try:
                lines.width, lines.height = page.get_size()
                text = page.get_textpage()
                try:
                    chars += text.count_chars()
                    if chars > _MOST_CHARS:
                        raise InputError(f"{name} has more than {_MOST_CHARS:,} characters: split it")
                    lines.lines = _ordered(_without_line_numbers(_lines(text, number, _ruled_rows(page))))
                finally:
                    text.close()
            finally:
                page.close()
        except pypdfium2.PdfiumError:
            damaged += 1
            lost += 1
            if lost > _MOST_LOST_PAGES:
                break
    if damaged == len(pages):
        raise InputError(f"{name} is not a readable PDF: none of its pages can be opened")
    if damaged:
        logger.warning("%s: %d of %d pages are damaged and left out", name, damaged, count)
    return pages


class _Word(NamedTuple):
    text: str
    x0: float
    x1: float
    y: float
    size: float
    first: int  # index of its first character


class _RuledRow(NamedTuple):
    """A row of a table whose cells have borders: its lower and upper edge, and those between cells."""

    low: float
    high: float
    borders: list[float]
    cells: list[list[_Word]]


def _ruled_rows(page: Any) -> list[_RuledRow]:
    """Rows of which at least two cells have a border on each side."""
    import pypdfium2
    import pypdfium2.raw as c

    upright: list[tuple[float, float, float]] = []
    level: set[float] = set()
    for drawn in itertools.islice(page.get_objects(filter=(c.FPDF_PAGEOBJ_PATH,), max_depth=3), _MOST_RULES):
        try:
            left, low, right, high = drawn.get_bounds()
        except pypdfium2.PdfiumError:  # nothing is drawn
            continue
        if right - left < _RULE < high - low:
            upright.append(((left + right) / 2, low, high))
        elif high - low < _RULE < right - left:
            level.add(round((low + high) / 2))
    rows = []
    for low, high in itertools.pairwise(sorted(level)):
        middle = (low + high) / 2
        borders = sorted({round(x) for x, bottom, top in upright if bottom < middle < top})
        if len(borders) > 2 and high - low > _RULE:
            rows.append(_RuledRow(low, high, list(map(float, borders)), [[] for _ in borders[1:]]))
    return rows


def _lines(textpage: Any, page: int, rows: Sequence[_RuledRow]) -> list[_Line]:
    """The lines of a page, in the order in which the file draws them; a row of a ruled table is one."""
    lines: list[_Line | _RuledRow] = []
    words: list[_Word] = []
    for word in (*_words(textpage), False):
        if isinstance(word, _Word):
            row = next((r for r in rows if r.low < word.y < r.high), None)
            column = bisect.bisect(row.borders, (word.x0 + word.x1) / 2) - 1 if row else -1
            if row is None or not 0 <= column < len(row.cells):
                words.append(word)
                continue
            if not any(row.cells):
                lines.append(row)
            row.cells[column].append(word)
        elif words:
            lines.append(_line(textpage, words, page, hyphen=word))
            words = []
    return [_of_row(textpage, line, page) if isinstance(line, _RuledRow) else line for line in lines]


def _of_row(textpage: Any, row: _RuledRow, page: int) -> _Line:
    line = _line(textpage, [word for cell in row.cells for word in cell], page, hyphen=False)
    texts = [_UNSTORABLE.sub("\ufffd", " ".join(word.text for word in cell)) for cell in row.cells]
    edges, height = row.borders[:-1], row.high - row.low
    return replace(
        line,
        cells=texts,
        edges=edges,
        x0=edges[0],
        x1=row.borders[-1],
        y=row.low,
        height=height,
        hyphen=False,
    )


def _words(textpage: Any) -> Iterator[_Word | bool]:
    """Words, and after each line whether it ends with a hyphen."""
    import pypdfium2.raw as c

    unicode_of = c.FPDFText_GetUnicode
    x0, x1, y0, y1 = (ctypes.c_double() for _ in range(4))
    count = textpage.count_chars()
    chars: list[str] = []
    boxes: list[tuple[float, float]] = []  # left and right edge of each, with its share of the space between
    box = c.FS_RECTF()
    first = 0

    def words() -> Iterator[_Word]:
        # Some files place word by word, without a space between: the gap shows it.
        gaps = [after[0] - before[1] for before, after in itertools.pairwise(boxes)]
        width = statistics.fmean(right - left for left, right in boxes)
        wide = max(_WORD_GAP * width, 1.5 * statistics.median(gaps)) if gaps else 0.0
        borders = [0, *(i for i, gap in enumerate(gaps, 1) if gap > wide), len(chars)]
        for start, end in itertools.pairwise(borders):
            c.FPDFText_GetCharBox(textpage, first + start, x0, x1, y0, y1)
            left = x0.value
            if end - start > 1:
                c.FPDFText_GetCharBox(textpage, first + end - 1, x0, x1, y0, y1)
            right = x1.value
            # That box is the ink: a comma is lower than a letter. The origin is on the baseline.
            c.FPDFText_GetCharOrigin(textpage, first + start, x0, y0)
            size = c.FPDFText_GetFontSize(textpage, first + start) or 1.0
            yield _Word("".join(chars[start:end]), left, right, y0.value, size, first + start)

    for index in range(count):
        code = unicode_of(textpage, index)
        if code > 32 and code != 0xA0:
            if not chars:
                first = index
            if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
                code = 0xFFFD
            chars.append(chr(code))
            c.FPDFText_GetLooseCharBox(textpage, index, box)
            boxes.append((box.left, box.right))
            continue
        if chars:
            yield from words()
            chars, boxes = [], []
        if code in (10, 13, _HYPHEN):
            yield code == _HYPHEN
    if chars:
        yield from words()


def _line(textpage: Any, words: Sequence[_Word], page: int, *, hyphen: bool) -> _Line:
    import pypdfium2.raw as c

    # The type of a line is that of most of it: the first word may be a superscript, the longest one code.
    sizes: collections.Counter[float] = collections.Counter()
    for word in words:
        sizes[word.size] += len(word.text)
    usual = max(sizes, key=lambda size: sizes[size])
    longest = max((word for word in words if word.size == usual), key=lambda word: len(word.text))
    matrix = c.FS_MATRIX()
    size = longest.size
    if c.FPDFText_GetMatrix(textpage, longest.first, matrix):
        size *= max(abs(matrix.d), abs(matrix.b)) or 1.0
    buffer = ctypes.create_string_buffer(128)
    flags = ctypes.c_int()
    length = c.FPDFText_GetFontInfo(textpage, longest.first, buffer, 128, flags)
    font = buffer.value.decode("latin-1").lower() if 0 < length <= 128 else ""
    heavy = c.FPDFText_GetFontWeight(textpage, longest.first) >= 600
    bold = heavy or any(name in font for name in ("bold", "black", "heavy"))
    cells, edges = [words[0].text], [words[0].x0]
    for before, word in itertools.pairwise(words):
        if word.x0 - before.x1 > _WIDE_GAP * max(size, 1.0):
            cells.append(word.text)
            edges.append(word.x0)
        else:
            cells[-1] += " " + word.text
    clean = [_UNSTORABLE.sub("\ufffd", cell) for cell in cells]
    hyphen = _strip_hyphen(clean) or hyphen
    return _Line(clean, edges, words[0].x0, words[-1].x1, words[0].y, size, bold, hyphen, page)


def _strip_hyphen(cells: list[str]) -> bool:
    """Take the hyphen off a line that ends with a broken word."""
    last = cells[-1]
    if len(last) < 2 or last[-1] not in "-\u00ad\u2010" or not last[-2].isalpha():
        return False
    cells[-1] = last[:-1]
    return True


_RULE, _MOST_RULES = 3.0, 20_000  # points that a drawn line is thinner, and longer, than; paths of a page
_WORD_GAP = 0.2  # in widths of a character, from which on two words stand beside each other
_WIDE_GAP = 1.6  # in sizes of the type; justified lines have gaps up to one
_FEW_LINES = 6


def _ordered(lines: list[_Line]) -> list[_Line]:
    """Lines in reading order: where text stands in two columns, the left one first.

    Most files draw the columns one after the other, and nothing changes; some draw line by line.
    """
    gutter = _gutter(lines)
    if gutter is None:
        return lines
    parts: list[_Line] = []
    for line in lines:
        split = next((i for i, edge in enumerate(line.edges) if i and edge >= gutter > line.x0), 0)
        if not split:
            line.column = 0 if line.x1 <= gutter else 1 if line.x0 >= gutter else -1
            parts.append(line)
            continue
        left = replace(line, cells=line.cells[:split], edges=line.edges[:split], x1=gutter, hyphen=False)
        left.hyphen = _strip_hyphen(left.cells)
        right = replace(
            line, cells=line.cells[split:], edges=line.edges[split:], x0=line.edges[split], column=1
        )
        parts += [left, right]
    # Lines across the columns part the page into bands; within a band the left column comes first.
    ordered: list[_Line] = []
    band: list[_Line] = []
    for line in sorted(parts, key=lambda line: -line.y):
        if line.column < 0:
            ordered += sorted(band, key=lambda part: (part.column, -part.y))
            band = []
            ordered.append(line)
        else:
            band.append(line)
    return ordered + sorted(band, key=lambda part: (part.column, -part.y))


def _gutter(lines: Sequence[_Line]) -> float | None:
    """The left edge of the right column, where prose stands in two columns."""
    if len(lines) < 2 * _FEW_LINES:
        return None
    left, right = min(line.x0 for line in lines), max(line.x1 for line in lines)
    # Left edges in the middle of the page: the first characters of a column stand one above the other.
    starts = collections.Counter(
        round(edge)
        for line in lines
        for edge in line.edges
        if left + 0.3 * (right - left) < edge < left + 0.7 * (right - left)
    )
    if not starts:
        return None
    edge, count = max(
        starts.items(), key=lambda item: (item[1] + starts[item[0] + 1] + starts[item[0] - 1], -item[0])
    )
    count += starts[edge + 1] + starts[edge - 1]
    gutter = edge - 1.5
    lefts = [line for line in lines if line.x0 < gutter - 20]
    crossing = sum(
        1
        for line in lefts
        if line.x1 > gutter + 2 and not any(abs(e - edge) < 2 or e > edge for e in line.edges[1:])
    )
    if count < _FEW_LINES or len(lefts) < _FEW_LINES or crossing > 0.25 * len(lefts):
        return None
    # Cells of a table are short, lines of a column are not.
    sides = _sides(lines, gutter)
    if min(len(side) for side in sides) < _FEW_LINES:
        return None
    return gutter if all(statistics.median(side) >= 4 for side in sides) else None


def _sides(lines: Sequence[_Line], gutter: float) -> tuple[list[int], list[int]]:
    """Words of each piece of a line on the left and on the right of the gutter."""
    left: list[int] = []
    right: list[int] = []
    for line in lines:
        for cell, edge in zip(line.cells, line.edges, strict=True):
            if edge >= gutter:
                right.append(len(cell.split()))
            elif line.x1 < gutter or len(line.cells) > 1:
                left.append(len(cell.split()))
    return left, right


# --- Running headers, footers and page numbers -------------------------------------

_DIGITS = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(
    r"(?:(?:page|p\.|seite|página|страница|第)\s*)?[-–—\[(]?\s*(?:\d{1,5}|[ivxlc]{1,7})\s*[-–—\])]?"
    r"(?:\s*(?:/|of|von|de|sur|из)\s*\d{1,5})?",
    re.IGNORECASE,
)
_MARGIN = 0.12  # share of the page's height at its top and bottom in which they stand
_OUTER_LINES = 3
_GAP = 1.6  # in sizes of the type, between what runs from page to page and the text


def _drop_running_lines(pages: Sequence[_PageLines]) -> None:
    """Take out what stands at the top or bottom of page after page, and page numbers there."""
    outer: list[list[tuple[_Line, str]]] = []
    for page in pages:
        top = sorted(page.lines, key=lambda line: -line.y)
        edges = (
            _outermost([line for line in top if line.y > (1 - _MARGIN) * page.height], top),
            _outermost([line for line in reversed(top) if line.y < _MARGIN * page.height], top[::-1]),
        )
        outer.append(
            [
                (line, _DIGITS.sub("0", " ".join(line.text.split()).lower()))
                for line in itertools.chain(*edges)
            ]
        )
    filled = sum(1 for page in pages if page.lines)
    counts = collections.Counter(key for one in outer for key in {key for _, key in one})
    numbered = sum(any(_PAGE_NUMBER.fullmatch(line.text) for line, _ in one) for one in outer)
    needed = 2 if filled < 4 else 3
    for page, one in zip(pages, outer, strict=True):
        dropped = {
            id(line)
            for line, key in one
            if (counts[key] >= needed and len(key) <= 200)
            or (_PAGE_NUMBER.fullmatch(line.text) and (numbered > 1 or filled == 1))
        }
        # A page of nothing else keeps its lines: they may be all that it says.
        if len(dropped) < len(page.lines):
            page.lines = [line for line in page.lines if id(line) not in dropped]


def _outermost(margin: Sequence[_Line], lines: Sequence[_Line]) -> list[_Line]:
    """The first lines in a margin, up to the last gap: text that a page begins with has none below it."""
    count = 0
    for number, (line, following) in enumerate(itertools.pairwise(lines[: _OUTER_LINES + 1]), 1):
        if number <= len(margin) and abs(line.y - following.y) > _GAP * max(line.size, following.size, 1.0):
            count = number
    return list(margin[: max(count, len(lines) if len(lines) <= _OUTER_LINES else 0)])


# --- Lines to paragraphs -----------------------------------------------------------

_ENDS = re.compile(r"[.!?:;…。！？][\"'”’)\]]*\Z")
_ITEM = re.compile(r"(?:[•‣◦▪●·–—*\uf0b7]|[-o](?=\s)|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{2,4})[.)](?=\s))\s*\S?")
_NUMBERED_LINE = re.compile(r"(?:\d{1,3}(?:\.\d{1,3}){0,4}\.?|[IVXLC]{1,6}\.|[A-Z]\.)\s+[^\W\d_]")


def _paragraphs(lines: Sequence[_Line], pages: Sequence[_PageLines]) -> Iterator[_Paragraph]:
    pitch = _pitch(lines)
    bounds = _column_bounds(lines)
    open_: _Paragraph | None = None
    lines, rows = _tables(lines)
    for index, line in enumerate(lines):
        above = lines[index - 1] if index else None
        if open_ is None or above is None:
            open_ = _Paragraph([line], "", rows[index])
            continue
        if rows[index] != rows[index - 1]:
            joint = "\n\n"
        elif rows[index]:
            joint = ""
        else:
            joint = _joint(above, line, open_, pitch, bounds)
        if joint:
            yield open_
            open_ = _Paragraph([line], joint, rows[index])
        else:
            open_.lines.append(line)
    if open_ is not None:
        yield open_


def _pitch(lines: Sequence[_Line]) -> float:
    """The usual distance of two lines of a paragraph, in sizes of the type."""
    steps = [
        (a.y - b.y) / b.size
        for a, b in itertools.pairwise(lines)
        if a.page == b.page and a.column == b.column and b.size and 0.8 < (a.y - b.y) / b.size < 2.6
    ]
    return statistics.median_low(steps) if steps else 1.2


def _column_bounds(lines: Sequence[_Line]) -> dict[tuple[int, int], tuple[float, float]]:
    """Left and right edge of each column of each page."""
    columns: dict[tuple[int, int], list[_Line]] = collections.defaultdict(list)
    for line in lines:
        columns[line.page, line.column].append(line)
    return {key: (min(a.x0 for a in own), max(a.x1 for a in own)) for key, own in columns.items()}


_SAME_EDGE = 3.0  # points
_TALLEST_ROW = 40  # lines
_BROKEN = "\u00ad"
_LONE_MARK = re.compile(r"\W|\(?\w{1,3}[.)]")  # of a list item whose text stands far from it
_NUMBER = re.compile(r"\W*\d[\d.,]*\W*")


def _tables(lines: Sequence[_Line]) -> tuple[list[_Line], list[bool]]:
    """The lines, those of wrapped cells joined to their rows, and which of them are rows of a table."""
    joined: list[list[_Line]] = []
    merged: list[_Line] = []
    columns: list[float] = []
    bottoms: list[float] = []  # lowest line of each cell of the last row
    for line in lines:
        row = merged[-1] if merged else None
        if row is not None and _wraps(line, row, columns, bottoms):
            merged[-1] = _with_cells(row, line, columns, bottoms)
            joined[-1].append(line)
            continue
        if row is None or len(line.cells) < 2 or len(row.cells) < 2 or row.page != line.page:
            columns = []
        if len(line.cells) > 1 and not set(_columns_of(line, columns)) - set(range(len(columns))):
            cells = [""] * len(columns)
            for cell, column in zip(_marked_cells(line), _columns_of(line, columns), strict=True):
                cells[column] = cell
        else:
            columns, cells = list(line.edges), _marked_cells(line)
        bottoms = [line.y if cell else math.inf for cell in cells]
        merged.append(replace(line, cells=cells, edges=list(columns), hyphen=False))
        joined.append([line])
    rows = _table_rows(merged)
    flat: list[_Line] = []
    marks: list[bool] = []
    for row, parts, is_row in zip(merged, joined, rows, strict=True):
        if is_row:
            row.cells = [cell.replace(_BROKEN, "-") for cell in row.cells]
        flat += [row] if is_row else parts
        marks += [is_row] * (1 if is_row else len(parts))
    return flat, marks


def _marked_cells(line: _Line) -> list[str]:
    """The cells, the last with a mark where it ends with a broken word."""
    return [*line.cells[:-1], line.cells[-1] + _BROKEN * line.hyphen]


def _columns_of(line: _Line, columns: Sequence[float]) -> list[int]:
    """The column in which each cell begins; -1 for none."""
    return [next((i for i, x in enumerate(columns) if abs(x - edge) < _SAME_EDGE), -1) for edge in line.edges]


def _wraps(line: _Line, row: _Line, columns: Sequence[float], bottoms: Sequence[float]) -> bool:
    """Whether a line goes on with cells of the row, or is a cell beside them that the file has later."""
    if (
        len(row.cells) < 2
        or (line.page, line.column) != (row.page, row.column)
        or _LONE_MARK.fullmatch(row.cells[0])
        or line.x0 <= columns[0] + _SAME_EDGE
        or row.height > _TALLEST_ROW * max(row.size, 1.0)
    ):
        return False
    top, size = row.y + row.height, max(line.size, 1.0)
    places = _columns_of(line, columns)
    if -1 in places:
        return len(line.cells) == 1 and abs(line.y - top) < 0.3 * size and line.x0 > row.x1
    if len(line.cells) > 1 and any(map(_NUMBER.fullmatch, line.cells)):
        return False  # a row whose first cell is empty
    return all(
        abs(line.y - top) < 0.3 * size
        if bottoms[place] == math.inf
        else 0 < bottoms[place] - line.y < 1.45 * size
        for place in places
    )


def _with_cells(row: _Line, line: _Line, columns: list[float], bottoms: list[float]) -> _Line:
    """The row with the cells of one more line."""
    for place, edge, cell in zip(_columns_of(line, columns), line.edges, _marked_cells(line), strict=True):
        if place < 0:
            columns.append(edge)
            row.edges.append(edge)
            row.cells.append(cell)
            bottoms.append(line.y)
        else:
            before = row.cells[place]
            row.cells[place] = f"{before} {cell}".strip() if before[-1:] != _BROKEN else before[:-1] + cell
            bottoms[place] = line.y
    lowest = min(row.y, line.y)
    return replace(
        row,
        x1=max(row.x1, line.x1),
        y=lowest,
        height=row.y + row.height - lowest,
    )


def _without_line_numbers(lines: Sequence[_Line]) -> list[_Line]:
    """The lines; numbers 1, 2, 3, ... before them are no column of a table."""
    numbered = [i for i, line in enumerate(lines) if len(line.cells) > 1 and line.cells[0].isdecimal()]
    steps = [int(lines[b].cells[0]) - int(lines[a].cells[0]) for a, b in itertools.pairwise(numbered)]
    if len(numbered) < _FEW_LINES or len(numbered) < 0.5 * len(lines) or steps.count(1) < 0.8 * len(steps):
        return list(lines)
    bare = list(lines)
    for i in numbered:
        line = lines[i]
        bare[i] = replace(line, cells=line.cells[1:], edges=line.edges[1:], x0=line.edges[1])
    return bare


def _table_rows(lines: Sequence[_Line]) -> list[bool]:
    """Which lines are rows of a table: wide gaps part them, and at least one neighbor at the same places."""

    def alike(a: _Line, b: _Line) -> bool:
        if min(len(a.cells), len(b.cells)) < 2 or a.page != b.page:
            return False
        shared = sum(any(abs(x - y) < 3 for y in b.edges) for x in a.edges)
        return shared >= 2 and abs(a.y - b.y - b.height) <= 4 * max(a.size, b.size)

    pairs = [False, *(alike(a, b) for a, b in itertools.pairwise(lines)), False]
    return [above or below for above, below in itertools.pairwise(pairs)][: len(lines)]


def _joint(
    above: _Line,
    line: _Line,
    paragraph: _Paragraph,
    pitch: float,
    bounds: dict[tuple[int, int], tuple[float, float]],
) -> str:
    """What stands between two lines: nothing where a paragraph goes on, else a line break or a blank line."""
    if above.hyphen:
        return ""
    text, before = line.text, above.text
    ended = _ENDS.search(before) is not None
    goes_on = not ended and text[0].islower()
    size = max(line.size, 1.0)
    left, right = bounds[above.page, above.column]
    short = above.x1 < right - 0.12 * (right - left)
    if abs(above.size - line.size) > 0.08 * size and not goes_on:
        return "\n\n"
    if above.page != line.page or above.column != line.column or line.y >= above.y:
        if goes_on or not (ended or short or above.bold != line.bold):
            return ""
        return "\n\n" if short or above.bold != line.bold else "\n"
    if (above.y - line.y) / size > 1.3 * pitch:
        return "\n\n"
    if CONTENTS_ENTRY.search(before):
        return "\n"
    if above.bold != line.bold and (short or len(paragraph.lines) == 1) and (above.bold or ended):
        return "\n\n"
    if joint := _at_item_or_heading(above, line, paragraph, ended or short, right - left):
        return joint
    if ended and line.x0 - above.x0 > 0.8 * size:
        return "\n\n"  # an indented first line
    if ended and above.x0 - line.x0 > 0.8 * size and _ITEM.match(paragraph.lines[0].text):
        return "\n\n"  # the text after a list
    if short and not text[0].islower() and _fits(line, above, right):
        return "\n\n" if ended and above.x1 < right - 0.3 * (right - left) else "\n"
    return ""


def _at_item_or_heading(above: _Line, line: _Line, paragraph: _Paragraph, may_end: bool, width: float) -> str:
    """What stands before a list item or a numbered heading, and after the latter; nothing for other lines."""
    text, before = line.text, above.text
    heading, after_heading = _is_heading_line(text), _is_heading_line(before)
    if _ITEM.match(text) and (may_end or _ITEM.match(paragraph.lines[0].text)):
        return "\n\n" if heading and not after_heading else "\n"
    if heading and may_end and line.x1 - line.x0 < 0.7 * width:
        return "\n\n"
    if after_heading and len(paragraph.lines) == 1 and may_end and not text[0].islower():
        return "\n\n"
    return ""


def _fits(line: _Line, above: _Line, right: float) -> bool:
    """Whether the first word of ``line`` would have had room on the line above."""
    text = line.text
    word = len(text.split(" ", 1)[0]) + 1
    return above.x1 + word * (line.x1 - line.x0) / max(len(text), 1) < right


def _is_heading_line(text: str) -> bool:
    return (
        len(text) <= 90
        and _NUMBERED_LINE.match(text) is not None
        and not text.endswith((".", ",", ";", ":"))
        and len(text.split()) <= 12
    )


# --- Paragraphs to text ------------------------------------------------------------

_TOKEN = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LAST_LETTERS = re.compile(r"[^\W\d_]+\Z")
_FIRST_LETTERS = re.compile(r"[^\W\d_]+")


def _write(paragraphs: Sequence[_Paragraph], pages: int) -> tuple[str, tuple[int, ...]]:
    """The text, and where each page starts in it. Notes in each paragraph where it stands."""
    known = _vocabulary(paragraphs)
    parts: list[str] = []
    size = 0
    first_of: dict[int, int] = {}  # page: offset of its first character
    for paragraph in paragraphs:
        parts.append(paragraph.joint)
        size += len(paragraph.joint)
        paragraph.start = size
        for index, line in enumerate(paragraph.lines):
            between, text = "", line.text
            if paragraph.table:
                between = "\n" if index else ""
                text = "| " + " | ".join(cell.replace("|", "\\|") for cell in line.cells) + " |"
            elif index:
                between = _between(paragraph.lines[index - 1], text, known)
            size += len(between)
            first_of.setdefault(line.page, size)
            size += len(text)
            parts += [between, text]
        if paragraph.lines[-1].hyphen:
            parts.append("-")
            size += 1
        paragraph.end = size
    # A page without text starts where the next one does.
    backwards = itertools.accumulate(
        reversed(range(pages)), lambda following, page: first_of.get(page, following), initial=size
    )
    starts = [*backwards][:0:-1]
    return "".join(parts), (0, *starts[1:])


def _vocabulary(paragraphs: Sequence[_Paragraph]) -> frozenset[str]:
    """Words of the document that no line end broke."""
    known: set[str] = set()
    for paragraph in paragraphs:
        broken = False
        for line in paragraph.lines:
            words = _TOKEN.findall(line.text)
            words = words[broken : len(words) - line.hyphen]
            known.update(word.lower() for word in words if len(word) > 3)
            broken = line.hyphen
    return frozenset(known)


def _between(above: _Line, text: str, known: frozenset[str]) -> str:
    """What joins a line to the one above it: a space, nothing, or the hyphen at which the word was broken."""
    before = above.text
    if not above.hyphen:
        # Chinese and Japanese lines end anywhere, and Korean ones at a space.
        wide = before[-1] >= WIDE and text[0] >= WIDE
        return "" if wide and not "\uac00" <= text[0] <= "\ud7a3" else " "
    left, right = _LAST_LETTERS.search(before), _FIRST_LETTERS.match(text)
    if left is None or right is None:
        return "-"
    capital = right.group()[0].isupper() and not (left.group().isupper() and right.group().isupper())
    if capital:  # "Jean-" and "Paul", not "SE-" and "QUENCE"
        return "-"
    a, b = left.group().lower(), right.group().lower()
    if a + b in known:
        return ""
    if f"{a}-{b}" in known or (len(a) > 3 and len(b) > 3 and a in known and b in known):
        return "-"
    # A word of one token is a common English one: "user-" and "defined" are, "userdefined" is not.
    parts, [joined] = get_counter("bert").count_many([a, b]), get_counter("bert").count_many([a + b])
    return "-" if parts == [1, 1] and joined > 1 else ""


# --- Title and headings ------------------------------------------------------------

_NO_TITLE = re.compile(
    r"(?:\(?(?:untitled|anonymous)\)?.*|microsoft \w+ - .*|.*\.(?:docx?|pdf|tex|dvi|indd|pptx?|odt|qxd)|)",
    re.IGNORECASE,
)
_MOST_BOOKMARKS = 10_000
_LARGER = 1.12  # times the size of the text


def _title(document: Any) -> str | None:
    title = " ".join(_UNSTORABLE.sub("", document.get_metadata_value("Title") or "").split())
    return None if _NO_TITLE.fullmatch(title) else title[:MAX_HEADING_CHARS]


def _outline(document: Any) -> list[tuple[str, int, int]]:
    """Bookmarks as (letters and digits of the title, level from 1, page from 0)."""
    bookmarks: list[tuple[str, int, int]] = []
    # A bookmark that is its own parent would give new ones forever.
    for bookmark in itertools.islice(document.get_toc(max_depth=8), _MOST_BOOKMARKS):
        target = bookmark.get_dest()
        page = target.get_index() if target is not None else None
        if page is not None and (key := _key(bookmark.get_title())):
            bookmarks.append((key, bookmark.level + 1, page))
    return bookmarks


def _key(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


def _headings(
    text: str, paragraphs: Sequence[_Paragraph], outline: Sequence[tuple[str, int, int]]
) -> list[Heading]:
    short = [
        p for p in paragraphs if p.end - p.start <= MAX_HEADING_CHARS and not p.table and len(p.lines) < 4
    ]
    marked = _from_outline(text, short, outline) if outline else []
    if len(marked) < max(2, 0.5 * len(outline)):
        marked = _from_type(text, paragraphs, short)
    # What has a number is a heading, too, where the type does not show it.
    taken = {h.start for h in marked}
    deepest = max((h.level for h in marked), default=0)
    rest = [
        h._replace(level=h.level + deepest)
        for h in find_headings(text, "plain")
        if h.start not in taken and (not marked or (not outline and _is_heading_line(h.text)))
    ]
    headings: list[Heading] = []
    for heading in sorted([*marked, *rest]):
        if not headings or heading.start >= headings[-1].end:
            headings.append(heading)
    return headings


def _from_outline(
    text: str, short: Sequence[_Paragraph], outline: Sequence[tuple[str, int, int]]
) -> list[Heading]:
    """Bookmarks whose titles stand on the pages that they point at."""
    by_page: dict[int, dict[str, _Paragraph]] = collections.defaultdict(dict)
    for paragraph in short:
        key = _key(text[paragraph.start : paragraph.end])
        by_page[paragraph.lines[0].page].setdefault(key, paragraph)
        if numbered := _NUMBERED_LINE.match(text, paragraph.start, paragraph.end):
            # The bookmark may say "Dues" where the page says "3. Dues".
            bare = _key(text[numbered.end() - 1 : paragraph.end])
            by_page[paragraph.lines[0].page].setdefault(bare, paragraph)
    headings: dict[int, Heading] = {}
    for key, level, page in outline:
        paragraph_ = by_page.get(page, {}).get(key)
        if paragraph_ is not None and paragraph_.start not in headings:
            words = " ".join(text[paragraph_.start : paragraph_.end].split())
            headings[paragraph_.start] = Heading(paragraph_.start, paragraph_.end, level, words)
    return sorted(headings.values())


def _from_type(text: str, paragraphs: Sequence[_Paragraph], short: Sequence[_Paragraph]) -> list[Heading]:
    """Short paragraphs in larger or bold type; larger type stands above smaller, and that above bold."""
    sizes: collections.Counter[float] = collections.Counter()
    bold = 0
    for paragraph in paragraphs:
        for line in paragraph.lines:
            sizes[round(line.size * 2) / 2] += len(line.text)
            bold += line.bold * len(line.text)
    body = max(sizes, key=lambda size: sizes[size])
    bold_body = bold > 0.5 * sum(sizes.values())
    marked: list[tuple[_Paragraph, tuple[float, bool]]] = []
    for paragraph in short:
        first = paragraph.lines[0]
        words = text[paragraph.start : paragraph.end]
        larger = first.size >= _LARGER * body
        if not (larger or (first.bold and not bold_body and first.size >= 0.95 * body)):
            continue
        if not any(c.isalpha() for c in words) or (not larger and words.endswith((".", ",", ";", ":"))):
            continue
        if _ITEM.match(words) and not _is_heading_line(words):
            continue
        marked.append((paragraph, (round(first.size * 2) / 2 if larger else body, first.bold)))
    if sum(p.end - p.start for p, _ in marked) > 0.4 * len(text):
        return []  # slides or a poster: large type says nothing there
    ranks = {
        kind: rank for rank, kind in enumerate(sorted({kind for _, kind in marked}, reverse=True), start=1)
    }
    return [
        Heading(p.start, p.end, ranks[kind], " ".join(text[p.start : p.end].split())) for p, kind in marked
    ]
