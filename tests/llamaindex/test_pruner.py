"""`SagePruner` and ``prune=True`` among LlamaIndex's postprocessors and engines."""

import asyncio

import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import ImageNode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode

from sage_core.errors import InputError
from sage_llamaindex import SageNodePostprocessor, SagePruner, SageQueryEngine

QUESTION = "When does the ferry leave for the island?"
FERRY = (
    "The ferry leaves for the island at seven. Painters came to the coast in 1890. They liked the light of the "
    "evening. The ferry leaves the island again at noon."
)
KEPT = ["The ferry leaves for the island at seven.", "The ferry leaves the island again at noon."]


def node(text: str = FERRY, start: int | None = 50) -> TextNode:
    end = None if start is None else start + len(text)
    made = TextNode(text=text, id_="n1", start_char_idx=start, end_char_idx=end, metadata={"file": "a.md"})
    made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="doc")
    return made


def test_a_node_becomes_exact_slices_of_its_source():
    given = NodeWithScore(node=node(), score=0.9)
    found = SagePruner(threshold=0.2).postprocess_nodes([given], query_str=QUESTION)
    assert [f.text for f in found] == KEPT
    source = " " * 50 + FERRY
    for piece in found:
        assert source[piece.node.start_char_idx : piece.node.end_char_idx] == piece.text
        assert (piece.score, piece.metadata, piece.node.ref_doc_id) == (0.9, {"file": "a.md"}, "doc")
    assert len({f.node_id for f in found}) == 2
    assert given.text == FERRY and given.node.node_id == "n1"


def test_async_gives_the_same_and_a_question_is_needed():
    pruner = SagePruner(threshold=0.2)
    given = [NodeWithScore(node=node(start=None), score=None)]
    found = asyncio.run(pruner.apostprocess_nodes(given, query_str=QUESTION))
    assert [f.text for f in found] == [f.text for f in pruner.postprocess_nodes(given, query_str=QUESTION)]
    assert all(f.node.start_char_idx is None for f in found)
    with pytest.raises(InputError, match="question"):
        pruner.postprocess_nodes(given)
    assert pruner.postprocess_nodes([]) == []


def test_nodes_without_text_pass_through():
    given = [NodeWithScore(node=ImageNode(text="", image_url="x"), score=0.5), NodeWithScore(node=TextNode())]
    found = SagePruner(threshold=0.2).postprocess_nodes(given, query_str=QUESTION)
    assert [f.node for f in found] == [g.node for g in given]


def test_it_is_saved_and_loaded():
    pruner = SagePruner.from_dict(SagePruner(threshold=0.2, scale="probability").to_dict())
    assert (pruner.threshold, pruner.scale, pruner._pruner.threshold) == (0.2, "probability", 0.2)
    assert SageNodePostprocessor.from_dict(SageNodePostprocessor(prune=True).to_dict()).prune is True
    with pytest.raises(InputError, match="cutoff"):
        SagePruner(cutoff=0.2)


class Fixed(BaseRetriever):
    """Returns the same nodes for every question."""

    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=node(), score=0.9)]


@pytest.mark.parametrize("feedback", ["off", "before_stream"])
def test_an_engine_answers_from_the_slices(monkeypatch: pytest.MonkeyPatch, feedback: str):
    monkeypatch.setattr(SageNodePostprocessor, "pruner", _hard)
    engine = SageQueryEngine.from_args(
        Fixed(),
        llm=MockLLM(),
        node_postprocessors=[SageNodePostprocessor(prune=True, scale="probability")],
        feedback=feedback,
        critic="local",
    )
    response = engine.query(QUESTION)
    assert [n.text for n in response.source_nodes] == KEPT
    assert "Painters" not in str(response)
    assert [n.text for n in asyncio.run(engine.aquery(QUESTION)).source_nodes] == KEPT


def _hard(self: SageNodePostprocessor, scale: str) -> SagePruner:
    return SagePruner(threshold=0.2, scale=scale)


def test_off_by_default():
    given = [NodeWithScore(node=node(), score=0.9)]
    assert SageNodePostprocessor().pruner("probability") is None
    assert [f.text for f in SageNodePostprocessor().postprocess_nodes(given, query_str=QUESTION)] == [FERRY]
