"""Agents whose model searches again and again: bounded, told apart from silence, and resumable."""

import asyncio
import itertools
import json
import threading

import pytest

pytest.importorskip("langchain.agents")

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langchain_core.tools.retriever import create_retriever_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel, Field

from sage_core.errors import InputError
from sage_core.verify import check
from sage_langchain.middleware import (
    NOTHING_NEW,
    SageGroundingMiddleware,
    SageRetrievalMiddleware,
)
from tests.fakes.langchain import WatchingCounter


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


def looping():
    return map(search_call, itertools.count(1))


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


def agent_of(replies, results, checkpointer=None, **limits):
    bounded = SageRetrievalMiddleware(tools=["search"], **limits)
    return search_agent(replies, results, bounded, checkpointer=checkpointer)


def ask(agent, text="When does the ferry leave?", **config):
    return agent.invoke({"messages": [HumanMessage(text)]}, {"recursion_limit": 100, **config})["messages"]


def shown(messages):
    """What the tools gave, as it reaches the model."""
    return [message.text for message in messages if isinstance(message, ToolMessage)]


async def test_no_tokens_are_counted_on_the_event_loop():
    counter = WatchingCounter()
    agent, _, _ = agent_of([search_call(1), AIMessage("At nine.")], SAME, counter=counter)
    await agent.ainvoke({"messages": [HumanMessage("When does the ferry leave?")]})
    assert counter.threads and threading.get_ident() not in counter.threads


def different():
    return (f"Passage {number} about ferries." for number in itertools.count(1))


SAME = ["The ferry leaves at nine."] * 9


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("results", "limits", "searches", "said"),
    [
        (different, {"max_searches": 4}, 4, "limit of searches"),
        (lambda: SAME, {"max_searches": 9, "max_unchanged": 2}, 3, "nothing new"),  # one new, two not
        (lambda: [""] * 9, {"max_searches": 9, "max_unchanged": 2}, 2, "nothing new"),
        (
            lambda: (p * 20 for p in different()),
            {"max_searches": None, "max_context_tokens": 250},
            3,
            "tokens",
        ),
    ],
)
def test_a_model_that_only_searches_ends_with_a_message(results, limits, searches, said, awaited):
    agent, _, searched = agent_of(looping(), results(), **limits)
    question = {"messages": [HumanMessage("When does the ferry leave?")]}, {"recursion_limit": 100}
    state = asyncio.run(agent.ainvoke(*question)) if awaited else agent.invoke(*question)
    assert len(searched) == searches
    last = state["messages"][-1]
    assert isinstance(last, AIMessage) and said in last.text and not last.tool_calls


def test_what_is_not_new_is_not_shown_again():
    agent, _, _ = agent_of(looping(), SAME, max_searches=9, max_unchanged=2)
    assert shown(ask(agent)) == [SAME[0], NOTHING_NEW, NOTHING_NEW]


def test_the_model_answers_with_what_it_has_once_the_tools_are_gone():
    replies = [search_call(1), search_call(2), AIMessage("At nine.")]
    agent, model, searched = agent_of(replies, different(), max_searches=2)
    assert ask(agent)[-1].text == "At nine." and len(searched) == 2
    assert "Do not search again" in model.seen[-1][0].text
    assert "Do not search again" not in str([m.text for m in model.seen[0]])


def test_repeated_passages_reach_the_model_once():
    results = ["One about tides.\n\nTwo about piers.", "Two about  piers.\n\nThree about fares."]
    agent, model, _ = agent_of([search_call(1), search_call(2), AIMessage("Done.")], results)
    ask(agent)
    assert shown(model.seen[-1]) == ["One about tides.\n\nTwo about piers.", "Three about fares."]


