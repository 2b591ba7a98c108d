"""Reading documents: what kind a file is, and its text. `sage_app.documents.discovery` finds them.

Plain text, Markdown, code and JSON with line breaks are handed on as they stand in the file: no newline is
translated and nothing is stripped but a byte order mark, and headers and feet of pages. Every other kind is
rewritten as Markdown, captions as paragraphs or, minified JSON, with line breaks: a file of reStructuredText
as a whole where it has a table, with LF for CRLF. Offsets of chunks are always offsets into `Document.text`.
"""

from __future__ import annotations

import bisect
import codecs
import hashlib
import logging
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sage_app.documents.discovery import ISOLATED, KINDS, PANDOC, REMEDIES, Kind, Parsed, source_of
from sage_app.documents.structured import (
    read_captions,
    read_csv,
    read_json,
    read_notebook,
    read_rst,
    without_pages,
)
from sage_core._checks import shortened
from sage_core.errors import InputError
from sage_core.paths import PathArgument, as_path
from sage_core.text.headings import Heading, Markup, find_headings, find_title
from sage_core.text.tokens import without_lone_surrogates

logger = logging.getLogger(__name__)

# Part of a document's digest: raised where the text read from the same bytes changes.
READER_VERSION = 11

_BOMS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark starts with that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SNIFF_BYTES = 65_536
# Text of long lines takes twice its size of memory, of lines of 20 characters 16 times; what is made of
# values and markup takes seven times, and what is read in a process of its own is in the memory of both.
_MAX_FILE_BYTES = 500_000_000
_MAX_BYTES: dict[Kind, int] = dict.fromkeys(
    ("html", "csv", "json", "notebook", "rst", "email", "rtf"), 200_000_000
)
_TEXT_CONTROLS = frozenset(b"\t\n\v\f\r\x1b")
# Bytes that no Windows-1252 text holds: control characters and the five codes it leaves undefined.
_NOT_LEGACY_TEXT = frozenset((set(range(32)) - _TEXT_CONTROLS) | {0x7F, 0x81, 0x8D, 0x8F, 0x90, 0x9D})
_MOST_CONTROLS = 0.01
_REWRITTEN: dict[Kind, Callable[[str], str]] = {
    "csv": read_csv,
    "json": read_json,
    "captions": read_captions,
}
_MARKUPS: dict[Kind, Markup] = {
    "text": "auto",
    "markdown": "markdown",
    "rst": "rst",
    "notebook": "markdown",
}


@dataclass(frozen=True, slots=True)
class Document:
    """The text of one file.

    Examples:
        >>> document = parse_document("ferry.md", b"The ferry leaves at seven.")
        >>> document.kind, document.text
        ('markdown', 'The ferry leaves at seven.')

    Attributes:
        source: Where it came from: the file's absolute path.
        text: What was read; offsets of chunks refer to it.
        kind: How it was read.
        digest: SHA-256 of the file's bytes and of how they were read.
        title: The title the document gives itself, where it has one.
        page_starts: For a PDF, the offset in ``text`` at which each page starts.
        headings: The headings in ``text``, in order; `sage_core.text.headings.heading_paths` makes paths of
            them. The path may begin with ``title``.
    """

    source: str
    text: str
    kind: Kind
    digest: str
    title: str | None = None
    page_starts: tuple[int, ...] = ()
    headings: tuple[Heading, ...] = ()

    def page_of(self, offset: int) -> int | None:
        """The page (from 1) that holds the character at ``offset``; None for a document without pages."""
        return bisect.bisect_right(self.page_starts, offset) or None


def digest_of(data: bytes, encoding: str | None = None) -> str:
    """SHA-256 over the bytes of a file and over how they are read."""
    digest = hashlib.sha256(f"{READER_VERSION}:{encoding or ''}:".encode())
    digest.update(data)
    return digest.hexdigest()


class UnopenedError(InputError):
    """A file that cannot be opened, or not now."""


