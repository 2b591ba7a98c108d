"""PDF files made for the tests, each a layout that readers of PDFs get wrong, and the sentences that are in it."""

import io
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from reportlab.lib.pagesizes import A4
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.lib.styles import ParagraphStyle, getSampleStyleSheet
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    Frame,
    PageBreak,
    PageTemplate,
    Paragraph,
    SimpleDocTemplate,
    Spacer,
    Table,
)

_SUBJECTS = ("pilot", "keeper", "ferry", "cook", "harbour-master", "fisherman", "engineer", "postman", "baker", "mate")  # fmt: skip
_VERBS = ("mends", "carries", "counts", "paints", "measures", "loads", "watches", "repairs", "sells", "lifts")
_THINGS = ("the lamp", "the nets", "two barrels of oil", "the long rope", "a box of charts", "the old bell")
_TIMES = ("before the tide turns", "after the morning watch", "on the first Monday of the month", "while the fog lasts")  # fmt: skip


def sentences(count: int, seed: int = 0) -> list[str]:
    """Sentences that are all different."""
    made = []
    for i in range(seed, seed + count):
        who, does = _SUBJECTS[i % 10], _VERBS[(i // 10 + i) % 10]
        what, when = _THINGS[(i // 3) % len(_THINGS)], _TIMES[i % 4]
        made.append(f"The {who} number {i} {does} {what} {when}, and writes it down.")
    return made


def paragraphs(count: int, length: int = 6, seed: int = 0) -> list[str]:
    return [" ".join(sentences(length, seed + i * length)) for i in range(count)]


# Files of paragraphs and tables, which reportlab lays out

_STYLES = getSampleStyleSheet()
_BODY = _STYLES["BodyText"]


def _running(canvas: Canvas, document: Any) -> None:
    canvas.setFont("Helvetica", 9)
    canvas.drawString(72, A4[1] - 40, "Skerrin Harbour Board - Rules and dues")
    canvas.drawRightString(A4[0] - 72, A4[1] - 40, "Edition of 2024")
    canvas.drawCentredString(A4[0] / 2, 30, f"Page {document.page}")


def _built(*story: Any, on_page: Any = lambda canvas, document: None, **options: Any) -> bytes:
    """Texts are paragraphs."""
    out = io.BytesIO()
    parts = [Paragraph(part, _BODY) if isinstance(part, str) else part for part in story]
    SimpleDocTemplate(out, pagesize=A4, **options).build(parts, onFirstPage=on_page, onLaterPages=on_page)
    return out.getvalue()


def one_column() -> bytes:
    """Numbered headings, bookmarks, running headers and page numbers."""
    story: list[Any] = [Paragraph("Rules of the harbour", _STYLES["Title"])]
    for number, name in enumerate(("Berths", "Pilots", "Dues"), start=1):
        story += [Paragraph(f"{number}. {name}", _STYLES["Heading1"]), *paragraphs(3, 8, seed=number * 100)]
        story += [
            Paragraph(f"{number}.1 Scope", _STYLES["Heading2"]),
            *paragraphs(3, 8, seed=number * 100 + 50),
        ]
    return _built(*story, on_page=_running, title="Harbour rules")


def across_pages() -> bytes:
    """Two paragraphs that run on over page breaks, under a running header."""
    return _built(*paragraphs(2, 60), on_page=_running)


def long(pages: int = 40) -> bytes:
    story = [part for page in range(pages) for part in (*paragraphs(5, 6, seed=page * 40), PageBreak())]
    return _built(*story, on_page=_running)


def two_columns(*, by_row: bool = False, count: int = 12) -> bytes:
    """A title over both columns and text in two; ``by_row`` draws the lines across the columns, top down."""
    if by_row:
        lines = [line for text in paragraphs(count, 4) for line in [*_wrapped(text, 215), ""]]
        half = (len(lines) + 1) // 2
        return _drawn([list(map("\t".join, itertools.zip_longest(lines[:half], lines[half:], fillvalue="")))])
    out = io.BytesIO()
    document = BaseDocTemplate(out, pagesize=A4)
    width = (A4[0] - 144 - 24) / 2
    top = Frame(72, A4[1] - 150, A4[0] - 144, 80)
    frames = [Frame(72 + i * (width + 24), 72, width, A4[1] - 230) for i in range(2)]
    document.addPageTemplates([PageTemplate(frames=[top, *frames])])
    texts = [Paragraph(text, _BODY) for text in paragraphs(count, 4)]
    document.build([Paragraph("On the fog signals of the coast", _STYLES["Title"]), Spacer(1, 80), *texts])
    return out.getvalue()


TABLE = [
    ["Vessel", "Length", "Fee"],
    ["Rowing boat", "4 m", "2 pounds"],
    ["Yacht", "12 m", "9 pounds"],
    ["Ferry", "60 m", "none"],
]


def _between_sentences(*arguments: Any, **options: Any) -> bytes:
    """A table."""
    table = Table(*arguments, **options)
    return _built(*sentences(1), Spacer(1, 12), table, Spacer(1, 12), *sentences(1, 7))


def with_table() -> bytes:
    return _between_sentences(
        TABLE, style=[("GRID", (0, 0), (-1, -1), 0.5, "black")], colWidths=[150, 90, 110]
    )


ERRORS = (
    ("Code", "Meaning", "Remedy"),
    ("E20", "The pump is stuck or the filter at its inlet is clogged", "Clean the filter. Then press RESET for 5 s"),
    ("E21", "No water", "Open the tap"),
    ("E22", "The door is not shut, or its switch is broken, or both of these are so", "Call service"),
    ("E23", "Overflow", "Switch off"),
)  # fmt: skip


def wrapped_cells(*, columns: int = 3) -> bytes:
    """A table without lines whose cells are wrapped, between two sentences; with two columns, without a head."""
    rows = ERRORS if columns == 3 else [row[:2] for row in ERRORS[1:]]
    cells = [[Paragraph(cell, _BODY) for cell in row] for row in rows]
    top = [("VALIGN", (0, 0), (-1, -1), "TOP")]
    return _between_sentences(cells, style=top, colWidths=[60, 180, 160][:columns])


def empty_cells() -> bytes:
    """Rows whose first cell is empty."""
    rows = [
        ["Day", "Dish", "Price"],
        ["Mon", "Soup", "3.20"],
        ["", "Bread", "1.10"],
        ["Tue", "Pasta", "4.10"],
    ]
    return _built(Table(rows, colWidths=[60, 180, 160]))


def clauses_and_notes() -> bytes:
    """Numbered clauses over more than a line each, and footnotes in small type at the end of the page."""
    small = ParagraphStyle("note", parent=_BODY, fontSize=7, leading=9)
    one = {seed: sentences(1, seed)[0] for seed in (3, 11, 21, 31, 41)}
    clauses = [f"1.1 {one[3]} {one[11]}", f"1.2 {one[21]} {one[31]}", "2. Dues", f"2.1 {one[41]}"]
    notes = [Paragraph(n, small) for n in ("1 Without the islands.", "2 In force since 1974.")]
    return _built("1. Berths", *clauses, Spacer(1, 300), *notes)


def with_list() -> bytes:
    style = ParagraphStyle("item", parent=_BODY, leftIndent=18, bulletIndent=6)
    items = [Paragraph(item, style, bulletText="•") for item in sentences(3, 20)]
    return _built("Before sailing:", *items, *sentences(1, 90))


# Files of lines that stand where they are drawn


def _drawn(
    pages: Iterable[Sequence[str]], font: str = "Times-Roman", size: int = 11, leading: int = 14
) -> bytes:
    """These lines on pages; what follows a tab stands in the right column."""
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=A4)
    for lines in pages:
        canvas.setFont(font, size)
        for number, line in enumerate(lines):
            for x, part in zip((72, 310), line.split("\t"), strict=False):
                canvas.drawString(x, A4[1] - 72 - leading * number, part)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def _wrapped(text: str, width: float = 440, *, hyphens: bool = False) -> list[str]:
    """Lines of at most ``width`` points; with ``hyphens``, words of six letters or more are broken to fill them."""
    lines, line = [], ""
    for word in text.split():
        longer, head = f"{line} {word}".strip(), f"{line} {word[:3]}-"
        if stringWidth(longer, "Times-Roman", 11) <= width:
            line = longer
        elif hyphens and word.isalpha() and len(word) >= 6 and stringWidth(head, "Times-Roman", 11) <= width:
            lines.append(head)
            line = word[3:]
        else:
            lines.append(line)
            line = word
    return [*lines, line]


def with_lines(lines: Sequence[str]) -> bytes:
    """These lines in small type, 60 on a page."""
    return _drawn((lines[i : i + 60] for i in range(0, len(lines), 60)), "Helvetica", 6, 12)


def plain_headings() -> bytes:
    """Numbered headings in the type of the text, lines without space between paragraphs, no page furniture."""
    lines: list[str] = []
    for number, name in enumerate(("Berths", "Pilots", "Dues"), start=1):
        lines += [f"{number}. {name}", *_wrapped(paragraphs(1, 6, seed=number * 10)[0])]
    return _drawn([lines])


HYPHENATED = (
    "The harbour-master repairs the lanterns whenever somebody complains about darkness between September and "
    "February. Fishermen generally remember which lanterns flickered during yesterday evening, and everybody else "
    "forgets. Sometimes the engineer replaces several lanterns together because carrying the ladder twice annoys "
    "everybody. The well-known ladder belongs to the harbour-master."
)


def hyphenated() -> bytes:
    """Words broken at the ends of lines."""
    return _drawn([_wrapped(HYPHENATED, 200, hyphens=True)])


def with_outline() -> bytes:
    """Headings in the type of the text, known only from the bookmarks."""
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=A4)
    for number, (name, level) in enumerate(
        [("Keeping watch", 0), ("By night", 1), ("In fog", 1), ("Relief", 0)]
    ):
        canvas.bookmarkPage(f"p{number}")
        canvas.addOutlineEntry(name, f"p{number}", level=level)
        canvas.setFont("Times-Roman", 11)
        canvas.drawString(72, A4[1] - 72, name)
        for i, line in enumerate(_wrapped(paragraphs(1, 10, seed=number * 20)[0])):
            canvas.drawString(72, A4[1] - 100 - 14 * i, line)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def empty() -> bytes:
    """A page without text, as from a scanner."""
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=A4)
    canvas.rect(100, 100, 50, 50)
    canvas.save()
    return out.getvalue()


def encrypted(user: str, owner: str = "owner", strength: int = 40) -> bytes:
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=A4, encrypt=StandardEncryption(user, owner, strength=strength))
    canvas.drawString(72, 700, "The keeper trims the wick before the tide turns.")
    canvas.save()
    return out.getvalue()
