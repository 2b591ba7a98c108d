"""PDF files made for the tests, each a layout that readers of PDFs get wrong, and the sentences that are in it."""

import io
from collections.abc import Callable, Sequence
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
    TableStyle,
)

_SUBJECTS = (
    "pilot", "keeper", "ferry", "cook", "harbour-master", "fisherman", "engineer", "postman", "baker",
    "mate",
)  # fmt: skip
_VERBS = ("mends", "carries", "counts", "paints", "measures", "loads", "watches", "repairs", "sells", "lifts")
_THINGS = ("the lamp", "the nets", "two barrels of oil", "the long rope", "a box of charts", "the old bell")
_TIMES = (
    "before the tide turns",
    "after the morning watch",
    "on the first Monday of the month",
    "while the fog lasts",
)


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


def _canvas(**options: Any) -> tuple[io.BytesIO, Canvas]:
    out = io.BytesIO()
    return out, Canvas(out, pagesize=A4, **options)


_STYLES = getSampleStyleSheet()
_BODY = _STYLES["BodyText"]


def _built(
    story: Sequence[Any], on_page: Callable[[Canvas, Any], None] | None = None, **options: Any
) -> bytes:
    out = io.BytesIO()
    draw = on_page or (lambda canvas, document: None)
    SimpleDocTemplate(out, pagesize=A4, **options).build(list(story), onFirstPage=draw, onLaterPages=draw)
    return out.getvalue()


def _running(canvas: Canvas, document: Any) -> None:
    canvas.setFont("Helvetica", 9)
    canvas.drawString(72, A4[1] - 40, "Skerrin Harbour Board - Rules and dues")
    canvas.drawRightString(A4[0] - 72, A4[1] - 40, "Edition of 2024")
    canvas.drawCentredString(A4[0] / 2, 30, f"Page {document.page}")


def one_column() -> bytes:
    """Numbered headings, bookmarks, running headers and page numbers."""
    story: list[Any] = [Paragraph("Rules of the harbour", _STYLES["Title"])]
    for number, name in enumerate(("Berths", "Pilots", "Dues"), start=1):
        story.append(Paragraph(f"{number}. {name}", _STYLES["Heading1"]))
        story += [Paragraph(p, _BODY) for p in paragraphs(3, 8, seed=number * 100)]
        story.append(Paragraph(f"{number}.1 Scope", _STYLES["Heading2"]))
        story += [Paragraph(p, _BODY) for p in paragraphs(3, 8, seed=number * 100 + 50)]
    return _built(story, _running, title="Harbour rules")


def with_lines(lines: Sequence[str]) -> bytes:
    """These lines in small type, 60 on a page."""
    out, canvas = _canvas()
    for first in range(0, len(lines), 60):
        canvas.setFont("Helvetica", 6)
        for number, line in enumerate(lines[first : first + 60]):
            canvas.drawString(40, A4[1] - 60 - 12 * number, line)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def plain_headings() -> bytes:
    """Numbered headings in the type of the text, lines without space between paragraphs, no page furniture."""
    out, canvas = _canvas()
    y = A4[1] - 72
    canvas.setFont("Times-Roman", 11)
    for number, name in enumerate(("Berths", "Pilots", "Dues"), start=1):
        for line in [
            f"{number}. {name}",
            *_wrapped(paragraphs(1, 6, seed=number * 10)[0], "Times-Roman", 11, 440),
        ]:
            canvas.drawString(72, y, line)
            y -= 14
    canvas.save()
    return out.getvalue()


def two_columns(*, by_row: bool = False, count: int = 12) -> bytes:
    """A title over both columns and text in two; ``by_row`` draws the lines across the columns, top down."""
    if not by_row:
        out = io.BytesIO()
        document = BaseDocTemplate(out, pagesize=A4)
        width = (A4[0] - 144 - 24) / 2
        top = Frame(72, A4[1] - 150, A4[0] - 144, 80)
        frames = [Frame(72 + i * (width + 24), 72, width, A4[1] - 230) for i in range(2)]
        document.addPageTemplates([PageTemplate(frames=[top, *frames])])
        story = [Paragraph("On the fog signals of the coast", _STYLES["Title"])]
        story += [Spacer(1, 80), *(Paragraph(p, _BODY) for p in paragraphs(count, 4))]
        document.build(story)
        return out.getvalue()
    out, canvas = _canvas()
    canvas.setFont("Times-Roman", 10)
    lines = [line for p in paragraphs(count, 4) for line in [*_wrapped(p, "Times-Roman", 10, 215), ""]]
    half = (len(lines) + 1) // 2
    for i in range(half):
        canvas.drawString(72, A4[1] - 72 - 12 * i, lines[i])
        if half + i < len(lines):
            canvas.drawString(310, A4[1] - 72 - 12 * i, lines[half + i])
    canvas.save()
    return out.getvalue()


def _wrapped(text: str, font: str, size: float, width: float, *, hyphens: bool = False) -> list[str]:
    """Lines of at most ``width`` points; with ``hyphens``, words of six letters or more are broken to fill them."""
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if stringWidth(longer, font, size) <= width:
            line = longer
            continue
        if hyphens and word.isalpha() and len(word) >= 6:
            head = f"{line} {word[:3]}-"
            if stringWidth(head, font, size) <= width:
                lines.append(head)
                line = word[3:]
                continue
        lines.append(line)
        line = word
    return [*lines, line]


