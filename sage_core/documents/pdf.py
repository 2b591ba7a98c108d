"""The text of a PDF, page by page."""

from __future__ import annotations

import io
import logging
import re

from sage_core.errors import InputError, MissingExtraError

logger = logging.getLogger(__name__)

# Not a blank line: a sentence may well run on over the page.
PAGE_BREAK = "\n"

# Half of a surrogate pair or a NUL cannot be stored as UTF-8 text; broken fonts produce both.
_UNSTORABLE = re.compile("[\ud800-\udfff\x00]")


def read_pdf(data: bytes, *, name: str = "the file") -> tuple[str, str | None, tuple[int, ...]]:
    """Text, title and the offset at which each page starts. Pages are parted by a line break.

    Raises:
        InputError: For a damaged file, one that needs a password, or one without text (a scan).
        MissingExtraError: Without pypdf.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise MissingExtraError("Reading PDF", "files") from None
    # pypdf meets damage in every layer; this is what it lets through beside its own errors.
    damage = (
        PyPdfError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        RecursionError,
        OSError,
    )
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise InputError(f"{name} is encrypted: save a copy without password and ingest that")
        pages = [_UNSTORABLE.sub("\ufffd", page.extract_text()) for page in reader.pages]
        title = reader.metadata.title if reader.metadata else None
    except InputError:
        raise
    except ImportError as error:
        raise InputError(
            f"{name} is encrypted in a way that needs the cryptography package: {error}"
        ) from error
    except damage as error:
        raise InputError(f"{name} is not a readable PDF: {error}") from error
    if not any(page.strip() for page in pages):
        raise InputError(f"{name} holds no text: it may be a scan; run OCR on it first")
    starts: list[int] = []
    offset = 0
    for page in pages:
        starts.append(offset)
        offset += len(page) + len(PAGE_BREAK)
    return PAGE_BREAK.join(pages), str(title).strip() or None if title else None, tuple(starts)
