"""A question to each door that answers, made in one place from the same texts and replies."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sage_core.feedback import FeedbackResult
from sage_core.ranking import HybridReranker
from sage_langchain import SageCompressor, create_sage_chain
from sage_langchain import SageRetriever as LangChainRetriever
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine
from tests.fakes.doors import at_door
from tests.fakes.llamaindex import ScriptedLLM, trace_of
from tests.fakes.llm_server import LLMServer, Request
from tests.fakes.models import WordReranker
from tests.fakes.sages import small_sage


class Fixed(BaseRetriever):
    """The same texts for every question, without scores."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=text)) for text in self.texts]


class Grading(FakeListChatModel):
    """The first response, and to the prompt of a critic the second."""

    def _call(self, messages: Any, *args: Any, **options: Any) -> str:
        self.i = int("You grade an answer" in str(messages))
        return super()._call(messages, *args, **options)

    def _stream(self, messages: Any, *args: Any, **options: Any) -> Any:
        self.i = int("You grade an answer" in str(messages))
        yield from super()._stream(messages, *args, **options)

    async def _astream(self, messages: Any, *args: Any, **options: Any) -> Any:
        for piece in self._stream(messages, *args, **options):
            yield piece


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
        settings |= {"streaming": True, "feedback": "after_stream"}
    llm = ScriptedLLM.of([asked.answer], [asked.grade])
    engine = SageQueryEngine.from_args(
        Fixed(asked.texts), llm=llm, node_postprocessors=[ours], **at_door(**settings)
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


def by_chain(asked: Asked, **settings: Any) -> Told:
    retriever = LangChainRetriever(
        base_retriever=lambda _: [Document(text) for text in asked.texts],
        base_compressor=SageCompressor(reranker=WordReranker()),
    )
    rounds = {"max_rounds": 1} if asked.streamed else {}
    llm = Grading(responses=[asked.answer, asked.grade])
    chain = create_sage_chain(llm, retriever, critic_method="prompt", **at_door(**rounds, **settings))
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
