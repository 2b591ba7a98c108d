"""Neighbors vouch in the same way in the core and in both frameworks."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode

from sage_core.ranking import Place, link, vouch
from sage_langchain import SageCompressor
from sage_llamaindex import SageNodePostprocessor
from tests.fakes.doors import at_door

TEXTS = ["The ferry leaves at seven.", "It returns at nine.", "The mill spins wool.", "Bees are kept."]
# Two documents of two chunks, one blank line between the chunks.
PLACES = [Place("a", 0, 26), Place("a", 28, 47), Place("b", 0, 20), Place("b", 500, 514)]
SCORES = {TEXTS[0]: 0.8, TEXTS[1]: 0.2, TEXTS[2]: 0.5, TEXTS[3]: 0.1}


class Fixed:
    """Scores that are looked up."""

    name, scale = "fixed", "probability"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [SCORES[text] for text in texts]


EXPECTED = dict(zip(TEXTS, vouch(list(SCORES.values()), link(PLACES), "probability"), strict=True))


def nodes(*, related: bool = False) -> list[NodeWithScore]:
    """By their places in their documents, or where ``related`` by their relationships alone."""
    made = []
    for i, (text, place) in enumerate(zip(TEXTS, PLACES, strict=True)):
        node = TextNode(text=text, id_=str(i), start_char_idx=place.start, end_char_idx=place.end)
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=str(place.document))
        made.append(NodeWithScore(node=node, score=SCORES[text]))
    if related:
        for node in made:
            node.node.start_char_idx = node.node.end_char_idx = None
        made[0].node.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="1")
        made[1].node.relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id="0")
    return made


def by_llamaindex(related: bool = False, **settings: Any) -> dict[str, float | None]:
    sage = SageNodePostprocessor(**at_door(**{"reranker": Fixed(), "min_k": 4, **settings}))
    return {n.text: n.score for n in sage.postprocess_nodes(nodes(related=related), query_str="When?")}


def by_langchain(**settings: Any) -> dict[str, float]:
    documents = [
        Document(text, metadata={"source": p.document, "start_index": p.start, "s": SCORES[text]})
        for text, p in zip(TEXTS, PLACES, strict=True)
    ]
    sage = SageCompressor(**at_door(**{"reranker": Fixed(), "min_k": 4, **settings}))
    kept = sage.compress_documents(documents, "When?")
    return {d.page_content: d.metadata["relevance_score"] for d in kept}


def test_the_core_links_the_first_two() -> None:
    assert EXPECTED[TEXTS[1]] == pytest.approx(1 - 0.8 * (1 - 0.3 * 0.8))
    assert EXPECTED[TEXTS[2]] == SCORES[TEXTS[2]] and EXPECTED[TEXTS[3]] == SCORES[TEXTS[3]]


@pytest.mark.parametrize(
    "ranked", [by_llamaindex, lambda **settings: by_llamaindex(related=True, **settings), by_langchain]
)
def test_neighbors_vouch(ranked: Any) -> None:
    assert ranked() == pytest.approx(EXPECTED)


def test_scores_that_were_there_are_left_alone() -> None:
    mine = by_llamaindex(reranker=None, scale="probability")
    theirs = by_langchain(reranker=None, score_key="s")
    assert mine == theirs == SCORES
