"""A question to each door, made in one place: those that answer, and what is sent of an index or a store.

A door takes what the framework's own class takes. `SENDING` are the doors behind which an LLM reads, `ASKING` those
that answer; each can be awaited, and those that answer can stream.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.vectorstores import VectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import (
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)

from sage_core.feedback import FeedbackConfig, FeedbackResult
from sage_core.ranking import HybridReranker, Place
from sage_langchain import SageCompressor, create_sage_chain
from sage_langchain import SageRetriever as LangChainRetriever
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine
from sage_llamaindex import SageRetriever as LlamaIndexRetriever
from tests.fakes.doors import at_door
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM, grade, trace_of
from tests.fakes.llm_server import LLMServer, Request
from tests.fakes.models import WordReranker
from tests.fakes.sages import small_sage


class Given(BaseRetriever):
    """The same nodes for every question; texts become nodes without scores."""

    def __init__(self, nodes: Sequence[NodeWithScore | str]) -> None:
        self.nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=n)) if isinstance(n, str) else n for n in self.nodes]


class Asked(NamedTuple):
    """A question to a door, what its LLM answers and its critic replies, and how: at once or in pieces, awaited or not."""

    question: str
    texts: Sequence[str]
    answer: str
    grade: str
    folder: Path
    awaited: bool = False
    streamed: bool = False


Told = tuple[str, FeedbackResult]
"""What a reader sees of an answer, and the trace."""


def by_sage(asked: Asked, **settings: Any) -> Told:
    def script(request: Request) -> str:
        return asked.grade if request.is_critic else asked.answer

    (documents := asked.folder / "documents").mkdir(exist_ok=True)
    for i, text in enumerate(asked.texts):
        (documents / f"{i}.md").write_text(text)
    with LLMServer(script) as server:
        store = asked.folder / "store"
        with small_sage(store, url=server.base_url, reranker=HybridReranker(), **settings) as sage:
            sage.ingest(documents)
            if not asked.streamed:
                answer = asyncio.run(sage.aask(asked.question)) if asked.awaited else sage.ask(asked.question)
                return answer.text, answer.feedback
            stream = sage.astream(asked.question) if asked.awaited else sage.stream(asked.question)
            *pieces, answer = _all(stream)
            assert "".join(p for p in pieces if isinstance(p, str)).startswith(answer.feedback.answer.strip())
            return answer.text, answer.feedback


def by_engine(asked: Asked, **settings: Any) -> Told:
    ours = SageNodePostprocessor(reranker=WordReranker())
    if asked.streamed:
        settings["streaming"] = True
    llm = ScriptedLLM.of([asked.answer], [asked.grade])
    engine = SageQueryEngine.from_args(
        Given(asked.texts), llm=llm, node_postprocessors=[ours], **at_door(**settings)
    )

    async def awaited() -> Any:
        response: Any = await engine.aquery(asked.question)
        if not asked.streamed:
            return str(response), response
        return "".join([piece async for piece in response.async_response_gen()]), response

    response: Any
    if asked.awaited:
        text, response = asyncio.run(awaited())
    else:
        response = engine.query(asked.question)
        text = "".join(response.response_gen) if asked.streamed else str(response)
    return text, trace_of(response)


def repeating(response: str) -> FakeListChatModel:
    return FakeListChatModel(responses=[response])


def by_chain(asked: Asked, **settings: Any) -> Told:
    retriever = LangChainRetriever(
        base_retriever=lambda _: [Document(text) for text in asked.texts],
        base_compressor=SageCompressor(reranker=WordReranker()),
    )
    if asked.streamed:
        settings |= {"max_rounds": 1}
    kind, llm, critic = settings.pop("critic", "llm"), *map(repeating, (asked.answer, asked.grade))
    loop = replace(at_door(**settings).get("loop", FeedbackConfig()), critic=kind)
    chain = create_sage_chain(llm, retriever, critic=critic, loop=loop)
    if not asked.streamed:
        output = asyncio.run(chain.ainvoke(asked.question)) if asked.awaited else chain.invoke(asked.question)
        return output["answer"], FeedbackResult.from_dict(output["sage"])
    pieces = _all(chain.astream(asked.question) if asked.awaited else chain.stream(asked.question))
    trace = next(piece["sage"] for piece in pieces if "sage" in piece)
    return "".join(piece.get("answer", "") for piece in pieces), FeedbackResult.from_dict(trace)


ASKING = {"Sage": by_sage, "engine": by_engine, "chain": by_chain}


def _all(stream: Any) -> list[Any]:
    async def read() -> list[Any]:
        return [piece async for piece in stream]

    return asyncio.run(read()) if hasattr(stream, "__aiter__") else [*stream]


class Searched(NamedTuple):
    """An index and a store of the same texts."""

    index: VectorStoreIndex
    store: VectorStore


class Sent(NamedTuple):
    """A passage, its id, and its place in its document."""

    text: str
    id: str | None
    start: int | None


Door = Callable[..., list[Sent]]


def _sent(found: Sequence[Any]) -> list[Sent]:
    return [
        Sent(f.page_content, f.id, f.metadata.get("start_index"))
        if isinstance(f, Document)
        else Sent(f.node.text, f.node.node_id, f.node.start_char_idx)
        for f in found
    ]


def _called(awaited: bool, plain: Any, coroutine: Any, *arguments: Any, **named: Any) -> Any:
    """What a call gives, awaited or not."""
    return asyncio.run(coroutine(*arguments, **named)) if awaited else plain(*arguments, **named)


def _of_index(question: str, searched: Searched, awaited: bool = False, **settings: Any) -> list[Sent]:
    retriever = LlamaIndexRetriever.from_index(searched.index, **at_door(**settings))
    return _sent(_called(awaited, retriever.retrieve, retriever.aretrieve, question))


def _of_nodes(question: str, searched: Searched, awaited: bool = False, **settings: Any) -> list[Sent]:
    nodes = searched.index.as_retriever(similarity_top_k=60).retrieve(question)
    ours = SageNodePostprocessor(**at_door(**settings))
    return _sent(_called(awaited, ours.postprocess_nodes, ours.apostprocess_nodes, nodes, query_str=question))


def _of_engine(
    question: str, searched: Searched, awaited: bool = False, stock: bool = False, **settings: Any
) -> list[Sent]:
    llm, settings = ScriptedLLM.of(["an answer"], [grade(9)]), at_door(**settings)
    grading = {name: settings.pop(name) for name in ("critic", "loop") if name in settings}
    if stock:
        ours = [SageNodePostprocessor(**settings)]
        theirs = searched.index.as_query_engine(llm=llm, similarity_top_k=60, node_postprocessors=ours)
        engine = SageQueryEngine.from_query_engine(theirs, **grading)
    elif "passages" in settings:  # how nodes are cut is the retriever's setting
        retriever = LlamaIndexRetriever.from_index(searched.index, **settings)
        engine = SageQueryEngine.from_args(retriever, llm=llm, **grading)
    else:
        engine = SageQueryEngine.from_index(searched.index, llm=llm, **settings, **grading)
    response = asyncio.run(engine.aquery(question)) if awaited else engine.query(question)
    assert bool(response.source_nodes) == bool(llm.asked("answer"))
    assert str(response) == ("an answer" if response.source_nodes else "The documents do not say.")
    assert all(n.node.text in llm.asked("answer")[0] for n in response.source_nodes), "it reads what it shows"
    return _sent(response.source_nodes)


def _of_store(question: str, searched: Searched, awaited: bool = False, **settings: Any) -> list[Sent]:
    retriever = LangChainRetriever.from_vectorstore(searched.store, **at_door(**settings))
    return _sent(_called(awaited, retriever.invoke, retriever.ainvoke, question))


def _of_documents(question: str, searched: Searched, awaited: bool = False, **settings: Any) -> list[Sent]:
    scored = searched.store.similarity_search_with_score(question, k=60)
    found = [d.model_copy(update={"metadata": {**d.metadata, "score": score}}) for d, score in scored]
    ours = SageCompressor(**at_door(**settings))
    return _sent(_called(awaited, ours.compress_documents, ours.acompress_documents, found, question))


def _of_chain(question: str, searched: Searched, awaited: bool = False, **settings: Any) -> list[Sent]:
    chat = ScriptedChat(replies=["an answer", grade(9)])
    retriever, settings = searched.store, at_door(**settings)
    if "passages" in settings:  # how documents are cut is the retriever's setting
        retriever, settings = LangChainRetriever.from_vectorstore(retriever, **settings), {}
    chain = create_sage_chain(chat, retriever, **settings)
    output = asyncio.run(chain.ainvoke(question)) if awaited else chain.invoke(question)
    assert bool(output["context"]) == bool(chat.seen) == (output["answer"] == "an answer")
    return _sent(output["context"])


SENDING: dict[str, Door] = {
    "LlamaIndex retriever": _of_index,
    "postprocessor": _of_nodes,
    "engine": _of_engine,
    "engine without feedback": partial(_of_engine, critic="off"),
    "engine of an engine": partial(_of_engine, stock=True),
    "LangChain retriever": _of_store,
    "compressor": _of_documents,
    "chain": _of_chain,
}


class Listed(NamedTuple):
    """A text as a list of somebody else's has it: with a score, and maybe its place and its document's title."""

    text: str
    score: Any = None
    place: Place | None = None
    title: str = ""


Ranked = list[tuple[str, Any]]


def _nodes(found: Sequence[Listed], related: bool = False) -> list[NodeWithScore]:
    """With their places, or if ``related`` with the relationships of the first two alone."""
    nodes = []
    for text, score, place, title in found:
        node = TextNode(text=text, metadata={"title": title, "file_name": title} if title else {})
        if place is not None:
            node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=str(place.document))
        if place is not None and not related:
            node.start_char_idx, node.end_char_idx = place.start, place.end
        nodes.append(NodeWithScore(node=node, score=score))
    if related:
        first, second = nodes[0].node, nodes[1].node
        first.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id=second.node_id)
        second.relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id=first.node_id)
    return nodes


def _scored(nodes: Sequence[NodeWithScore]) -> Ranked:
    json.dumps([n.to_dict() for n in nodes], allow_nan=False)
    return [(n.node.get_content(), n.score) for n in nodes]


def _by_nodes(
    found: Sequence[Listed], question: str, awaited: bool = False, related: bool = False, **settings: Any
) -> Ranked:
    nodes, ours = _nodes(found, related), SageNodePostprocessor(**at_door(**settings))
    before = str(nodes)
    kept = _called(awaited, ours.postprocess_nodes, ours.apostprocess_nodes, nodes, query_str=question)
    assert str(nodes) == before, "the caller's own are never changed"
    return _scored(kept)


def _by_retriever(found: Sequence[Listed], question: str, awaited: bool = False, **settings: Any) -> Ranked:
    settings.pop("scale", None)  # a retriever tells it by the range
    ours = LlamaIndexRetriever(Given(_nodes(found)), **at_door(**settings))
    return _scored(asyncio.run(ours.aretrieve(question)) if awaited else ours.retrieve(question))


def _by_documents(found: Sequence[Listed], question: str, awaited: bool = False, **settings: Any) -> Ranked:
    documents = []
    for text, score, place, title in found:
        about = {"title": title, "source": title} if title else {}
        about |= {"source": place.document, "start_index": place.start} if place is not None else {}
        documents.append(Document(text, metadata={"score": score, **about}))
    ours = SageCompressor(**at_door(**settings))
    kept = _called(awaited, ours.compress_documents, ours.acompress_documents, documents, question)
    return [(d.page_content, d.metadata["relevance_score"]) for d in kept]


RANKING = {"nodes": _by_nodes, "documents": _by_documents, "retriever": _by_retriever}
"""What ranks and selects a list of somebody else's."""
