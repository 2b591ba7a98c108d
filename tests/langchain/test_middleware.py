"""Agents whose answers are checked against what their searches found."""

import asyncio
import json

import pytest

pytest.importorskip("langchain.agents")

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel, Field

from sage_core.errors import InputError
from sage_core.verify import check
from sage_langchain.middleware import (
    SageGroundingMiddleware,
)


class ScriptedModel(GenericFakeChatModel):
    """The framework's fake model, which also notes the tools and system messages it was given."""

    seen: list = Field(default_factory=list)
    offered: list = Field(default_factory=list)

    def bind_tools(self, tools, **kwargs):
        self.offered.append([t.name for t in tools])
        return self

    def _generate(self, messages, *args, **kwargs):
        self.seen.append(list(messages))
        return super()._generate(messages, *args, **kwargs)


def search_call(number, name="search"):
    call = {"name": name, "args": {"query": f"ferry {number}"}, "id": f"call-{number}"}
    return AIMessage("", tool_calls=[call])


def search_agent(replies, results, *middleware, model=ScriptedModel, **options):
    """An agent with one tool, which gives ``results`` in turn; its model, and what was searched for.

    A result is a text, or content and artifact.
    """
    remaining = iter(results)

    @tool(response_format="content_and_artifact")
    def search(query: str):
        """Search the documents."""
        searched.append(query)
        result = next(remaining)
        return result if isinstance(result, tuple) else (result, None)

    searched: list[str] = []
    scripted = model(messages=iter(replies))
    return create_agent(scripted, tools=[search], middleware=list(middleware), **options), scripted, searched


def ask(agent, text="When does the ferry leave?", **config):
    return agent.invoke({"messages": [HumanMessage(text)]}, {"recursion_limit": 100, **config})["messages"]


@pytest.mark.parametrize(
    ("middleware", "wrong"),
    [
        (SageGroundingMiddleware, {"action": "shout"}),
        (SageGroundingMiddleware, {"tools": []}),
    ],
)
def test_wrong_arguments(middleware, wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        middleware(**wrong)


# -- answers checked against what was found ---------------------------------------------------------------

FOUND = "The ferry to the island leaves the north pier at nine every weekday. Tickets are sold on board."
TRUE = "The ferry leaves the north pier at nine every weekday."
FALSE = "The captain of the submarine owns forty purple elephants in Canada."


UNSUPPORTED = "[not in the passages]"


def checked(answers, checkpointer=None, results=(FOUND,), **options):
    replies = [search_call(1), *(AIMessage(text) for text in answers)]
    middleware = SageGroundingMiddleware(**options)
    return search_agent(replies, results, middleware, checkpointer=checkpointer)[:2]


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("answers", "action", "told", "unsupported", "calls"),
    [
        ([TRUE], "mark", TRUE, [], 2),
        ([f"{TRUE} {FALSE}"], "mark", f"{TRUE} {FALSE} {UNSUPPORTED}", [FALSE], 2),
        ([f"{TRUE} {FALSE}", TRUE], "retry", TRUE, [], 3),
        ([FALSE, FALSE], "retry", f"{FALSE} {UNSUPPORTED}", [FALSE], 3),  # the search, the answer, one retry
    ],
)
def test_an_unsupported_statement_is_marked_or_asked_again(
    answers, action, told, unsupported, calls, awaited
):
    agent, model = checked(answers, action=action)
    question = {"messages": [HumanMessage("When?")]}
    state = asyncio.run(agent.ainvoke(question)) if awaited else agent.invoke(question)
    last = state["messages"][-1]
    assert last.text == told and len(model.seen) == calls
    verdicts = last.additional_kwargs["sage_grounding"]
    assert verdicts["supported"] is not bool(unsupported)
    marks = verdicts["verdict"]["marks"]
    assert [m["text"] for m in marks if m["support"] == "unsupported"] == unsupported


def test_what_the_verdict_does_not_accept_is_not_noted_as_supported():
    unsure = "The ferry leaves at midnight from the airport."
    agent, model = checked(
        [unsure, TRUE], results=["The ferry leaves at seven from the quay."], action="retry"
    )
    assert ask(agent)[-1].text == TRUE and len(model.seen) == 3
    agent, _ = checked([unsure], results=["The ferry leaves at seven from the quay."])
    noted = ask(agent)[-1].additional_kwargs["sage_grounding"]
    assert noted["supported"] is noted["verdict"]["accepted"] is False


