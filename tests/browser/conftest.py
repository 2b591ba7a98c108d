"""A real browser, found on this machine; the tests are skipped where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = (
    "chromium",
    "chromium-browser",
    "chromium-headless-shell",
    "google-chrome",
    "google-chrome-stable",
    "msedge",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A page drawn by a browser takes seconds."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.soak)


def find_browser() -> str | None:
    """The program: ``SAGE_BROWSER``, or the first of `NAMES` on the path."""
    named = os.environ.get("SAGE_BROWSER")
    if named:
        return shutil.which(named)
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (the dev group)"
    )
    program = find_browser()
    if program is None:
        pytest.skip(
            f"no browser: install chromium, or name one in SAGE_BROWSER (looked for {', '.join(NAMES)})"
        )
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=program)
        yield started
        started.close()
