"""The feedback loop inside the engine, and the postprocessors around it."""

import pytest
from llama_index.core import Settings
from llama_index.core.base.response.schema import PydanticResponse
from llama_index.core.postprocessor import LongContextReorder, SimilarityPostprocessor
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.schema import NodeWithScore, QueryBundle
from pydantic import BaseModel

from sage_llamaindex import SageFeedbackEvent, SageNodePostprocessor, SageQueryEngine, feedback_of
from tests.fakes.llamaindex import FixedRetriever, Recorder, ScriptedLLM, grade, scored, trace_of
from tests.fakes.llamaindex_engines import LADDER, both, engine


class TestFeedback:
    async def test_a_good_answer_is_returned_at_once(self) -> None:
        llm = ScriptedLLM.of(["right"], [grade(9)])
        for response in await both(engine(llm)):
            assert str(response) == "right"
            assert response.metadata["sage"] == {
                "score": 9,
                "stop_reason": "accepted",
                "rounds": 1,
                "kept": 2,
                "candidates": 10,
                "llm_calls": 2,
                "tokens": response.metadata["sage"]["tokens"],
            }
        assert len(llm.asked("answer")) == len(llm.asked("critic")) == 2

    @pytest.mark.parametrize("way", ["sync", "async"])
    async def test_the_best_answer_wins_not_the_last(self, way: str) -> None:
        llm = ScriptedLLM.of(["first", "second", "third"], [grade(4, 1), grade(7, 1), grade(2, 1)])
        retriever = FixedRetriever(*LADDER)
        found = engine(llm).with_retriever(retriever)
        response = found.query("Why?") if way == "sync" else await found.aquery("Why?")
        assert str(response) == "second"
        result = trace_of(response)
        assert [r.selection.cut for r in result.rounds] == sorted({r.selection.cut for r in result.rounds})
        assert (result.best_round, result.score, result.stop_reason) == (2, 7, "max_rounds")
        assert [n.node_id for n in response.source_nodes] == [f"n{i}" for i in result.selection.indices]
        assert retriever.calls == 1
        assert len(llm.asked("answer")) == 3

    async def test_every_round_is_judged_by_the_users_own_question(self) -> None:
        llm = ScriptedLLM.of(["zebra", "two"], [grade(2, 1), grade(9)])
        engine(llm).query("Where is the lamp?")
        for prompt in llm.asked("critic"):
            assert "\nWhere is the lamp?\n" in prompt
        assert "zebra" in llm.asked("critic")[0]
        assert "zebra" not in llm.asked("critic")[1]
        assert "zebra" not in llm.asked("answer")[1]

    async def test_the_critic_reads_what_the_llm_read(self) -> None:
        llm = ScriptedLLM.of()
        engine(llm).query("Why?")
        assert "[1] text 0\n\n[2] text 1\n" in llm.asked("critic")[0]
        assert "text 2" not in llm.asked("critic")[0]

    async def test_a_first_answer_that_fails_is_the_callers_to_see(self) -> None:
        class ServiceDown(Exception):
            pass

        found = engine(ScriptedLLM.of([ServiceDown("503")]))
        with pytest.raises(ServiceDown):
            found.query("q")
        with pytest.raises(ServiceDown):
            await found.aquery("q")

    async def test_a_later_answer_that_fails_leaves_the_earlier_one(self) -> None:
        llm = ScriptedLLM.of(["early", ConnectionError("gone")], [grade(5, 1)])
        response = engine(llm).query("q")
        assert str(response) == "early"
        assert response.metadata["sage"]["stop_reason"] == "answer_failed"  # type: ignore[index]

    async def test_an_answer_that_says_there_is_none_widens_without_a_grade(self) -> None:
        llm = ScriptedLLM.of(["The documents do not say.", "found"])
        for response in (engine(llm).query("q"),):
            assert str(response) == "found"
        assert len(llm.asked("critic")) == 1
        other = ScriptedLLM.of(["No idea.", "found"])
        assert str(engine(other, no_answer=["No idea."]).query("q")) == "found"
        assert len(other.asked("critic")) == 1

    async def test_budgets(self) -> None:
        llm = ScriptedLLM.of(["a", "b", "c"], [grade(2, 1)])
        for calls, rounds in ((1, 1), (2, 1), (4, 2), (5, 2)):
            response = engine(llm, max_calls=calls, max_rounds=9).query("q")
            assert response.metadata["sage"]["rounds"] == rounds  # type: ignore[index]
            assert response.metadata["sage"]["stop_reason"] == "budget"  # type: ignore[index]
        assert engine(llm, max_tokens=10).query("q").metadata["sage"]["rounds"] == 1  # type: ignore[index]

    async def test_feedback_off_is_one_call_and_a_stock_response(self) -> None:
        llm = ScriptedLLM.of(["plain"])
        for response in await both(engine(llm, feedback="off")):
            assert str(response) == "plain"
            assert set(response.metadata) == {"n0", "n1"}
            assert feedback_of(response) is None
        assert llm.asked("critic") == []

    @pytest.mark.parametrize(
        "mode", [ResponseMode.NO_TEXT, ResponseMode.CONTEXT_ONLY, ResponseMode.GENERATION]
    )
    async def test_modes_without_an_answer_from_context_ask_no_critic(self, mode: ResponseMode) -> None:
        llm = Settings.llm = ScriptedLLM.of()
        for response in await both(engine(llm, response_mode=mode)):
            assert len(response.source_nodes) == 2
        assert llm.asked("critic") == []

    @pytest.mark.parametrize(
        "mode",
        [
            ResponseMode.COMPACT,
            ResponseMode.REFINE,
            ResponseMode.SIMPLE_SUMMARIZE,
            ResponseMode.TREE_SUMMARIZE,
            ResponseMode.ACCUMULATE,
            ResponseMode.COMPACT_ACCUMULATE,
        ],
    )
    async def test_modes_with_an_answer(self, mode: ResponseMode) -> None:
        llm = ScriptedLLM.of(["some answer"], [grade(2, 1), grade(9)])
        for response in await both(engine(llm, response_mode=mode)):
            assert "some answer" in str(response)
            assert response.metadata["sage"]["stop_reason"] == "accepted"

    async def test_no_candidates(self) -> None:
        llm = ScriptedLLM.of()
        found = SageQueryEngine.from_args(FixedRetriever(), llm=llm)
        for response in await both(found):
            assert str(response) == "Empty Response"
            assert response.source_nodes == []
            assert response.metadata["sage"]["stop_reason"] == "empty"
        assert (
            SageQueryEngine.from_args(FixedRetriever(), llm=llm, feedback="off").query("q").metadata is None
        )
        assert llm.asked("answer") == []

    async def test_candidates_without_scores_are_all_shown_first(self) -> None:
        llm = ScriptedLLM.of(["a", "b"], [grade(3, -1), grade(9)])
        # A reranker would go by their order.
        sage = SageNodePostprocessor(reranker=None, min_k=2)
        response = engine(llm, *[None] * 12, node_postprocessors=[sage]).query("q")
        result = trace_of(response)
        assert result.rounds[0].selection.cut == 12
        assert result.rounds[1].selection.cut < 12

    async def test_pydantic_answers_are_judged_as_json(self) -> None:
        class Fact(BaseModel):
            name: str

        llm = ScriptedLLM.of(['{"name": "ferry"}'])
        found = SageQueryEngine.from_args(FixedRetriever(*LADDER), llm=llm.as_structured_llm(Fact))
        for response in await both(found):
            assert isinstance(response, PydanticResponse)
            assert response.name == "ferry"
            assert response.metadata is not None
            assert response.metadata["sage"]["stop_reason"] == "accepted"
        assert '{"name":"ferry"}' in llm.asked("critic")[0]

    async def test_the_trace_as_an_event(self, recorder: Recorder) -> None:
        llm = ScriptedLLM.of(["a", "b"], [grade(2, 1), grade(9)])
        response = engine(llm).query("Why?")
        (event,) = [e for e in recorder.events if isinstance(e, SageFeedbackEvent)]
        result = trace_of(response)
        assert event.query == "Why?"
        assert event.trace == result.to_dict()
        assert len(event.trace["rounds"]) == 2

    async def test_the_summary_can_be_left_out(self) -> None:
        response = engine(ScriptedLLM.of(), trace_key=None).query("q")
        assert set(response.metadata or {}) == {"n0", "n1"}
        assert feedback_of(response) is not None


