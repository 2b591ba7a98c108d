"""As a LangGraph node, and as the tool of an agent, with the framework's fake models."""

import json
from typing import Any, TypedDict

import pytest
from langchain_core.documents import Document

from sage_core.feedback import Verdict
from sage_core.selection import FixedK, SelectionConfig
from sage_core.text.tokens import get_counter
from sage_langchain import SageCompressor, SageGrounding, SageRetriever
from tests.fakes.models import WordReranker, grade
from tests.langchain.test_chain import TWO_ROUNDS, chain
from tests.langchain.test_chain_streams import StreamingChat


class State(TypedDict, total=False):
    """State of a graph around a `SageChain`."""

    input: str
    context: list[Document]
    answer: str
    sage: dict[str, Any]


def graph(node: Any) -> Any:
    pytest.importorskip("langgraph.graph")
    from langgraph.graph import END, START, StateGraph

    builder = StateGraph(State)
    builder.add_node("rag", node)
    builder.add_edge(START, "rag")
    builder.add_edge("rag", END)
    return builder.compile()


async def test_a_chain_is_a_graph_node():
    expected = chain(*TWO_ROUNDS).invoke({"input": "bees?"})
    assert graph(chain(*TWO_ROUNDS)).invoke({"input": "bees?"}) == expected
    assert await graph(chain(*TWO_ROUNDS)).ainvoke({"input": "bees?"}) == expected


def test_message_streams_of_a_graph_show_no_drafts_and_no_grades():
    def shown(made: Any) -> list[str]:
        stream = graph(made).stream({"input": "bees?"}, stream_mode="messages")
        return [message.content for message, _ in stream if message.content]

    assert shown(chain(*TWO_ROUNDS, model=StreamingChat)) == []
    assert shown(chain("all of it", grade(9), model=StreamingChat, max_rounds=1)) == ["all ", "of ", "it"]


def test_a_tool_keeps_within_its_tokens_and_says_so_if_nothing_is_found():
    pages = [Document(f"Passage {i} on bees. " * 20, metadata={"source": f"{i}.md"}) for i in range(5)]
    ours = SageCompressor(reranker=WordReranker(), selection=SelectionConfig(rule=FixedK(5)))
    over = SageRetriever(base_retriever=lambda q: pages if "bees" in q else [], base_compressor=ours)
    call = {"name": "search", "args": {"query": "bees"}, "id": "1", "type": "tool_call"}
    whole, cut = over.as_tool().invoke(call), over.as_tool(max_tokens=250).invoke(call)
    assert len(whole.artifact) == 5 and cut.artifact == whole.artifact[:2]
    assert get_counter("bert").count(cut.content) <= 260 and cut.content.startswith("[1] 0.md\nPassage 0")
    assert over.as_tool().invoke({**call, "args": {"query": "ferries"}}).content == "Nothing was found."


class Checked(TypedDict, total=False):
    """State of a graph around a `SageGrounding`."""

    answer: str
    context: list[str]
    verdict: dict[str, Any]


def test_a_verdict_survives_a_checkpoint(monkeypatch):
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", "true")
    checkpoints = pytest.importorskip("langgraph.checkpoint.memory")
    graphs = pytest.importorskip("langgraph.graph")
    made = graphs.StateGraph(Checked)
    made.add_node("check", SageGrounding())
    made.set_entry_point("check")
    run = made.compile(checkpointer=checkpoints.InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    run.invoke({"answer": "It leaves at nine.", "context": ["The ferry leaves at seven."]}, config)
    verdict = run.get_state(config).values["verdict"]
    assert verdict["accepted"] is False and json.loads(json.dumps(verdict)) == verdict
    assert Verdict.from_dict(verdict).marks[0].text == "It leaves at nine."
    for part, key in ((SageGrounding(), "verdict"), (chain(), "sage")):
        assert key in part.get_output_jsonschema()["properties"]
