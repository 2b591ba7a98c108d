"""Make the pictures of the documentation: each by the defaults, with the figures of what it shows.

Usage: python scripts/make_images.py [NAME ...]     (default: all)

- `recall.svg`: recall by tokens of context, from the table "Inside LlamaIndex and LangChain" of
  `benchmarks/RESULTS.md`, whose figures the README repeats.
- `cuts-*.svg`: where a stock splitter and ours cut documents of `tests/fixtures/structure`. Their marks say
  where no person would cut: such a cut is red on either side, as is the frame of a chunk with two subjects.
- `inspect.png`: the page of `inspect` over a stock index of the sample documents.
- `playground.png`: the page of `sage-rag serve` over a store of the sample documents.

The last two need a browser (SAGE_BROWSER, or chromium on the path). What they show is written into the
file and beside the picture on its page; `tests/test_documentation.py` compares both with a new run.
`pipeline.svg` is drawn by hand.
"""

from __future__ import annotations

import contextlib
import re
import struct
import sys
import tempfile
import textwrap
import zlib
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
IMAGES = ROOT / "docs" / "images"
ROWS = {
    "LlamaIndex stock": "LlamaIndex stock",
    "same index, SageRetriever": "+ SageRetriever",
    "256 tokens with BM25": "LlamaIndex: SentenceSplitter(256, 20) with BM25, top 4",
    "256 tokens, SageRetriever": "LlamaIndex: SentenceSplitter(256, 20) and SageRetriever",
    "with SageNodeParser": "LlamaIndex, README",
    "LangChain stock": "LangChain stock",
    "the same store, SageRetriever": "+ SageRetriever, LangChain",
    "with SageTextSplitter": "LangChain, README",
}
"""Name in the picture, and how the row of RESULTS begins."""
CUTS = {
    "mail": ("mail-4-1", "Dear Hanne", "He should come before three"),
    "table": ("prices-4-1", "| Group", "| Booklets"),
}
"""Of each picture of cuts: the document, and the words with which the part that is shown begins and ends."""
QUESTION = "What happens to lost things that nobody asks for?"
PAGES = {"inspect": "llamaindex", "playground": "cli"}
"""The page on which a picture of a page is shown."""
SIZES = {"inspect": {"width": 960, "height": 560}, "playground": {"width": 1240, "height": 760}}


def main() -> None:
    """Make the pictures that the command line names."""
    names = sys.argv[1:] or ["recall", "cuts", *PAGES]
    if "recall" in names:
        (IMAGES / "recall.svg").write_text(recall_svg(), encoding="utf-8")
    if "cuts" in names:
        for name in CUTS:
            (IMAGES / f"cuts-{name}.svg").write_text(cuts_svg(name), encoding="utf-8")
    for name in PAGES.keys() & set(names):
        with tempfile.TemporaryDirectory() as folder:
            figures = photograph(name, Path(folder))
        page = ROOT / "docs" / f"{PAGES[name]}.md"
        shown = re.sub(
            rf"!\[[^\]]*\]\(images/{name}\.png\)", f"![{figures}](images/{name}.png)", page.read_text("utf-8")
        )
        page.write_text(shown, encoding="utf-8")


# -- recall -----------------------------------------------------------------------------------------------


def results() -> dict[str, list[float]]:
    """Recall at 250, 500 and 1,000 tokens, that of what is sent, its tokens, and milliseconds, by row."""
    lines = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8").splitlines()
    found: dict[str, list[float]] = {}
    for name, start in ROWS.items():
        line = next(line for line in lines if re.match(rf"\| {re.escape(start)}(:[^|]*)? \| \d", line))
        cells = [cell.strip() for cell in line.split("|")[2:9]]
        found[name] = [float(cell) for cell in cells[:5] + cells[6:]]  # between them: at equal tokens
    return found