class TestPostprocessors:
    async def test_those_before_see_all_once_those_after_every_selection(self) -> None:
        calls: list[tuple[str, int]] = []

        class Spy(LongContextReorder):
            label: str

            def _postprocess_nodes(
                self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
            ) -> list[NodeWithScore]:
                calls.append((self.label, len(nodes)))
                return nodes

        llm = ScriptedLLM.of(["a", "b"], [grade(2, 1), grade(9)])
        sage = SageNodePostprocessor(min_k=2, max_k=8, scale="probability", gradient=0.99)
        found = engine(llm, node_postprocessors=[Spy(label="before"), sage, Spy(label="after")])
        response = found.query("q")
        shown = [r.selection.cut for r in feedback_of(response).rounds]  # type: ignore[union-attr]
        assert calls == [("before", 10), ("after", shown[0]), ("after", shown[1])]

    async def test_retrieve_and_synthesize_do_what_the_stock_engine_does(self) -> None:
        llm = ScriptedLLM.of(["plain"])
        found = engine(llm)
        nodes = found.retrieve(QueryBundle("q"))
        assert [n.node_id for n in nodes] == ["n0", "n1"]
        assert [n.node_id for n in await found.aretrieve(QueryBundle("q"))] == ["n0", "n1"]
        extra = scored(0.1)
        for response in (
            found.synthesize(QueryBundle("q"), nodes, additional_source_nodes=extra),
            await found.asynthesize(QueryBundle("q"), nodes, additional_source_nodes=extra),
        ):
            assert str(response) == "plain"
            assert len(response.source_nodes) == 3
        assert llm.asked("critic") == []

    async def test_where_later_postprocessors_leave_nothing_the_context_is_widened(self) -> None:
        class Nothing(LongContextReorder):
            def _postprocess_nodes(
                self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
            ) -> list[NodeWithScore]:
                return nodes if len(nodes) > 2 else []

        llm = ScriptedLLM.of(["from three"])
        sage = SageNodePostprocessor(min_k=2, scale="probability", gradient=0.99)
        response = engine(llm, node_postprocessors=[sage, Nothing()]).query("q")
        assert str(response) == "from three"
        assert len(llm.asked("critic")) == 1

    @pytest.mark.parametrize("feedback", ["before_stream", "after_stream"])
    async def test_where_nothing_is_ever_left_no_call_is_counted(self, feedback: str) -> None:
        llm = ScriptedLLM.of()
        after = SimilarityPostprocessor(similarity_cutoff=0.99)
        found = engine(llm, node_postprocessors=[SageNodePostprocessor(min_k=2), after], feedback=feedback)
        for response in await both(found):
            assert response.metadata["sage"]["llm_calls"] == 0
        assert llm.asked("answer") == []
