"""A check of what others answered: chains, query engines, chat engines, agents, evaluators, and an answer alone."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableGenerator, RunnableLambda
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import QueryBundle

from sage_core.errors import InputError
from sage_core.feedback import Verdict
from sage_core.verify import LocalJudge, check, correct_citations, mark_answer
from sage_langchain import SageGrounding
from sage_langchain.middleware import SageGroundingMiddleware
from sage_llamaindex import (
    SageGroundedEngine,
    verdict_of,
)
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM
from tests.parity.asking import Given

QUESTION = "How long does the ferry take?"
TEXTS = ["Seals live in the harbor.", "The ferry leaves at seven and takes 40 minutes to the island."]
WRONG, RIGHT = "The ferry takes 55 minutes.", "The ferry takes 40 minutes to the island."
SHORT = "55 minutes."  # contradicted if the question is read with it, else unsure
THINKING = f"<think>Is it 55 minutes?</think>\n\n{RIGHT}"
MADE_UP = "The ferry takes 40 minutes to the island. Tickets cost nine crowns."


def stock(answer: str, texts: list[Any] = TEXTS, **settings: Any) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(Given(texts), llm=ScriptedLLM.of([answer], []), **settings)


def of_chain(answer: str, awaited: bool) -> tuple[str, dict[str, Any]]:
    chain = (
        RunnableLambda(lambda _: {"input": QUESTION, "answer": answer, "context": TEXTS}) | SageGrounding()
    )
    output = asyncio.run(chain.ainvoke("x")) if awaited else chain.invoke("x")
    return output["answer"], output["verdict"]


def of_streamed_chain(answer: str, awaited: bool) -> tuple[str, dict[str, Any]]:
    """Piece by piece, the verdict last."""

    def pieces(_: Any) -> Any:
        yield from ({"input": QUESTION}, {"context": [Document(text) for text in TEXTS]})
        yield from ({"answer": f"{word} "} for word in answer.split(" "))

    async def apieces(_: Any) -> Any:
        for piece in pieces(_):
            yield piece

    chain = RunnableGenerator(pieces, apieces) | SageGrounding()

    async def read() -> list[Any]:
        return [piece async for piece in chain.astream("x")]

    *out, last = asyncio.run(read()) if awaited else chain.stream("x")
    answers = [piece["answer"] for piece in out if "answer" in piece]
    assert len(answers) == len(answer.split(" ")) or answer == THINKING
    return "".join(answers), last["verdict"]


def of_engine(answer: str, awaited: bool) -> tuple[str, dict[str, Any]]:
    engine = SageGroundedEngine(stock(answer))
    response: Any = asyncio.run(engine.aquery(QUESTION)) if awaited else engine.query(QUESTION)
    assert verdict_of(response).to_dict() == response.metadata["sage_verdict"]  # type: ignore[union-attr]
    return str(response), response.metadata["sage_verdict"]


def of_parts_of_an_engine(answer: str, awaited: bool) -> tuple[str, dict[str, Any]]:
    """As LlamaIndex's engines around another one ask it: first for nodes, then for the answer."""
    engine, question = SageGroundedEngine(stock(answer)), QueryBundle(QUESTION)
    engine.update_prompts(engine.get_prompts())
    if awaited:
        nodes = asyncio.run(engine.aretrieve(question))
        response: Any = asyncio.run(engine.asynthesize(question, nodes))
    else:
        nodes = engine.retrieve(question)
        response = engine.synthesize(question, nodes)
    assert [n.text for n in nodes] == TEXTS
    return str(response), response.metadata["sage_verdict"]


def of_streaming_engine(answer: str, awaited: bool) -> tuple[str, dict[str, Any]]:
    engine = SageGroundedEngine(stock(answer, streaming=True))
    if not awaited:
        assert verdict_of(engine.query(QUESTION)) is not None, "read for it"
        response: Any = engine.query(QUESTION)
        return "".join(response.response_gen), verdict_of(response).to_dict()  # type: ignore[union-attr]

    async def read() -> tuple[str, dict[str, Any]]:
        response: Any = await engine.aquery(QUESTION)
        with pytest.raises(InputError, match="read the stream"):
            verdict_of(response)
        text = "".join([piece async for piece in response.async_response_gen()])
        return text, verdict_of(response).to_dict()  # type: ignore[union-attr]

    return asyncio.run(read())


