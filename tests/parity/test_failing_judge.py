"""Whatever the local judge does, a finished answer is returned: in all three doors, at once and in pieces."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sage_core.feedback import FeedbackResult, Verdict
from sage_core.verify import LocalJudge, mark_answer, settled
from sage_langchain import SageCompressor, SageGrounding, SageRetriever, create_sage_chain
from sage_langchain.middleware import SageGroundingMiddleware
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine
from tests.fakes.doors import at_door
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM, trace_of
from tests.fakes.llm_server import LLMServer, Request
from tests.fakes.models import WordReranker
from tests.fakes.sages import small_sage

GRADE = json.dumps({"reason": "complete", "score": 9, "adjust": 0, "passage": 1})
QUESTION = "What does the lamp of the harbor cost?"
ANSWER = "The lamp costs 9 francs. It is sold in the harbor."
# Footnotes, powers and circled numbers stand where the answer has a number.
TEXTS = [
    "The lamp costs 10² francs. It is sold in the harbor.",
    "The lamp costs ³ francs. ① It costs ② francs, and H₂O costs 10₂ francs.",
]


class Nodes(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=text)) for text in TEXTS]


def by_sage(how: str, folder: Path, **settings: Any) -> tuple[str, FeedbackResult]:
    def script(request: Request) -> str:
        return GRADE if request.is_critic else ANSWER

    (folder / "lamp.txt").write_text("\n\n".join(TEXTS))
    with LLMServer(script) as server, small_sage(folder / "store", url=server.base_url, **settings) as own:
        own.ingest(folder / "lamp.txt")
        if how == "streamed":
            *pieces, answer = own.stream(QUESTION)
            assert "".join(p for p in pieces if isinstance(p, str)).startswith(ANSWER)
        elif how == "astreamed":

            async def last() -> Any:
                return [piece async for piece in own.astream(QUESTION)][-1]

            answer = asyncio.run(last())
        else:
            answer = asyncio.run(own.aask(QUESTION)) if how == "awaited" else own.ask(QUESTION)
        return answer.text, answer.feedback


def by_engine(how: str, folder: Path, **settings: Any) -> tuple[str, FeedbackResult]:
    ours = SageNodePostprocessor(reranker=WordReranker())
    if how.endswith("streamed"):
        settings |= {"streaming": True, "feedback": "after_stream"}
    llm = ScriptedLLM.of([ANSWER], [GRADE])
    engine = SageQueryEngine.from_args(Nodes(), llm=llm, node_postprocessors=[ours], **at_door(**settings))
    if how == "streamed":
        response: Any = engine.query(QUESTION)
        return "".join(response.response_gen), trace_of(response)
    if how == "astreamed":

        async def whole() -> Any:
            response: Any = await engine.aquery(QUESTION)
            return "".join([piece async for piece in response.async_response_gen()]), trace_of(response)

        return asyncio.run(whole())
    response = asyncio.run(engine.aquery(QUESTION)) if how == "awaited" else engine.query(QUESTION)
    return str(response), trace_of(response)


def by_chain(how: str, folder: Path, **settings: Any) -> tuple[str, FeedbackResult]:
    retriever = SageRetriever(
        base_retriever=lambda _: [Document(text) for text in TEXTS],
        base_compressor=SageCompressor(reranker=WordReranker()),
    )
    critic = {"critic": ScriptedChat(replies=[GRADE] * 5), "critic_method": "prompt"}
    llm = FakeListChatModel(responses=[ANSWER, GRADE])  # it grades too where no model is named as critic
    rounds = {"max_rounds": 1} if how.endswith("streamed") else {}
    chain = create_sage_chain(llm, retriever, **at_door(**{**critic, **rounds, **settings}))
    if how == "streamed":
        pieces = list(chain.stream(QUESTION))
    elif how == "astreamed":

        async def all_pieces() -> list[Any]:
            return [piece async for piece in chain.astream(QUESTION)]

        pieces = asyncio.run(all_pieces())
    else:
        output = asyncio.run(chain.ainvoke(QUESTION)) if how == "awaited" else chain.invoke(QUESTION)
        return output["answer"], FeedbackResult.from_dict(output["sage"])
    trace = next(piece["sage"] for piece in pieces if "sage" in piece)
    return "".join(piece.get("answer", "") for piece in pieces), FeedbackResult.from_dict(trace)


DOORS = pytest.mark.parametrize("door", [by_sage, by_engine, by_chain])
WAYS = pytest.mark.parametrize("how", ["at once", "awaited", "streamed", "astreamed"])


@DOORS
@WAYS
def test_raised_lowered_and_circled_digits_are_no_numbers(door: Any, how: str, tmp_path: Path) -> None:
    settings = {"critic": "auto"} if how == "at once" else {}
    text, result = door(how, tmp_path, **settings)
    assert text.startswith(ANSWER) and result.answer.strip() == ANSWER
    assert result.stop_reason != "critic_failed"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("a bug of the judge")

    for method in ("locate", "answerable", "grounding", "claims_at", "supported"):
        monkeypatch.setattr(LocalJudge, method, fail)


@DOORS
@WAYS
@pytest.mark.parametrize("settings", [{}, {"critic": "auto"}, {"critic": "local"}])
@pytest.mark.usefixtures("broken")
def test_a_judge_that_raises_loses_no_answer(
    door: Any, how: str, settings: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text, result = door(how, tmp_path, **settings)
    assert text.startswith(ANSWER) and result.answer.strip() == ANSWER
    if settings.get("critic") == "local":
        assert result.stop_reason in ("unchanged", "max_rounds") and result.score == 5, "nothing is known"
    else:
        assert result.stop_reason == "accepted" and result.score == 9, "the LLM graded"
    assert "a bug of the judge" in caplog.text


@pytest.mark.usefixtures("broken")
def test_claims_of_a_judge_that_raises_are_unsure() -> None:
    (mark,) = mark_answer(ANSWER, TEXTS)
    assert (mark.text, mark.support, mark.probability) == (ANSWER, "unsure", None)
    assert "a bug of the judge" in mark.reason
    assert settled(Verdict(9), QUESTION, ANSWER, TEXTS).accepted


@pytest.mark.usefixtures("broken")
def test_checks_of_chains_and_agents_hand_the_answer_on() -> None:
    output = SageGrounding().invoke({"input": QUESTION, "answer": ANSWER, "context": TEXTS})
    assert output["answer"] == ANSWER and output["verdict"].probability is None
    (mark,) = output["verdict"].marks
    assert mark.text == ANSWER and mark.support == "unsure" and "a bug of the judge" in mark.reason

    agent = create_agent(ScriptedChat(replies=[ANSWER]), [], middleware=[SageGroundingMiddleware()])
    call = {"name": "search", "args": {"query": "lamp"}, "id": "1"}
    messages: Any = [
        ("user", QUESTION),
        AIMessage("", tool_calls=[call]),
        ToolMessage(TEXTS[0], tool_call_id="1"),
    ]
    last = agent.invoke({"messages": messages})["messages"][-1]
    assert last.text == ANSWER
