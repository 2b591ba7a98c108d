"""Which offsets of stock splitters are believed to be places in the document, and how many of these lie.

    python benchmarks/places.py

The pages of ``docs/`` and six made texts, as ``tests/fakes/splitters.py`` has them cut.
Exact: the offsets give the piece's text in what it was cut from. Drawn: 200 times eight of the pieces, as a
search gives them.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fakes.splitters import DOCUMENTS, NODES, shares


def main() -> None:
    """Print a Markdown table."""
    print("| | pieces | exact | believed | of exact | false | of eight drawn: believed | false |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for framework, splitters in (("LlamaIndex", NODES), ("LangChain", DOCUMENTS)):
        for name, cut in splitters.items():
            s = shares(cut())
            kept = f"{s.believed / s.exact:.0%}" if s.exact else "-"
            row = (
                f"{framework}: {name}",
                s.pieces,
                s.exact,
                s.believed,
                kept,
                s.false,
                s.drawn,
                s.drawn_false,
            )
            print("|", " | ".join(map(str, row)), "|", flush=True)


if __name__ == "__main__":
    main()
