"""The pages as a browser shows them: whole, legible, silent, whatever the documents hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sage_core import Segmenter
from tests.fakes.results_to_show import (
    HOSTILE,
    answer,
    failed_critic,
    hostile,
    marked,
    nothing_found,
    retrieval,
    usual,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DEMO = Path(__file__).parents[2] / "demo" / "documents"
PHONE, DESKTOP = 360, 1280

# Arabic and Hebrew, emoji with joiners, CJK, combining marks, words without a place to break.
WORLD = (
    "مرحبا بالعالم. العبّارة تغادر في الساعة السابعة.",
    "שלום עולם \u202e reversed",
    "👩‍👩‍👧‍👦 🇸🇪 ⛴️ the ferry",
    "渡し船は七時に出ます。" * 30,
    "Donaudampfschifffahrtsgesellschaftskapitän" * 40,
    "https://example.invalid/" + "a" * 3000,
    "e\u0301\u0301\u0301\u0301 Zalgo\u0334\u0335\u0336",
)


def segmented() -> Any:
    text = (DEMO / "lighthouse-history.txt").read_text(encoding="utf-8")
    return Segmenter().explain(text + "\n\n" + "\n\n".join((*HOSTILE, *WORLD)))


PAGES: dict[str, Callable[[], Any]] = {
    "usual": usual,
    "hostile": hostile,
    "marked": marked,
    "world": lambda: hostile(WORLD),
    "failed critic": failed_critic,
    "nothing found": nothing_found,
    "200 candidates": lambda: answer(retrieval([1 / (1 + i) for i in range(200)], min_k=60)),
    "segmented": segmented,
    "many places": lambda: Segmenter().explain("The cat sat. Ships sail at seven, and trains do not. " * 500),
    "loop": lambda: usual().feedback,
}


class Seen:
    """What happened while a page was open."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []


@contextmanager
def opened(
    browser: Browser, path: Path, seen: Seen, *, width: int, scripts: bool = True, **options: Any
) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": width, "height": 800},
        is_mobile=width == PHONE,
        java_script_enabled=scripts,
        **options,
    )
    try:
        page = context.new_page()
        page.on("request", lambda r: seen.requests.append(r.url))
        page.on("console", lambda m: seen.complaints.append(m.text))
        page.on("pageerror", lambda e: seen.complaints.append(str(e)))
        page.goto(path.as_uri())
        yield page
    finally:
        context.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {name: make().save_html(folder / f"{name.replace(' ', '-')}.html") for name, make in PAGES.items()}


OVERFLOW = """() => {
  const width = document.documentElement.clientWidth, found = [];
  if (document.documentElement.scrollWidth > width) found.push('page ' + document.documentElement.scrollWidth);
  const clipped = e => { for (let p = e.parentElement; p; p = p.parentElement)
    if (getComputedStyle(p).overflowX !== 'visible') return true; return false; };
  for (const e of document.querySelectorAll('main *')) {
    const box = e.getBoundingClientRect();
    if (box.width && (box.right > width + 0.5 || box.left < -0.5) && !clipped(e))
      found.push(e.tagName + '.' + e.getAttribute('class') + ' ' + box.left + '..' + box.right);
  }
  return found.slice(0, 5); }"""

CONTRAST = """() => {
  const parse = c => { const m = c.match(/[\\d.]+/g).map(Number); return {rgb: m.slice(0, 3), a: m.length > 3 ? m[3] : 1}; };
  const light = rgb => { const [r, g, b] = rgb.map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b; };
  const ground = e => { for (let p = e; p; p = p.parentElement) {
      const svg = p.closest('svg');
      if (svg) return parse(getComputedStyle(svg.querySelector('.bg')).fill).rgb;
      const c = parse(getComputedStyle(p).backgroundColor); if (c.a === 1) return c.rgb; }
    return [255, 255, 255]; };
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  const found = new Set(); let count = 0;
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const e = n.parentElement;
    if (!n.data.trim() || ['STYLE', 'title', 'desc'].includes(e.tagName) || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), ink = parse(e.closest('svg') ? style.fill : style.color).rgb;
    const [low, high] = [light(ink), light(ground(e))].sort((a, b) => a - b);
    const ratio = (high + .05) / (low + .05); count++;
    if (ratio < 4.5) found.add(e.tagName + '.' + e.getAttribute('class') + ' ' + ratio.toFixed(2));
  }
  return {count, found: [...found]}; }"""


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_is_silent(browser: Browser, pages: dict[str, Path], name: str, width: int):
    seen = Seen()
    with opened(browser, pages[name], seen, width=width) as page:
        assert page.evaluate(OVERFLOW) == []
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate(OVERFLOW) == []
        assert page.evaluate("window.hacked") is None
        assert page.locator("main h1, main h2").first.is_visible()
    assert seen.complaints == []
    assert seen.requests == [pages[name].as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["usual", "hostile", "marked", "segmented", "failed critic"])
