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


@pytest.mark.parametrize(
    ("value", "form", "shown"),
    [
        (0.0475, "0.00%", "4.75%"),
        (1234.5, "[$£-809]#,##0.00;[Red]-[$£-809]#,##0.00", "£1,234.50"),
        (-3, '0" kg"', "-3 kg"),
        (7, "00000", "00007"),
        (2.50, "0.##", "2.5"),
        (4.0, "General", "4"),
        (datetime.timedelta(hours=36), "[h]:mm", "36:00"),
        (datetime.date(2024, 5, 1), "dd.mm.yyyy", "2024-05-01"),
    ],
)
def test_a_value_is_as_its_sheet_shows_it(value: object, form: str, shown: str) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.append(["name", value])
    book.active["B1"].number_format = form
    assert parse_document("a.xlsx", saved(book)).text.endswith(f"| name | {shown} |\n| --- | --- |")


def test_merged_cells_are_filled_and_what_is_hidden_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    sheet = book.active
    rows = [["Fees of 2025", None, None], ["Zone", "Boat", "Fee"], ["Inner", "small", 5], [None, "large", 9]]
    for row in [*rows, ["Secret", "x", 1], [], ["Skipper", "Age"], ["Mara", 44]]:
        sheet.append(row)
    sheet.merge_cells("A1:C1")
    sheet.merge_cells("A3:A4")
    sheet.row_dimensions[5].hidden = True
    book.create_sheet("Salaries").append(["Ann", 9000])
    book["Salaries"].sheet_state = "hidden"
    text = parse_document("a.xlsx", saved(book)).text
    assert text == (
        "## Sheet\n\nFees of 2025\n\n| Zone | Boat | Fee |\n| --- | --- | --- |\n| Inner | small | 5 |\n"
        "| Inner | large | 9 |\n\n| Skipper | Age |\n| --- | --- |\n| Mara | 44 |"
    )
    assert "2 parts hidden" in caplog.text


def test_a_chart_is_a_table_and_a_hidden_slide_is_left_out() -> None:
    pptx = pytest.importorskip("pptx")
    from pptx.chart.data import CategoryChartData

    show, data = pptx.Presentation(), CategoryChartData()
    data.categories = ["Cod", "Herring"]
    data.add_series("Tonnes", (41, 7.5))
    for hidden in (False, True):
        slide = show.slides.add_slide(show.slide_layouts[6])
        slide.shapes.add_chart(51, 0, 0, 9, 9, data)
        if hidden:
            slide._element.set("show", "0")
    text = parse_document("a.pptx", saved(show)).text
    assert text.count("Slide") == 1 and "| Cod | 41 |\n| Herring | 7.5 |" in text


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