HYPHENATED = (
    "The harbour-master repairs the lanterns whenever somebody complains about darkness between September and "
    "February. Fishermen generally remember which lanterns flickered during yesterday evening, and everybody else "
    "forgets. Sometimes the engineer replaces several lanterns together because carrying the ladder twice annoys "
    "everybody. The well-known ladder belongs to the harbour-master."
)


def hyphenated() -> bytes:
    """Words broken at the ends of lines."""
    out, canvas = _canvas()
    canvas.setFont("Times-Roman", 11)
    for i, line in enumerate(_wrapped(HYPHENATED, "Times-Roman", 11, 200, hyphens=True)):
        canvas.drawString(72, A4[1] - 72 - 14 * i, line)
    canvas.save()
    return out.getvalue()


def across_pages() -> bytes:
    """Two paragraphs that run on over page breaks, under a running header."""
    return _built([Paragraph(p, _BODY) for p in paragraphs(2, 60)], _running)


TABLE = [
    ["Vessel", "Length", "Fee"],
    ["Rowing boat", "4 m", "2 pounds"],
    ["Yacht", "12 m", "9 pounds"],
    ["Ferry", "60 m", "none"],
]


def with_table() -> bytes:
    table = Table(
        TABLE, style=TableStyle([("GRID", (0, 0), (-1, -1), 0.5, "black")]), colWidths=[150, 90, 110]
    )
    return _between_sentences(table)


def _between_sentences(table: Table) -> bytes:
    before, after = (Paragraph(sentences(1, seed)[0], _BODY) for seed in (0, 7))
    return _built([before, Spacer(1, 12), table, Spacer(1, 12), after])


ERRORS = (
    ("Code", "Meaning", "Remedy"),
    (
        "E20",
        "The pump is stuck or the filter at its inlet is clogged",
        "Clean the filter. Then press RESET for 5 s",
    ),
    ("E21", "No water", "Open the tap"),
    ("E22", "The door is not shut, or its switch is broken, or both of these are so", "Call service"),
    ("E23", "Overflow", "Switch off"),
)


def wrapped_cells(*, columns: int = 3) -> bytes:
    """A table without lines whose cells are wrapped, between two sentences; with two columns, without a head."""
    rows = ERRORS if columns == 3 else [row[:2] for row in ERRORS[1:]]
    cells = [[Paragraph(cell, _BODY) for cell in row] for row in rows]
    table = Table(
        cells, style=TableStyle([("VALIGN", (0, 0), (-1, -1), "TOP")]), colWidths=[60, 180, 160][:columns]
    )
    return _between_sentences(table)


def empty_cells() -> bytes:
    """Rows whose first cell is empty."""
    rows = [
        ["Day", "Dish", "Price"],
        ["Mon", "Soup", "3.20"],
        ["", "Bread", "1.10"],
        ["Tue", "Pasta", "4.10"],
    ]
    return _built([Table(rows, colWidths=[60, 180, 160])])


def clauses_and_notes() -> bytes:
    """Numbered clauses over more than a line each, and footnotes in small type at the end of the page."""
    small = ParagraphStyle("note", parent=_BODY, fontSize=7, leading=9)
    texts = [
        "1. Berths",
        f"1.1 {sentences(1, 3)[0]} {sentences(1, 11)[0]}",
        f"1.2 {sentences(1, 21)[0]} {sentences(1, 31)[0]}",
        "2. Dues",
        f"2.1 {sentences(1, 41)[0]}",
    ]
    notes = ["1 Without the islands.", "2 In force since 1974."]
    return _built(
        [*(Paragraph(t, _BODY) for t in texts), Spacer(1, 300), *(Paragraph(n, small) for n in notes)]
    )


def with_list() -> bytes:
    items = sentences(3, 20)
    style = ParagraphStyle("item", parent=_BODY, leftIndent=18, bulletIndent=6)
    return _built(
        [
            Paragraph("Before sailing:", _BODY),
            *(Paragraph(i, style, bulletText="•") for i in items),
            Paragraph(sentences(1, 90)[0], _BODY),
        ]
    )


def with_outline() -> bytes:
    """Headings in the type of the text, known only from the bookmarks."""
    out, canvas = _canvas()
    for number, (name, level) in enumerate(
        [("Keeping watch", 0), ("By night", 1), ("In fog", 1), ("Relief", 0)]
    ):
        canvas.bookmarkPage(f"p{number}")
        canvas.addOutlineEntry(name, f"p{number}", level=level)
        canvas.setFont("Times-Roman", 11)
        canvas.drawString(72, A4[1] - 72, name)
        for i, line in enumerate(_wrapped(paragraphs(1, 10, seed=number * 20)[0], "Times-Roman", 11, 440)):
            canvas.drawString(72, A4[1] - 100 - 14 * i, line)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def empty() -> bytes:
    """A page without text, as from a scanner."""
    out, canvas = _canvas()
    canvas.rect(100, 100, 50, 50)
    canvas.showPage()
    canvas.save()
    return out.getvalue()


def encrypted(user: str, owner: str = "owner", strength: int = 40) -> bytes:
    out, canvas = _canvas(encrypt=StandardEncryption(user, owner, strength=strength))
    canvas.drawString(72, 700, "The keeper trims the wick before the tide turns.")
    canvas.save()
    return out.getvalue()


def long(pages: int = 40) -> bytes:
    story: list[Any] = []
    for page in range(pages):
        story += [Paragraph(p, _BODY) for p in paragraphs(5, 6, seed=page * 40)]
        story.append(PageBreak())
    return _built(story, _running)
