"""PDF: paragraphs out of lines, columns in order, page furniture left out, exact pages; damaged files refused."""

import io
import resource
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

from sage_app.documents.pdf import read_pdf
from sage_app.documents.reader import read_document
from sage_core.errors import InputError
from sage_core.segmentation import Segmenter
from sage_core.text.headings import heading_path
from tests.app.documents import pdfs

DEMO = Path(__file__).parents[3] / "demo" / "documents"


def levels(data: bytes) -> list[tuple[int, str]]:
    return [(h.level, h.text) for h in read_pdf(data).headings]


def test_lines_become_paragraphs_and_page_furniture_goes() -> None:
    text = read_pdf(pdfs.one_column()).text
    blocks = text.split("\n\n")
    for number in (1, 2, 3):
        for seed in (number * 100, number * 100 + 50):
            for paragraph in pdfs.paragraphs(3, 8, seed=seed):
                assert paragraph in blocks or paragraph in text.replace("\n", " ")
    assert "Edition of 2024" not in text and "Page 1" not in text
    assert blocks[:2] == ["Rules of the harbour", "1. Berths"]


def test_headings_come_from_the_type() -> None:
    read = read_pdf(pdfs.one_column())
    assert read.title == "Harbour rules"
    assert [(h.level, h.text) for h in read.headings][1:4] == [
        (1, "1. Berths"),
        (2, "1.1 Scope"),
        (1, "2. Pilots"),
    ]
    for heading in read.headings:
        assert read.text[heading.start : heading.end] == heading.text
    sentence = pdfs.sentences(1, 250)[0]
    assert heading_path(read.headings, read.text.index(sentence[:30])) == ("2. Pilots", "2.1 Scope")


def test_numbered_headings_in_the_type_of_the_text() -> None:
    read = read_pdf(pdfs.plain_headings())
    assert [(h.level, h.text) for h in read.headings] == [(1, "1. Berths"), (1, "2. Pilots"), (1, "3. Dues")]
    assert "\n\n3. Dues\n\nThe pilot" in read.text


def test_headings_come_from_bookmarks() -> None:
    assert levels(pdfs.with_outline()) == [
        (1, "Keeping watch"),
        (2, "By night"),
        (2, "In fog"),
        (1, "Relief"),
    ]


@pytest.mark.parametrize("by_row", [False, True])
def test_columns_are_read_one_after_the_other(by_row: bool) -> None:
    text = " ".join(read_pdf(pdfs.two_columns(by_row=by_row)).text.split())
    places = [text.find(sentence) for sentence in pdfs.sentences(48)]
    assert -1 not in places and places == sorted(places)


def test_a_table_is_no_pair_of_columns() -> None:
    text = read_pdf(pdfs.with_table()).text
    assert (
        "\n\n| Vessel | Length | Fee |\n| Rowing boat | 4 m | 2 pounds |\n| Yacht | 12 m | 9 pounds |\n"
        in text
    )


@pytest.mark.parametrize("columns", [2, 3])
def test_wrapped_cells_are_one_row(columns: int) -> None:
    text = read_pdf(pdfs.wrapped_cells(columns=columns)).text
    rows = pdfs.ERRORS if columns == 3 else [row[:2] for row in pdfs.ERRORS[1:]]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    assert text == f"{pdfs.sentences(1)[0]}\n\n{table}\n\n{pdfs.sentences(1, 7)[0]}"


def test_a_row_whose_first_cell_is_empty_is_a_row() -> None:
    rows = read_pdf(pdfs.empty_cells()).text.splitlines()
    assert rows[1:3] == ["| Mon | Soup | 3.20 |", "|  | Bread | 1.10 |"]


def test_clauses_begin_paragraphs_and_footnotes_are_apart() -> None:
    blocks = read_pdf(pdfs.clauses_and_notes()).text.split("\n")
    assert [b[:4].strip() for b in blocks if b][:5] == ["1. B", "1.1", "1.2", "2. D", "2.1"]
    assert blocks[-1] == "2 In force since 1974." and "1 Without the islands." in blocks


def test_words_broken_at_line_ends_are_whole() -> None:
    assert read_pdf(pdfs.hyphenated()).text == pdfs.HYPHENATED


LOCK = "A boat that waits for the lock shows one white light, and if the lock is shut it shows two of them."


def test_words_that_are_placed_one_by_one_are_apart() -> None:
    out = io.BytesIO()
    canvas = Canvas(out)
    canvas.setFont("Times-Roman", 10)
    x = 72.0
    for word in LOCK.split():
        canvas.drawString(x, 700, word)
        x += stringWidth(word, "Times-Roman", 10) + 1.5
    canvas.save()
    assert read_pdf(out.getvalue()).text == LOCK


