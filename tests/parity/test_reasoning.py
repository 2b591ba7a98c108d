"""Reasoning is no part of an answer: at every door, at once and in pieces, and for the check."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sage_core.llm.reasoning import answer_pieces, blanked_reasoning, without_reasoning
from sage_core.verify import check, mark_answer
from sage_langchain import SageCompressor, SageGrounding, SageRetriever, create_sage_chain
from sage_llamaindex import SageGroundedEngine, SageNodePostprocessor, SageQueryEngine, verdict_of
from tests.fakes.doors import at_door
from tests.fakes.llamaindex import ScriptedLLM
from tests.fakes.llm_server import LLMServer, Request
from tests.fakes.models import WordReranker
from tests.fakes.sages import small_sage

TEXT = "The ferry leaves at nine on weekdays. Tickets are sold on board."
ANSWER = "The ferry leaves at nine on weekdays."
THINKS = "<think>Is it ten on Sundays?\n It costs 12 pounds.</think>\n\n"
QUESTION = "When does the ferry leave?"
GRADE = json.dumps({"reason": "complete", "score": 9, "adjust": 0})


@pytest.mark.parametrize(
    ("written", "answer", "streamed"),
    [
        (f"{THINKS}{ANSWER}", ANSWER, ANSWER),
        (f"[THINK]Ten?[/THINK]{ANSWER}", ANSWER, ANSWER),
        (f"<seed:think>Ten?</seed:think>{ANSWER}", ANSWER, ANSWER),
        (f"Ten?\n</think>\n{ANSWER}", ANSWER, f"Ten?\n\n{ANSWER}"),
        ("<think>Ten, or", "", ""),
        (f"{THINKS}One.<THINK>Hm.</THINK>Two.", "One.\nTwo.", "One.Two."),
        ("A <think> tag opens it.", "A <think> tag opens it.", "A <think> tag opens it."),
        ("Is 3 < 4 [1]?", "Is 3 < 4 [1]?", "Is 3 < 4 [1]?"),
    ],
)
@pytest.mark.parametrize("size", [1, 4, 500])
def test_reasoning_is_told_from_the_answer(written: str, answer: str, streamed: str, size: int) -> None:
    pieces = (written[i : i + size] for i in range(0, len(written), size))
    assert (without_reasoning(written), "".join(answer_pieces(pieces))) == (answer, streamed)
    assert len(blanked_reasoning(written)) == len(written)


def test_the_check_reads_the_answer_alone_and_its_places_stay_true() -> None:
    answer = f"{THINKS}{ANSWER}"
    verdict = check(QUESTION, [TEXT], answer)
    assert verdict.accepted and "".join(mark.text for mark in verdict.marks) == answer
    assert [m.support for m in mark_answer(answer, [TEXT])] == ["nothing claimed", "supported"]


class Nodes(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=TEXT), score=0.9)]


def engine(written: str, **settings: Any) -> SageQueryEngine:
    ours, llm = SageNodePostprocessor(reranker=WordReranker()), ScriptedLLM.of([written], [GRADE])
    return SageQueryEngine.from_args(Nodes(), llm=llm, node_postprocessors=[ours], **at_door(**settings))


def by_engine(written: str, folder: Path) -> str:
    return str(engine(written, critic="auto").query(QUESTION))


def by_engine_ungraded(written: str, folder: Path) -> str:
    return str(engine(written, feedback="off").query(QUESTION))


def by_engine_stream(written: str, folder: Path) -> str:
    response = engine(written, streaming=True, feedback="after_stream").query(QUESTION)
    return "".join(response.response_gen)  # type: ignore[union-attr]


def by_grounded(written: str, folder: Path) -> str:
    plain = RetrieverQueryEngine.from_args(Nodes(), llm=ScriptedLLM.of([written]))
    response = SageGroundedEngine(plain).query(QUESTION)
    assert verdict_of(response).accepted  # type: ignore[union-attr]
    return str(response)


def chain(written: str, **settings: Any) -> Any:
    retriever = SageRetriever(
        base_retriever=lambda _: [Document(TEXT)], base_compressor=SageCompressor(reranker=WordReranker())
    )
    llm = FakeListChatModel(responses=[written])
    return create_sage_chain(
        llm, retriever, critic=FakeListChatModel(responses=[GRADE]), **at_door(**settings)
    )


def by_chain(written: str, folder: Path) -> str:
    return str(chain(written).invoke(QUESTION)["answer"])


def by_chain_stream(written: str, folder: Path) -> str:
    async def read() -> str:
        stream = chain(written, max_rounds=1).astream(QUESTION)
        return "".join([piece["answer"] async for piece in stream if "answer" in piece])

    return asyncio.run(read())


def by_grounding(written: str, folder: Path) -> str:
    given = {"input": QUESTION, "answer": AIMessage(written), "context": [Document(TEXT)]}
    output = SageGrounding().invoke(given)
    assert output["verdict"].accepted
    return str(getattr(output["answer"], "content", output["answer"]))


def by_sage(written: str, folder: Path) -> str:
    def script(request: Request) -> str:
        return GRADE if request.is_critic else written

    (folder / "ferry.txt").write_text(TEXT)
    with LLMServer(script) as server, small_sage(folder / "store", url=server.base_url) as own:
        own.ingest(folder / "ferry.txt")
        *pieces, answer = own.stream(QUESTION)
        assert own.ask(QUESTION).text == "".join(p for p in pieces if isinstance(p, str)) == answer.text
        return str(answer.text)


DOORS = [
    by_engine, by_engine_ungraded, by_engine_stream, by_grounded, by_chain, by_chain_stream, by_grounding, by_sage,
]  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("written", [f"{THINKS}{ANSWER}", f"[THINK]Ten?[/THINK]{ANSWER}", ANSWER])
def test_no_door_shows_reasoning(door: Any, written: str, tmp_path: Path) -> None:
    assert door(written, tmp_path) == ANSWER
