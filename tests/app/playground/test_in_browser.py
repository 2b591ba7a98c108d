"""The playground in a real browser: with a mouse, with the keyboard alone, on a phone, light and dark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("starlette", reason="the serve extra is not installed")

from tests.app.playground.workbench import FERRY, make_store, make_workbench, served
from tests.browser.test_report_in_browser import CONTRAST, DESKTOP, OVERFLOW, PHONE, WORLD
from tests.fakes.results_to_show import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.soak
KEPT = "#ask-shown .rows > li:not(.drop, .cutline)"
QUESTION = "When does the ferry leave Skerrin?"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(make_workbench(make_store(tmp_path_factory.mktemp("playground")))) as found:
        yield found


@contextmanager
def opened(browser: Browser, address: str, *, width: int = DESKTOP, **options: Any) -> Iterator[Page]:
    """The page; at the end it must have been silent, and asked nobody but its own server."""
    context = browser.new_context(
        viewport={"width": width, "height": 800}, is_mobile=width == PHONE, **options
    )
    context.set_default_timeout(60_000)
    said: list[str] = []
    asked: list[str] = []
    try:
        page = context.new_page()
        page.on("console", lambda m: said.append(m.text))
        page.on("pageerror", lambda e: said.append(str(e)))
        page.on("request", lambda r: asked.append(r.url))
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        yield page
        assert page.evaluate("window.hacked") is None
        assert said == [] and all(url.startswith(address) for url in asked)
    finally:
        context.close()


def cut(page: Page, text: str) -> None:
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Cut", exact=True).click()
    # The page opened with another document, whose chunks are shown until these are there.
    until(
        page, f"document.querySelector('#cut-shown').textContent.includes({json.dumps(text.split()[:2][-1])})"
    )


def until(page: Page, condition: str) -> None:
    """Wait for an expression to be true. `wait_for_function` would evaluate it within the page's policy."""
    for _ in range(600):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"never came true: {condition}")


def search(page: Page) -> None:
    page.get_by_role("tab", name="Ask a question").click()
    page.get_by_label("Question", exact=True).fill(QUESTION)
    page.get_by_role("button", name="Search").click()
    page.wait_for_selector(KEPT)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_it_fits_and_can_be_read(browser: Browser, address: str, width: int, scheme: str) -> None:
    with opened(browser, address, width=width, color_scheme=scheme) as page:
        cut(page, "\n\n".join((FERRY, *HOSTILE, *WORLD)))
        page.locator("#cut-code summary").click()
        assert page.evaluate(OVERFLOW) == []
        first = page.evaluate(CONTRAST)
        search(page)
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate(OVERFLOW) == []
        second = page.evaluate(CONTRAST)
        ground = page.evaluate("getComputedStyle(document.querySelector('main')).backgroundColor")
    assert first["found"] == [] and second["found"] == [] and first["count"] > 20 < second["count"]
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


def test_documents_cannot_inject(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        before = page.locator("main *").evaluate_all("all => new Set(all.map(e => e.tagName)).size")
        cut(page, "\n\n".join(HOSTILE))
        assert (
            page.locator("#cut-shown :is(script, img, iframe, form, link, input, object, embed)").count() == 0
        )
        handlers = "[...document.querySelectorAll('main *')].flatMap(e => [...e.attributes]).filter(a => /^on/.test(a.name)).length"
        assert page.evaluate(handlers) == 0
        assert "<script>window.hacked = 1</script>" in (page.locator("#cut-shown").text_content() or "")
        assert before > 5


def test_boundaries_move_with_the_sliders(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.get_by_label("Document", exact=True).select_option(index=2)
        # The page opened with another document, whose chunks are shown until these are there.
        until(page, f"document.querySelector('#cut-shown').textContent.includes({FERRY.split()[-1]!r})")
        assert page.get_by_label("Text", exact=True).input_value() == FERRY
        few = page.locator("#cut-shown .chunk").count()
        page.get_by_label("Fewest tokens", exact=True).fill("0")
        page.get_by_label("Target tokens", exact=True).fill("10")
        until(page, f"document.querySelectorAll('#cut-shown .chunk').length > {few}")
        assert page.locator("#target_tokens-value").text_content() == "10"
        assert "P(same)" in (page.locator(".snip").first.text_content() or "")
        page.locator("#cut-code summary").click()
        assert '"target_tokens": 10' in (page.locator("#cut-code pre").text_content() or "")
        page.get_by_label("let the topic alone decide").check()
        until(page, "document.querySelector('#cut-code pre').textContent.includes('topic')")
        assert page.get_by_label("Target tokens", exact=True).is_disabled()
        page.get_by_label("Strategy").select_option("threshold")
        until(page, "document.querySelector('#cut-code pre').textContent.includes('threshold')")
        assert page.get_by_label("Target tokens", exact=True).is_disabled()
        page.get_by_role("button", name="Back to the defaults").click()
        until(page, f"document.querySelectorAll('#cut-shown .chunk').length === {few}")
