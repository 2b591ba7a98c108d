"""As a LangGraph node, and as the tool of an agent, with the framework's fake models."""

from typing import Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.prompts import PromptTemplate
from langchain_core.tools import create_retriever_tool

from sage_core.selection import SelectionConfig
from sage_langchain import SageCompressor, SageRetriever
from tests.fakes.langchain import graded
from tests.fakes.models import WordReranker
from tests.langchain.test_chain import DOCUMENTS, TWO_ROUNDS, chain
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
    assert shown(chain("all of it", graded(9), model=StreamingChat, max_rounds=1)) == ["all ", "of ", "it"]


def retriever_tool() -> Any:
    retriever = SageRetriever(
        base_retriever=lambda _: DOCUMENTS,
        base_compressor=SageCompressor(reranker=WordReranker(), selection=SelectionConfig(min_k=2, max_k=2)),
    )
    return create_retriever_tool(
        retriever,
        "search",
        "Search the notes.",
        document_prompt=PromptTemplate.from_template("{page_content} ({relevance_score})"),
        response_format="content_and_artifact",
    )


async def test_a_retriever_tool_gives_documents_with_scores():
    tool = retriever_tool()
    call = {"name": "search", "args": {"query": "Passage 3"}, "id": "1", "type": "tool_call"}
    for message in (tool.invoke(call), await tool.ainvoke(call)):
        assert isinstance(message, ToolMessage)
        assert message.content.startswith("Passage 3 about bees. (1.0)")
        assert [d.metadata["relevance_score"] for d in message.artifact] == [1.0, 0.5]