def test_text_that_recurs_is_no_running_header_and_numbers_of_lines_are_no_column() -> None:
    terms = [
        f"Clause {n}. The tenant keeps the towpath\nclear of nettles and weeds.\nRent is due in May."
        for n in "123"
    ]
    text = read_pdf(pdfs._drawn([page.split("\n") for page in terms])).text
    assert all(f"Clause {n}." in text for n in "123") and text.count("Rent is due") == 3
    words = LOCK.split()
    lines = [f"{n}         {' '.join(words[3 * n - 3 : 3 * n])}" for n in range(1, 9)]
    assert read_pdf(pdfs._drawn([lines])).text.split() == words


def test_a_compound_keeps_its_hyphen_and_a_broken_word_loses_it() -> None:
    text = read_pdf(
        pdfs._drawn([["It is a well-", "known rule of inter-", "national law, user-", "defined."]])
    ).text
    assert text == "It is a well-known rule of international law, user-defined."


def test_cells_with_borders_are_cells_however_close_they_stand() -> None:
    out = io.BytesIO()
    canvas = Canvas(out)
    canvas.setFont("Times-Roman", 10)
    rows = [
        ["Hazard|", "Who may be|harmed", "Action|"],
        ["Slippery|deck", "Crew who|walk there", "Lay mats|at once"],
    ]
    for x in (72, 120, 180, 240):
        canvas.line(x, 640, x, 700)
    for number, row in enumerate(rows):
        canvas.line(72, 700 - 30 * number, 240, 700 - 30 * number)
        for x, cell in zip((73, 121, 181), row, strict=True):
            for line, text in enumerate(cell.split("|")):
                canvas.drawString(x, 688 - 30 * number - 11 * line, text)
    canvas.line(72, 640, 240, 640)
    canvas.save()
    expected = (
        "| Hazard | Who may be harmed | Action |\n| Slippery deck | Crew who walk there | Lay mats at once |"
    )
    assert read_pdf(out.getvalue()).text == expected


def test_items_of_a_list_stand_on_lines_of_their_own() -> None:
    text = read_pdf(pdfs.with_list()).text
    assert text.startswith("Before sailing:\n• The pilot") and text.count("\n• ") == 3


def test_a_paragraph_runs_on_over_pages_and_pages_are_known() -> None:
    read = read_pdf(pdfs.across_pages())
    assert "Skerrin Harbour Board" not in read.text
    assert all(sentence in read.text for sentence in pdfs.sentences(120))
    assert len(read.page_starts) == 2
    (_, second) = read.page_starts
    assert not read.text[second].isspace() and read.text[second - 1] in " \n"


def test_pdf_pages_and_title() -> None:
    document = read_document(DEMO / "harbour-rules.pdf")
    assert document.kind == "pdf"
    assert document.title == "Skerrin Harbour: rules and dues"
    assert "2.60 pounds for each metre of its length" in document.text
    assert (2, "3. Dues") in [(h.level, h.text) for h in document.headings]
    first, second = document.page_starts
    assert document.page_of(first) == 1 and document.page_of(second) == 2
    assert document.page_of(second - 1) == 1
    assert document.page_of(len(document.text) - 1) == 2


@pytest.mark.parametrize("name", ["harbour-rules", "one_column", "plain_headings", "with_outline"])
def test_a_heading_opens_the_chunk_of_what_it_is_above(name: str) -> None:
    data = (DEMO / f"{name}.pdf").read_bytes() if name == "harbour-rules" else getattr(pdfs, name)()
    read = read_pdf(data)
    ends = [heading.end for heading in read.headings if read.text[heading.end :].strip()]
    chunks = Segmenter().segment(read.text)
    assert ends and len(chunks) > 1
    for end in ends:
        (chunk,) = [span for span in chunks if span.start < end <= span.end]
        assert chunk.end > end, read.text[end - 40 : end]


def test_a_scan_and_a_password_say_what_to_do() -> None:
    with pytest.raises(InputError, match="OCR"):
        read_pdf(pdfs.empty())
    for strength in (40, 128):
        with pytest.raises(InputError, match="password"):
            read_pdf(pdfs.encrypted("secret", strength=strength))
        assert (
            read_pdf(pdfs.encrypted("", strength=strength)).text
            == "The keeper trims the wick before the tide turns."
        )


def _object(number: int, body: bytes) -> bytes:
    return b"%d 0 obj\n%s\nendobj\n" % (number, body)


