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
from pydantic import BaseModel, Field

from sage_core.errors import InputError
from sage_langchain.middleware import SageGroundingMiddleware


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
    "wrong", [{"action": "shout"}, {"tools": []}, {"tools": "search"}, {"tools": [None]}]
)
def test_wrong_arguments(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        SageGroundingMiddleware(**wrong)


# -- answers checked against what was found ---------------------------------------------------------------

FOUND = "The ferry to the island leaves the north pier at nine every weekday. Tickets are sold on board."
TRUE = "The ferry leaves the north pier at nine every weekday."
FALSE = "The captain of the submarine owns forty purple elephants in Canada."


UNSUPPORTED = "[not in the passages]"


def checked(answers, results=(FOUND,), **options):
    replies = [search_call(1), *(AIMessage(text) for text in answers)]
    middleware = SageGroundingMiddleware(**options)
    return search_agent(replies, results, middleware)[:2]


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
    assert [m["text"] for m in marks if m["support"] in ("contradicted", "not found")] == unsupported


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


def test_without_a_search_there_is_nothing_to_check_against():
    model = ScriptedModel(messages=iter([AIMessage(FALSE)]))
    agent = create_agent(model, tools=[], middleware=[SageGroundingMiddleware()])
    assert ask(agent)[-1].text == FALSE


class Report(BaseModel):
    """An answer in fields."""

    points: list[str]


@pytest.mark.parametrize("how", [ToolStrategy, ProviderStrategy])
@pytest.mark.parametrize("action", ["mark", "retry"])
def test_a_structured_answer_passes_unchanged(action, how):
    call = AIMessage("", tool_calls=[{"name": "Report", "args": {"points": [FALSE]}, "id": "2"}])
    answer = call if how is ToolStrategy else AIMessage(Report(points=[FALSE]).model_dump_json())
    middleware = SageGroundingMiddleware(action=action)
    agent, model, _ = search_agent([search_call(1), answer], [FOUND], middleware, response_format=how(Report))
    state = agent.invoke({"messages": [HumanMessage("When?")]})
    assert state["structured_response"] == Report(points=[FALSE]) and len(model.seen) == 2
    assert UNSUPPORTED not in str(state["messages"])


def test_what_another_tool_returns_is_no_passage():
    agent, _ = checked([FALSE], tools=["lookup"])
    assert ask(agent)[-1].text == FALSE


def search_result(text):
    content = [{"type": "text", "text": text}]
    return {"type": "search_result", "source": "a.md", "title": "a", "content": content}


@pytest.mark.parametrize(
    "result",
    [
        lambda i, text: ([search_result(text)], None),
        lambda i, text: (f"Result {i}\n\n{text}", None),
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
