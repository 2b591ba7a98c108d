"""Agents of both frameworks, with their own clients, over a scripted server: they search with our tools and answer."""

import json
from typing import Any

import pytest

from sage_core.text.tokens import get_counter
from tests.apps.readers import GUIDES
from tests.fakes.llm_server import LLMServer, Reply, Request

pytestmark = pytest.mark.apps

QUESTION = "What does a tour of the mill cost?"
SEARCH = {"name": "search", "arguments": json.dumps({"query": QUESTION})}
CALLS = [{"index": 0, "id": "call-1", "type": "function", "function": SEARCH}]


def searches_once(request: Request) -> Reply | str:
    """A model that searches, and answers once it has been told something."""
    if any(message["role"] == "tool" for message in request.body["messages"]):
        return "A tour costs 5 pounds."
    message = {"role": "assistant", "content": None, "tool_calls": CALLS}
    reply: dict[str, Any] = {"id": "1", "object": "chat.completion", "created": 0, "model": "scripted"}
    key = "delta" if request.streamed else "message"
    body = json.dumps({**reply, "choices": [{"index": 0, "finish_reason": "tool_calls", key: message}]})
    if not request.streamed:
        return Reply(raw=body)
    return Reply(raw=f"data: {body}\n\ndata: [DONE]\n\n", headers={"content-type": "text/event-stream"})


def check(server: LLMServer, answer: str) -> None:
    """The tool was offered with its question; what it found stood in the second request, within its limit."""
    assert answer == "A tour costs 5 pounds." and len(server.requests) == 2
    [offered] = server.requests[0].body["tools"]
    assert offered["function"]["name"] == "search" and "guide" in offered["function"]["description"]
    assert [*offered["function"]["parameters"]["properties"]] == ["query"]
    [told] = [m["content"] for m in server.requests[1].body["messages"] if m["role"] == "tool"]
    assert "5 pounds" in told and ".md" in told and get_counter("bert").count(told) <= 810


async def test_create_agent_of_langchain() -> None:
    agents, clients = pytest.importorskip("langchain.agents"), pytest.importorskip("langchain_openai")
    from langchain_core.documents import Document
    from langchain_core.vectorstores import InMemoryVectorStore

    from sage_langchain import MiniLMEmbeddings, SageRetriever, SageTextSplitter
    from sage_langchain.middleware import SageGroundingMiddleware

    pages = [Document(text, metadata={"source": name}) for name, text in GUIDES.items()]
    pieces = SageTextSplitter(add_start_index=True).split_documents(pages)
    store = InMemoryVectorStore.from_documents(pieces, MiniLMEmbeddings())
    tool = SageRetriever.from_vectorstore(store).as_tool(description="Searches the guide.", max_tokens=800)
    for awaited in (False, True):
        with LLMServer(searches_once) as server:
            model = clients.ChatOpenAI(model="m", base_url=server.base_url, api_key="sk-test")
            agent = agents.create_agent(model, tools=[tool], middleware=[SageGroundingMiddleware()])
            asked: Any = {"messages": [{"role": "user", "content": QUESTION}]}
            messages = (await agent.ainvoke(asked) if awaited else agent.invoke(asked))["messages"]
            check(server, messages[-1].text)
        assert all(isinstance(d, Document) for d in messages[-2].artifact)
        assert messages[-1].additional_kwargs["sage_grounding"]["supported"] is True


@pytest.mark.parametrize("streaming", [True, False])
async def test_function_agent_of_llamaindex(streaming: bool) -> None:
    clients = pytest.importorskip("llama_index.llms.openai_like")
    from llama_index.core import Document, VectorStoreIndex
    from llama_index.core.agent.workflow import FunctionAgent

    from sage_llamaindex import MiniLMEmbedding, SageNodeParser, SageRetriever

    pages = [Document(text=text, metadata={"file_name": name}) for name, text in GUIDES.items()]
    parts: Any = {"transformations": [SageNodeParser()], "embed_model": MiniLMEmbedding()}
    search = SageRetriever.from_index(VectorStoreIndex.from_documents(pages, **parts))
    tool = search.as_tool(description="Searches the guide.", max_tokens=800)
    with LLMServer(searches_once) as server:
        settings: Any = {"is_chat_model": True, "is_function_calling_model": True, "api_key": "sk-test"}
        llm = clients.OpenAILike(model="m", api_base=server.base_url, **settings)
        output = await FunctionAgent(tools=[tool], llm=llm, streaming=streaming).run(QUESTION)
        check(server, str(output))
    [called] = output.tool_calls
    assert called.tool_name == "search" and not called.tool_output.is_error
