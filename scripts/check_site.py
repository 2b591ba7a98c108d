"""Prove the built documentation: it works without a network, and every public name has a page.

Usage: python scripts/check_site.py SITE_FOLDER

What a browser would fetch, and links to files outside the site, which MkDocs does not check.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import sage_app
import sage_core
import sage_langchain
import sage_llamaindex

# Scripts, style sheets, pictures and fonts that a page loads by itself. Links for people may lead anywhere.
LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?([^\s\">]+)|<link\b[^>]*>", re.IGNORECASE)
PACKAGES = (
    (sage_core, "core"),
    (sage_app, "app"),
    (sage_llamaindex, "llamaindex"),
    (sage_langchain, "langchain"),
)
# A field of a pydantic class whose description the reference must show.
DESCRIBED = {"llamaindex": "Most tokens to keep, in whole nodes and at least", "langchain": "relevance_score"}
HREF = re.compile(r"\bhref=\"?([^\s\">]+)")
LINK = re.compile(r"<a\b[^>]*\bhref=\"?([^\s\">]+)")
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
        for link in LINK.findall(text):
            path = re.split(r"[?#]", link)[0]
            if path and not re.match(r"[a-z]+:|/", path):
                target = page.parent / path
                assert target.exists(), f"{page.relative_to(site)} links to {path}, which the site has not"
        for address in loaded(text):
            foreign = re.match(r"(?:https?:)?//", address)
            assert not foreign, f"{page.relative_to(site)} loads {address}: the site must work offline"
            if not address.startswith(("data:", "/")):
                target = page.parent / re.split(r"[?#]", address)[0]
                assert target.exists(), f"{page.relative_to(site)} loads {address}, which is not there"
    for package, page in PACKAGES:
        reference = (site / "api" / page / "index.html").read_text(encoding="utf-8")
        missing = [n for n in package.__all__ if f'id="{package.__name__}.{n}"' not in reference]
        assert not missing, f"docs/api/{page}.md lacks {', '.join(missing)}"
        assert DESCRIBED.get(page, "") in reference, f"docs/api/{page}.md has no descriptions of fields"
        print(f"{len(package.__all__)} names of {package.__name__}")
    print(f"{len(pages)} pages")


if __name__ == "__main__":
    main()
