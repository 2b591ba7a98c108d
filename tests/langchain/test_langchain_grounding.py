"""`GroundingChecker` after a chain."""

import pytest

pytest.importorskip("langchain_core")

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from sage_core.answering import LocalJudge
from sage_core.errors import InputError
from sage_langchain import GroundingChecker

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
