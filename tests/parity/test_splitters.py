"""A place that is given is true, whatever stock splitter cut the text; and most true ones are given."""

import re
from pathlib import Path
from typing import Any

import pytest

from sage_llamaindex._neighbors import neighbors_of
from tests.fakes.splitters import DOCUMENTS, NODES, shares

PAGE = Path(__file__).parents[2].joinpath("docs/indexes.md").read_text("utf-8")
TOLD = {
    m[1].replace("`", ""): m[2]
    for m in re.finditer(r"^\| (.+?) \| (all|none|some|some are false) \|", PAGE, re.M)
}
"""What the page says: how many places are given."""


@pytest.mark.parametrize("name", [*NODES, *DOCUMENTS])
def test_a_place_that_is_given_is_true(name: str) -> None:
    found = shares((NODES | DOCUMENTS)[name](), draws=100)
    told = TOLD[name.partition("(")[0]]
    if told == "some are false":  # which nothing but the document shows
        assert found.drawn_false
        return
    assert found.false == found.drawn_false == 0
    if told == "all":
        assert found.believed >= 0.95 * found.exact > 0 and found.drawn
    else:
        assert (found.believed > 0.01 * found.pieces) == (told == "some")


def test_the_page_has_no_other_rows() -> None:
    assert TOLD.keys() == {name.partition("(")[0] for name in [*NODES, *DOCUMENTS]}


@pytest.mark.parametrize("name", NODES)
def test_neighbors_are_known_from_either_side(name: str) -> None:
    pieces = NODES[name]()
    links: list[Any] = neighbors_of([piece.item for piece in pieces])
    assert all(links[link.next].previous == i for i, link in enumerate(links) if link.next is not None)
    if name not in ("HierarchicalNodeParser", "MarkdownElementNodeParser"):  # the nodes between leave
        documents = len({piece.whole for piece in pieces})
        assert sum(link.next is not None for link in links) == len(pieces) - documents