def read_bytes(path: Path, *, encoding: str | None = None) -> bytes:
    """The bytes of a file; of a binary one no more than shows that `parse_document` refuses it.

    Raises:
        UnopenedError: Where it cannot be read, is no regular file, or larger than its kind may be.
    """
    try:
        # Without waiting: a pipe may have taken the place of the file.
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UnopenedError(f"{shortened(path)} is not a regular file")
            head = file.read(_SNIFF_BYTES)
            kind = _kind_of_bytes(path, head)
            may_be_binary = (
                encoding is None
                and kind not in ISOLATED
                and not (_marked_encoding(head) or _marked_encoding(head[:-2]))
            )
            if may_be_binary and 0 in head:
                return head
            if status.st_size > (limit := _MAX_BYTES.get(kind, _MAX_FILE_BYTES)):
                size = f"{status.st_size:,} bytes, over {limit // 1_000_000:,} MB"
                raise UnopenedError(f"{shortened(path)} has {size}: split it")
            return head + file.read() if len(head) == _SNIFF_BYTES else head
    except FileNotFoundError:
        raise UnopenedError(f"no such file: {shortened(path)}") from None
    except IsADirectoryError:
        raise UnopenedError(f"{path} is a folder, not a file") from None
    except OSError as error:
        raise UnopenedError(f"{shortened(path)} cannot be read: {error.strerror or error}") from error
    except MemoryError:
        raise UnopenedError(
            f"{shortened(path)} needs more memory to be read than there is: split it"
        ) from None


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _kind_of_bytes(path: Path, data: bytes) -> Kind:
    return "pdf" if data.startswith(b"%PDF-") else KINDS.get(path.suffix.lower(), "text")


def read_document(path: PathArgument, *, encoding: str | None = None) -> Document:
    """Read one file by its suffix; a suffix not in `KINDS` is read as plain text.

    Args:
        path: The file.
        encoding: Encoding of text, in whatever markup, and of HTML. None: a byte order mark, else UTF-8,
            else the page's own declaration (HTML), else Windows-1252.

    Raises:
        InputError: Where the file cannot be read, is binary or holds no text; is larger than 500 MB,
            or 200 MB (HTML, RTF, mail, reStructuredText and values); for PDF, office
            files and mail also where reading takes more than 2 GB of memory, or too much CPU time.
        MissingExtraError: For HTML, Word and PDF files without the ``files`` extra, and for spreadsheets,
            slides, RTF and OpenDocument files without ``office``.
    """
    document = read_changed(as_path(path), "", encoding=encoding)
    assert document is not None  # no content has an empty digest
    return document


def read_changed(
    path: Path, known: str, *, encoding: str | None = None, source: str | None = None
) -> Document | None:
    """`read_document`; None if the content of the file has the digest ``known``."""
    data = read_bytes(path, encoding=encoding)
    digest = digest_of(data, encoding)
    if digest == known:
        return None
    return parse_document(path, data, encoding=encoding, source=source, digest=digest)


def parse_document(
    path: PathArgument,
    data: bytes,
    *,
    encoding: str | None = None,
    source: str | None = None,
    digest: str | None = None,
) -> Document:
    """`read_document` for bytes already read.

    The path's suffix tells their kind; ``source`` and ``digest`` are `source_of` and `digest_of` them, where
    the caller has these.
    """
    kind = _kind_of_bytes(Path(path), data)
    try:
        read = _storable(_parsed(kind, data, encoding, str(path)))
    except MemoryError:
        raise InputError(f"{path} needs more memory to be read than there is: split it") from None
    if not read.text or read.text.isspace():  # without a copy, as strip makes
        raise InputError(f"{path} holds no text")
    return Document(
        source or source_of(path),
        read.text,
        kind,
        digest or digest_of(data, encoding),
        read.title,
        tuple(read.page_starts),
        tuple(read.headings),
    )


def _storable(read: Parsed) -> Parsed:
    """What was read, each half of a surrogate pair replaced: it cannot be stored, nor written as UTF-8."""
    clean = without_lone_surrogates
    if clean(read.text) is read.text and clean(read.title or "") == (read.title or ""):
        return read  # headings are parts of the text
    return Parsed(
        clean(read.text),
        None if read.title is None else clean(read.title),
        [heading._replace(text=clean(heading.text)) for heading in read.headings],
        read.page_starts,
    )


