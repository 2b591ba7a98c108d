"""A place that is given is true, whatever stock splitter cut the text; and most true ones are given."""

import re
from pathlib import Path

import pytest
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from sage_llamaindex._neighbors import places_of
from tests.fakes.splitters import DOCUMENTS, NODES, shares

PAGE = Path(__file__).parents[2].joinpath("docs/existing-app.md").read_text("utf-8")
TOLD = {m[1].replace("`", ""): m[2] for m in re.finditer(r"^\| (.+?) \| (all|none|some) \|", PAGE, re.M)}
"""What the page says: how many places are given."""


@pytest.mark.parametrize("name", [*NODES, *DOCUMENTS])
def test_a_place_that_is_given_is_true(name: str) -> None:
    found = shares((NODES | DOCUMENTS)[name](), draws=100)
    told = TOLD[name.partition("(")[0]]
    # Of parts without a name that a few of their chunks do not contradict, only the document tells.
    few = found.drawn // 100 if name == "two splitters" else 0
    assert found.false == 0 and found.drawn_false <= few
    if told == "all":
        assert found.believed >= 0.95 * found.exact > 0 and found.drawn
    else:
        assert (found.believed > 0.01 * found.pieces) == (told == "some")


def test_the_page_has_no_other_rows() -> None:
    assert TOLD.keys() == {name.partition("(")[0] for name in [*NODES, *DOCUMENTS]}


def test_two_ends_of_one_document_show_two_parsers_and_place_no_node() -> None:
    def node(text: str, start: int, document: str, *sides: NodeRelationship) -> TextNode:
        related = {side: RelatedNodeInfo(node_id=side.name) for side in sides}
        related[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=document)
        end = start + len(text)
        return TextNode(text=text, start_char_idx=start, end_char_idx=end, relationships=related)

    before, after = NodeRelationship.PREVIOUS, NodeRelationship.NEXT
    nodes = [node("Seals sleep.", 0, "a", after), node("Gulls cry.", 13, "a", before)]
    nodes += [node("Ferries sail.", 0, "b", after), node("Buses wait.", 14, "b", before)]
    assert None not in places_of(nodes)
    assert places_of([*nodes, node("Terns dive.", 24, "a", before)]) == [None] * 5
