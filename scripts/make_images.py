"""Make the pictures of the documentation, and put their figures into the pages that show them.

Usage: python scripts/make_images.py

- `report.png`: what `sage-rag ask --html` makes of the sample documents and a question of the demo, with the
  defaults. Needs the extras of `make install` and a browser (SAGE_BROWSER, or chromium on the path).
- `inspect.png`: what `inspect` of LlamaIndex shows of a stock retriever and ours, over one index of the
  sample documents.
- `recall.svg`: recall by tokens of context, from the table "Inside LlamaIndex and LangChain" of
  `benchmarks/RESULTS.md`, whose figures the README repeats.

`pipeline.svg` is drawn by hand. `tests/test_documentation.py` compares all figures.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
MADE = datetime(2025, 1, 1, 12)
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


def main() -> None:
    """Make all pictures."""
    from playwright.sync_api import sync_playwright

    (IMAGES / "recall.svg").write_text(recall_svg(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_program())
        page = browser.new_page(viewport={"width": 720, "height": 690})
        for name, shown_in, make in (
            ("report", "cli", make_report),
            ("inspect", "llamaindex", make_inspection),
        ):
            alt, file = make(Path(scratch))
            page.goto(file.as_uri())
            page.screenshot(path=str(IMAGES / f"{name}.png"))
            page_file = ROOT / "docs" / f"{shown_in}.md"
            picture = re.compile(rf"!\[[^\]]*\]\(images/{name}\.png\)")
            text = picture.sub(f"![{alt}](images/{name}.png)", page_file.read_text(encoding="utf-8"))
            page_file.write_text(text, encoding="utf-8")
        browser.close()


def make_report(folder: Path) -> tuple[str, Path]:
    """What the picture shows, with its figures, and the page that `sage-rag ask --html` writes."""
    from sage_app import Sage
    from sage_app.cli.demo import QUESTIONS, documents_folder
    from sage_app.rendering.html import answer_report

    with Sage(folder / "store") as sage:
        sage.ingest(documents_folder())
        answer = sage.ask(QUESTIONS[0][1])
    report = folder / "report.html"
    report.write_text(answer_report(answer, made=MADE), encoding="utf-8")
    verdict = answer.feedback.verdict
    likely = f"{verdict.probability:.0%} likely right, " if verdict and verdict.probability else ""
    sent = f"{len(answer.sources)} of {len(answer.retrieval.candidates)} passages, {answer.tokens} tokens"
    return f"A report: the answer, {likely}with the sentence it is from; {sent} sent", report


def make_inspection(folder: Path) -> tuple[str, Path]:
    """What the picture shows, with its figures, and the page of `inspect` with a stock retriever and ours."""
    from llama_index.core import Document, VectorStoreIndex

    from sage_app.cli.demo import QUESTIONS, documents_folder
    from sage_app.documents import read_document
    from sage_llamaindex import MiniLMEmbedding, SageNodeParser, SageRetriever, inspect

    documents = [
        Document(text=read_document(path).text, metadata={"file_name": path.name})
        for path in sorted(documents_folder().iterdir())
    ]
    nodes = SageNodeParser().get_nodes_from_documents(documents)
    index = VectorStoreIndex(nodes, embed_model=MiniLMEmbedding())
    stock, ours = index.as_retriever(similarity_top_k=4), SageRetriever.from_index(index)
    found = inspect(stock, QUESTIONS[2][1], against=ours)
    alone = len(found.only_second), len(found.only_first)
    page = found.save(folder / "inspect.html")
    return (
        f"Two retrievers compared: {alone[0]} passages only ours sends, {alone[1]} only the stock one",
        page,
    )


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
    colors = ("#8a948f", "#4f74c8", "#b06a2c", "#8a5a9c", "#1b6e50")
    body, shown = [], list(results().items())
    for panel, (title, rows) in enumerate((("LlamaIndex", shown[:5]), ("LangChain", shown[5:]))):
        left = 70 + 400 * panel
        body.append(f'<text x="{left}" y="28" class="title">{title}</text>')
        for percent in (40, 60, 80, 100):
            y = 290 - 4 * (percent - 40)
            label = f'<text x="{left - 8}" y="{y + 4}" class="end">{percent}%</text>'
            body.append(f'<path class="grid" d="M{left} {y}h300"/>{label}')
        for tokens in (250, 500, 1000):
            body.append(f'<text x="{left + tokens / 4:g}" y="312" class="middle">{tokens:,}</text>')
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
            below = 230 + 15 * row
            style = f"fill:{color};font-weight:600"
            body.append(f'<text x="{left + 300}" y="{below}" class="end" style="{style}">{name}</text>')
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 345" role="img">
<title>Recall by tokens of context</title>
<style>text {{ font: 13px system-ui, sans-serif; fill: #55615b; }}
.title {{ font-size: 16px; font-weight: 650; fill: #1b2420; }}
.end {{ text-anchor: end; }} .middle {{ text-anchor: middle; }} .grid {{ stroke: #dde3e0; }}</style>
<rect width="800" height="345" fill="#ffffff"/>
{chr(10).join(body)}
<text x="400" y="335" class="middle">tokens of context; the ring is what is sent by default</text>
</svg>
"""


def browser_program() -> str:
    """The browser on this machine."""
    for name in (os.environ.get("SAGE_BROWSER", ""), "chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise SystemExit("no browser: install chromium, or name one in SAGE_BROWSER")


if __name__ == "__main__":
    main()