def test_a_retry_names_the_statement_and_stays_out_of_the_conversation():
    agent, model = checked([f"{TRUE} {FALSE}", TRUE], action="retry")
    messages = ask(agent)
    assert FALSE in model.seen[-1][-1].text and not any(FALSE in m.text for m in messages)


def test_an_answer_is_handed_over_and_resumed():
    agent, _ = checked([FALSE], InMemorySaver(), action="hand_over")
    thread = {"configurable": {"thread_id": "t"}}
    (waiting,) = agent.invoke({"messages": [HumanMessage("When?")]}, thread)["__interrupt__"]
    assert (waiting.value["answer"], [c["text"] for c in waiting.value["unsupported"]]) == (FALSE, [FALSE])
    state = agent.invoke(Command(resume="Please ask at the pier."), thread)
    assert state["messages"][-1].text == "Please ask at the pier."


@pytest.mark.parametrize(("decision", "text"), [(True, FALSE), (False, f"{FALSE} {UNSUPPORTED}")])
def test_a_person_may_let_an_answer_pass_or_not(decision, text):
    agent, _ = checked([FALSE], InMemorySaver(), action="hand_over")
    thread = {"configurable": {"thread_id": "t"}}
    agent.invoke({"messages": [HumanMessage("When?")]}, thread)
    assert agent.invoke(Command(resume=decision), thread)["messages"][-1].text == text


def test_without_a_search_there_is_nothing_to_check_against():
    model = ScriptedModel(messages=iter([AIMessage(FALSE)]))
    agent = create_agent(model, tools=[], middleware=[SageGroundingMiddleware()])
    assert ask(agent)[-1].text == FALSE


class Report(BaseModel):
    """An answer with fields that are no statements."""

    kind: str = "timetable"
    hour: int = 9
    points: list[str]


def reporting(replies, action, how, checkpointer=None):
    if how is ToolStrategy:
        calls = [
            AIMessage("", tool_calls=[{"name": "Report", "args": {"points": points}, "id": str(i)}])
            for i, points in enumerate(replies)
        ]
    else:
        calls = [AIMessage(Report(points=points).model_dump_json()) for points in replies]
    middleware = SageGroundingMiddleware(action=action)
    options = {"response_format": how(Report), "checkpointer": checkpointer}
    return search_agent([search_call(1), *calls], [FOUND], middleware, **options)[:2]


def verdicts_of(state):
    [noted] = [v for m in state["messages"] if (v := m.additional_kwargs.get("sage_grounding"))]
    return noted


@pytest.mark.parametrize("how", [ToolStrategy, ProviderStrategy])
@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("replies", "action", "told", "unsupported", "calls"),
    [
        ([[TRUE]], "mark", [TRUE], [], 2),
        ([[TRUE, FALSE]], "mark", [TRUE, FALSE], [FALSE], 2),
        ([[TRUE, FALSE], [TRUE]], "retry", [TRUE], [], 3),
        ([[FALSE], [FALSE]], "retry", [FALSE], [FALSE], 3),
    ],
)
def test_the_texts_of_a_structured_answer_are_judged(
    replies, action, told, unsupported, calls, awaited, how, caplog
):
    agent, model = reporting(replies, action, how)
    question = {"messages": [HumanMessage("When?")]}
    state = asyncio.run(agent.ainvoke(question)) if awaited else agent.invoke(question)
    assert state["structured_response"] == Report(points=told) and len(model.seen) == calls
    verdicts = verdicts_of(state)
    assert verdicts["supported"] is not bool(unsupported)
    marks = verdicts["verdict"]["marks"]
    assert [m["text"] for m in marks if m["support"] == "unsupported"] == unsupported
    assert verdicts["verdict"]["accepted"] is not bool(unsupported)
    assert [m["field"] for m in marks] == [f"points.{i}" for i in range(len(told))]
    assert verdicts["unjudged"] == ["kind", "hour"] and caplog.text.count("are not judged: kind, hour") == 1
    assert UNSUPPORTED not in str(state["messages"])


@pytest.mark.parametrize("how", [ToolStrategy, ProviderStrategy])
@pytest.mark.parametrize(("decision", "points"), [(True, [FALSE]), ({"points": [TRUE]}, [TRUE])])
def test_a_structured_answer_is_handed_over(how, decision, points):
    agent, _ = reporting([[FALSE]], "hand_over", how, InMemorySaver())
    thread = {"configurable": {"thread_id": "t"}}
    (waiting,) = agent.invoke({"messages": [HumanMessage("When?")]}, thread)["__interrupt__"]
    assert waiting.value["answer"]["points"] == [FALSE]
    assert [c["text"] for c in waiting.value["unsupported"]] == [FALSE]
    assert agent.invoke(Command(resume=decision), thread)["structured_response"] == Report(points=points)


