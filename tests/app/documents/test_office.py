"""Spreadsheets, slides and e-books as Markdown."""

import datetime
import io
import zipfile

import pytest

from sage_app.documents.reader import parse_document
from sage_core.errors import InputError

CONTAINER = """<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:title>Tides &amp; lamps</dc:title></metadata><manifest><item id="b" href="two.xhtml"/>
<item id="a" href="a%20b.xhtml"/></manifest><spine><itemref idref="a"/><itemref idref="b"/></spine></package>"""


def saved(made: object) -> bytes:
    out = io.BytesIO()
    made.save(out)  # type: ignore[attr-defined]
    return out.getvalue()


def zipped(files: dict[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def workbook() -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.properties.title = "Prices"
    sheet = book.active
    sheet.title = "Ropes"
    for row in (["Rope", None, "Price"], [], ["Hemp | 12 mm", None, 3.8], ["Linen <fine>", None, 4.0]):
        sheet.append(row)
    book.create_sheet("Empty")
    book.create_sheet("Dates").append([datetime.datetime(2024, 5, 1), True, "é\U0001f6a2"])
    return saved(book)


def test_a_spreadsheet_is_a_table_for_each_sheet() -> None:
    document = parse_document("prices.xlsx", workbook())
    assert document.title == "Prices" and [h.text for h in document.headings] == ["Ropes", "Dates"]
    assert "| Rope | Price |" in document.text and "| Linen <fine> | 4 |" in document.text
    assert "Hemp \\| 12 mm" in document.text and "2024-05-01 |" in document.text


def test_slides_stand_under_their_titles_with_tables_and_notes() -> None:
    pptx = pytest.importorskip("pptx")
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "The pier"
    slide.placeholders[1].text = "It was built in 1932.\nIt is 80 m long."
    slide.notes_slide.notes_text_frame.text = "Mention the storm."
    table = show.slides.add_slide(show.slide_layouts[6]).shapes.add_table(2, 2, 0, 0, 9, 9).table
    for place, word in zip(((0, 0), (0, 1), (1, 0), (1, 1)), ("Berth", "Fee", "North", "11"), strict=True):
        table.cell(*place).text = word
    document = parse_document("talk.pptx", saved(show))
    assert [h.text for h in document.headings] == ["The pier", "Slide 2"]
    assert document.text.index("built in 1932") < document.text.index("Mention the storm")
    assert "| North | 11 |" in document.text


def test_the_chapters_of_a_book_are_in_the_order_of_reading() -> None:
    pytest.importorskip("lxml")
    chapter = "<html><head><title>x</title></head><body><h1>{}</h1><p>{}</p></body></html>"
    files = {
        "META-INF/container.xml": CONTAINER,
        "OPS/book.opf": PACKAGE,
        "OPS/two.xhtml": chapter.format("Two", "The lamp went out."),
        "OPS/a b.xhtml": chapter.format("One", "The tide came in."),
    }
    document = parse_document("tides.epub", zipped(files))
    assert document.title == "Tides & lamps"
    assert [h.text for h in document.headings] == ["One", "Two"]
    assert document.text.index("tide came in") < document.text.index("lamp went out")


@pytest.mark.parametrize("mark", ["utf-16", "utf-8-sig"])
def test_chapters_in_utf_16(mark: str) -> None:
    pytest.importorskip("lxml")
    chapter = "<?xml version='1.0' encoding='utf-16'?><html><body><h1>Über</h1><p>Größe</p></body></html>"
    files = {"META-INF/container.xml": CONTAINER, "OPS/book.opf": PACKAGE}
    files |= dict.fromkeys(
        ("OPS/two.xhtml", "OPS/a b.xhtml"), chapter.replace("utf-16", mark[:6].rstrip("-")).encode(mark)
    )  # type: ignore[arg-type]
    assert "Größe" in parse_document("a.epub", zipped(files)).text


def open_document(*, title: str = "Harbor dues") -> bytes:
    pytest.importorskip("odf")
    from odf import dc
    from odf.opendocument import OpenDocumentText
    from odf.table import Table, TableCell, TableRow
    from odf.text import H, P

    made = OpenDocumentText()
    made.meta.addElement(dc.Title(text=title))
    made.text.addElement(H(outlinelevel=1, text="Dues"))
    made.text.addElement(P(text="Every vessel pays 5 € & more."))
    table = Table()
    for words in (("Berth", "Fee"), ("North", "11")):
        row = TableRow()
        for word in words:
            cell = TableCell()
            cell.addElement(P(text=word))
            row.addElement(cell)
        table.addElement(row)
    made.text.addElement(table)
    made.text.addElement(H(outlinelevel=2, text="Late"))
    return saved(made)


def test_an_open_document_has_its_headings_and_tables() -> None:
    document = parse_document("dues.odt", open_document())
    assert document.title == "Harbor dues"
    assert [(h.level, h.text) for h in document.headings] == [(1, "Dues"), (2, "Late")]
    assert "Every vessel pays 5 € & more." in document.text and "| North | 11 |" in document.text


@pytest.mark.parametrize("suffix", ["xlsx", "pptx", "epub", "odt"])
@pytest.mark.parametrize("data", [b"PK\x03\x04 damaged", b"no archive", zipped({"a.xml": "<a/>"})])
def test_a_damaged_file_is_an_error_that_names_it(suffix: str, data: bytes) -> None:
    pytest.importorskip("openpyxl")
    pytest.importorskip("pptx")
    pytest.importorskip("odf")
    with pytest.raises(InputError, match=rf"a\.{suffix}"):
        parse_document(f"a.{suffix}", data)


@pytest.mark.parametrize(
    ("suffix", "part"),
    [
        ("xlsx", "xl/worksheets/sheet1.xml"),
        ("xlsx", "xl/media/sheet1.xml"),
        ("odt", "content.xml"),
        ("odt", "a.png"),
    ],
)
def test_a_file_that_unpacks_to_too_much_is_refused(suffix: str, part: str) -> None:
    pytest.importorskip("openpyxl")
    pytest.importorskip("odf")
    files: dict[str, str | bytes] = {"content.xml": b"", part: b" " * 40_000_000}
    with pytest.raises(InputError, match=rf"a\.{suffix}"):
        parse_document(f"a.{suffix}", zipped(files))
