"""Applications after LangChain's and LangGraph's own tutorials; what is changed in each is marked ``# sage``."""

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_text_splitters import RecursiveCharacterTextSplitter

from sage_langchain import MiniLMEmbeddings, SageRetriever, SageTextSplitter, create_sage_chain
from tests.apps.readers import GUIDES, ReadingChat

for package in ("langchain", "langchain_classic", "langchain_chroma"):
    pytest.importorskip(package)

pytestmark = pytest.mark.apps

FOUND_ON_BOARD = "How long are things kept that were found on board?"
TOUR = "What does a tour of the mill cost?"


def pages() -> list[Document]:
    return [Document(text, metadata={"source": name}) for name, text in GUIDES.items()]


@pytest.fixture(scope="module", params=["chunks", "passages"])
def store(request: pytest.FixtureRequest) -> Any:
    from langchain_chroma import Chroma

    splitter: Any = SageTextSplitter(add_start_index=True)  # sage
    if request.param == "passages":
        splitter = RecursiveCharacterTextSplitter(chunk_size=3_000, add_start_index=True)
    return Chroma.from_documents(
        splitter.split_documents(pages()), MiniLMEmbeddings(), collection_name=request.param
    )


@pytest.fixture(scope="module")
def retriever(store: Any) -> SageRetriever:
    return SageRetriever.from_vectorstore(store)  # sage


# -- agents -----------------------------------------------------------------------------------------------


def test_agentic_rag_in_langgraph(retriever: SageRetriever) -> None:
    """LangGraph's tutorial: a model that may search, a grade of what it found, a question written anew."""
    from langchain_core.messages import HumanMessage, ToolMessage
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    tool = retriever.as_tool()  # sage
    searches = [{"name": "search", "args": {"query": query}} for query in ("opera", "things found on board")]
    llm = ReadingChat(calls=searches)

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [llm.bind_tools([tool]).invoke(state["messages"])]}

    def grade(state: MessagesState) -> str:
        return "answer" if "kept" in state["messages"][-1].text else "rewrite"

    def rewrite(state: MessagesState) -> dict[str, Any]:
        return {"messages": [HumanMessage(FOUND_ON_BOARD)]}

    graph = StateGraph(MessagesState)
    for name, node in (("ask", ask), ("search", ToolNode([tool])), ("rewrite", rewrite), ("answer", ask)):
        graph.add_node(name, node)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition, {"tools": "search", END: END})
    graph.add_conditional_edges("search", grade, ["answer", "rewrite"])
    graph.add_edge("rewrite", "ask")
    graph.add_edge("answer", END)
    messages = graph.compile().invoke({"messages": [HumanMessage("Lost and found?")]})["messages"]
    assert "three months" in messages[-1].text
    artifacts = [m.artifact for m in messages if isinstance(m, ToolMessage)]
    assert len(artifacts) == 2 and all(isinstance(d, Document) for d in artifacts[1])


# -- conversation, parents --------------------------------------------------------------------------------


def test_conversation(retriever: SageRetriever) -> None:
    """A retriever that reads the conversation, and its memory."""
    from langchain_classic.chains import create_history_aware_retriever
    from langchain_core.chat_history import InMemoryChatMessageHistory
    from langchain_core.runnables.history import RunnableWithMessageHistory

    written = ChatPromptTemplate.from_messages(
        [("system", "Write the question out."), MessagesPlaceholder("history"), ("human", "{input}")]
    )
    llm = ReadingChat(replies={"Write the question out": TOUR})
    aware = create_history_aware_retriever(llm, retriever, written)
    chain = create_sage_chain(llm, SageRetriever(base_retriever=aware), critic="local")  # sage
    memory: dict[str, InMemoryChatMessageHistory] = {}
    chat = RunnableWithMessageHistory(
        chain,
        lambda session: memory.setdefault(session, InMemoryChatMessageHistory()),
        input_messages_key="input",
        history_messages_key="history",
        output_messages_key="answer",
    )
    session: Any = {"configurable": {"session_id": "1"}}
    assert chat.invoke({"input": "Is the mill open to visitors?"}, session)["answer"]
    answer = chat.invoke({"input": "And what does a tour cost?"}, session)
    assert "5 pounds" in answer["answer"] and len(memory["1"].messages) == 4


def test_parent_documents() -> None:
    """Small chunks are searched, the sections that they come from are ranked and returned."""
    from langchain_classic.retrievers import ParentDocumentRetriever
    from langchain_classic.storage import InMemoryStore
    from langchain_core.vectorstores import InMemoryVectorStore

    parents = ParentDocumentRetriever(
        vectorstore=InMemoryVectorStore(MiniLMEmbeddings()),
        docstore=InMemoryStore(),
        child_splitter=SageTextSplitter(target_tokens="sentence"),  # sage
        parent_splitter=SageTextSplitter(target_tokens="section", add_start_index=True),  # sage
        search_kwargs={"k": 30},
    )
    parents.add_documents(pages())
    best = SageRetriever(base_retriever=parents).invoke(FOUND_ON_BOARD)[0]  # sage
    assert "three months" in best.page_content
    start = best.metadata["start_index"]
    assert GUIDES[best.metadata["source"]][start:].startswith(best.page_content)
