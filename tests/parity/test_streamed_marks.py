"""Each sentence of a streamed answer has its mark before the next one, and a contradicted one ends it."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler

from sage_app import LLMAnswerer, Sage, SageConfig
from sage_app.pipeline.results import Answer
from sage_core import OpenAIChat
from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig, FeedbackResult, Round
from sage_core.verify import AnswerMark
from sage_langchain import SageChain, SageRetriever, create_sage_chain
from sage_llamaindex import (
    SageMarkEvent,
    SageNodePostprocessor,
    SageQueryEngine,
    SageSentenceEvent,
    SageWorkflow,
)
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM, trace_of
from tests.fakes.llm_server import LLMServer, Request
from tests.fakes.models import HashEmbedder, WordReranker
from tests.fakes.sages import loop_config

TEXT = "The ferry takes 40 minutes to the island every day. The ferry carries twelve cars."
QUESTION = "How long does the ferry take to the island?"
WRONG = "The ferry takes 55 minutes to the island. It carries twelve cars. It is painted blue."
STOPPED = "The ferry takes 55 minutes to the island."
RIGHT = "The ferry takes 40 minutes to the island. The ferry carries twelve cars."
GRADE = json.dumps({"reason": "complete", "score": 9, "adjust": 0, "passage": 1})
# With a second candidate, a low grade has a wider selection to go on with.
TEXTS = [TEXT, "Seals sleep on rocks."]


class Nodes(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=text)) for text in TEXTS]


@contextmanager
def sage(folder: Path, answers: list[str], **settings: Any) -> Iterator[tuple[Sage, LLMServer]]:
    left = list(answers)

    def script(request: Request) -> str:
        return GRADE if request.is_critic else left.pop(0)

    for i, text in enumerate(TEXTS):
        (folder / f"{i}.txt").write_text(text)
    config = SageConfig(feedback=loop_config(**{"min_k": 1, "rule": "gradient", **settings}))
    with LLMServer(script) as server:
        chat = OpenAIChat("m", base_url=server.base_url, api_key="sk-test", backoff=0.0)
        parts: Any = {"embedder": HashEmbedder(), "reranker": WordReranker()}
        with Sage(folder / "store", answerer=LLMAnswerer(chat), config=config, **parts) as own:
            own.ingest([folder / f"{i}.txt" for i in range(len(TEXTS))])
            yield own, server


def engine(llm: ScriptedLLM, **settings: Any) -> SageQueryEngine:
    ours = SageNodePostprocessor(reranker=WordReranker(), min_k=1, rule="gradient")
    given = {"node_postprocessors": [ours], "streaming": True, **settings}
    return SageQueryEngine.from_args(Nodes(), llm=llm, **given)


def chain(answers: list[str], **settings: Any) -> SageChain:
    documents = [Document(text) for text in TEXTS]
    retriever = SageRetriever(
        base_retriever=lambda _: documents, reranker=WordReranker(), min_k=1, rule="gradient"
    )
    critic = ScriptedChat(replies=[GRADE] * 3)
    llm = FakeListChatModel(responses=answers)
    return create_sage_chain(llm, retriever, critic=critic, critic_method="prompt", **settings)


def ordered(events: list[Any]) -> None:
    """Marks come before any text of the sentence after theirs."""
    shown, judged = "", 0
    for event in events:
        if isinstance(event, str):
            ended = shown.rstrip().rfind(". ") + 1
            assert judged >= ended
            shown += event
        else:
            judged = event


class TestSage:
    def test_stream(self, tmp_path: Path) -> None:
        with sage(tmp_path, [RIGHT]) as (own, _):
            events = list(own.stream(QUESTION))
        assert "".join(e for e in events if isinstance(e, str)) == RIGHT
        ordered([e if isinstance(e, str) else e.span.end for e in events if isinstance(e, str | AnswerMark)])
        marks = [e.support for e in events if isinstance(e, AnswerMark) and e.text.strip()]
        assert marks == ["supported", "supported"]
        assert [type(e) for e in events[-2:]] == [Round, Answer] and events[-1].text == RIGHT
        assert events[-1].feedback.stop_reason == "accepted" and not events[-1].feedback.usage.estimated

    async def test_astream(self, tmp_path: Path) -> None:
        with sage(tmp_path, [RIGHT]) as (own, _):
            events = [e async for e in own.astream(own.retrieve(QUESTION))]
        assert "".join(e for e in events if isinstance(e, str)) == RIGHT
        assert sum(isinstance(e, AnswerMark) and bool(e.text.strip()) for e in events) == 2
        assert isinstance(events[-1], Answer)

    def test_a_contradiction_ends_the_round_and_the_loop_goes_on(self, tmp_path: Path) -> None:
        with sage(tmp_path, [WRONG, RIGHT], stop_on="contradicted") as (own, server):
            events = list(own.stream(QUESTION))
        first, second = (e for e in events if isinstance(e, Round))
        assert (first.answer, second.answer) == (STOPPED, RIGHT) and first.verdict.score < 9
        assert first.verdict.source == first.verdict.vetoed_by == "local judge"
        assert first.answer_usage.estimated and first.grade_usage.calls == 0
        assert sum(request.is_critic for request in server.requests) == 1
        assert events[-1].text == RIGHT and events[-1].score == 9


class TestLlamaIndex:
    async def test_the_workflow_streams_marks(self) -> None:
        handler = SageWorkflow(engine(ScriptedLLM.of([RIGHT]))).run(query=QUESTION)
        found = [e async for e in handler.stream_events() if isinstance(e, SageSentenceEvent)]
        await handler
        assert [e.mark["support"] for e in found if e.mark["text"].strip()] == ["supported", "supported"]
        assert {e.round for e in found} == {1}

    def test_a_streamed_response_sends_marks_in_time(self) -> None:
        events: list[Any] = []

        class Handler(BaseEventHandler):
            def handle(self, event: Any, **_: Any) -> None:
                if isinstance(event, SageMarkEvent):
                    events.append(event.mark["span"][1])

        root, handler = get_dispatcher(), Handler()
        root.add_event_handler(handler)
        try:
            response = engine(ScriptedLLM.of([RIGHT]), feedback="after_stream").query(QUESTION)
            for token in response.response_gen:  # type: ignore[union-attr]
                events.append(token)
        finally:
            root.event_handlers.remove(handler)
        ordered(events)
        assert "".join(e for e in events if isinstance(e, str)) == RIGHT
        assert sum(not isinstance(e, str) for e in events) >= 2


class TestLangChain:
    async def test_astream_events_have_the_marks_in_time(self) -> None:
        events: list[Any] = []
        async for event in chain([RIGHT], max_rounds=1).astream_events(QUESTION, version="v2"):
            if event["event"] == "on_custom_event" and event["name"] == "sage_mark":
                assert event["data"]["round"] == 1
                events.append(event["data"]["span"][1])
            elif event["event"] == "on_chain_stream" and "sage:final" in event["tags"]:
                events.append(event["data"]["chunk"])
        ordered(events)
        assert "".join(e for e in events if isinstance(e, str)) == RIGHT
        assert sum(not isinstance(e, str) for e in events) >= 2


def test_an_unknown_stop_is_refused() -> None:
    with pytest.raises(InputError, match="stop_on"):
        FeedbackConfig(stop_on="always")  # type: ignore[arg-type]


def by_sage(awaited: bool, folder: Path) -> FeedbackResult:
    with sage(folder, [WRONG, RIGHT], stop_on="contradicted") as (own, _):
        return (asyncio.run(own.aask(QUESTION)) if awaited else own.ask(QUESTION)).feedback


def by_engine(awaited: bool, folder: Path) -> FeedbackResult:
    llm = ScriptedLLM.of([WRONG, RIGHT], [GRADE])
    own = engine(llm, stop_on="contradicted", use_async=awaited)
    result = trace_of(asyncio.run(own.aquery(QUESTION)) if awaited else own.query(QUESTION))
    assert len(llm.asked("critic")) == 1
    return result


def by_chain(awaited: bool, folder: Path) -> FeedbackResult:
    own = chain([WRONG, RIGHT], stop_on="contradicted")
    output = asyncio.run(own.ainvoke(QUESTION)) if awaited else own.invoke(QUESTION)
    assert output["answer"] == RIGHT
    return FeedbackResult.from_dict(output["sage"])


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("ask", [by_sage, by_engine, by_chain])
def test_a_contradiction_ends_a_round_that_is_not_streamed_too(
    ask: Any, awaited: bool, tmp_path: Path
) -> None:
    result = ask(awaited, tmp_path)
    assert [(r.answer or "").rstrip() for r in result.rounds] == [STOPPED, RIGHT]
    assert result.score == 9 and result.rounds[0].grade_usage.calls == 0


def test_a_single_answer_ends_where_it_is_contradicted() -> None:
    own = engine(ScriptedLLM.of([WRONG], [GRADE]), feedback="after_stream", stop_on="contradicted")
    response = own.query(QUESTION)
    assert "".join(response.response_gen).rstrip() == STOPPED  # type: ignore[union-attr]
    assert trace_of(response).verdict.vetoed_by == "local judge"
    pieces = list(chain([WRONG], max_rounds=1, stop_on="contradicted").stream(QUESTION))
    assert "".join(piece["answer"] for piece in pieces if "answer" in piece).rstrip() == STOPPED
    assert pieces[-1]["sage"]["verdict"]["vetoed_by"] == "local judge"
