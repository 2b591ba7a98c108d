"""Our PDF reader on opendataloader-bench: reading order, tables and headings, as its README defines them.

    python benchmarks/opendataloader.py FOLDER [--write]

FOLDER is a checkout of that benchmark with ``pdfs/*.pdf`` and ``ground-truth/markdown/*.md``. All figures are
from 0 to 1, means over the documents whose reference has what is measured:

- NID: twice the longest common subsequence of the characters, over those of both texts; white space and
  emphasis do not count. NID-S: without tables.
- TEDS: one less the tree edit distance of all tables of a document (table, rows, cells) over the nodes of the
  larger; two cells differ by their normalized Levenshtein distance. TEDS-S: whatever stands in the cells.
- MHS: the same for the sequence of headings and of what is between them. MHS-S: headings' levels alone.

Details that the README leaves open may differ from its evaluator: ``--write`` leaves our Markdown in
``prediction/sage-rag/markdown``, where that finds it.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
import time
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from sage_app.documents.reader import read_document
from sage_core.errors import InputError
from sage_core.text.tables import cells_of, is_ruler

METRICS = ("NID", "NID-S", "TEDS", "TEDS-S", "MHS", "MHS-S")
_EMPHASIS = re.compile(r"(\*{1,3}|~~|__)(\S(?:[^*~_]*\S)?)\1")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_LONG = 250_000  # letter by letter
_HTML_TABLE = re.compile(r"<table\b.*?</table>", re.IGNORECASE | re.DOTALL)


class Node(NamedTuple):
    """A node of a table or an outline: what it is, what it says, what is below it."""

    kind: str
    text: str
    below: tuple[Node, ...] = ()


def markdown(path: Path) -> str:
    """What our reader makes of a PDF: headings with marks, rows of tables delimited below the first."""
    document = read_document(path)
    text = document.text
    for heading in sorted(document.headings or (), reverse=True):
        text = f"{text[: heading.start]}{'#' * min(heading.level, 6)} {text[heading.start :]}"
    lines = ["", *text.split("\n")]
    result: list[str] = []
    for above, line in itertools.pairwise(lines):
        result.append(line)
        if line.startswith("|") and not above.startswith("|"):
            result.append("|" + "---|" * len(cells_of(line)))
    return "\n".join(result)


def evaluate(wanted: str, predicted: str) -> dict[str, float | None]:
    """The figures of one document; None where the reference has nothing of the kind."""
    tables = [_tables(text) for text in (wanted, predicted)]
    outlines = [_outline(text) for text in (wanted, predicted)]
    levels = [Node("outline", "", tuple(n for n in o.below if n.kind != "body")) for o in outlines]
    bare = [_plain(_without_tables(text)) for text in (wanted, predicted)]
    plain = [_plain(text) for text in (wanted, predicted)]
    return {
        "NID": similarity(*plain) if plain[0] else None,
        "NID-S": similarity(*bare) if bare[0] else None,
        "TEDS": _alike(*tables, _distance) if tables[0].below else None,
        "TEDS-S": _alike(*tables, _none) if tables[0].below else None,
        "MHS": _alike(*outlines, _distance) if levels[0].below else None,
        "MHS-S": _alike(*levels, _none) if levels[0].below else None,
    }


def similarity(a: str, b: str) -> float:
    """Normalized indel similarity; the longest common subsequence by bits (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for index, character in enumerate(a):
        places[character] = places.get(character, 0) | 1 << index
    row = full = (1 << len(a)) - 1
    for character in b:
        common = row & places.get(character, 0)
        row = ((row + common) | (row - common)) & full
    return 2 * (len(a) - row.bit_count()) / max(1, len(a) + len(b))


def _plain(text: str) -> str:
    rows = [line for line in text.split("\n") if not (line.startswith("|") and is_ruler(line))]
    return " ".join(re.sub(r"<[^>]+>|\|", " ", _EMPHASIS.sub(r"\2", "\n".join(rows))).split())


def _without_tables(text: str) -> str:
    return "\n".join(line for line in _HTML_TABLE.sub("", text).split("\n") if not line.startswith("|"))


class _Rows(HTMLParser):
    """Rows and cells of an HTML table."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th") and self.rows:
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def _tables(text: str) -> Node:
    """All tables of a text, HTML and Markdown, below one root."""
    tables: list[list[list[str]]] = []
    for match in _HTML_TABLE.finditer(text):
        parser = _Rows()
        parser.feed(match.group())
        tables.append(parser.rows)
    lines = _HTML_TABLE.sub("", text).split("\n")
    for is_table, group in itertools.groupby(lines, lambda line: line.startswith("|")):
        if is_table:
            tables.append([cells_of(line) for line in group if not is_ruler(line)])

    def row(cells: Sequence[str]) -> Node:
        return Node("row", "", tuple(Node("cell", " ".join(cell.split())) for cell in cells))

    return Node("tables", "", tuple(Node("table", "", tuple(map(row, rows))) for rows in tables))


def _outline(text: str) -> Node:
    """Headings and what is between them, in order."""
    found: list[Node] = []
    body: list[str] = []
    for line in [*text.split("\n"), "# "]:
        if match := _HEADING.match(line):
            if words := _plain("\n".join(body)):
                found.append(Node("body", words))
            if match.group(2):
                found.append(Node(match.group(1), _plain(match.group(2))))
            body = []
        else:
            body.append(line)
    return Node("outline", "", tuple(found))


def _distance(a: str, b: str) -> float:
    """Levenshtein distance over the longer length."""
    before = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        now = [i]
        for j, y in enumerate(b, start=1):
            now.append(min(before[j] + 1, now[-1] + 1, before[j - 1] + (x != y)))
        before = now
    return before[-1] / max(1, len(a), len(b))


def _none(a: str, b: str) -> float:
    return 0.0


def _alike(a: Node, b: Node, differ: Callable[[str, str], float]) -> float:
    """One less the tree edit distance (Zhang and Shasha 1989) over the size of the larger tree."""
    nodes, firsts, keys = zip(*map(_postorder, (a, b)), strict=True)
    costs: dict[tuple[int, int], float] = {}

    def change(i: int, j: int) -> float:
        x, y = nodes[0][i], nodes[1][j]
        if x.kind != y.kind:
            return 1.0
        if x.text == y.text:
            return 0.0
        return (
            differ(x.text, y.text) if len(x.text) * len(y.text) < 250_000 else 1 - similarity(x.text, y.text)
        )

    for i, j in itertools.product(*keys):
        top, left = firsts[0][i], firsts[1][j]
        table = [[float(column) for column in range(j - left + 2)]]
        for x in range(top, i + 1):
            table.append([table[-1][0] + 1])
            for y in range(left, j + 1):
                removed, added = table[-2][y - left + 1] + 1, table[-1][-1] + 1
                if firsts[0][x] == top and firsts[1][y] == left:
                    other = table[-2][y - left] + change(x, y)
                    costs[x, y] = min(removed, added, other)
                else:
                    other = table[firsts[0][x] - top][firsts[1][y] - left] + costs[x, y]
                table[-1].append(min(removed, added, other))
    last = (len(nodes[0]) - 1, len(nodes[1]) - 1)
    return max(0.0, 1 - costs[last] / (max(last) or 1))


def _postorder(root: Node) -> tuple[list[Node], list[int], list[int]]:
    """Nodes, children first; the first leaf below each; the last node of each first leaf."""
    nodes: list[Node] = []
    firsts: list[int] = []

    def add(node: Node) -> int:
        first = [add(child) for child in node.below]
        nodes.append(node)
        firsts.append(first[0] if first else len(nodes) - 1)
        return firsts[-1]

    add(root)
    return nodes, firsts, sorted({first: index for index, first in enumerate(firsts)}.values())


def main(arguments: Sequence[str] | None = None) -> None:
    """Read, compare, print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="checkout of opendataloader-bench")
    parser.add_argument("--write", action="store_true", help="leave our Markdown for its own evaluator")
    options = parser.parse_args(arguments)
    references = sorted((options.folder / "ground-truth" / "markdown").glob("*.md"))
    if not references:
        sys.exit(
            f"no ground-truth/markdown/*.md in {options.folder}: name a checkout of opendataloader-bench"
        )
    results: list[dict[str, float | None]] = []
    seconds = 0.0
    for reference in references:
        path = options.folder / "pdfs" / f"{reference.stem}.pdf"
        start = time.perf_counter()
        try:
            predicted = markdown(path)
        except InputError as error:  # a scan counts as empty
            print(f"{path.name}: {error}", file=sys.stderr)
            predicted = ""
        seconds += time.perf_counter() - start
        if options.write:
            target = options.folder / "prediction" / "sage-rag" / "markdown"
            target.mkdir(parents=True, exist_ok=True)
            (target / reference.name).write_text(predicted, encoding="utf-8")
        results.append(evaluate(reference.read_text(encoding="utf-8"), predicted))
    print("| " + " | ".join(METRICS) + " | seconds a document |\n" + "|---" * (len(METRICS) + 1) + "|")
    cells = []
    for name in METRICS:
        values = [value for result in results if (value := result[name]) is not None]
        cells.append(f"{sum(values) / len(values):.3f} ({len(values)})" if values else "")
    print("| " + " | ".join(cells) + f" | {seconds / len(results):.3f} |")


if __name__ == "__main__":
    main()
