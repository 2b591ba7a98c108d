"""OpenDocument texts, RTF and e-books: what pandoc would lose is there, and what it refuses is an error of ours."""

import io
import zipfile

import pytest

from sage_app.documents import pandoc
from sage_app.documents.reader import Document, parse_document
from sage_core.errors import InputError, MissingExtraError

needs_pandoc = pytest.mark.skipif(pandoc.find_pandoc() is None, reason="needs pandoc")

CONTAINER = """<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:title>Tides &amp; lamps</dc:title></metadata><manifest>
<item id="b" href="two.xhtml" media-type="application/xhtml+xml"/>
<item id="a" href="a%20b.xhtml" media-type="application/xhtml+xml"/>
</manifest><spine><itemref idref="a"/><itemref idref="b"/></spine></package>"""
NAMES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{space}:1.0"'
    for name, space in {
        "office": "office",
        "text": "text",
        "table": "table",
        "draw": "drawing",
        "meta": "meta",
    }.items()
)
ROW = "<table:table-row><table:table-cell><text:p>{}</text:p></table:table-cell><table:table-cell><text:p>{}</text:p></table:table-cell></table:table-row>"


def zipped(files: dict[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def book(first: str, second: str) -> bytes:
    page = "<html xmlns='http://www.w3.org/1999/xhtml'><body>{}</body></html>"
    files = {"META-INF/container.xml": CONTAINER, "OPS/book.opf": PACKAGE}
    return zipped(files | {"OPS/two.xhtml": page.format(second), "OPS/a b.xhtml": page.format(first)})


def open_document(body: str) -> bytes:
    content = f"<office:document-content {NAMES}><office:body><office:text>{body}</office:text></office:body></office:document-content>"
    meta = f'<office:document-meta {NAMES} xmlns:dc="http://purl.org/dc/elements/1.1/"><office:meta><dc:title>Harbor dues</dc:title></office:meta></office:document-meta>'
    kind = "application/vnd.oasis.opendocument.text"
    parts = "".join(
        f"<office:{part}/>" for part in ("font-face-decls", "styles", "automatic-styles", "master-styles")
    )
    styles = f"<office:document-styles {NAMES}>{parts}</office:document-styles>"
    return zipped({"mimetype": kind, "content.xml": content, "meta.xml": meta, "styles.xml": styles})


def rtf(body: str) -> bytes:
    return (r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\info{\title Harbor dues}}" + body + "}").encode()


CASES: dict[str, tuple[str, bytes, list[str]]] = {
    "headings and tables of a text": (
        "odt",
        open_document(
            '<text:h text:outline-level="1">Dues</text:h><text:p>A vessel pays 5 € &amp; more.</text:p>'
            f"<table:table>{ROW.format('Berth', 'Fee')}{ROW.format('North', '11')}</table:table>"
            '<text:h text:outline-level="2">Late</text:h>'
        ),
        ["# Dues\n\nA vessel pays 5 € & more.", "| North | 11 |", "## Late"],
    ),
    "a note": (
        "odt",
        open_document(
            '<text:p>The crane is shut.<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation>'
            "<text:note-body><text:p>In July.</text:p></text:note-body></text:note></text:p>"
        ),
        ["The crane is shut.[1]", "In July."],
    ),
    "words around a box": (
        "odt",
        open_document(
            "<text:p>The toll is nine<draw:frame><draw:text-box><text:p>Cash only.</text:p></draw:text-box></draw:frame> for each boat.</text:p>"
        ),
        ["The toll is nine Cash only. for each boat."],
    ),
    "a reading aid": (
        "odt",
        open_document(
            "<text:p><text:ruby><text:ruby-base>東京</text:ruby-base><text:ruby-text>とう</text:ruby-text></text:ruby>駅</text:p>"
        ),
        ["東京(とう)駅"],
    ),
    "tables and signs of RTF": (
        "rtf",
        rtf(
            r"Every vessel pays 5\'80 at the \u9875? desk.\par\trowd\cellx100\cellx200"
            r"\pard\intbl Berth\cell Fee\cell\row\trowd\cellx100\cellx200\pard\intbl North\cell 11\cell\row\pard Ask the pilot.\par"
        ),
        ["pays 5€ at the ⚓ desk.", "| North | 11 |", "Ask the pilot."],
    ),
    "what is struck out of RTF": (
        "rtf",
        rtf(r"The fee is {\strike 30 }45 euros.\par"),
        ["The fee is 45 euros."],
    ),
    "a note of RTF": (
        "rtf",
        rtf(r"It shuts.{\footnote In July.} Boats wait.\par"),
        ["shuts.[1] Boats", "In July."],
    ),
    "the chapters of a book in the order of reading": (
        "epub",
        book("<h1>One</h1><p>The tide came in.</p>", "<h1>Two</h1><p>The lamp went out.</p>"),
        ["# One\n\nThe tide came in.\n\n# Two\n\nThe lamp went out."],
    ),
}


@needs_pandoc
@pytest.mark.parametrize("name", CASES)
def test_pandoc_reads(name: str) -> None:
    kind, data, kept = CASES[name]
    document: Document = parse_document(f"a.{kind}", data)
    assert [part for part in kept if part not in document.text] == []
    assert document.title == ("Tides & lamps" if kind == "epub" else "Harbor dues")
    assert "Arial" not in document.text and "↩" not in document.text


@needs_pandoc
@pytest.mark.parametrize(
    ("suffix", "source"),
    [
        ("org", "#+TITLE: Dues\n* Fees\nA boat /pays/.\n| boat | 9 |"),
        (
            "tex",
            "\\title{Dues}\\begin{document}\\maketitle\\section{Fees}A boat \\emph{pays}.\\end{document}",
        ),
        (
            "dbk",
            "<article><title>Dues</title><section><title>Fees</title><para>A boat pays.</para></section></article>",
        ),
        (
            "nxml",
            "<article><front><article-meta><title-group><article-title>Dues</article-title></title-group></article-meta>"
            "</front><body><sec><title>Fees</title><p>A boat pays.</p></sec></body></article>",
        ),
        ("wiki", "== Fees ==\nA boat ''pays''."),
        ("typ", "= Fees\nA boat _pays_."),
        (
            "fb2",
            "<FictionBook xmlns='http://www.gribuser.ru/xml/fictionbook/2.0'><body><section><title><p>Fees</p></title>"
            "<p>A boat pays.</p></section></body></FictionBook>",
        ),
    ],
)
def test_languages_of_markup_are_read(suffix: str, source: str) -> None:
    document = parse_document(f"a.{suffix}", source.encode())
    assert "Fees" in [heading.text for heading in document.headings]
    assert "A boat" in document.text and "pays" in document.text and not set("\\<") & set(document.text)


@needs_pandoc
@pytest.mark.parametrize("suffix", ["epub", "odt", "rtf"])
@pytest.mark.parametrize("data", [b"PK\x03\x04 damaged", b"Plain text.", b"\0\1", zipped({"a.xml": "<a/>"})])
def test_a_damaged_file_is_an_error_that_names_it(suffix: str, data: bytes) -> None:
    with pytest.raises(InputError, match=rf"a\.{suffix}"):
        parse_document(f"a.{suffix}", data)


@needs_pandoc
@pytest.mark.parametrize("part", ["content.xml", "a.png"])
def test_a_file_that_unpacks_to_too_much_is_refused(part: str) -> None:
    with pytest.raises(InputError, match=r"a\.odt would unpack"):
        parse_document("a.odt", zipped({"content.xml": b"", part: b" " * 40_000_000}))


def test_without_pandoc_the_error_says_how_to_get_it(monkeypatch) -> None:
    monkeypatch.setattr(pandoc, "find_pandoc", lambda: None)
    with pytest.raises(MissingExtraError, match=r"program pandoc.*sage-rag\[pandoc\]"):
        pandoc.read_with_pandoc("odt", b"")


@needs_pandoc
def test_a_file_that_takes_too_long_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(pandoc, "_SECONDS", 0.001)
    with pytest.raises(InputError, match="takes more than"):
        pandoc.read_with_pandoc("rtf", rtf(r"The ferry.\par"))
