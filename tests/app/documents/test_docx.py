"""Word files: headings, lists and tables as Markdown; damaged ones refused."""

import io
import random
import time
import zipfile
from pathlib import Path

import pytest

from sage_app.documents.docx import read_docx
from sage_app.documents.reader import read_document
from sage_core.errors import InputError

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
W = f'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="{OFFICE}"'
TYPES = """<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/><Override PartName="/word/document.xml"
ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>"""
RELS = """<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1"
Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/>
</Relationships>"""
# A German Word: the style's id is translated, its name is not.
STYLES = f"""<w:styles {W}><w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>
<w:style w:type="paragraph" w:styleId="Heading2"><w:name w:val="heading 2"/></w:style>
<w:style w:type="paragraph" w:styleId="Titel"><w:name w:val="Title"/></w:style></w:styles>"""
NUMBERING = f"""<w:numbering {W}><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl>
</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>"""
CORE = """<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"
xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Rules &amp; dues</dc:title></cp:coreProperties>"""


def paragraph(text: str, style: str = "", extra: str = "") -> str:
    styled = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f'<w:p><w:pPr>{styled}{extra}</w:pPr><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def item(text: str) -> str:
    return paragraph(text, extra='<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>')


def table(*rows: tuple[str, ...]) -> str:
    cells = ["".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) for row in rows]
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def word_file(body: str, *, core: str = CORE, links: str = "") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", TYPES)
        archive.writestr("_rels/.rels", RELS)
        archive.writestr("word/styles.xml", STYLES)
        archive.writestr("word/numbering.xml", NUMBERING)
        styles = RELS.replace("relationships/officeDocument", "relationships/styles")
        styles = styles.replace("word/document.xml", "styles.xml")
        archive.writestr("word/_rels/document.xml.rels", styles.replace("</Rel", f"{links}</Rel"))
        archive.writestr("docProps/core.xml", core)
        archive.writestr("word/document.xml", f"<w:document {W}><w:body>{body}</w:body></w:document>")
    return out.getvalue()


BODY = (
    paragraph("The harbour", "Titel")
    + paragraph("Dues", "berschrift1")
    + paragraph("Every vessel pays.")
    + item("small boats")
    + item("large boats")
    + paragraph("Fees", "Heading2")
    + table(("boat", "fee"), ("yacht", "9"))
    + "<w:p><w:del><w:r><w:delText>no longer</w:delText></w:r></w:del><w:r><w:t>The end.</w:t></w:r></w:p>"
)


def test_a_word_file_keeps_its_structure(tmp_path: Path) -> None:
    path = tmp_path / "rules.docx"
    path.write_bytes(word_file(BODY))
    document = read_document(path)
    assert document.kind == "docx" and document.title == "Rules & dues"
    assert document.text == (
        "# The harbour\n\n# Dues\n\nEvery vessel pays.\n\n- small boats\n- large boats\n\n## Fees\n\n"
        "| boat | fee |\n| yacht | 9 |\n\nThe end."
    )
    assert [(h.level, h.text) for h in document.headings] == [(1, "The harbour"), (1, "Dues"), (2, "Fees")]
    for heading in document.headings:
        assert document.text[heading.start : heading.end].endswith(heading.text)


MATH = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
RUN = "<w:r><w:rPr>%s</w:rPr><w:t>%s</w:t></w:r>"


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        (RUN % ('<w:strike w:val="true"/>', "30 ") + RUN % ("", "45"), "45"),
        (RUN % ("<w:vanish/>", "Secret.") + RUN % ('<w:vanish w:val="0"/>', "Shown."), "Shown."),
        ('<w:fldSimple w:instr="NAME"><w:r><w:t>Mara</w:t></w:r></w:fldSimple>', "Mara"),
        (
            "<w:r><w:ruby><w:rt><w:r><w:t>aid</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>base</w:t></w:r></w:rubyBase>"
            "</w:ruby></w:r>",
            "base(aid)",
        ),
        (
            f"<m:oMath {MATH}><m:r><m:t>E=</m:t></m:r><m:sSup><m:e><m:r><m:t>c</m:t></m:r></m:e><m:sup><m:r>"
            "<m:t>2</m:t></m:r></m:sup></m:sSup></m:oMath>",
            "E=c^2",
        ),
    ],
)
def test_what_is_shown_is_there_and_nothing_else(runs: str, text: str) -> None:
    assert read_docx(word_file(f"<w:p>{runs}</w:p>")).text == text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("word/document.bin", "a"),
        ("word/document.XML", "a"),
        ("customXml/item1.xml", "a"),
        pytest.param("word/document.bin", "random", marks=pytest.mark.slow),
    ],
)
def test_a_file_that_unpacks_to_far_too_much_is_refused(name: str, content: str) -> None:
    """One MB of the same letters is enough; of any content, thirty."""
    rng = random.Random(1)
    part = (b"a" * 1_500_000) if content == "a" else rng.randbytes(3_000_000).hex().encode() * 6
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(word_file(BODY))) as old,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for entry in old.namelist():
            new.writestr(entry, old.read(entry).replace(b"word/document.xml", name.encode()))
        new.writestr(name, part)
    with pytest.raises(InputError, match="unpack"):
        read_docx(out.getvalue())


def test_pictures_do_not_count(tmp_path: Path) -> None:
    out = io.BytesIO(word_file(BODY))
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/media/image1.bmp", bytes(40_000_000))
    assert "Every vessel pays." in read_docx(out.getvalue()).text


def test_entities_do_not_grow() -> None:
    bomb = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
    data = word_file(BODY, core=CORE)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            part = old.read(name).decode()
            if name == "word/document.xml":
                part = f'<!DOCTYPE x [<!ENTITY a0 "lol">{bomb}]>' + part.replace("Every vessel", "&a9;")
            new.writestr(name, part)
    began = time.process_time()
    with pytest.raises(InputError):
        read_docx(out.getvalue())
    assert time.process_time() - began < 10


def test_the_title_is_that_of_the_style_where_headings_of_level_1_follow() -> None:
    body = paragraph("The harbor &amp; its", "Titel") + "".join(
        paragraph(t, "berschrift1") + paragraph("All pay.") for t in "AB"
    )
    page = read_docx(word_file(body, core="<a/>"))
    assert page.title == "The harbor & its" and [h.text for h in page.headings] == [
        "The harbor & its",
        "A",
        "B",
    ]
