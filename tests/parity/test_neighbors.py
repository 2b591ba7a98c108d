"""Neighbors vouch in the same way in the core and in both frameworks."""

from collections.abc import Sequence

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode

from sage_core.ranking import Place, link, vouch
from sage_langchain import SageCompressor
from sage_llamaindex import SageNodePostprocessor

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


def nodes(*, related: bool) -> list[NodeWithScore]:
    made = []
    for i, (text, place) in enumerate(zip(TEXTS, PLACES, strict=True)):
        node = TextNode(text=text, id_=str(i), start_char_idx=place.start, end_char_idx=place.end)
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=str(place.document))
        made.append(NodeWithScore(node=node, score=0.5))
    if related:
        for node in made:
            node.node.start_char_idx = node.node.end_char_idx = None
        made[0].node.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="1")
        made[1].node.relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id="0")
    return made


def documents() -> list[Document]:
    return [
        Document(text, metadata={"source": p.document, "start_index": p.start})
        for text, p in zip(TEXTS, PLACES, strict=True)
    ]


def test_the_core_links_the_first_two():
    assert EXPECTED[TEXTS[1]] == pytest.approx(1 - 0.8 * (1 - 0.3 * 0.8))
    assert EXPECTED[TEXTS[2]] == SCORES[TEXTS[2]] and EXPECTED[TEXTS[3]] == SCORES[TEXTS[3]]


@pytest.mark.parametrize("related", [True, False])
def test_llamaindex(related: bool):
    sage = SageNodePostprocessor(reranker=Fixed(), min_k=4)
    found = {n.text: n.score for n in sage.postprocess_nodes(nodes(related=related), query_str="When?")}
    assert found == pytest.approx(EXPECTED)
    sage = SageNodePostprocessor(reranker=Fixed(), min_k=4, neighbors=False)
    found = {n.text: n.score for n in sage.postprocess_nodes(nodes(related=related), query_str="When?")}
    assert found == SCORES


def test_langchain():
    sage = SageCompressor(reranker=Fixed(), min_k=4)
    found = {
        d.page_content: d.metadata["relevance_score"] for d in sage.compress_documents(documents(), "When?")
    }
    assert found == pytest.approx(EXPECTED)
    sage = SageCompressor(reranker=Fixed(), min_k=4, neighbors=False)
    found = {
        d.page_content: d.metadata["relevance_score"] for d in sage.compress_documents(documents(), "When?")
    }
    assert found == SCORES


def test_scores_that_were_there_are_left_alone_unless_asked():
    given = [NodeWithScore(node=n.node, score=SCORES[n.text]) for n in nodes(related=True)]
    for neighbors, expected in ((None, SCORES), (True, EXPECTED)):
        sage = SageNodePostprocessor(reranker=None, scale="probability", min_k=4, neighbors=neighbors)
        assert {n.text: n.score for n in sage.postprocess_nodes(given)} == pytest.approx(expected)
        marked = [
            Document(d.page_content, metadata={**d.metadata, "s": SCORES[d.page_content]})
            for d in documents()
        ]
        chosen = SageCompressor(score_key="s", min_k=4, neighbors=neighbors).compress_documents(
            marked, "When?"
        )
        assert {d.page_content: d.metadata["relevance_score"] for d in chosen} == pytest.approx(expected)