def of_chat_engine(answer: str, awaited: bool) -> tuple[str, dict[str, Any]]:
    llm = ScriptedLLM.of([answer], [])
    engine = SageGroundedEngine(ContextChatEngine.from_defaults(retriever=Given(TEXTS), llm=llm))
    response = asyncio.run(engine.achat(QUESTION)) if awaited else engine.chat(QUESTION)
    assert len(engine.chat_history) == 2
    engine.reset()
    assert engine.chat_history == []
    streamed = engine.stream_chat(QUESTION)
    assert "".join(streamed.response_gen).strip() == answer and verdict_of(streamed) == verdict_of(response)

    async def read() -> Any:
        streamed = await engine.astream_chat(QUESTION)
        assert "".join([piece async for piece in streamed.async_response_gen()]).strip() == answer
        return verdict_of(streamed)

    engine.reset()
    assert asyncio.run(read()) == verdict_of(response)
    return str(response), verdict_of(response).to_dict()  # type: ignore[union-attr]


def of_agent(answer: str, awaited: bool) -> tuple[str, dict[str, Any]]:
    agent = create_agent(ScriptedChat(replies=[answer]), [], middleware=[SageGroundingMiddleware()])
    call = {"name": "search", "args": {"query": "ferry"}, "id": "1"}
    searched = [AIMessage("", tool_calls=[call]), ToolMessage("\n\n".join(TEXTS), tool_call_id="1")]
    asked: Any = {"messages": [HumanMessage(QUESTION), *searched]}
    last = (asyncio.run(agent.ainvoke(asked)) if awaited else agent.invoke(asked))["messages"][-1]
    text = last.text.removesuffix(" [not in the passages]")
    assert (text != last.text) is (answer in (WRONG, SHORT))
    return text, last.additional_kwargs["sage_grounding"]["verdict"]


CHECKING: dict[str, Callable[[str, bool], tuple[str, dict[str, Any]]]] = {
    "chain": of_chain,
    "streamed chain": of_streamed_chain,
    "query engine": of_engine,
    "query engine in two calls": of_parts_of_an_engine,
    "streaming query engine": of_streaming_engine,
    "chat engine": of_chat_engine,
    "agent": of_agent,
}
DOORS = pytest.mark.parametrize("door", CHECKING.values(), ids=CHECKING)
AWAITED = pytest.mark.parametrize("awaited", [False, True], ids=["at once", "awaited"])


@DOORS
@AWAITED
@pytest.mark.parametrize("answer", [WRONG, RIGHT, SHORT])
def test_every_door_hands_the_answer_on_with_the_verdict_of_the_core(
    door: Any, awaited: bool, answer: str
) -> None:
    text, verdict = door(answer, awaited)
    expected = check(QUESTION, TEXTS, answer).to_dict()
    if door is of_streamed_chain:  # its answer ends with a blank
        assert verdict["accepted"] is expected["accepted"]
        assert [m["instead"] for m in verdict["marks"] if m["text"].strip()] == [
            expected["marks"][0]["instead"]
        ]
    else:
        assert verdict == expected
    assert text.strip() == answer and verdict["accepted"] is (answer == RIGHT)


@pytest.mark.parametrize("door", [of_chain, of_engine])
@AWAITED
def test_no_door_shows_reasoning_or_reads_it(door: Any, awaited: bool) -> None:
    text, verdict = door(THINKING, awaited)
    assert text == RIGHT and verdict["accepted"]