def recall_svg() -> str:
    """Two panels of recall by tokens of context; a ring is what is sent by default."""
    colors = ("#6b7570", "#4f74c8", "#b06a2c", "#8a5a9c", "#1b6e50")
    body, shown = [], list(results().items())
    for panel, (title, rows) in enumerate((("LlamaIndex", shown[:5]), ("LangChain", shown[5:]))):
        left = 50 + 415 * panel
        body.append(f'<text x="{left}" y="24" class="title">{title}</text>')
        for percent in (40, 60, 80, 100):
            y = 290 - 4 * (percent - 40)
            label = f'<text x="{left - 8}" y="{y + 4}" class="end">{percent}%</text>'
            body.append(f'<path class="grid" d="M{left} {y}h300"/>{label}')
        for tokens in (250, 500, 1000):
            body.append(f'<text x="{left + tokens / 4:g}" y="310" class="middle">{tokens:,}</text>')
        for row, (name, (*recall, sent, tokens, _)) in enumerate(rows):
            color = colors[row if len(rows) == 5 or row < 2 else 4]
            points = [
                (left + n / 4, 290 - 4 * (value - 40))
                for n, value in zip((250, 500, 1000), recall, strict=True)
            ]
            line = " ".join(f"{x:g},{y:.1f}" for x, y in points)
            body.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2.5"/>')
            body += [f'<circle cx="{x:g}" cy="{y:.1f}" r="3.5" fill="{color}"/>' for x, y in points]
            x, y = left + tokens / 4, 290 - 4 * (sent - 40)
            body.append(
                f'<circle cx="{x:g}" cy="{y:.1f}" r="7" fill="none" stroke="{color}" stroke-width="2">'
                f"<title>{name}: {sent:g}% in {tokens:g} tokens by default</title></circle>"
            )
            below = 338 + 17 * row
            body.append(f'<path d="M{left} {below - 4}h16" stroke="{color}" stroke-width="3"/>')
            label = f"{name}: {sent:.0f}% in {tokens:,.0f} tokens"
            body.append(f'<text x="{left + 24}" y="{below}" style="fill:{color}">{label}</text>')
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 450" role="img">
<title>Recall by tokens of context</title>
<style>text {{ font: 13px system-ui, sans-serif; fill: #55615b; }}
.title {{ font-size: 16px; font-weight: 650; fill: #1b2420; }}
.end {{ text-anchor: end; }} .middle {{ text-anchor: middle; }} .grid {{ stroke: #dde3e0; }}</style>
<rect width="820" height="450" fill="#ffffff"/>
{chr(10).join(body)}
<text x="410" y="436" class="middle">evidence by tokens of context; ring: what is sent by default</text>
</svg>
"""


# -- cuts -------------------------------------------------------------------------------------------------

COLUMN, MARGIN, LINE, GAP, CHARACTERS = 380, 12, 17, 12, 46
TINTS = ("#e3f2f1", "#f3eee0")
RED = "#c62828"


def cuts_svg(name: str) -> str:
    """A stock splitter and ours beside each other, both with the limit of our default."""
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    from benchmarks.chunkers import located
    from sage_core import Segmenter
    from sage_core.text.tokens import get_counter
    from tests.core.segmentation.marked import forbidden_cuts, marked_documents, mixed_chunks

    count = get_counter("bert").count
    title, first, last = CUTS[name]
    document = next(d for d in marked_documents(ROOT / "tests/fixtures/structure") if d.name == title)
    text = document.text
    ours = Segmenter()
    stock = RecursiveCharacterTextSplitter(
        chunk_size=ours.max_tokens, chunk_overlap=0, length_function=count
    ).split_text(text)
    sides = {
        "LangChain RecursiveCharacterTextSplitter": located(text, stock),
        "sage-rag": ours.segment(text),
    }
    start, end = text.index(first), text.index(last)
    parts: list[str] = []
    height = 0
    for column, (title, spans) in enumerate(sides.items()):
        x, y = MARGIN + column * (COLUMN + MARGIN), 32
        parts.append(f'<text x="{x}" y="20" font-weight="bold" font-family="sans-serif">{title}</text>')
        shown = [span for span in spans if span.end > start and span.start < end]
        start, end = shown[0].start, shown[-1].end  # whole chunks on the left; the right shows no less
        for number, span in enumerate(shown):
            torn = number and forbidden_cuts(document, shown[number - 1 : number + 1], ours.max_tokens, count)
            if torn:
                style = f'stroke="{RED}" stroke-width="3" stroke-dasharray="7 3"'
                parts.append(f'<path d="M{x} {y - GAP / 2}h{COLUMN}" {style}/>')
            mixed = f' stroke="{RED}" stroke-width="2"' if mixed_chunks(document, [span]) else ""
            lines = [part for line in span.of(text).strip().split("\n") for part in _wrapped(line)]
            deep = LINE * len(lines) + 8
            place = f'x="{x}" y="{y}" width="{COLUMN}" height="{deep}" rx="4"'
            parts.append(f'<rect {place} fill="{TINTS[number % 2]}"{mixed}/>')
            parts += [
                f'<text x="{x + 6}" y="{y + 16 + LINE * row}" xml:space="preserve">{escape(line)}</text>'
                for row, line in enumerate(lines)
                if line
            ]
            y += deep + GAP
        height = max(height, y)
    size = f"{2 * COLUMN + 3 * MARGIN} {height}"
    head = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}"'
    return (
        f'<svg {head} font-family="monospace" font-size="13">\n'
        + '<rect width="100%" height="100%" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _wrapped(line: str) -> list[str]:
    """A line as it fits into a column; rows of tables hang."""
    return textwrap.wrap(line, CHARACTERS, subsequent_indent="    " if line.startswith("|") else "") or [""]


def version() -> str:
    """That of pyproject.toml."""
    found = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert found
    return found[1]


# -- pages ------------------------------------------------------------------------------------------------


def figures(name: str, folder: Path) -> tuple[str, Any]:
    """What a picture of a page shows, in words with its figures, and what its page is made of."""
    from sage_app.cli.demo import documents_folder
    from sage_core._checks import counted

    if name == "inspect":
        from llama_index.core import SimpleDirectoryReader, VectorStoreIndex

        from sage_llamaindex import MiniLMEmbedding, SageRetriever, inspect

        reader = SimpleDirectoryReader(
            str(documents_folder()),
            required_exts=[".md", ".txt"],
            file_metadata=lambda path: {"file_name": Path(path).name},  # a whole path is sent, and counted
        )
        index = VectorStoreIndex.from_documents(reader.load_data(), embed_model=MiniLMEmbedding())
        found = inspect(SageRetriever.from_index(index), QUESTION)
        ranked = len(found.steps[1].passages)
        nodes = len(found.steps[0].passages)
        sent = f"{counted(len(found.sent), 'text')} of {found.tokens:,} tokens sent"
        return f"{nodes} nodes of a stock index, cut into {ranked} passages and ranked; {sent}", found
    from sage_app import Sage
    from sage_app.cli.options import DEFAULT_EMBEDDER
    from sage_app.models import named_embedder
    from sage_app.playground.serve import Workbench

    with Sage(folder / "store") as sage:
        sage.ingest(documents_folder())
    bench = Workbench(sage.store, named_embedder(DEFAULT_EMBEDDER))
    info = bench.info({})
    first = info["documents"][0]
    made = f"{info['store']['documents']} documents, {info['store']['chunks']} chunks"
    shown = f"The playground of sage-rag {version()}: {made}; {first['name']} in {first['chunks']}"
    return f"{shown}, with P(same) between sentences, beside sliders", bench


def photograph(name: str, folder: Path) -> str:
    """Take the picture of a page as a browser shows it, write its figures into the file, and return them."""
    from playwright.sync_api import sync_playwright

    from tests.app.playground.workbench import served
    from tests.browser.conftest import find_browser

    shown, made = figures(name, folder)
    with contextlib.ExitStack() as stack:
        address = (
            stack.enter_context(served(made)) if name == "playground" else _page_of(made, folder).as_uri()
        )
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=find_browser())
        page = browser.new_page(viewport=SIZES[name])
        page.goto(address)
        page.wait_for_selector(".chunk, .rows")
        if name == "inspect":  # the passages as they were ranked
            page.get_by_text("SageNodePostprocessor.rerank").click()
        assert name != "playground" or f"sage-rag {version()}" in page.content(), (
            "another version is installed"
        )
        png = page.screenshot()
        browser.close()
    (IMAGES / f"{name}.png").write_bytes(with_note(png, shown))
    return shown


def _page_of(found: Any, folder: Path) -> Path:
    return Path(found.save_html(folder / "inspect.html"))


# A PNG file is a signature of 8 bytes and blocks: length, kind, data, check sum. The first has 25 bytes.
FIRST = 8 + 25


def with_note(png: bytes, note: str) -> bytes:
    """The picture with a line of text in it."""
    block = b"tEXtDescription\0" + note.encode("latin-1")
    return (
        png[:FIRST]
        + struct.pack(">I", len(block) - 4)
        + block
        + struct.pack(">I", zlib.crc32(block))
        + png[FIRST:]
    )


def note_of(png: bytes) -> str:
    """The line of text that `with_note` wrote."""
    (length,) = struct.unpack(">I", png[FIRST : FIRST + 4])
    return png[FIRST + 8 : FIRST + 8 + length].removeprefix(b"Description\0").decode("latin-1")


if __name__ == "__main__":
    main()
