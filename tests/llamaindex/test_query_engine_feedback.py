"""The feedback loop inside the engine, and the postprocessors around it."""

from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.response.schema import PydanticResponse
from llama_index.core.postprocessor import LongContextReorder
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.schema import NodeWithScore, QueryBundle
from pydantic import BaseModel

from sage_core.errors import InputError
from sage_core.selection import Gradient, SelectionConfig
from sage_llamaindex import (
    MultipleChoice,
    SageFeedbackEvent,
    SageNodePostprocessor,
    SageQueryEngine,
    feedback_of,
)
from tests.fakes.llamaindex import FixedRetriever, Recorder, ScriptedLLM, grade, scored, trace_of
from tests.llamaindex.engines import LADDER, both, engine


class TestFeedback:
    async def test_a_good_answer_is_returned_at_once(self) -> None:
        llm = ScriptedLLM.of(["right"], [grade(9)])
        expected = {
            "score": 9,
            "stop_reason": "accepted",
            "rounds": 1,
            "kept": 2,
            "candidates": 10,
            "low_confidence": False,
            "llm_calls": 2,
        }
        for response in await both(engine(llm)):
            assert str(response) == "right" and response.metadata["sage"].pop("tokens") > 0
            assert 0 < response.metadata["sage"].pop("best_probability") < 1
            assert response.metadata["sage"] == expected
        assert len(llm.asked("answer")) == len(llm.asked("critic")) == 2

    async def test_the_critic_reads_the_question_and_what_the_llm_read(self) -> None:
        llm = ScriptedLLM.of(["zebra", "two"], [grade(2, 1), grade(9)])
        engine(llm).query("Where is the lamp?")
        first, second = llm.asked("critic")
        assert all("\nWhere is the lamp?\n" in prompt for prompt in (first, second))
        assert "[1] text 0\n\n[2] text 1\n" in first and "text 2" not in first
        assert "zebra" in first and "zebra" not in second and "zebra" not in llm.asked("answer")[1]

    async def test_a_first_answer_that_fails_is_the_callers_to_see(self) -> None:
        class ServiceDown(Exception):
            pass

        found = engine(ScriptedLLM.of([ServiceDown("503")]))
        with pytest.raises(ServiceDown):
            found.query("q")
        with pytest.raises(ServiceDown):
            await found.aquery("q")

    async def test_feedback_off_is_one_call_and_a_stock_response(self) -> None:
        llm = ScriptedLLM.of(["plain"])
        for response in await both(engine(llm, critic="off")):
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
        ["compact", "refine", "simple_summarize", "tree_summarize", "accumulate", "compact_accumulate"],
    )
    async def test_modes_with_an_answer(self, mode: str) -> None:
        llm = ScriptedLLM.of(["some answer"], [grade(2, 1), grade(9)])
        for response in await both(engine(llm, response_mode=ResponseMode(mode))):
            assert "some answer" in str(response)
            assert response.metadata["sage"]["stop_reason"] == "accepted"

    async def test_no_candidates(self) -> None:
        llm = ScriptedLLM.of()
        for response in await both(SageQueryEngine.from_args(FixedRetriever(), llm=llm)):
            assert (str(response), response.source_nodes) == ("Empty Response", [])
            assert response.metadata["sage"]["stop_reason"] == "no_candidates"
        off = SageQueryEngine.from_args(FixedRetriever(), llm=llm, critic="off")
        assert off.query("q").metadata is None and llm.asked("answer") == []

    async def test_candidates_without_scores_are_all_shown_first(self) -> None:
        llm = ScriptedLLM.of(["a", "b"], [grade(3, -1), grade(9)])
        # A reranker would go by their order.
        sage = SageNodePostprocessor(reranker=None, selection=SelectionConfig(min_k=2))
        response = engine(llm, *[None] * 12, node_postprocessors=[sage]).query("q")
        result = trace_of(response)
        assert result.rounds[0].selection.cut == 12
        assert result.rounds[1].selection.cut < 12

    async def test_pydantic_answers_are_judged_as_json(self) -> None:
        class Fact(BaseModel):
            name: str

        llm = ScriptedLLM.of(['{"name": "ferry"}'])
        made = SageQueryEngine.from_args(FixedRetriever(*LADDER), llm=llm.as_structured_llm(Fact))
        for response in await both(made):
            assert isinstance(response, PydanticResponse) and response.name == "ferry"
            assert response.metadata["sage"]["stop_reason"] == "accepted"
        assert '{"name":"ferry"}' in llm.asked("critic")[0]

    async def test_the_trace_as_an_event(self, recorder: Recorder) -> None:
        response = engine(ScriptedLLM.of(["a", "b"], [grade(2, 1), grade(9)])).query("Why?")
        (event,) = [e for e in recorder.events if isinstance(e, SageFeedbackEvent)]
        assert (event.query, event.trace) == ("Why?", trace_of(response).to_dict())
        assert len(event.trace["rounds"]) == 2


