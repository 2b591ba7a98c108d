"""A place that is given is true, whatever stock splitter cut the text; and most true ones are given."""

from typing import Any

import pytest

from sage_llamaindex._neighbors import neighbors_of
from tests.fakes.splitters import DOCUMENTS, NODES, shares

# Of these nothing but the document itself shows that their offsets count in another text: a table's
# neighbors, and children of parents that have nothing in common but their file.
UNSEEN = {"MarkdownElementNodeParser", "two splitters"}
GIVEN_UP = {
    "two parsers",  # the second one's offsets are those of the first one's nodes, or guessed
    "HierarchicalNodeParser",
    "RecursiveCharacterTextSplitter.from_tiktoken_encoder",  # -1, and guesses behind it
    "TokenTextSplitter of LangChain",
    "parents, then children",
}


@pytest.mark.parametrize("name", [*NODES, *DOCUMENTS])
def test_a_place_that_is_given_is_true(name: str) -> None:
    found = shares((NODES | DOCUMENTS)[name](), draws=100)
    if name in UNSEEN:
        assert found.drawn_false, "else the documentation can say so"
        return
    assert found.false == found.drawn_false == 0
    assert found.believed >= 0.95 * found.exact or name in GIVEN_UP
    assert found.drawn or not found.believed


@pytest.mark.parametrize("name", NODES)
def test_neighbors_are_known_from_either_side(name: str) -> None:
    pieces = NODES[name]()
    links: list[Any] = neighbors_of([piece.item for piece in pieces])
    assert all(links[link.next].previous == i for i, link in enumerate(links) if link.next is not None)
    if name not in ("HierarchicalNodeParser", "MarkdownElementNodeParser"):  # the nodes between leave
        documents = len({piece.whole for piece in pieces})
        assert sum(link.next is not None for link in links) == len(pieces) - documents
