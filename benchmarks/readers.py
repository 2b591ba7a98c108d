"""Readers of HTML and PDF compared: what is kept, what leaks, which sentences of a PDF come out whole.

The pages and files are those of the tests, written for them: pages in the markup of 21 kinds of sites and 8
more written after the reader's rules, and PDFs with columns, hyphens, running headers and tables. They are
short, which is hard on readers that go by the density of text. A reader that is not installed is left out.

    python benchmarks/readers.py
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Sequence

from sage_app.documents.html import read_html
from sage_app.documents.pdf import read_pdf
from tests.app.documents.pages import LATER, PAGES, Page
from tests.fakes import pdfs

_MARKS = re.compile(r"[`#>|*-]|\d+\. ")


def _words(text: str) -> str:
    return " ".join(_MARKS.sub(" ", text).split())


def _trafilatura(markup: str) -> str:
    import trafilatura

    return trafilatura.extract(markup, output_format="markdown", include_tables=True, favor_recall=True) or ""


def _readability(markup: str) -> str:
    import markdownify
    from readability import Document

    return str(markdownify.markdownify(Document(markup).summary(), heading_style="ATX", bullets="-"))


def _markdownify(markup: str) -> str:
    import markdownify

    return str(markdownify.markdownify(markup, heading_style="ATX", bullets="-"))


HTML: dict[str, Callable[[str], str]] = {
    "sage-rag": lambda markup: read_html(markup).text,
    "trafilatura": _trafilatura,
    "readability-lxml + markdownify": _readability,
    "markdownify": _markdownify,
}


def _pypdf(data: bytes, **mode: str) -> str:
    from pypdf import PdfReader

    return "\n".join(page.extract_text(**mode) for page in PdfReader(io.BytesIO(data)).pages)


def _pdfplumber(data: bytes) -> str:
    import pdfplumber

    with pdfplumber.open(io.BytesIO(data)) as document:
        return "\n".join(page.extract_text() or "" for page in document.pages)


def _pdfium(data: bytes) -> str:
    import pypdfium2

    return "\n".join(page.get_textpage().get_text_range() for page in pypdfium2.PdfDocument(data))


PDF: dict[str, Callable[[bytes], str]] = {
    "sage-rag": lambda data: read_pdf(data).text,
    "pypdf": _pypdf,
    "pypdf, layout mode": lambda data: _pypdf(data, extraction_mode="layout"),
    "pdfplumber": _pdfplumber,
    "pypdfium2": _pdfium,
}

_NUMBERED = [s for n in (1, 2, 3) for k in (0, 50) for s in pdfs.sentences(24, n * 100 + k)]
FILES: dict[str, tuple[bytes, list[str]]] = {
    "running headers": (pdfs.one_column(), _NUMBERED),
    "two columns": (pdfs.two_columns(), pdfs.sentences(48)),
    "columns by row": (pdfs.two_columns(by_row=True), pdfs.sentences(48)),
    "hyphens": (pdfs.hyphenated(), re.split(r"(?<=\.) ", pdfs.HYPHENATED)),
    "across pages": (pdfs.across_pages(), pdfs.sentences(120)),
    "table": (pdfs.with_table(), [*pdfs.sentences(1), *pdfs.sentences(1, 7)]),
    "40 pages": (pdfs.long(), [s for page in range(40) for s in pdfs.sentences(30, page * 40)]),
}


def pages(name: str, of: Sequence[Page]) -> None:
    """Print what each reader keeps of these pages."""
    print(f"\n{name}\n| reader | kept with structure | kept as words | leaked | ms a page |")
    print("|---|---|---|---|---|")
    for reader, read in HTML.items():
        kept = words = leaked = 0
        began = time.process_time()
        try:
            texts = [read(page.markup) for page in of]
        except ImportError as error:
            print(f"| {reader} | not installed: {error.name} |")
            continue
        spent = time.process_time() - began
        for page, text in zip(of, texts, strict=True):
            kept += sum(part in text + "\n" for part in page.keep)
            words += sum(_words(part) in _words(text) for part in page.keep)
            leaked += sum(part in text for part in page.drop)
        wanted, unwanted = sum(len(p.keep) for p in of), sum(len(p.drop) for p in of)
        shares = f"{kept}/{wanted} | {words}/{wanted} | {leaked}/{unwanted}"
        print(f"| {reader} | {shares} | {1000 * spent / len(of):.1f} |")


def files() -> None:
    """Print how many sentences of each file come out whole."""
    print("\nPDF: share of sentences that come out whole")
    print(f"| reader | {' | '.join(FILES)} | headers left | CPU s |")
    print("|---" * (len(FILES) + 3) + "|")
    for reader, read in PDF.items():
        began = time.process_time()
        try:
            texts = [" ".join(read(data).split()) for data, _ in FILES.values()]
        except ImportError as error:
            print(f"| {reader} | not installed: {error.name} |")
            continue
        spent = time.process_time() - began
        shares = [
            sum(s in text for s in wanted) / len(wanted)
            for text, (_, wanted) in zip(texts, FILES.values(), strict=True)
        ]
        headers = sum(text.count("Edition of 2024") for text in texts)
        print(f"| {reader} | {' | '.join(f'{share:.2f}' for share in shares)} | {headers} | {spent:.2f} |")


if __name__ == "__main__":
    pages(f"HTML: {len(PAGES)} pages", PAGES)
    pages(f"HTML: {len(LATER)} pages written after the rules", LATER)
    files()