class TestMultipleChoice:
    @pytest.mark.parametrize("critic", [None, "off"])
    async def test_the_llm_and_the_critic_read_the_options_the_search_does_not(self, critic: Any) -> None:
        llm, retriever = ScriptedLLM.of(["B. Ben"], [grade(9)]), Listening(*LADDER)
        found = SageQueryEngine.from_args(retriever, llm=llm, critic=critic)
        asked = MultipleChoice("Who rings the bell?", options=["Ann", "Ben"])
        assert [str(found.query(asked)), str(await found.aquery(asked))] == ["B. Ben"] * 2
        prompts = llm.asked("answer") + llm.asked("critic")
        assert len(prompts) == (2 if critic else 4)
        assert all("Who rings the bell?\nA. Ann\nB. Ben\nExactly one" in prompt for prompt in prompts)
        assert retriever.heard == ["Who rings the bell?"] * 2

    def test_options_are_texts_and_without_any_it_is_a_question(self) -> None:
        llm = ScriptedLLM.of()
        with pytest.raises(InputError, match="list of texts"):
            engine(llm).query(MultipleChoice("Who?", options="Ann"))
        engine(llm).query(MultipleChoice("Who?"))
        assert "Exactly one" not in "".join(llm.asked("answer") + llm.asked("critic"))


class Listening(FixedRetriever):
    """Remembers what it was asked."""

    def __init__(self, *scores: float | None) -> None:
        super().__init__(*scores)
        self.heard: list[str] = []

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.heard.append(query_bundle.query_str)
        return super()._retrieve(query_bundle)


class Spy(LongContextReorder):
    """Notes how many nodes it gets; passes on those of more than ``least``."""

    label: str = ""
    least: int = 0
    calls: list[Any] = []  # noqa: RUF012 a pydantic field

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        self.calls.append((self.label, len(nodes)))
        return nodes if len(nodes) > self.least else []


class TestPostprocessors:
    async def test_those_before_see_all_once_those_after_every_selection(self) -> None:
        llm, before, after = ScriptedLLM.of(["a", "b"], [grade(2, 1), grade(9)]), Spy(label="before"), Spy()
        sage = SageNodePostprocessor(
            selection=SelectionConfig(min_k=2, max_k=8, rule=Gradient(0.99)), scale="probability"
        )
        response = engine(llm, node_postprocessors=[before, sage, after]).query("q")
        assert before.calls == [("before", 10)]
        assert after.calls == [("", r.selection.cut) for r in trace_of(response).rounds]

    async def test_retrieve_and_synthesize_do_what_the_stock_engine_does(self) -> None:
        llm = ScriptedLLM.of(["plain"])
        made, query, extra = engine(llm), QueryBundle("q"), scored(0.1)
        nodes = made.retrieve(query)
        for some in (nodes, await made.aretrieve(query)):
            assert [n.node_id for n in some] == ["n0", "n1"]
        for response in (
            made.synthesize(query, nodes, additional_source_nodes=extra),
            await made.asynthesize(query, nodes, additional_source_nodes=extra),
        ):
            assert str(response) == "plain" and len(response.source_nodes) == 3
        assert llm.asked("critic") == []

    async def test_where_later_postprocessors_leave_nothing_the_context_is_widened(self) -> None:
        llm = ScriptedLLM.of(["from three"])
        sage = SageNodePostprocessor(
            selection=SelectionConfig(min_k=2, rule=Gradient(0.99)), scale="probability"
        )
        response = engine(llm, node_postprocessors=[sage, Spy(least=2)]).query("q")
        assert str(response) == "from three" and len(llm.asked("critic")) == 1

    async def test_where_nothing_is_ever_left_no_call_is_counted(self) -> None:
        llm, parts = (
            ScriptedLLM.of(),
            [SageNodePostprocessor(selection=SelectionConfig(min_k=2)), Spy(least=99)],
        )
        for response in await both(engine(llm, node_postprocessors=parts)):
            assert response.metadata["sage"]["llm_calls"] == 0
        assert llm.asked("answer") == []
