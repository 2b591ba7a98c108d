"""Selection on LlamaIndex nodes: every score there is, no mutation, plain floats, events."""

import asyncio
import json
import math
import pickle
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from llama_index.core import Settings
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload, LlamaDebugHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor import LongContextReorder
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sage_core.errors import InputError
from sage_core.selection import Gradient, SelectionConfig
from sage_core.selection.rules import Earliest, RelativeToTop
from sage_core.text.tokens import get_counter
from sage_llamaindex import SageNodePostprocessor
from tests.fakes.llamaindex import Recorder, scored
from tests.fakes.models import WordReranker


def ids(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [n.node_id for n in nodes]


async def test_too_few_candidates_to_select_from_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    sage = SageNodePostprocessor(reranker=None, selection=SelectionConfig(min_k=3))
    sage.postprocess_nodes(scored(0.9, 0.8, 0.7, 0.6))
    sage.postprocess_nodes([])
    assert not caplog.records
    for _ in range(2):
        assert len(sage.postprocess_nodes(scored(0.9, 0.8, 0.7))) == 3
        assert len(await sage.apostprocess_nodes(scored(0.9, 0.2))) == 2
    assert caplog.text.count("raise the retriever's similarity_top_k") == 1
    await SageNodePostprocessor(reranker=None, selection=SelectionConfig(min_k=3)).apostprocess_nodes(
        scored(0.9, 0.8, 0.7)
    )
    assert caplog.text.count("raise the retriever's similarity_top_k") == 2


def test_no_scores_at_all_keep_everything_and_warn_once(caplog: pytest.LogCaptureFixture) -> None:
    sage = SageNodePostprocessor(reranker=None, selection=SelectionConfig(min_k=1))
    nodes = scored(*[None] * 9)
    assert ids(sage.postprocess_nodes(nodes)) == ids(nodes)
    sage.postprocess_nodes(nodes)
    assert caplog.text.count("no node has a score") == 1


def test_scores_come_out_as_python_floats() -> None:
    nodes = scored(1.0, 0.5)
    nodes[1].score = np.float32(0.25)  # type: ignore[assignment]
    kept = SageNodePostprocessor(reranker=None).postprocess_nodes(nodes)
    assert {type(n.score) for n in kept} == {float}
    assert json.loads(kept[1].to_json())["score"] == 0.25
    reranked = SageNodePostprocessor(reranker=WordReranker()).postprocess_nodes(nodes, query_str="text 0")
    assert {type(n.score) for n in reranked} == {float}


def test_the_reranker_reads_what_was_embedded() -> None:
    reranker = WordReranker()
    node = TextNode(text="body", metadata={"a": 1, "b": 2}, excluded_embed_metadata_keys=["b"])
    SageNodePostprocessor(reranker=reranker).postprocess_nodes([NodeWithScore(node=node)], query_str="x")
    assert reranker.seen == ["a: 1\n\nbody"]


def test_queries() -> None:
    sage = SageNodePostprocessor(reranker=WordReranker())
    with pytest.raises(ValueError, match="query_bundle"):
        sage.postprocess_nodes(scored(1.0), query_str="a", query_bundle=QueryBundle("a"))
    with pytest.raises(ValueError, match="question"):
        sage.postprocess_nodes(scored(1.0))
    assert len(SageNodePostprocessor(reranker=None).postprocess_nodes(scored(1.0))) == 1


async def test_empty_lists_give_empty_lists_before_anything_else(recorder: Recorder) -> None:
    sage = SageNodePostprocessor(reranker=WordReranker())
    assert sage.postprocess_nodes([]) == []
    assert await sage.apostprocess_nodes([]) == []
    assert not [n for n in recorder.names() if n.startswith("ReRank")]


async def test_events(recorder: Recorder) -> None:
    debug = LlamaDebugHandler(print_trace_on_end=False)
    sage = SageNodePostprocessor(reranker=WordReranker(), selection=SelectionConfig(min_k=1, max_k=2))
    sage.callback_manager = CallbackManager([debug])
    nodes = scored(0.1, 0.2, 0.3)
    kept = sage.postprocess_nodes(nodes, query_str="text 2")
    assert len(kept) == 2
    assert await sage.apostprocess_nodes(nodes, query_str="text 2") == kept
    starts = [e for e in recorder.events if isinstance(e, ReRankStartEvent)]
    ends = [e for e in recorder.events if isinstance(e, ReRankEndEvent)]
    assert [(s.top_n, s.model_name, len(s.nodes)) for s in starts] == [(2, "words", 3)] * 2
    assert [ids(e.nodes) for e in ends] == [ids(kept)] * 2
    (start, end), _ = debug.get_event_pairs(CBEventType.RERANKING)
    expected = {EventPayload.QUERY_STR: "text 2", EventPayload.TOP_K: 2, EventPayload.MODEL_NAME: "words"}
    assert expected.items() <= start.payload.items()
    assert ids(end.payload[EventPayload.NODES]) == ids(kept)


async def test_async_reranking_lets_the_loop_run() -> None:
    loop_ran = threading.Event()

    class Waiting(WordReranker):
        def score(self, query: str, texts: Sequence[str]) -> list[float]:
            assert loop_ran.wait(30)
            return super().score(query, texts)

    class Native(WordReranker):
        async def ascore(self, query: str, texts: Sequence[str]) -> list[float]:
            await asyncio.sleep(0)
            return [0.25] * len(texts)

    asyncio.get_running_loop().call_later(0.01, loop_ran.set)
    await SageNodePostprocessor(reranker=Waiting()).apostprocess_nodes(scored(1.0), query_str="q")
    kept = await SageNodePostprocessor(reranker=Native()).apostprocess_nodes(scored(1.0), query_str="q")
    assert kept[0].score == 0.25


def unranked(*scores: float | None, scale: Any = "auto", **settings: Any) -> list[NodeWithScore]:
    """What is kept by scores alone."""
    sage = SageNodePostprocessor(reranker=None, scale=scale, selection=SelectionConfig(**settings))
    return sage.postprocess_nodes(scored(*scores))


def test_the_scale_is_told_by_the_range_and_a_named_one_wins() -> None:
    fused = [1 / (60 + r) for r in range(20)]  # reciprocal rank fusion has no cliff
    assert len(unranked(*fused, min_k=1)) == 15 and len(unranked(*fused, min_k=1, rule="gradient")) == 20
    assert [len(unranked(8.0, 5.0, 4.5, scale=scale, min_k=1)) for scale in ("auto", "logit")] == [3, 1]
    with pytest.raises(InputError, match="5"):
        unranked(5.0, 4.0, scale="probability")


@pytest.mark.parametrize("scale", ["auto", "distance"])
def test_distances_keep_the_nearest(scale: Any, caplog: pytest.LogCaptureFixture) -> None:
    distances = [0.2 + 0.05 * i for i in range(30)]
    kept = unranked(*distances, scale=scale, min_k=3, max_k=5)
    assert ids(kept) == [f"n{i}" for i in range(len(kept))] and 3 <= len(kept) <= 5
    assert [n.score for n in kept] == [-d for d in distances[: len(kept)]], "higher is better from here on"
    assert caplog.text.count("may be distances") == (scale == "auto")


@pytest.mark.parametrize("scale", ["auto", "unbounded", "logit", "cosine"])
def test_infinite_scores_can_be_written_as_json(scale: Any) -> None:
    kept = unranked(math.inf, 0.5, -math.inf, math.nan, 0.4, scale=scale, min_k=5)
    assert ids(kept) == ["n0", "n1", "n4", "n2", "n3"]
    for node in kept:
        json.loads(node.to_json(), parse_constant=pytest.fail)


def test_a_copy_with_changes_works_with_them() -> None:
    selection = SelectionConfig(min_k=1, max_k=4)
    sage = SageNodePostprocessor(reranker=None, selection=selection, scale="probability")
    nodes = scored(0.9, 0.8, 0.7, 0.6)
    two = sage.model_copy(update={"selection": SelectionConfig(max_k=2)})
    assert [len(s.postprocess_nodes(nodes)) for s in (two, sage.model_copy(), sage)] == [2, 4, 4]


class TestSaving:
    @pytest.mark.parametrize(
        "rule",
        ["auto", "gradient", Gradient(0.5), RelativeToTop(0.3), Earliest((Gradient(), RelativeToTop(0.5)))],
    )
    def test_names_and_rules_round_trip(self, rule: Any) -> None:
        sage = SageNodePostprocessor(reranker=None, selection=SelectionConfig(rule=rule, min_k=3))
        data = sage.to_dict()
        for again in (
            SageNodePostprocessor.from_dict(data),
            SageNodePostprocessor.from_json(sage.to_json()),
            SageNodePostprocessor.model_validate_json(
                sage.to_json()
            ),  # as a field of a pydantic model is read
            pickle.loads(pickle.dumps(sage)),
        ):
            assert again.to_dict() == data and again.selection.rule == rule

    def test_a_reranker_object_is_asked_for(self) -> None:
        data = SageNodePostprocessor(reranker=WordReranker()).to_dict()
        assert data["reranker"] == {"custom": "words"}
        with pytest.raises(ValueError, match="reranker"):
            SageNodePostprocessor.from_dict(data)
        assert SageNodePostprocessor.from_dict(data, reranker=WordReranker()).to_dict() == data

    def test_pickling_leaves_the_live_object_alone(self) -> None:
        sage = SageNodePostprocessor(reranker=WordReranker())
        before = dict(vars(sage))
        again = pickle.loads(pickle.dumps(sage))
        assert vars(sage) == before
        assert again.postprocess_nodes(scored(1.0), query_str="text 0")[0].score == 1.0

    @pytest.mark.parametrize(
        ("wrong", "advice"),
        [
            ({"min_k": 3}, "selection"),
            ({"trust_remote_code": True}, "trust_remote_code"),
            ({"reranker": SageNodePostprocessor()}, "SageNodePostprocessor"),
            ({"reranker": "hybrid", "device": "cpu"}, "device"),
            ({"selection": 3}, "selection"),
        ],
    )
    def test_unknown_arguments_are_refused_with_advice(self, wrong: dict[str, Any], advice: str) -> None:
        with pytest.raises(ValueError, match=advice):
            SageNodePostprocessor(**wrong)
        with pytest.raises(ValueError, match="LongContextReorder"):
            SageNodePostprocessor(reranker=LongContextReorder()).postprocess_nodes(scored(0.5), query_str="q")


@pytest.mark.parametrize("chosen", [False, True])
def test_the_floor_is_as_much_to_read_in_hindi(chosen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llama_index.core.global_tokenizer", None)
    if chosen:
        Settings.tokenizer = str.split
    sentence = "नौका हर सुबह सात बजे बंदरगाह से निकलती है और शाम को लौटती है। "
    nodes = [NodeWithScore(node=TextNode(text=sentence * 3 + str(i)), score=0.9 * 0.2**i) for i in range(20)]
    postprocessor = SageNodePostprocessor(reranker=None, selection=SelectionConfig(min_context_tokens=250))
    sent = postprocessor.postprocess_nodes(nodes, QueryBundle("नौका कब निकलती है?"))
    counter = get_counter("words" if chosen else "bert")
    tokens = counter.count_many([node.text for node in sent])
    assert sum(tokens) >= 250 and sum(tokens[:-1]) < 250


def test_nodes_that_were_never_searched_are_taken_too():
    nodes = [TextNode(text="The ferry leaves at nine."), TextNode(text="Bees need flowers.")]
    kept = SageNodePostprocessor().postprocess_nodes(nodes, query_str="When does the ferry leave?")
    assert kept[0].text == "The ferry leaves at nine."