def _file(*objects: bytes, trailer: bytes = b"<< /Size 9 /Root 1 0 R >>") -> bytes:
    """A file of these objects with a right table of references."""
    out = b"%PDF-1.7\n"
    places = []
    for body in objects:
        places.append(len(out))
        out += body
    start = len(out)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n%s\nstartxref\n%d\n%%%%EOF" % (
        len(places) + 1,
        table,
        trailer,
        start,
    )


def _stream(data: bytes, extra: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(data), extra, data)


CATALOG = _object(1, b"<< /Type /Catalog /Pages 2 0 R >>")
PAGE = _object(
    3,
    b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
)
FONT = _object(5, b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
TEXT = b"BT /F1 12 Tf 72 700 Td (The keeper trims the wick.) Tj ET\n"


def _pages(kids: bytes = b"[3 0 R]", count: bytes = b"1") -> bytes:
    return _object(2, b"<< /Type /Pages /Kids %s /Count %s >>" % (kids, count))


def crafted() -> Iterator[bytes]:
    """Files with traps."""
    for count in (b"-1", b"0", b"2147483647", b"99999999999999999999", b"(x)", b"2 0 R"):
        yield _file(CATALOG, _pages(count=count), PAGE, _object(4, _stream(TEXT)), FONT)
    for kids in (
        b"[2 0 R]",
        b"[3 0 R 2 0 R]",
        b"[3 0 R 3 0 R 3 0 R]",
        b"[9 0 R]",
        b"3 0 R",
        b"[" * 4000,
        b"[" + b"3 0 R " * 20000 + b"]",
    ):
        yield _file(CATALOG, _pages(kids, b"50000"), PAGE, _object(4, _stream(TEXT)), FONT)
    bomb = zlib.compress(b" " * 30_000_000, 9)
    yield _file(CATALOG, _pages(), PAGE, _object(4, _stream(bomb, b"/Filter /FlateDecode")), FONT)
    twice = zlib.compress(bomb, 9)
    yield _file(
        CATALOG, _pages(), PAGE, _object(4, _stream(twice, b"/Filter [/FlateDecode /FlateDecode]")), FONT
    )
    yield _file(CATALOG, _pages(), PAGE, _object(4, _stream(TEXT * 20_000)), FONT)
    yield _file(CATALOG, _pages(), PAGE, _object(4, _stream(b"q " * 200_000 + TEXT)), FONT)
    yield _file(CATALOG, _pages(), PAGE, _object(4, _stream(b"[" * 100_000 + b"]" * 100_000 + b" TJ")), FONT)
    yield _file(CATALOG, _pages(), PAGE, _object(4, b"4 0 R"), FONT)
    yield _file(
        CATALOG, _pages(), PAGE, _object(4, _stream(TEXT)), FONT, trailer=b"<< /Root 1 0 R /Prev 9 >>"
    )
    yield _file(
        CATALOG,
        _pages(),
        PAGE,
        _object(4, _stream(TEXT)),
        FONT,
        trailer=b"<< /Root 1 0 R /Encrypt << /Filter /None >> >>",
    )
    form = _object(
        6,
        _stream(
            b"/X Do",
            b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 6 0 R >> >>",
        ),
    )
    page = PAGE.replace(b"/Font", b"/XObject << /X 6 0 R >> /Font")
    yield _file(CATALOG, _pages(), page, _object(4, _stream(b"/X Do " + TEXT)), FONT, form)
    outline = _object(6, b"<< /First 7 0 R >>") + _object(
        7, b"<< /Title (a) /Next 7 0 R /First 7 0 R /Dest [3 0 R /Fit] >>"
    )
    catalog = CATALOG.replace(b">>", b"/Outlines 6 0 R >>")
    yield _file(catalog, _pages(), PAGE, _object(4, _stream(TEXT)), FONT, outline)


@pytest.mark.slow
def test_hostile_files_give_text_or_one_message() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    texts = 0
    for number, data in enumerate(crafted()):
        began = time.process_time()
        try:
            read = read_pdf(data, name="a.pdf")
        except InputError as error:
            assert "a.pdf" in str(error) and "\n" not in str(error) and len(str(error)) < 200
        else:
            texts += 1
            assert read.text.strip() and read.page_starts[0] == 0
            read.text.encode()
            for heading in read.headings:
                assert 0 <= heading.start < heading.end <= len(read.text)
        assert time.process_time() - began < 10, number
    assert texts > 10  # much of it can still be read
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 700_000  # kilobytes
