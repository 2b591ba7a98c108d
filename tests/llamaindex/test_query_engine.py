"""The engine: what it is, what it is made from, prompts, events, and the feedback loop inside it."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any

import pytest
from llama_index.core import Document, MockEmbedding, Settings, SummaryIndex, VectorStoreIndex
from llama_index.core.base.response.schema import PydanticResponse, Response
from llama_index.core.callbacks import (
    CallbackManager,
    CBEventType,
    EventPayload,
    LlamaDebugHandler,
    TokenCountingHandler,
)
from llama_index.core.evaluation import CorrectnessEvaluator
from llama_index.core.instrumentation.events.query import QueryEndEvent, QueryStartEvent
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor import LongContextReorder, SimilarityPostprocessor
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.utils import get_tokenizer
from pydantic import BaseModel

from sage_llamaindex import (
    SageFeedbackEvent,
    SageNodeParser,
    SageNodePostprocessor,
    SageQueryEngine,
    feedback_of,
)
from sage_llamaindex.prompts import answer_template
from tests.llamaindex.support import FixedRetriever, Recorder, ScriptedLLM, grade, scored, story

LADDER = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2)


def engine(llm: ScriptedLLM, *scores: float | None, **options: Any) -> SageQueryEngine:
    """An engine over fixed candidates that selects at least two of them."""
    options.setdefault(
        "node_postprocessors", [SageNodePostprocessor(min_k=2, gradient=0.99, scale="probability")]
    )
    return SageQueryEngine.from_args(FixedRetriever(*(scores or LADDER)), llm=llm, **options)


async def both(found: SageQueryEngine, question: str = "Why?") -> list[Any]:
    """The responses of the sync and of the async way."""
    return [found.query(question), await found.aquery(question)]


class TestFiveLines:
    """What the README shows."""

    async def test_index_parser_postprocessor_engine(self) -> None:
        Settings.llm = ScriptedLLM.of(["It crosses at noon."])
        Settings.embed_model = MockEmbedding(embed_dim=8)
        index = VectorStoreIndex.from_documents([Document(text=story())], transformations=[SageNodeParser()])
        found = SageQueryEngine.from_index(index, node_postprocessors=[SageNodePostprocessor(min_k=2)])
        for response in await both(found, "When does the ferry cross?"):
            assert type(response) is Response
            assert str(response) == "It crosses at noon."
            assert response.metadata["sage"]["score"] == 10
            assert response.source_nodes
            assert {n.node_id for n in response.source_nodes} <= set(index.docstore.docs)


class TestMaking:
    def test_it_is_a_retriever_query_engine(self) -> None:
        found = engine(ScriptedLLM.of())
        assert isinstance(found, RetrieverQueryEngine)
        assert isinstance(found.retriever, FixedRetriever)

    def test_from_args_takes_all_that_the_stock_engine_takes(self) -> None:
        import inspect

        stock = set(inspect.signature(RetrieverQueryEngine.from_args).parameters) - {"kwargs"}
        defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(RetrieverQueryEngine.from_args).parameters.items()
            if name in stock - {"retriever", "llm", "response_synthesizer"}
        }
        found = SageQueryEngine.from_args(FixedRetriever(1.0), llm=ScriptedLLM.of(["yes"]), **defaults)
        assert str(found.query("q")) == "yes"

    def test_typing_errors_are_told(self) -> None:
        retriever = FixedRetriever(1.0)
        with pytest.raises(TypeError, match="'critics'; did you mean 'critic'"):
            SageQueryEngine.from_args(retriever, llm=ScriptedLLM.of(), critics=None)
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'similarity_top'"):
            SageQueryEngine(retriever, get_response_synthesizer(llm=ScriptedLLM.of()), similarity_top=1)
        with pytest.raises(TypeError, match="leave streaming out"):
            SageQueryEngine.from_args(
                retriever, response_synthesizer=get_response_synthesizer(llm=ScriptedLLM.of()), streaming=True
            )

    def test_settings_out_of_range_are_told_at_once(self) -> None:
        for bad in (
            {"accept_score": 11},
            {"max_rounds": 0},
            {"policy": "bold"},
            {"max_calls": 0},
            {"feedback": "sometimes"},
            {"critic": "gpt"},
            {"critic_template": PromptTemplate("{question}")},
            {"node_postprocessors": [SageNodePostprocessor(), SageNodePostprocessor()]},
        ):
            with pytest.raises(ValueError, match=r"accept|rounds|policy|max_calls|feedback|critic|one Sage"):
                engine(ScriptedLLM.of(), **bad)

    def test_from_index_passes_candidates_and_retriever_arguments(self) -> None:
        index = VectorStoreIndex(
            [n.node for n in scored(*[None] * 40)], embed_model=MockEmbedding(embed_dim=4)
        )
        found = SageQueryEngine.from_index(index, llm=ScriptedLLM.of(), retriever_args={"alpha": 0.5})
        assert len(found.retriever.retrieve("q")) == 30
        assert found.retriever._alpha == 0.5  # type: ignore[attr-defined]
        assert (
            len(
                SageQueryEngine.from_index(index, similarity_top_k=3, llm=ScriptedLLM.of()).retrieve(
                    QueryBundle("q")
                )
            )
            == 3
        )

    def test_from_index_with_settings_llm(self) -> None:
        Settings.llm = ScriptedLLM.of(["by settings"])
        index = SummaryIndex([n.node for n in scored(None, None)])
        assert str(SageQueryEngine.from_index(index).query("q")) == "by settings"

    def test_from_query_engine_leaves_the_old_one_alone(self) -> None:
        llm = ScriptedLLM.of(["new"])
        old = RetrieverQueryEngine.from_args(
            FixedRetriever(*LADDER),
            llm=llm,
            node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.75)],
        )
        found = SageQueryEngine.from_query_engine(old, max_rounds=2)
        assert len(found.query("q").source_nodes) == 2
        assert len(old._node_postprocessors) == 1
        with pytest.raises(ValueError, match="takes a RetrieverQueryEngine"):
            SageQueryEngine.from_query_engine(object())  # type: ignore[arg-type]

    def test_from_query_engine_lets_parts_be_replaced(self) -> None:
        old = RetrieverQueryEngine.from_args(FixedRetriever(*LADDER), llm=ScriptedLLM.of())
        sage = SageNodePostprocessor(min_k=1, max_k=1)
        found = SageQueryEngine.from_query_engine(old, node_postprocessors=[sage])
        assert found._node_postprocessors == [sage]
        assert len(found.query("q").source_nodes) == 1
        with pytest.raises(TypeError, match="'max_round'; did you mean 'max_rounds'"):
            SageQueryEngine.from_query_engine(old, max_round=1)

    def test_from_index_tells_where_retriever_arguments_go(self) -> None:
        index = SummaryIndex([n.node for n in scored(None)])
        with pytest.raises(TypeError, match=r"'filters'.*retriever_args=\{\.\.\.\}"):
            SageQueryEngine.from_index(index, llm=ScriptedLLM.of(), filters=None)

    def test_prompts_of_a_derived_engine_are_its_own(self) -> None:
        stock = RetrieverQueryEngine.from_args(FixedRetriever(*LADDER), llm=ScriptedLLM.of())
        ours = engine(ScriptedLLM.of())
        evaluated = engine(ScriptedLLM.of(), critic=CorrectnessEvaluator(llm=ScriptedLLM.of()))
        template = PromptTemplate("mine {question}{context}{answer}{query_str}{context_str}")
        for old, made in (
            (stock, SageQueryEngine.from_query_engine(stock)),
            (ours, SageQueryEngine.from_query_engine(ours)),
            (ours, ours.with_retriever(FixedRetriever(0.5))),
            (evaluated, evaluated.with_retriever(FixedRetriever(0.5))),
        ):
            before = {name: prompt.get_template() for name, prompt in old.get_prompts().items()}
            made.update_prompts(dict.fromkeys(made.get_prompts(), template))
            assert {name: prompt.get_template() for name, prompt in old.get_prompts().items()} == before
            assert {p.get_template() for p in made.get_prompts().values()} == {template.get_template()}

    def test_with_retriever_keeps_class_options_and_prompts(self) -> None:
        critic = ScriptedLLM.of(grades=[grade(3), grade(9)])
        found = engine(ScriptedLLM.of(["a", "b"]), critic=critic, accept_score=4, trace_key="trace")
        template = PromptTemplate("You grade an answer {question} {context} {answer} MINE")
        found.update_prompts({"critic:critic_template": template})
        other = found.with_retriever(FixedRetriever(0.5))
        again = SageQueryEngine.from_query_engine(found)
        for made in (other, again):
            assert type(made) is SageQueryEngine
            assert made._options.accept_score == 4
        assert other.query("q").metadata["trace"]["candidates"] == 1  # type: ignore[index]
        assert critic.asked("critic")[0].endswith("MINE")


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
        result = feedback_of(response)
        assert result is not None
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

    async def test_narrowing(self) -> None:
        llm = ScriptedLLM.of(["wide", "narrow"], [grade(3, -1), grade(9)])
        for response in await both(engine(llm, node_postprocessors=[SageNodePostprocessor(min_k=6)])):
            assert feedback_of(response) is not None
        first, second = (len(p.split("text ")) - 1 for p in llm.asked("answer")[:2])
        assert second < first

    async def test_an_unreadable_grade_costs_nobody_the_answer(self) -> None:
        llm = ScriptedLLM.of(["kept"], ["I would rather not say."])
        for response in await both(engine(llm)):
            assert str(response) == "kept"
            assert response.metadata["sage"]["stop_reason"] == "critic_failed"
            assert response.metadata["sage"]["score"] is None

    async def test_a_critic_that_cannot_be_reached_costs_nobody_the_answer(self) -> None:
        class ServiceDown(Exception):
            """As client libraries define them."""

        for error in (ServiceDown("503"), ConnectionError("refused")):
            llm = ScriptedLLM.of(["kept"], [error])
            for response in await both(engine(llm)):
                assert str(response) == "kept"
                result = feedback_of(response)
                assert result is not None
                assert result.stop_reason == "critic_failed"
                assert str(error) in (result.rounds[0].error or "")

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
        response = engine(llm, *[None] * 12).query("q")
        result = feedback_of(response)
        assert result is not None
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
        result = feedback_of(response)
        assert result is not None
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


class TestPrompts:
    def test_every_key_round_trips(self) -> None:
        found = engine(ScriptedLLM.of())
        prompts = found.get_prompts()
        assert {"critic:critic_template", "response_synthesizer:text_qa_template"} <= set(prompts)
        for name in prompts:
            template = PromptTemplate(
                f"{name} {{question}} {{context}} {{answer}} {{query_str}} {{context_str}}"
            )
            found.update_prompts({name: template})
            assert found.get_prompts()[name].get_template() == template.get_template()

    def test_changed_prompts_are_used(self) -> None:
        llm = ScriptedLLM.of()
        found = engine(llm)
        found.update_prompts(
            {
                "critic:critic_template": PromptTemplate(
                    "You grade an answer: {question}{context}{answer} END"
                ),
                "response_synthesizer:text_qa_template": PromptTemplate("QA {query_str} {context_str}"),
            }
        )
        found.query("Why?")
        assert llm.asked("critic")[0].endswith("END")
        assert llm.asked("answer")[0].startswith("QA Why?")

    def test_a_critic_prompt_without_its_fields_is_refused(self) -> None:
        found = engine(ScriptedLLM.of())
        before = found.get_prompts()["critic:critic_template"].get_template()
        with pytest.raises(ValueError, match="needs the fields"):
            found.update_prompts({"critic:critic_template": PromptTemplate("hello {foo}")})
        assert found.get_prompts()["critic:critic_template"].get_template() == before

    async def test_the_cores_answer_prompt_keeps_material_apart(self) -> None:
        llm = ScriptedLLM.of()
        found = engine(llm, text_qa_template=answer_template())
        for response in await both(found, "Why {not}?"):
            assert str(response) == "an answer"
        for prompt in llm.asked("answer"):
            (mark,) = set(re.findall(r"<<(?:BEGIN|END) \w+ (\w+)>>", prompt))
            assert f"<<BEGIN PASSAGES {mark}>>\ntext 0\n\ntext 1\n<<END PASSAGES {mark}>>" in prompt
            assert f"<<BEGIN QUESTION {mark}>>\nWhy {{not}}?\n<<END QUESTION {mark}>>" in prompt
        assert (
            "exactly this sentence"
            in found.get_prompts()["response_synthesizer:text_qa_template"].get_template()
        )

    def test_a_template_at_the_start_and_none_without_feedback(self) -> None:
        llm = ScriptedLLM.of()
        template = PromptTemplate("You grade an answer {question} {context} {answer} OWN")
        engine(llm, critic_template=template).query("q")
        assert llm.asked("critic")[0].endswith("OWN")
        assert not [name for name in engine(llm, feedback="off").get_prompts() if name.startswith("critic")]


class TestObserving:
    async def test_query_events_spans_and_reranking(self, recorder: Recorder) -> None:
        debug = LlamaDebugHandler(print_trace_on_end=False)
        found = engine(ScriptedLLM.of(), callback_manager=CallbackManager([debug]))
        for response in await both(found):
            assert str(response) == "an answer"
        names = recorder.names()
        for kind in (QueryStartEvent, QueryEndEvent, ReRankStartEvent, ReRankEndEvent):
            assert names.count(kind.__name__) == 2
        pairs = debug.get_event_pairs(CBEventType.QUERY)
        assert len(pairs) == 2
        for start, end in pairs:
            assert start.payload == {EventPayload.QUERY_STR: "Why?"}
            assert end.payload is not None
            assert str(end.payload[EventPayload.RESPONSE]) == "an answer"
        assert len(debug.get_event_pairs(CBEventType.RERANKING)) == 2

    @pytest.mark.parametrize("own_critic", [False, True])
    async def test_token_counting_sees_every_call(self, own_critic: bool) -> None:
        counter = TokenCountingHandler(tokenizer=get_tokenizer())
        llm = ScriptedLLM.of(["a", "b"], [grade(2, 1), grade(9)])
        critic = ScriptedLLM.of(grades=[grade(2, 1), grade(9)]) if own_critic else None
        # The critic exists before the handler does.
        Settings.callback_manager = CallbackManager([counter])
        llm.callback_manager = Settings.callback_manager
        response = engine(llm, critic=critic).query("q")
        assert len(counter.llm_token_counts) == 4
        summary = response.metadata["sage"]  # type: ignore[index]
        assert summary["llm_calls"] == 4
        assert abs(summary["tokens"] - counter.total_llm_token_count) <= 8

    async def test_an_explicit_callback_manager_reaches_the_critic(self) -> None:
        counter = TokenCountingHandler(tokenizer=get_tokenizer())
        critic = ScriptedLLM.of()
        engine(ScriptedLLM.of(), critic=critic, callback_manager=CallbackManager([counter])).query("q")
        assert len([c for c in counter.llm_token_counts if "You grade" in c.prompt]) == 1

    async def test_a_token_budget_stops_the_run(self) -> None:
        from llama_index.core.callbacks.base_handler import BaseCallbackHandler

        class Budget(BaseCallbackHandler):
            left = 2

            def __init__(self) -> None:
                super().__init__([], [])

            def on_event_start(self, event_type: CBEventType, *args: Any, **kwargs: Any) -> str:
                if event_type == CBEventType.LLM:
                    self.left -= 1
                    if not self.left:
                        raise ValueError("token budget used up")
                return ""

            def on_event_end(self, *args: Any, **kwargs: Any) -> None:
                pass

            def start_trace(self, trace_id: str | None = None) -> None:
                pass

            def end_trace(self, trace_id: str | None = None, trace_map: Any = None) -> None:
                pass

        llm = ScriptedLLM.of(["a", "b"], [grade(2, 1)])
        Settings.callback_manager = CallbackManager([Budget()])
        with pytest.raises(ValueError, match="token budget used up"):
            engine(llm).query("q")


class TestSharing:
    def test_threads(self) -> None:
        llm = ScriptedLLM.of(["a"], [grade(2, 1)])
        found = engine(llm, max_rounds=2)
        results: list[Any] = []

        def ask() -> None:
            results.extend(found.query("q").metadata["sage"]["llm_calls"] for _ in range(5))  # type: ignore[index]

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [4] * 30

    async def test_questions_side_by_side_count_their_own_calls(self) -> None:
        llm = ScriptedLLM.of(["a"], [grade(2, 1)])
        llm._delay = 0.002
        found = engine(llm, max_rounds=2)
        responses = await asyncio.gather(*[found.aquery(f"q{i}") for i in range(20)])
        assert [r.metadata["sage"]["llm_calls"] for r in responses] == [4] * 20  # type: ignore[index]

    async def test_the_question_is_embedded_once(self) -> None:
        class Counting(MockEmbedding):
            calls: int = 0

            def _get_query_embedding(self, query: str) -> list[float]:
                self.calls += 1
                return super()._get_query_embedding(query)

        embed = Counting(embed_dim=4)
        index = VectorStoreIndex([n.node for n in scored(*[None] * 12)], embed_model=embed)
        llm = ScriptedLLM.of(["a", "b", "c"], [grade(2, 1)])
        response = SageQueryEngine.from_index(
            index, llm=llm, node_postprocessors=[SageNodePostprocessor(min_k=2)]
        ).query("q")
        assert embed.calls == 1
        assert response.metadata["sage"]["candidates"] == 12  # type: ignore[index]

    async def test_aquery_lets_the_loop_run(self) -> None:
        llm = ScriptedLLM.of(["a"], [grade(2, 1)])
        llm._delay = 0.03
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)
                ticks += 1

        ticker = asyncio.create_task(tick())
        await engine(llm).aquery("q")
        ticker.cancel()
        assert ticks > 3
