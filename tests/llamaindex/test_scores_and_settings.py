"""What scores mean, settings in one object, copies with changes, and nothing relevant."""

import asyncio
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sage_core.errors import InputError
from sage_core.selection import FixedK, SelectionConfig, Threshold
from sage_llamaindex import SageNodeParser, SageNodePostprocessor, SageQueryEngine
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM, scored, trace_of


class L2Retriever(BaseRetriever):
    """The nearest of 200 points in an `IndexFlatL2`, whose scores are squared distances."""

    def __init__(self, k: int) -> None:
        faiss = pytest.importorskip("faiss")
        points = np.random.default_rng(7).normal(size=(200, 8)).astype(np.float32)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        self.index, self.k, self.query_point = faiss.IndexFlatL2(8), k, points[:1]
        self.index.add(points)
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        distances, rows = self.index.search(self.query_point, self.k)
        return [
            NodeWithScore(node=TextNode(id_=f"n{row}", text=f"point {row}"), score=float(distance))
            for distance, row in zip(distances[0], rows[0], strict=True)
        ]


@pytest.mark.parametrize("scale", ["auto", "distance"])
def test_distances_of_faiss_keep_the_nearest(scale: str, caplog: pytest.LogCaptureFixture) -> None:
    nodes = L2Retriever(30).retrieve("q")
    sage = SageNodePostprocessor(reranker=None, selection=SelectionConfig(min_k=3, max_k=5), scale=scale)
    kept = sage.postprocess_nodes(nodes)
    assert [n.node_id for n in kept] == [n.node_id for n in nodes[: len(kept)]]
    assert 3 <= len(kept) <= 5
    assert [n.score for n in kept] == [-n.score for n in nodes[: len(kept)]], "higher is better from here on"
    assert ("may be distances" in caplog.text) == (scale == "auto")
    sage.postprocess_nodes(nodes)
    assert caplog.text.count("may be distances") == (scale == "auto"), "told once"


def test_similarities_are_not_taken_for_distances() -> None:
    for scores in ((0.9, 0.5, 0.1), (0.1, 0.9, 0.5), (0.5, 0.5, 0.5), (-3.0, -2.0, -1.0), (None, 0.3, None)):
        kept = SageNodePostprocessor(reranker=None, selection=SelectionConfig(min_k=3)).postprocess_nodes(
            scored(*scores)
        )
        known = [n.score for n in kept if n.score is not None]
        assert known == sorted((s for s in scores if s is not None), reverse=True)


def test_numbers_that_are_no_probabilities_are_told() -> None:
    with pytest.raises(InputError, match="5"):
        SageNodePostprocessor(reranker=None, scale="probability").postprocess_nodes(scored(5.0, 4.0))


@pytest.mark.parametrize("scale", ["auto", "unbounded", "logit", "cosine"])
def test_infinite_scores_can_be_written_as_json(scale: str) -> None:
    nodes = scored(math.inf, 0.5, -math.inf, math.nan, 0.4)
    kept = SageNodePostprocessor(
        reranker=None, selection=SelectionConfig(min_k=5), scale=scale
    ).postprocess_nodes(nodes)
    assert [n.node_id for n in kept] == ["n0", "n1", "n4", "n2", "n3"]
    for node in kept:
        json.loads(node.to_json(), parse_constant=pytest.fail)


class TestSettings:
    def test_a_selection_is_saved(self) -> None:
        config = SelectionConfig(rule=Threshold(0.4), min_k=2, max_k=6)
        sage = SageNodePostprocessor(reranker=None, selection=config, max_context_tokens=90)
        again = SageNodePostprocessor.from_dict(sage.to_dict())
        assert again.limits == sage.limits == replace(config, max_context_tokens=90)

    @pytest.mark.parametrize(
        "settings", [{"selection": SelectionConfig(rule=FixedK(2))}, {"max_context_tokens": 4}]
    )
    def test_the_engine_takes_them_too(self, settings: dict[str, Any]) -> None:
        llm = ScriptedLLM.of(["an answer"])
        engine = SageQueryEngine.from_args(FixedRetriever(0.9, 0.5, 0.3), llm=llm, **settings)
        for made in (engine, engine.with_retriever(FixedRetriever(0.9, 0.8, 0.7, 0.3))):
            assert len(made.query("q").source_nodes) == 2
        with pytest.raises(InputError, match="selection"):
            ours = [SageNodePostprocessor(reranker=None)]
            SageQueryEngine.from_args(FixedRetriever(0.9), llm=llm, node_postprocessors=ours, **settings)

    def test_a_copy_with_changes_works_with_them(self) -> None:
        sage = SageNodePostprocessor(
            reranker=None, selection=SelectionConfig(min_k=1, max_k=4), scale="probability"
        )
        nodes = scored(0.9, 0.8, 0.7, 0.6)
        assert (
            len(sage.model_copy(update={"selection": SelectionConfig(max_k=2)}).postprocess_nodes(nodes)) == 2
        )
        assert len(sage.model_copy().postprocess_nodes(nodes)) == len(sage.postprocess_nodes(nodes)) == 4
        with pytest.raises(ValueError, match="max_context_tokens"):
            sage.model_copy(update={"max_context_tokens": 0})
        parser = SageNodeParser(tokenizer="words", chunk_size=30)
        copied = parser.model_copy(update={"chunk_size": 3})
        assert max(len(t.split()) for t in copied.split_text("One two three four five six. Seven.")) <= 3
        assert copied.tokenizer == "words" and parser.chunk_size == 30


@pytest.mark.parametrize("streaming", [False, True])
def test_nothing_relevant_is_no_context_and_no_call(streaming: bool) -> None:
    llm = ScriptedLLM.of()
    engine = SageQueryEngine.from_args(
        FixedRetriever(0.3, 0.2),
        llm=llm,
        selection=SelectionConfig(rule=Threshold(0.5), min_k=0),
        streaming=streaming,
    )
    for response in (engine.query("q"), asyncio.run(engine.aquery("q"))):
        assert response.source_nodes == []
        result = trace_of(response)
        assert (result.stop_reason, result.usage.calls) == ("nothing_relevant", 0)
    assert llm.asked("answer") == llm.asked("critic") == []