def test_nothing_is_called_supported_where_nothing_is_judged():
    agent, _ = reporting([[]], "mark", ToolStrategy)
    verdicts = verdicts_of(agent.invoke({"messages": [HumanMessage("When?")]}))
    assert (verdicts["verdict"], verdicts["supported"]) == (None, None)
    assert verdicts["unjudged"] == ["kind", "hour"]


def search_result(text):
    content = [{"type": "text", "text": text}]
    return {"type": "search_result", "source": "a.md", "title": "a", "content": content}


def mcp_result(*texts, question):
    return json.dumps({"question": question, "passages": [{"text": text, "score": 0.5} for text in texts]})


@pytest.mark.parametrize(
    "result",
    [
        lambda i, text: ([search_result(text)], None),
        lambda i, text: mcp_result(text, question=str(i)),
        lambda i, text: (
            [{"type": "text", "text": f"Search {i}"}],
            {"structured_content": {"passages": [{"text": text}]}},
        ),
        lambda i, text: (f"Result {i}", [Document(text)]),
    ],
)
def test_passages_are_read_wherever_they_stand(result):
    same = [result(1, "The ferry leaves at seven.")]
    agent, _ = checked([FALSE], results=same)
    assert UNSUPPORTED in ask(agent)[-1].text


def test_a_mark_keeps_the_blocks_of_the_answer():
    citations = [{"type": "citation", "cited_text": "seven"}]
    content = [
        {"type": "reasoning", "reasoning": "Let me think."},
        {"type": "text", "text": f"{TRUE} ", "annotations": citations},
        {"type": "text", "text": FALSE},
    ]
    agent, _ = checked([content])
    last = ask(agent)[-1]
    assert last.content[:2] == content[:2] and last.content[2]["text"] == f"{FALSE} {UNSUPPORTED}"


def test_citations_are_corrected_in_the_blocks_of_the_answer():
    content = [
        {"type": "text", "text": "The ferry leaves the north pier at nine every weekday [2]. "},
        {"type": "text", "text": "The captain of the submarine owns forty purple elephants in Canada [1]."},
    ]
    right = ["The ferry leaves the north pier at nine every weekday [1]. ", f"{FALSE} {UNSUPPORTED}"]
    for correct, told in (
        (True, right),
        (False, [content[0]["text"], f"{content[1]['text']} {UNSUPPORTED}"]),
    ):
        agent, _ = checked([content], correct=correct)
        assert [block["text"] for block in ask(agent)[-1].content] == told


def test_one_rule_says_what_is_not_in_the_passages():
    """A doubtful statement is "unsure", in the check and in the middleware alike."""
    answer = "Weekday passengers depart by boat from the northern quay in the morning."
    agent, _ = checked([answer])
    last = ask(agent)[-1]
    verdict = last.additional_kwargs["sage_grounding"]["verdict"]
    assert verdict == check("When does the ferry leave?", [FOUND], answer).to_dict()
    assert verdict["marks"][0]["support"] == "unsure" and last.text == answer


class StreamingModel(ScriptedModel):
    """Streams calls of tools too, which the framework's fake model does not."""

    def _stream(self, messages, *args, **kwargs):
        message = self._generate(messages).generations[0].message
        calls = [
            {"name": c["name"], "args": json.dumps(c["args"]), "id": c["id"], "index": i}
            for i, c in enumerate(message.tool_calls)
        ]
        for word in message.text.split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(f"{word} ", tool_call_chunks=calls))


@pytest.mark.parametrize("second", [TRUE, "The moon weighs twelve pounds of cheese."])
def test_a_withdrawn_answer_is_not_streamed(second):
    replies = [search_call(1), AIMessage(FALSE), AIMessage(second)]
    retry = SageGroundingMiddleware(action="retry")
    agent, _, _ = search_agent(replies, [FOUND], retry, model=StreamingModel)
    stream = agent.stream({"messages": [HumanMessage("When?")]}, stream_mode="messages")
    streamed = "".join(message.text for message, _ in stream if isinstance(message, AIMessage))
    assert "purple elephants" not in streamed and second.split()[1] in streamed
