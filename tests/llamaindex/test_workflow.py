"""`SageWorkflow`: the engine's answers, an event per round, runs that are saved and resumed, a tool of agents."""

import asyncio
import json
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow
from llama_index.core.base.llms.types import CompletionResponse
from llama_index.core.base.response.schema import PydanticResponse
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import ImageNode, NodeRelationship, NodeWithScore, QueryBundle, TextNode
from llama_index.core.workflow import Context
from pydantic import BaseModel, PrivateAttr

from sage_core.errors import InputError, LLMError
from sage_core.feedback import FeedbackConfig
from sage_llamaindex import SageNodePostprocessor, SageRoundEvent, SageWorkflow, feedback_of
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM, grade, trace_of
from tests.fakes.llamaindex_engines import engine

NO_ANSWER = "The passages do not say."
SCRIPTS: dict[str, tuple[list[Any], list[Any], dict[str, Any]]] = {
    "accepted at once": (["right"], [grade(9)], {}),
    "the best of three": (["one", "two", "three"], [grade(4, 1), grade(7, 1), grade(2, 1)], {}),
    "narrowed": (["wide", "narrow"], [grade(3, -1), grade(9)], {"min_k": 6}),
    "no answer first": ([NO_ANSWER, "found"], [grade(9)], {"no_answer": [NO_ANSWER]}),
    "an unreadable grade": (["kept"], ["I would rather not say."], {}),
    "no more calls": (["one", "two"], [grade(2, 1)], {"max_calls": 2}),
    "no call for a grade": (["one"], [grade(2, 1)], {"max_calls": 1}),
    "the second answer fails": (["one", LLMError("busy")], [grade(4, 1)], {}),
    "the critic fails": (["one"], [LLMError("busy")], {}),
    "the paper's moves": (
        ["one", "two", "three"],
        [grade(4, 1), grade(5, -1), grade(6, 1)],
        {"loop": FeedbackConfig(policy="paper")},
    ),
    "a local judge": (["It is grey."] * 3, [grade(9)], {"critic": "local"}),
}


def made(name: str, llm: ScriptedLLM | None = None) -> Any:
    answers, grades, options = SCRIPTS[name]
    options = dict(options)
    if "min_k" in options:
        options["node_postprocessors"] = [SageNodePostprocessor(min_k=options.pop("min_k"))]
    return engine(llm or ScriptedLLM.of(list(answers), list(grades)), **options)


async def rounds_of(handler: Any) -> list[SageRoundEvent]:
    return [event async for event in handler.stream_events() if isinstance(event, SageRoundEvent)]


@pytest.mark.parametrize("name", SCRIPTS)
async def test_the_same_answer_and_trace_as_the_engine(name: str) -> None:
    expected = await made(name).aquery("Why?")
    handler = SageWorkflow(made(name)).run(query="Why?")
    events = await rounds_of(handler)
    response = await handler
    trace = trace_of(response)
    assert (trace, str(response), response.metadata) == (trace_of(expected), str(expected), expected.metadata)
    assert [(n.node_id, n.score) for n in response.source_nodes] == [
        (n.node_id, n.score) for n in expected.source_nodes
    ]
    assert [(e.round, e.kept, e.answer, e.score) for e in events] == [
        (r.number, r.selection.cut, r.answer, r.score) for r in trace.rounds
    ]


class SavingLLM(ScriptedLLM):
    """Saves the run before every reply, with what was asked until then."""

    _handler: Any = PrivateAttr(default=None)
    _states: list[tuple[str, int, int]] = PrivateAttr(default_factory=list)

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        state = json.dumps(self._handler.ctx.to_dict())
        self._states.append((state, len(self.asked("answer")), len(self.asked("critic"))))
        return await super().acomplete(prompt, formatted, **kwargs)


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_saved_run_goes_on_without_asking_twice(name: str) -> None:
    """Resumed from before every call, by another workflow over other objects."""
    answers, grades, _ = SCRIPTS[name]
    whole = SavingLLM.of(answers, grades)
    whole._handler = SageWorkflow(made(name, whole)).run(query="Why?")
    expected = feedback_of(await whole._handler)
    assert len(whole._states) == len(whole.asked("answer")) + len(whole.asked("critic")) > 0
    for state, answered, graded in whole._states:
        llm = ScriptedLLM.of(answers[answered:] or [""], grades[graded:] or [""])
        workflow = SageWorkflow(made(name, llm))
        handler = workflow.run(ctx=Context.from_dict(workflow, json.loads(state)))
        events = await rounds_of(handler)
        assert feedback_of(await handler) == expected
        assert len(llm.asked("answer")) == len(whole.asked("answer")) - answered
        assert len(llm.asked("critic")) == len(whole.asked("critic")) - graded
        assert events[-1].round == len(expected.rounds)


async def test_a_run_that_broke_off_goes_on_from_its_last_round() -> None:
    handler = SageWorkflow(engine(ScriptedLLM.of(["one", MemoryError()], [grade(4, 1)]))).run(query="Why?")
    states = []
    with pytest.raises(MemoryError):
        async for event in handler.stream_events():
            if isinstance(event, SageRoundEvent):
                states.append(json.dumps(handler.ctx.to_dict()))
        await handler
    other = ScriptedLLM.of(["two"], [grade(9)])
    workflow = SageWorkflow(engine(other))
    response = await workflow.run(ctx=Context.from_dict(workflow, json.loads(states[0])))
    result = trace_of(response)
    assert [r.answer for r in result.rounds] == ["one", "two"]
    assert (str(response), result.stop_reason) == ("two", "accepted")
    assert (len(states), len(other.asked("answer")), len(other.asked("critic"))) == (1, 1, 1)


