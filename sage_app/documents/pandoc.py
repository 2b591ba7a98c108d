"""OpenDocument texts, RTF, e-books and languages of markup, which the program ``pandoc`` writes as HTML."""

from __future__ import annotations

import importlib.util
import io
import re
import shutil
import subprocess
import zipfile
from html import unescape
from pathlib import Path

from sage_app.documents.discovery import Parsed
from sage_app.documents.docx import check_archive, packed_title
from sage_app.documents.html import read_html
from sage_core.errors import InputError, MissingExtraError

_MEDIA = re.compile(r"(?i)/media/|\.(?:png|jpe?g|gif|svg|webp|emf|wmf|ttf|otf|woff2?|mp[34])$")
_SECONDS, _HEAP = 120, "-M1500m"  # besides the limits of the process that reads
_TITLE = re.compile(r'(?s)<header id="title-block-header">\s*<h1 class="title">(.*?)</h1>.*?</header>')
_NOTE = re.compile(r'(role="doc-noteref">)<sup>(\d+)</sup>')
_DRAWING = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"


def find_pandoc() -> str | None:
    """Where the program is: in PATH, or in the package ``pypandoc_binary``."""
    if program := shutil.which("pandoc"):
        return program
    spec = importlib.util.find_spec("pypandoc")
    return (
        shutil.which("pandoc", path=str(Path(spec.origin).parent / "files")) if spec and spec.origin else None
    )


def read_with_pandoc(kind: str, data: bytes, *, name: str = "the file") -> Parsed:
    """Text, title and headings of a file of one of the kinds `PANDOC`; what is struck out is left out.

    Raises:
        InputError: For a damaged or encrypted file, or one that unpacks to too much.
        MissingExtraError: Without pandoc.
    """
    program = find_pandoc()
    if program is None:
        raise MissingExtraError(f"Reading .{kind} files without the program pandoc in PATH", "pandoc")
    title = ""
    if kind in ("odt", "epub"):
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                check_archive(archive, name, lambda part: bool(_MEDIA.search(part)))
                if kind == "odt":
                    title, data = packed_title(archive, "meta.xml"), _with_inner_texts(archive)
        except (zipfile.BadZipFile, KeyError, ValueError, NotImplementedError, RuntimeError) as error:
            raise InputError(f"{name} is not a readable .{kind} file, or is encrypted: {error}") from error
    elif kind == "rtf" and not data.lstrip().startswith(b"{\\rtf"):
        raise InputError(f"{name} is not a readable RTF file: it does not begin with {{\\rtf")
    elif kind == "rtf":
        # pandoc takes a blank behind the sign that stands in for another for the end of a command.
        data = re.sub(rb"(\\u-?\d{1,5} ?\?)", rb"\1{}", data)
    command = [program, "+RTS", _HEAP, "-RTS", "--sandbox", "--standalone", "--wrap=none", "--mathjax"]
    try:
        done = subprocess.run(
            [*command, "--from", kind, "--to", "html"], input=data, capture_output=True, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{name} takes more than {_SECONDS} seconds to read: split it") from None
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[-300:]
        raise InputError(f"{name} is not a readable .{kind} file, or is encrypted: {said or done.returncode}")
    markup = done.stdout.decode("utf-8", "replace")
    block = _TITLE.search(markup)
    body = markup[block.end() if block else max(0, markup.find("<body>")) :]
    page = read_html(re.sub("(?s)<del>.*?</del>", "", _NOTE.sub(r"\1[\2]", body)), name=name, whole=True)
    written = " ".join(unescape(re.sub("<[^>]*>", "", block[1])).split()) if block else ""
    return page._replace(title=title or written or page.title)


def _with_inner_texts(archive: zipfile.ZipFile) -> bytes:
    """An OpenDocument file in which text boxes and reading aids are plain text, which pandoc would lose."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    root = etree.fromstring(archive.read("content.xml"), parser)
    if root is None:
        raise ValueError("its content is no XML")
    boxes = [f"{_DRAWING}{tag}" for tag in ("text-box", "custom-shape")]
    for paragraph in [p for box in root.iter(*boxes) for p in box.iter(f"{_TEXT}p", f"{_TEXT}h")]:
        paragraph.tag, paragraph.text = f"{_TEXT}span", f" {paragraph.text or ''}"
    for aid in root.iter(f"{_TEXT}ruby-text"):
        aid.text = f"({''.join(aid.itertext())})"
    aids = [f"{_TEXT}{tag}" for tag in ("ruby", "ruby-base", "ruby-text")]
    etree.strip_tags(root, f"{_DRAWING}frame", *boxes, *aids)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for part in archive.namelist():
            if not _MEDIA.search(part) and part != "content.xml":
                packed.writestr(part, archive.read(part))
        packed.writestr("content.xml", etree.tostring(root, encoding="UTF-8", xml_declaration=True))
    return out.getvalue()
