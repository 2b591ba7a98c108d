"""`GroundingChecker` after a chain."""

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from sage_core.answering import LocalJudge
from sage_core.errors import InputError
from sage_langchain import GroundingChecker, SageCompressor, SageRetriever, create_sage_chain
from tests.fakes.langchain import ListReranker, ScriptedChat

TEXT = "The Kestrel Bridge was opened in 1932 by Jack Lang. It carries eight lanes of traffic."
CHECKER = GroundingChecker(LocalJudge(model=False))


def test_it_follows_a_chain_and_keeps_its_output():
    chain = RunnableLambda(
        lambda q: {
            "input": q,
            "answer": "It carries eight lanes. Emperors hunted boars.",
            "context": [Document(TEXT)],
        }
    )
    output = (chain | CHECKER).invoke("How many lanes does it carry?")
    assert output["input"] == "How many lanes does it carry?"
    grounding = output["grounding"]
    first, second = grounding["claims"]
    assert first["probability"] > second["probability"]
    assert output["answer"][slice(*first["span"])] == first["text"]
    assert 0 < grounding["probability"] < first["probability"]
    assert 0 < grounding["answerable"] < 1


async def test_async_and_batch_say_the_same():
    given = {"answer": "It carries eight lanes.", "context": [TEXT]}
    assert await CHECKER.ainvoke(given) == CHECKER.invoke(given) == CHECKER.batch([given])[0]
    assert CHECKER.invoke(given)["grounding"]["answerable"] is None


def test_another_input_is_a_clear_error():
    with pytest.raises(InputError, match="answer"):
        CHECKER.invoke({"answer": "It carries eight lanes."})
    assert CHECKER.invoke({"answer": "", "context": "text"})["grounding"]["claims"] == []


# Grades without a call, in the chain

BEES = [
    Document("Honey bees dance to tell their sisters where flowers are.", id="0"),
    Document("A queen lays two thousand eggs a day in summer.", id="1"),
]


def bee_chain(answer, **settings):
    compressor = SageCompressor(reranker=ListReranker([0.9, 0.8]), min_k=2)
    found = SageRetriever(base_retriever=lambda _: BEES, base_compressor=compressor)
    return create_sage_chain(ScriptedChat(replies=[answer] * 3), found, max_rounds=2, **settings)


@pytest.mark.parametrize("way", ["sync", "async", "stream"])
async def test_local_grades_without_a_call_and_says_so(way):
    chain = bee_chain("Honey bees dance to tell their sisters where flowers are.", critic="local")
    question = "Why do honey bees dance?"
    if way == "stream":
        out = {}
        for piece in chain.stream(question):
            out |= {k: v for k, v in piece.items() if k == "sage"}
    else:
        out = chain.invoke(question) if way == "sync" else await chain.ainvoke(question)
    verdict = out["sage"]["rounds"][0]["verdict"]
    assert verdict["source"] == "local judge"
    assert "P(" in verdict["reason"]
    assert len(chain.llm.seen) == len(out["sage"]["rounds"])
    assert out["sage"]["usage"]["judge"]["calls"] == 0


def test_grading_and_critic_are_one_setting():
    assert bee_chain("x", critic="auto").grading == bee_chain("x", grading="auto").grading == "auto"
    assert bee_chain("x").grading == "llm"
    with pytest.raises(InputError):
        bee_chain("x", grading="nobody")


def test_the_answer_may_be_a_message() -> None:
    asked = {"answer": AIMessage("It opened in 1932."), "context": ["It opened in 1932. It has eight lanes."]}
    found = GroundingChecker(LocalJudge(model=False)).invoke(asked)
    assert found["grounding"]["probability"] > 0.5
    assert found["answer"] is asked["answer"]