@DOORS
def test_a_judge_that_raises_hands_the_answer_on(door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("a bug of the judge")

    for method in ("claims_at", "claims"):
        monkeypatch.setattr(LocalJudge, method, fail)
    text, verdict = door(RIGHT, False)
    assert text.strip() == RIGHT and verdict["probability"] is None and not verdict["accepted"]
    (mark,) = [m for m in verdict["marks"] if m["text"].strip()]
    assert mark["support"] == "unsure" and "a bug of the judge" in mark["reason"]


def test_both_doors_ask_an_llm_for_what_is_unsure() -> None:
    answer, reply = "The vessel reaches the island within the hour.", '{"statements": ["supported"]}'
    node = Given([TEXTS[1]]).retrieve("")
    engine = SageGroundedEngine(stock(answer, node), llm=ScriptedLLM.of(grades=[reply]))
    grounding = SageGrounding(llm=ScriptedChat(replies=[reply]))
    for verdict in (
        verdict_of(engine.query(QUESTION)),
        Verdict.from_dict(grounding.invoke({"answer": answer, "context": [TEXTS[1]]})["verdict"]),
    ):
        assert verdict is not None and verdict.accepted and verdict.statements == ("supported",)


def test_keys_of_a_chain_and_clear_errors() -> None:
    output = SageGrounding().invoke({"query": QUESTION, "result": WRONG, "source_documents": TEXTS})
    assert Verdict.from_dict(output["verdict"]) == check(QUESTION, TEXTS, WRONG)
    message = AIMessage(RIGHT)
    output = SageGrounding().invoke({"answer": message, "context": TEXTS, "other": 1})
    assert output["answer"] is message and output["other"] == 1 and output["verdict"]["probability"] > 0.5
    assert SageGrounding().invoke({"answer": "", "context": "text"})["verdict"]["marks"] == []
    for wrong, named in (({"text": WRONG}, "has text"), ({"answer": WRONG}, "answer"), (WRONG, "assign")):
        with pytest.raises(InputError, match=named):
            SageGrounding().invoke(wrong)
    with pytest.raises(InputError, match="query engine or a chat engine"):
        SageGroundedEngine("engine")
    assert verdict_of(RetrieverQueryEngine) is None


def test_an_engine_that_found_nothing_claims_nothing() -> None:
    nothing = [SimilarityPostprocessor(similarity_cutoff=2.0)]
    response = SageGroundedEngine(stock(RIGHT, node_postprocessors=nothing)).query(QUESTION)
    verdict = verdict_of(response)
    assert verdict is not None and (str(response), verdict.accepted, verdict.marks) == (
        "Empty Response",
        False,
        (),
    )
    assert verdict.score is None and not verdict.vetoed_by


# Marks, and the citations of an answer


CITED = (
    "The ferry takes 40 minutes to the island [1]. Its captain is called Ann Lee [2]. Seals live there [1]."
)


def test_citations_are_renumbered_or_struck() -> None:
    marks = mark_answer(CITED, TEXTS)
    first, second, *_ = [m for m in marks if m.text.strip()]
    assert (first.cited, first.support, first.passage) == ((1,), "misattributed", 1)
    assert (second.cited, second.support) == ((2,), "not found")
    text = correct_citations(marks)
    assert text.startswith(
        "The ferry takes 40 minutes to the island [2]. Its captain is called Ann Lee. [not in"
    )
    assert "".join(m.text for m in marks) == CITED, "the marks are of the answer as it was written"
    for correct, told in ((True, text), (False, CITED)):
        assert SageGrounding(correct=correct).invoke({"answer": CITED, "context": TEXTS})["answer"] == told
    twice = [TEXTS[1], *TEXTS]
    (mark,) = mark_answer("The ferry leaves at seven and takes 40 minutes to the island [3].", twice)
    assert mark.passage == 2 and correct_citations([mark]).endswith("[3]."), "the same sentence elsewhere"


@pytest.mark.parametrize("cited", ["", " [1]", " [2]", " [1, 2]", " [9]"])
def test_a_citation_changes_no_support_but_of_another_passage(cited: str) -> None:
    for answer in (RIGHT, WRONG):
        plain, other = (mark_answer(text, TEXTS)[0] for text in (answer, answer.replace(".", f"{cited}.")))
        elsewhere = answer == RIGHT and cited == " [1]"
        assert other.support == ("misattributed" if elsewhere else plain.support)
        assert plain.instead == other.instead
        assert other.probability == pytest.approx(plain.probability, abs=1e-6)


def test_each_mark_says_under_which_heading_and_on_which_page_its_evidence_stands() -> None:
    text, metadata = (
        "They are kept for 35 days.",
        {"title": "Handbook", "header_path": "/Backups/", "page_label": "12"},
    )
    answer = "Backups are kept for 30 days."
    output = SageGrounding().invoke({"answer": answer, "context": [Document(text, metadata=metadata)]})
    verdict = Verdict.from_dict(output["verdict"])
    (node,) = Given([text]).retrieve("")
    node.node.metadata = metadata
    response = SageGroundedEngine(stock(answer, [node])).query("How long are backups kept?")
    for made in (
        verdict.to_dict(),
        response.metadata["sage_verdict"],
        Verdict(9, marks=verdict.marks).to_dict(),
    ):
        (mark,) = made["marks"]
        assert (mark["heading"], mark["page"]) == ("Handbook, Backups", "12")
        assert mark["reason"] == "the passages say “35 days” (Handbook, Backups) where it says “30 days”"
        assert mark["evidence"] == [0, 26], "counts in the document, not in its heading"
