"""Write documents/harbour-rules.pdf from harbour-rules.txt, with nothing but the standard library.

The demo reads the PDF that is kept beside the other documents; run this only after changing the text.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

HERE = Path(__file__).parent
LINES_PER_PAGE = 48
LINE_WIDTH = 88
FONT_SIZE, LEADING = 11, 15


def lines_of(text: str) -> list[str]:
    """The text wrapped to the width of a page; one empty line between paragraphs."""
    lines: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        lines += [*textwrap.wrap(paragraph, LINE_WIDTH), ""]
    return lines[:-1]


def page_content(lines: list[str]) -> bytes:
    """PDF operators that set these lines from the top of a page."""
    escaped = [line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)") for line in lines]
    rows = "\n".join(f"({line}) Tj T*" for line in escaped)
    return f"BT /F1 {FONT_SIZE} Tf {LEADING} TL 56 780 Td\n{rows}\nET".encode("cp1252")


def pdf(pages: list[list[str]], title: str) -> bytes:
    """A PDF of these pages in Helvetica on A4."""
    kids = " ".join(f"{5 + 2 * i} 0 R" for i in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        f"<< /Title ({title}) >>".encode(),
    ]
    for i, lines in enumerate(pages):
        content = page_content(lines)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {6 + 2 * i} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R /Info 4 0 R >>\n" % (len(objects) + 1)
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % start)


def main() -> None:
    """Make the file."""
    lines = lines_of((HERE / "harbour-rules.txt").read_text(encoding="utf-8"))
    pages = [lines[i : i + LINES_PER_PAGE] for i in range(0, len(lines), LINES_PER_PAGE)]
    (HERE / "documents" / "harbour-rules.pdf").write_bytes(pdf(pages, lines[0]))


if __name__ == "__main__":
    main()