def _parsed(kind: Kind, data: bytes, encoding: str | None, name: str) -> Parsed:
    if kind in ISOLATED:
        from sage_app.documents.isolated import read_isolated

        if kind == "email" and (marked := _marked_encoding(data)):
            data = decode(data, marked, name=name).encode("utf-8", "replace")
        elif kind in PANDOC and kind not in ("epub", "odt", "rtf"):
            data = decode(data, encoding, name=name).encode("utf-8", "replace")
        return read_isolated(kind, data, name=name)
    if kind == "html":
        from sage_app.documents.html import declared_encoding, read_html

        return read_html(decode(data, encoding, name=name, fallback=declared_encoding(data)), name=name)
    text = decode(data, encoding, name=name)
    if kind == "code":
        return Parsed(text)
    if kind in _REWRITTEN:
        return Parsed(_REWRITTEN[kind](text))
    if kind == "notebook":
        text = read_notebook(text, name=name)
    elif kind == "rst":
        text = read_rst(text)
    elif kind == "text":
        if Path(name).suffix.lower() not in KINDS and text.lstrip()[:2] in ("<?", "<!", "%!"):
            logger.warning("%s is read as it stands, markup and all: save it as HTML or text", name)
        text = without_pages(text)
    headings = find_headings(text, _MARKUPS[kind])
    return Parsed(text, find_title(text, headings), headings)


def decode(
    data: bytes, encoding: str | None = None, *, name: str = "the file", fallback: str | None = None
) -> str:
    """Bytes of a text file as text, newlines untouched.

    ``fallback`` is tried where they have no byte order mark and are not UTF-8; ``name`` is for messages.

    Raises:
        InputError: For binary data, an unknown encoding, or bytes that are not in ``encoding``.
    """
    encoding = encoding or _marked_encoding(data)
    if encoding is None:
        if 0 in data[:_SNIFF_BYTES] or data.count(0) > _MOST_CONTROLS * len(data):
            raise InputError(f"{name} is a binary file, not text{_remedy(name)}")
        encoding = "utf-8"
        if fallback is not None and not _decodes(data, "utf-8"):
            encoding = fallback
        elif not _decodes(data, "utf-8"):
            encoding = _legacy_encoding(data, name)
    try:
        return data.decode(encoding)
    except LookupError:  # also what is no text encoding, such as base64
        raise InputError(f"unknown encoding {encoding!r} for {name}") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name} is not {encoding} text (byte {error.start}): name its encoding, for instance cp1252"
        ) from None
    except (ValueError, TypeError) as error:  # "undefined" and its like
        raise InputError(f"{encoding!r} is no encoding for {name} ({error}): try cp1252") from None


def _remedy(name: str) -> str:
    remedy = REMEDIES.get(Path(name).suffix.lower())
    return f": {remedy}" if remedy else ""


def _marked_encoding(data: bytes) -> str | None:
    """The encoding that a byte order mark, or the zero bytes of UTF-16 without one, gives away."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return encoding
    head = data[: _SNIFF_BYTES - _SNIFF_BYTES % 2]
    if len(head) < 4 or len(data) % 2:
        return None
    even, odd = head[::2].count(0) / (len(head) // 2), head[1::2].count(0) / (len(head) // 2)
    if odd > 0.4 and even < 0.02 and _decodes(data, "utf-16-le"):
        return "utf-16-le"
    if even > 0.4 and odd < 0.02 and _decodes(data, "utf-16-be"):
        return "utf-16-be"
    return None


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _legacy_encoding(data: bytes, name: str) -> str:
    """Windows-1252 for bytes that may be such text; binary data is refused."""
    head = data[:_SNIFF_BYTES]
    if sum(byte in _NOT_LEGACY_TEXT for byte in head) > _MOST_CONTROLS * len(head):
        raise InputError(f"{name} is a binary file, not text{_remedy(name)}")
    logger.warning("%s is not UTF-8: read as Windows-1252; name its encoding if that is wrong", name)
    return "cp1252" if _decodes(data, "cp1252") else "latin-1"
