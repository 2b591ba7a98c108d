"""Draw where texts of several kinds are cut: by a stock splitter, and by ours, beside each other.

Usage: python benchmarks/draw_cuts.py     (writes docs/images/cuts-*.svg)

The texts are documents of `tests/fixtures/structure`, whose marks say where no person would cut: such a cut
is drawn in red, and so is the frame of a chunk with two subjects. Both splitters have the limit of our
default, by the same counter.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from chunkers import located

from sage_core import Segmenter
from sage_core.text.spans import Span
from sage_core.text.tokens import get_counter
from tests.fakes.structure import Marked, forbidden_cuts, marked_documents, mixed_chunks

ROOT = Path(__file__).parents[1]
PICTURES = {
    "mail": ("mail-4-1", "From: Tomas Rieger", "One more thing:"),
    "table": ("prices-4-1", "| Group", "| Booklets"),
    "story": ("story-4-1", "The clock had come", "The road to Vale End"),
    "minutes": ("minutes-4-1", "## 5. Summer party", None),
    "handbook": ("handbook-4-1", "## 4 Fire alarm", "## 6 Words"),
}
"""Name of each picture: the document, and the words with which the part that is shown begins and ends."""

COLUMN, MARGIN, LINE, GAP, CHARACTERS = 470, 12, 15, 12, 68
TINTS = ("#e3f2f1", "#f3eee0")
RED = "#c62828"
count = get_counter("bert").count


def draw(name: str) -> str:
    """One picture as SVG."""
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    document_name, first, last = PICTURES[name]
    document = next(d for d in marked_documents(ROOT / "tests/fixtures/structure") if d.name == document_name)
    start = document.text.index(first)
    end = document.text.index(last, start) if last else len(document.text)
    ours = Segmenter()
    stock = RecursiveCharacterTextSplitter(
        chunk_size=ours.max_tokens, chunk_overlap=0, length_function=count
    ).split_text(document.text)
    columns = [
        ("Before: RecursiveCharacterTextSplitter", located(document.text, stock)),
        ("After: SageTextSplitter, SageNodeParser", ours.segment(document.text)),
    ]
    parts: list[str] = []
    height = 0
    for index, (title, spans) in enumerate(columns):
        x = MARGIN + index * (COLUMN + MARGIN)
        parts.append(f'<text x="{x}" y="18" font-weight="bold" font-family="sans-serif">{title}</text>')
        y = 30
        for drawn in _chunks(document, spans, Span(start, end), ours.max_tokens, x, y):
            parts.append(drawn[0])
            y = drawn[1]
        height = max(height, y)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * COLUMN + 3 * MARGIN} {height}" '
        'font-family="monospace" font-size="11">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _chunks(
    document: Marked, spans: Sequence[Span], window: Span, limit: int, x: int, y: int
) -> Iterator[tuple[str, int]]:
    """Each chunk of the window as a box of lines, and how far down it reaches."""
    shown = [span for span in spans if span.end > window.start and span.start < window.end]
    before: Span | None = None
    for index, span in enumerate(shown):
        parts = []
        if before is not None and forbidden_cuts(document, [before, span], limit, count):
            parts.append(
                f'<path d="M{x} {y - GAP / 2}h{COLUMN}" stroke="{RED}" stroke-width="3" '
                'stroke-dasharray="7 3"/>'
            )
        text = document.text[max(span.start, window.start) : min(span.end, window.end)].strip()
        lines = [part for line in text.split("\n") for part in textwrap.wrap(line, CHARACTERS) or [""]]
        height = LINE * len(lines) + 8
        frame = f' stroke="{RED}" stroke-width="2"' if mixed_chunks(document, [span]) else ""
        fill = TINTS[index % 2]
        parts.append(
            f'<rect x="{x}" y="{y}" width="{COLUMN}" height="{height}" rx="4" fill="{fill}"{frame}/>'
        )
        parts += [
            f'<text x="{x + 6}" y="{y + 14 + LINE * number}" xml:space="preserve">{escape(line)}</text>'
            for number, line in enumerate(lines)
            if line
        ]
        y += height + GAP
        before = span
        yield "\n".join(parts), y


def main() -> None:
    """Draw all pictures."""
    for name in PICTURES:
        (ROOT / "docs" / "images" / f"cuts-{name}.svg").write_text(draw(name), encoding="utf-8")


if __name__ == "__main__":
    main()
