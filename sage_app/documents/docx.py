"""The text of a Word file (.docx), with its structure as Markdown."""

from __future__ import annotations

import io
import logging
import re
import zipfile
from collections.abc import Callable
from html import unescape
from typing import Any

from sage_app.documents.discovery import Parsed
from sage_app.documents.html import read_html
from sage_core.errors import InputError, MissingExtraError

logger = logging.getLogger(__name__)

# Reading takes 4 s and 75 MB of memory for each MB of XML. Any part may hold it, whatever its name says;
# pictures are not read.
_MAX_UNPACKED_BYTES = 30_000_000
_MAX_RATIO = 200  # unpacked to packed, from a megabyte on: ordinary files have 5 to 50
_MEDIA = ("word/media/", "word/embeddings/", "word/fonts/")
_TITLE = re.compile(rb"<dc:title[^<>]*>([^<>]{1,1000})</dc:title>")
_STYLES = "p[style-name='Title'] => h1.title:fresh\np[style-name='Subtitle'] => p:fresh"
_STYLED_TITLE = re.compile(r'<h1 class="title">(.{1,2000}?)</h1>')
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
# What the converter leaves out, or shows though Word does not.
_OTHER = re.compile(rb"<(?:m:oMath|w:(?:ruby|fldSimple|customXml|vanish|d?strike))\b")
_JOINED = {
    "f": "({0})/({1})",
    "sSup": "{0}^{1}",
    "sSub": "{0}_{1}",
    "sSubSup": "{0}_{1}^{2}",
    "rad": "√({1})",
}
_OLE = b"\xd0\xcf\x11\xe0"


def read_docx(data: bytes, *, name: str = "the file") -> Parsed:
    """Text, title and headings of a Word file.

    Headings, lists and tables become Markdown, as for HTML; formulas and ticks are signs; footnotes stand at
    the end. Headers, footers, comments, hidden text and what is deleted or struck out are left out.

    Raises:
        InputError: For a damaged or encrypted file.
        MissingExtraError: Without mammoth or lxml.
    """
    try:
        import mammoth
    except ImportError:
        raise MissingExtraError("Reading Word files", "files") from None
    if data.startswith(_OLE):
        raise InputError(
            f"{name} is encrypted, or of the old Word format: save it as .docx without a password"
        )
    try:
        title = _title(data, name)
        converted = mammoth.convert_to_html(
            io.BytesIO(_prepared(data)),
            style_map=_STYLES,
            convert_image=mammoth.images.img_element(lambda image: {"src": ""}),
        )
    except (InputError, MemoryError):
        raise
    except Exception as error:  # whatever zip, XML and the converter meet in a damaged file
        raise InputError(
            f"{name} is not a readable Word file: {str(error) or type(error).__name__}"
        ) from error
    for message in {m.message for m in converted.messages if "was ignored" in m.message}:
        logger.warning("%s: %s", name, message)
    box = re.compile('<input type="checkbox"( checked="checked")? */>')
    markup = box.sub(lambda match: "☒" if match[1] else "☐", converted.value)
    page = read_html(markup, name=name, whole=True)
    # Other headings may be of level 1, too.
    if not title and (styled := _STYLED_TITLE.search(converted.value)):
        title = read_html(styled[1], whole=True).text
    return page._replace(title=title or page.title)


def _prepared(data: bytes) -> bytes:
    """The file with formulas, reading aids and fields as plain text, and without what Word does not show."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist() if not name.startswith(_MEDIA)}
        if not any(_OTHER.search(part) for part in parts.values()):
            return data
        with zipfile.ZipFile(out, "w") as packed:
            for name, part in parts.items():
                packed.writestr(name, _plain(part) if _OTHER.search(part) else part)
    return out.getvalue()


def _plain(part: bytes) -> bytes:
    from lxml import etree

    root = etree.fromstring(part, etree.XMLParser(resolve_entities=False, no_network=True))
    hidden = [f"{_WORD}{tag}" for tag in ("vanish", "strike", "dstrike")]
    for mark in [m for m in root.iter(*hidden) if m.get(f"{_WORD}val") not in ("0", "false", "off")]:
        run = mark.getparent().getparent()
        if run is not None and run.tag == f"{_WORD}r" and run.getparent() is not None:
            run.getparent().remove(run)
    for element in list(root.iter(f"{_MATH}oMath", f"{_WORD}ruby")):
        if element.tag == f"{_WORD}ruby":
            base, aid = ("".join(e.itertext()) for e in map(element.find, (_WORD + "rubyBase", _WORD + "rt")))
            text = f"{base}({aid})"
        else:
            text = _formula(element)
        element.clear()
        element.tag = f"{_WORD}t" if element.getparent().tag == f"{_WORD}r" else f"{_WORD}r"
        shown = element if element.tag == f"{_WORD}t" else etree.SubElement(element, f"{_WORD}t")
        shown.text = text
        shown.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
    etree.strip_tags(root, f"{_WORD}fldSimple", f"{_WORD}customXml", f"{_MATH}oMathPara")
    return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True))


def _formula(element: Any) -> str:
    """A formula in one line."""
    name = element.tag.removeprefix(_MATH)
    parts = [_formula(child) for child in element if not child.tag.endswith("Pr")]
    if name in _JOINED and len(parts) >= _JOINED[name].count("{"):
        return _JOINED[name].format(*parts)
    return "".join([(element.text or "") if name == "t" else "", *parts])


def check_archive(archive: zipfile.ZipFile, name: str, is_media: Callable[[str], bool]) -> None:
    """Raise InputError for a file that would unpack to far too much, apart from pictures and the like."""
    parts = [
        i
        for i in archive.infolist()
        if not is_media(i.filename) or (i.file_size > 1_000_000 and _is_markup(archive, i))
    ]
    size = sum(part.file_size for part in parts)
    packed = sum(part.compress_size for part in parts)
    if size > min(_MAX_UNPACKED_BYTES, max(1_000_000, _MAX_RATIO * packed)):
        raise InputError(f"{name} would unpack to {size:,} bytes: split it into smaller documents")


def _is_markup(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> bool:
    """Whether a part begins like XML, whatever its name says: a parser may be led to it."""
    with archive.open(part) as file:
        head = file.read(64).lstrip()
    return not head or b"<" in head[:4]


def _title(data: bytes, name: str) -> str:
    """The title in the file's properties, once `check_archive` has let it pass."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        check_archive(archive, name, lambda part: part.startswith(_MEDIA))
        return packed_title(archive, "docProps/core.xml")


def packed_title(archive: zipfile.ZipFile, properties: str) -> str:
    """The title in the properties of an office file."""
    match = _TITLE.search(archive.read(properties)) if properties in archive.namelist() else None
    return " ".join(unescape(match.group(1).decode("utf-8", "replace")).split()) if match else ""