def test_documents_of_a_retriever_tool_are_told_apart_by_content():
    class Two(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            texts = ["Para one.\n\nStill the first.", f"Only for {query}."]
            return [Document(page_content=text) for text in texts]

    search = create_retriever_tool(Two(), "search", "Search.", response_format="content_and_artifact")
    model = ScriptedModel(messages=iter([search_call(1), search_call(2), AIMessage("Done.")]))
    ask(create_agent(model, tools=[search], middleware=[SageRetrievalMiddleware()]))
    first, second = shown(model.seen[-1])
    assert first == "Para one.\n\nStill the first.\n\nOnly for ferry 1." and second == "Only for ferry 2."


def test_an_empty_answer_is_replaced_only_after_a_limit():
    agent, _, _ = agent_of(iter([search_call(1), AIMessage("")]), different(), max_searches=1)
    assert "could not find the answer" in ask(agent)[-1].text
    agent, _, _ = agent_of(iter([AIMessage("")]), different(), max_searches=1)
    assert ask(agent)[-1].text == ""


def test_simultaneous_searches_over_the_limit_are_refused():
    calls = [{"name": "search", "args": {"query": str(i)}, "id": f"c{i}"} for i in range(4)]
    replies = iter([AIMessage("", tool_calls=calls), AIMessage("Done.")])
    agent, _, searched = agent_of(replies, different(), max_searches=2)
    messages = ask(agent)
    assert sorted(searched) == ["0", "1"]
    refused = [m for m in messages if isinstance(m, ToolMessage) and m.status == "error"]
    assert {m.tool_call_id for m in refused} == {"c2", "c3"}
    assert messages[-1].text == "Done."


def test_other_tools_are_left_alone():
    @tool
    def weather(place: str) -> str:
        """Tell the weather."""
        return "Rain."

    calls = [search_call(i, "weather") for i in range(5)]
    for call in calls:
        call.tool_calls[0]["args"] = {"place": "pier"}
    model = ScriptedModel(messages=iter([*calls, AIMessage("It rains.")]))
    limited = SageRetrievalMiddleware(tools=["search"], max_searches=1, max_unchanged=1)
    agent = create_agent(model, tools=[weather], middleware=[limited])
    assert ask(agent)[-1].text == "It rains."


def test_counts_start_again_with_the_next_question_of_a_thread():
    agent, _, searched = agent_of(looping(), different(), checkpointer=InMemorySaver(), max_searches=2)
    for question in ("When does the ferry leave?", "And on Sundays?"):
        ask(agent, question, configurable={"thread_id": "t"})
    assert len(searched) == 4


def test_counts_survive_an_interruption():
    agent, _, searched = agent_of(looping(), different(), checkpointer=InMemorySaver(), max_searches=3)
    thread = {"configurable": {"thread_id": "t"}, "recursion_limit": 100}
    for step in ({"messages": [HumanMessage("When?")]}, *[None] * 5):
        state = agent.invoke(step, thread, interrupt_before=["tools"])
    assert len(searched) == 3 and "limit of searches" in state["messages"][-1].text


@pytest.mark.parametrize(
    ("middleware", "wrong"),
    [
        (SageRetrievalMiddleware, {"tools": []}),
        (SageRetrievalMiddleware, {"tools": "search"}),
        (SageRetrievalMiddleware, {"max_searches": 0}),
        (SageRetrievalMiddleware, {"max_context_tokens": "x"}),
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


@pytest.mark.parametrize("first", ["summary", "limits"])
def test_a_summary_does_not_start_the_count_anew(first):
    """The stock middleware puts a summary in the place of the conversation, as a message of the user."""
    bounded = SageRetrievalMiddleware(max_searches=4, max_unchanged=None)
    middleware = [summarizing(), bounded] if first == "summary" else [bounded, summarizing()]
    agent, _, searched = search_agent(looping(), different(), *middleware, checkpointer=InMemorySaver())
    thread = {"recursion_limit": 100, "configurable": {"thread_id": "1"}}
    state = agent.invoke({"messages": [HumanMessage("When?")]}, thread)
    assert len(searched) == 4 and "limit of searches" in state["messages"][-1].text
    assert "sage_searches" not in state
    # A new message of the user starts it anew.
    agent.invoke({"messages": [HumanMessage("And back?")]}, thread)
    assert len(searched) == 8


def summarizing():
    summarizer = GenericFakeChatModel(messages=iter([AIMessage("The user asks about ferries.")] * 50))
    return SummarizationMiddleware(model=summarizer, trigger=("messages", 5), keep=("messages", 2))


def test_an_answer_is_judged_by_passages_that_were_summarized_since():
    facts = [f"Fact {i}: the ferry number {i} leaves at seven from the quay." for i in range(4)]
    replies = [*(search_call(i) for i in range(4)), AIMessage(facts[0])]
    middleware = [SageRetrievalMiddleware(), summarizing(), SageGroundingMiddleware()]
    last = ask(search_agent(replies, facts, *middleware)[0])[-1]
    assert last.additional_kwargs["sage_grounding"]["supported"] and UNSUPPORTED not in last.text


class Reply(BaseModel):
    """An answer."""

    answer: str


@pytest.mark.parametrize("response_format", [Reply, ToolStrategy(Reply)])
def test_a_structured_answer_is_no_search(response_format):
    call = {"name": "Reply", "args": {"answer": "seven"}, "id": "reply"}
    replies = [search_call(1), search_call(2), AIMessage("", tool_calls=[call])]
    middleware = [SageRetrievalMiddleware(max_searches=2), SageGroundingMiddleware(action="retry")]
    agent, _, _ = search_agent(replies, "abc", *middleware, response_format=response_format)
    state = agent.invoke({"messages": [HumanMessage("When?")]}, {"recursion_limit": 50})
    assert state["structured_response"] == Reply(answer="seven")


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
    same = [result(i, "The ferry leaves at seven.") for i in range(9)]
    agent, _, _ = agent_of(looping(), same, max_unchanged=2)
    messages = ask(agent)
    assert len(shown(messages)) == 3 and "nothing new" in messages[-1].text
    others = [result(i, f"Ferry {i} leaves at seven.") for i in range(9)]
    agent, _, _ = agent_of(looping(), others, max_searches=5, max_unchanged=2)
    assert len(shown(ask(agent))) == 5
    agent, _ = checked([FALSE], results=same)
    assert UNSUPPORTED in ask(agent)[-1].text


def test_results_that_cannot_be_read_are_not_unchanged():
    pictures = [([{"type": "image", "url": f"http://localhost/{i}.png"}], None) for i in range(9)]
    agent, _, _ = agent_of(looping(), pictures, max_searches=5, max_unchanged=2)
    assert len(shown(ask(agent))) == 5


def test_repeated_blocks_are_dropped_and_the_others_stay():
    first, second = search_result("The ferry leaves at seven."), search_result("It carries cars.")
    results = [([first], None), ([first, second], None)]
    agent, _, _ = agent_of([search_call(1), search_call(2), AIMessage("At seven.")], results)
    assert [m for m in ask(agent) if isinstance(m, ToolMessage)][1].content == [second]


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
