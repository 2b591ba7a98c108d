"""Spreadsheets and slides as Markdown."""

import datetime
import io

import pytest

from sage_app.documents.reader import parse_document
from sage_core.errors import InputError
from tests.app.documents.test_pandoc import zipped


def saved(made: object) -> bytes:
    out = io.BytesIO()
    made.save(out)  # type: ignore[attr-defined]
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


@pytest.mark.parametrize("suffix", ["xlsx", "pptx"])
@pytest.mark.parametrize("data", [b"PK\x03\x04 damaged", b"no archive", zipped({"a.xml": "<a/>"})])
def test_a_damaged_file_is_an_error_that_names_it(suffix: str, data: bytes) -> None:
    pytest.importorskip("openpyxl")
    pytest.importorskip("pptx")
    with pytest.raises(InputError, match=rf"a\.{suffix}"):
        parse_document(f"a.{suffix}", data)


@pytest.mark.parametrize(
    ("suffix", "part"),
    [
        ("xlsx", "xl/worksheets/sheet1.xml"),
        ("xlsx", "xl/media/sheet1.xml"),
    ],
)
def test_a_file_that_unpacks_to_too_much_is_refused(suffix: str, part: str) -> None:
    pytest.importorskip("openpyxl")
    files: dict[str, str | bytes] = {"content.xml": b"", part: b" " * 40_000_000}
    with pytest.raises(InputError, match=rf"a\.{suffix}"):
        parse_document(f"a.{suffix}", zipped(files))