def test_all_text_can_be_read(browser: Browser, pages: dict[str, Path], name: str, scheme: str):
    with opened(browser, pages[name], Seen(), width=DESKTOP, color_scheme=scheme) as page:
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        result = page.evaluate(CONTRAST)
        ground = page.evaluate("getComputedStyle(document.querySelector('main')).backgroundColor")
    assert result["count"] > 10 and result["found"] == []
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.parametrize("name", ["hostile", "segmented"])
def test_hostile_text_is_text(browser: Browser, pages: dict[str, Path], name: str):
    with opened(browser, pages[name], Seen(), width=DESKTOP) as page:
        assert (
            page.locator(
                "script, img, iframe, a:not(.cite), form, link, input, button, object, embed"
            ).count()
            == 0
        )
        assert page.locator("body style").count() == page.locator("svg > style").count()
        assert page.evaluate("document.body.children.length") == 1
        text = page.locator("main").text_content() or ""
        assert "<img src=x" not in text and 'onerror="window.hacked = 1">' in text
        assert page.get_by_text("<script>window.hacked = 1</script>").first.is_visible()
        handlers = "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes]).filter(a => /^on/.test(a.name)).length"
        assert page.evaluate(handlers) == 0


def test_a_statement_leads_to_its_passage_without_scripts(browser: Browser, pages: dict[str, Path]):
    with opened(browser, pages["marked"], Seen(), width=PHONE, scripts=False) as page:
        answer_text = page.locator(".answer .text")
        shown = " ".join((answer_text.text_content() or "").split())
        assert (
            "The ferry leaves at seven.[1] Tickets cost nine crowns on Sundays.[not in the passages]" in shown
        )
        link = page.locator("a.cite").first
        link.click()
        passage = page.locator(link.get_attribute("href") or "")
        assert passage.is_visible() and "The ferry leaves at seven." in (passage.text_content() or "")
        assert passage.evaluate("e => e.matches(':target')")


def test_a_right_to_left_text_does_not_turn_its_neighbors(browser: Browser, pages: dict[str, Path]):
    with opened(browser, pages["world"], Seen(), width=DESKTOP) as page:
        directions = "[...document.querySelectorAll('.passage')].map(p => [getComputedStyle(p.querySelector('.text')).direction, getComputedStyle(p).direction])"
        found = page.evaluate(directions)
    assert (
        ["rtl", "ltr"] in found and ["ltr", "ltr"] in found and not any(outer == "rtl" for _, outer in found)
    )


def test_one_curve_is_seen_at_every_width_and_has_a_name(browser: Browser, pages: dict[str, Path]):
    for width in (PHONE, 640, 641, DESKTOP):
        with opened(browser, pages["usual"], Seen(), width=width) as page:
            page.locator(".fold>summary").last.click()
            pictures = [svg for svg in page.locator(".curve svg").all() if svg.is_visible()]
            assert len(pictures) == 1
            tree = pictures[0].aria_snapshot()
            assert "Scores of 20 candidates by rank" in tree
            size = pictures[0].locator("text").first.evaluate("e => e.getBoundingClientRect().height")
            assert size >= 12


def test_a_notebook_piece_leaves_the_page_around_it_alone(browser: Browser, tmp_path: Path):
    around = "<!doctype html><meta charset=utf-8><h2 id=a>Mine</h2><table><tr><td id=b>cell</table>"
    style = "['a','b'].map(i => JSON.stringify(Object.entries({...getComputedStyle(document.getElementById(i))}).filter(([k]) => /color|font|margin|padding|border/.test(k))))"
    found = []
    for name, piece in (("plain", ""), ("with", usual()._repr_html_() + segmented()._repr_html_())):
        path = tmp_path / f"{name}.html"
        path.write_text(around + piece, encoding="utf-8")
        with opened(browser, path, Seen(), width=DESKTOP) as page:
            found.append(page.evaluate(style))
            ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
            assert len(ids) == len(set(ids))
    assert found[0] == found[1]
