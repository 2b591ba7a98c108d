"""Prove the built documentation: it works without a network, and every public name has a page.

Usage: python scripts/check_site.py SITE_FOLDER

Links between pages are checked by MkDocs itself (strict mode); here it is what a browser would fetch.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import sage_app
import sage_core

# Scripts, style sheets, pictures and fonts that a page loads by itself. Links for people may lead anywhere.
LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?([^\s\">]+)|<link\b[^>]*>", re.IGNORECASE)
HREF = re.compile(r"\bhref=\"?([^\s\">]+)")
NOT_LOADED = re.compile(r"rel=\"?(?:canonical|prev|next|edit)\b")


def loaded(page: str) -> list[str]:
    """Addresses that opening the page fetches."""
    found = []
    for match in LOADED.finditer(page):
        if match[1]:
            found.append(match[1])
        elif not NOT_LOADED.search(match[0]) and (href := HREF.search(match[0])):
            found.append(href[1])
    return found


def main() -> None:
    """Check the site in the folder given."""
    site = Path(sys.argv[1])
    pages = sorted(site.rglob("*.html"))
    assert pages, f"no page in {site}: run `make docs`"
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for address in loaded(text):
            foreign = re.match(r"(?:https?:)?//", address)
            assert not foreign, f"{page.relative_to(site)} loads {address}: the site must work offline"
            if not address.startswith(("data:", "/")):
                target = page.parent / re.split(r"[?#]", address)[0]
                assert target.exists(), f"{page.relative_to(site)} loads {address}, which is not there"
    for package, page in ((sage_core, "core"), (sage_app, "app")):
        reference = (site / "api" / page / "index.html").read_text(encoding="utf-8")
        missing = [n for n in package.__all__ if f'id="{package.__name__}.{n}"' not in reference]
        assert not missing, f"docs/api/{page}.md lacks {', '.join(missing)}"
        print(f"{len(package.__all__)} names of {package.__name__}")
    print(f"{len(pages)} pages")


if __name__ == "__main__":
    main()
