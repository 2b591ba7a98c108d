"""Make the picture of the documentation from the figures of the results.

Usage: python scripts/make_images.py

- `recall.svg`: recall by tokens of context, from the table "Inside LlamaIndex and LangChain" of
  `benchmarks/RESULTS.md`, whose figures the README repeats.

`pipeline.svg` is drawn by hand. `tests/test_documentation.py` compares all figures.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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


def main() -> None:
    """Make the picture."""
    (IMAGES / "recall.svg").write_text(recall_svg(), encoding="utf-8")


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


if __name__ == "__main__":
    main()