async def test_resumed_with_other_settings_it_says_so() -> None:
    llm = SavingLLM.of(["one", "two"], [grade(4, 1), grade(9)])
    llm._handler = SageWorkflow(engine(llm)).run(query="Why?")
    await llm._handler
    state = llm._states[-1][0]
    workflow = SageWorkflow(engine(ScriptedLLM.of(), node_postprocessors=[SageNodePostprocessor(min_k=5)]))
    with pytest.raises(InputError):
        await workflow.run(ctx=Context.from_dict(workflow, json.loads(state)))


async def test_nodes_keep_their_class_and_their_metadata() -> None:
    picture = ImageNode(id_="i", text="a picture", image_url="http://127.0.0.1/a.png", metadata={"page": 3})
    text = TextNode(
        id_="t", text="a text", relationships={NodeRelationship.SOURCE: picture.as_related_node_info()}
    )

    class Two(FixedRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return [NodeWithScore(node=picture, score=0.9), NodeWithScore(node=text, score=0.8)]

    llm = SavingLLM.of(["one"], [grade(9)])
    workflow = SageWorkflow(engine(llm).with_retriever(Two()))
    llm._handler = workflow.run(query="Why?")
    await llm._handler
    response = await workflow.run(ctx=Context.from_dict(workflow, json.loads(llm._states[-1][0])))
    assert [found.node for found in response.source_nodes] == [picture, text]
    assert response.metadata["i"] == {"page": 3}


async def test_no_candidates_and_no_feedback() -> None:
    nothing = await SageWorkflow(engine(ScriptedLLM.of()).with_retriever(FixedRetriever())).run(query="Why?")
    result = trace_of(nothing)
    assert result.stop_reason == "no_candidates"
    llm = ScriptedLLM.of(["once"])
    handler = SageWorkflow(engine(llm, feedback="off")).run(query="Why?")
    assert await rounds_of(handler) == []
    assert str(await handler) == "once"
    assert llm.asked("critic") == []


async def test_many_questions_share_a_workflow() -> None:
    class Echo(ScriptedLLM):
        def _reply(self, prompt: str) -> str:
            graded = "You grade" in prompt
            return super()._reply(prompt) if graded else prompt.split("Query: ")[1].split("\n")[0]

    workflow = SageWorkflow(engine(Echo.of([], [grade(9)])))
    questions = [f"question {n}?" for n in range(20)]
    responses = await asyncio.gather(*(workflow.run(query=question) for question in questions))
    assert [str(response) for response in responses] == questions


class Ferry(BaseModel):
    """A structured answer."""

    leaves: str


async def test_a_structured_answer_stays_structured() -> None:
    llm = ScriptedLLM.of(['{"leaves": "at nine"}'], [grade(9)])
    response = await SageWorkflow(engine(llm, output_cls=Ferry)).run(query="When?")
    assert isinstance(response, PydanticResponse) and response.response == Ferry(leaves="at nine")


@pytest.mark.parametrize("question", ["", "  \n"])
async def test_a_blank_question_and_a_failing_first_answer_are_the_callers_to_see(question: str) -> None:
    with pytest.raises(InputError, match="blank"):
        await SageWorkflow(engine(ScriptedLLM.of())).run(query=question)
    with pytest.raises(ConnectionError):
        await SageWorkflow(engine(ScriptedLLM.of([ConnectionError("no route")]))).run(query="Why?")


def test_wrong_engines() -> None:
    with pytest.raises(InputError, match="before_stream"):
        SageWorkflow(engine(ScriptedLLM.of(), feedback="after_stream"))
    with pytest.raises(InputError, match="not RetrieverQueryEngine"):
        SageWorkflow(RetrieverQueryEngine.from_args(FixedRetriever(0.5), llm=MockLLM()))  # type: ignore[arg-type]


TOOL_CALL = """Thought: I need a tool.
Action: guide
Action Input: {"query": "When?"}"""
FINAL = """Thought: I can answer.
Answer: It leaves at nine."""


@pytest.mark.parametrize("stream_rounds", [False, True])
async def test_a_tool_of_an_agent_workflow(stream_rounds: bool) -> None:
    workflow = SageWorkflow(engine(ScriptedLLM.of(["first", "at nine"], [grade(4, 1), grade(9)])))
    tool = workflow.as_tool("guide", "Answers questions about the island.", stream_rounds=stream_rounds)
    llm = ScriptedLLM.of([TOOL_CALL, FINAL])
    handler = AgentWorkflow.from_tools_or_functions([tool], llm=llm).run(
        user_msg="When does the ferry leave?"
    )
    rounds = await rounds_of(handler)
    assert str(await handler) == "It leaves at nine."
    assert '"properties": {"query":' in llm.asked("answer")[0]
    assert "Observation: at nine" in llm.asked("answer")[1]
    assert [event.round for event in rounds] == ([1, 2] if stream_rounds else [])


async def test_a_tool_alone() -> None:
    tool = SageWorkflow(engine(ScriptedLLM.of(["at nine"]))).as_tool("guide", "Answers questions.")
    assert str(await tool.acall(query="When?")) == "at nine"
