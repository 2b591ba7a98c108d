"""The text of a Word file (.docx), with its structure as Markdown."""

from __future__ import annotations

import io
import re
import zipfile

from sage_core.documents.html import HtmlPage, read_html
from sage_core.errors import InputError, MissingExtraError

# The parts of a file that are read are XML. More than this is no document that a person wrote.
_MOST_XML_BYTES = 200_000_000
_TITLE = re.compile(rb"<dc:title[^<>]*>([^<>]{1,1000})</dc:title>")
_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"
_OLE = b"\xd0\xcf\x11\xe0"


def read_docx(data: bytes, *, name: str = "the file") -> HtmlPage:
    """Text, title and headings of a Word file.

    Headings, lists and tables become Markdown, as for HTML; footnotes stand at the end. Headers, footers,
    comments and what is marked as deleted are left out.

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
        found = mammoth.convert_to_html(
            io.BytesIO(data), style_map=_STYLES, convert_image=mammoth.images.img_element(_no_image)
        )
    except (InputError, MemoryError):
        raise
    except Exception as error:  # whatever zip, XML and the converter meet in a damaged file
        raise InputError(
            f"{name} is not a readable Word file: {str(error) or type(error).__name__}"
        ) from error
    page = read_html(found.value, name=name, whole=True)
    return page._replace(title=title or page.title)


def _no_image(image: object) -> dict[str, str]:
    return {"src": ""}


def _title(data: bytes, name: str) -> str:
    """The title in the file's properties. Refuses a file that would unpack to far too much."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(i.file_size for i in archive.infolist() if i.filename.endswith((".xml", ".rels")))
        if size > _MOST_XML_BYTES:
            raise InputError(f"{name} would unpack to {size:,} bytes of XML: split it into smaller documents")
        if "docProps/core.xml" not in archive.namelist():
            return ""
        found = _TITLE.search(archive.read("docProps/core.xml"))
    if found is None:
        return ""
    from html import unescape

    return " ".join(unescape(found.group(1).decode("utf-8", "replace")).split())
