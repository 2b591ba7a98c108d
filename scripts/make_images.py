"""Make the pictures of the documentation: the report on a screen and on a phone, and a score curve.

Usage: python scripts/make_images.py [FOLDER]     (default: docs/images)

Asks the sample documents one of the demo's questions, offline, and photographs the page that
`sage-rag ask --html` writes. Needs the extras of `make install` and a browser (SAGE_BROWSER, or chromium on
the path). `pipeline.svg`, beside them, is drawn by hand.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from sage_app import Sage
from sage_app.cli.demo import EXCERPT_FROM, EXCERPT_SOURCE, EXCERPT_TO, QUESTIONS, documents_folder
from sage_app.documents.reader import read_document
from sage_app.pipeline.config import SageConfig
from sage_app.rendering.html import answer_report, score_curve_svg, segmentation_report
from sage_core import Segmenter, select
from sage_core.errors import InputError

MADE = datetime(2025, 1, 1, 12)
LIMIT = 150_000
PAPER_FIGURE_8 = (
    *(13.79, 13.58, 11.91, 11.55, 10.94, 7.815, 7.665, 5.490, 4.416),
    *(1.304, 0.800, 0.255, 0.198, 0.093, 0.089),
)


def main() -> None:
    """Make all pictures and print their sizes."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    folder.mkdir(parents=True, exist_ok=True)
    chosen = select(PAPER_FIGURE_8, scale="unbounded", rule="gradient", min_k=7)
    curve = score_curve_svg(PAPER_FIGURE_8, chosen, scale="unbounded", top_k=10)
    (folder / "score-curve.svg").write_text(curve, encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        report, segments = pages(Path(scratch))
        browser = playwright.chromium.launch(executable_path=browser_program())
        photograph(browser, report, folder / "report.png", width=720, height=1010)
        photograph(browser, report, folder / "report-dark.png", width=720, height=1010, scheme="dark")
        photograph(browser, report, folder / "report-phone.png", width=390, height=844)
        photograph(browser, segments, folder / "segments.png", width=1000, height=1000)
        browser.close()
    for path in sorted(folder.iterdir()):
        size = path.stat().st_size
        print(f"{size:8,} {path}")
        if size > LIMIT:
            raise SystemExit(f"{path} is larger than {LIMIT:,} bytes")


def pages(folder: Path) -> tuple[Path, Path]:
    """A report and a segmented text of the sample documents."""
    documents = documents_folder()
    config = SageConfig(candidates=30)
    with Sage(folder / "store", config=config) as sage:
        sage.ingest(documents)
        answer = sage.ask(QUESTIONS[0][1])
    report, segments = folder / "report.html", folder / "segments.html"
    report.write_text(answer_report(answer, made=MADE), encoding="utf-8")
    text = read_document(documents / EXCERPT_SOURCE).text
    text = text[text.index(EXCERPT_FROM) : text.index(EXCERPT_TO)].rstrip()
    view = Segmenter().explain(text)
    segments.write_text(segmentation_report(view, name=EXCERPT_SOURCE, made=MADE), encoding="utf-8")
    return report, segments


def photograph(
    browser: Browser, page_file: Path, target: Path, *, width: int, height: int, scheme: str = "light"
) -> None:
    """The top of a page, as large as told."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page = context.new_page()
    page.goto(page_file.as_uri())
    page.screenshot(path=str(target))
    context.close()


def browser_program() -> str:
    """The browser on this machine.

    Raises:
        InputError: Where there is none.
    """
    for name in (os.environ.get("SAGE_BROWSER", ""), "chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise InputError("no browser: install chromium, or name one in SAGE_BROWSER")


if __name__ == "__main__":
    main()
