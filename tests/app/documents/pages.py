"""The pages of ``tests/fixtures/pages``, each in the markup of a kind of site, with what a reader came for and what not.

Of ``expected.json``, ``keep`` must be in the result, ``drop`` must not: navigation, footers, banners, buttons. Pages
marked ``later`` were written after the rules had been settled on the others, and not used to change them.
"""

import json
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[2] / "fixtures" / "pages"


class Page(NamedTuple):
    name: str
    markup: str
    keep: tuple[str, ...]
    drop: tuple[str, ...]


PAGES = [
    Page(name, (FOLDER / f"{name}.html").read_bytes().decode(), tuple(entry["keep"]), tuple(entry["drop"]))
    for name, entry in json.loads((FOLDER / "expected.json").read_text("utf-8")).items()
]
