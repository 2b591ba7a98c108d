"""The critic's model behind wrappers: fallbacks, run-time configuration, models that refuse a schema."""

from typing import Any

import pytest
from langchain_core.runnables import ConfigurableField, Runnable

from sage_langchain import SageChain, create_sage_chain
from tests.fakes.doors import at_door
from tests.fakes.langchain import ScriptedChat, ToolChat, graded, graded_call
from tests.langchain.test_chain import retriever

ANSWER_AND_GRADE = ["the answer", graded(9)]


class Refusing(ScriptedChat):
    """Has no structured output, and says so with an error of its own choice."""

    error: Any = ValueError

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        raise self.error("this model takes no schema")


class Old(ScriptedChat):
    """Knows no ``include_raw``."""

    def with_structured_output(self, schema: Any) -> Runnable[Any, Any]:  # type: ignore[override]
        raise AssertionError("the signature does not fit, so this is never reached")


def over(llm: Any, **settings: Any) -> SageChain:
    return create_sage_chain(llm, retriever(), **at_door(**settings))


@pytest.mark.parametrize(
    "model",
    [
        ScriptedChat(replies=ANSWER_AND_GRADE).with_fallbacks([ScriptedChat(replies=[])]),
        ToolChat(replies=ANSWER_AND_GRADE).with_fallbacks([ToolChat(replies=[])]),
        Refusing(replies=ANSWER_AND_GRADE),
        Refusing(replies=ANSWER_AND_GRADE, error=TypeError),
        Old(replies=ANSWER_AND_GRADE),
    ],
    ids=["fallbacks", "fallbacks of tool models", "ValueError", "TypeError", "no include_raw"],
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_schema_that_cannot_be_set_up_costs_no_grade(model, is_async, caplog):
    for part in (model, getattr(model, "runnable", None)):
        if isinstance(part, ScriptedChat):
            part.seen.clear()
    c = over(model)
    sage = (await c.ainvoke("bees?") if is_async else c.invoke("bees?"))["sage"]
    assert (sage["score"], sage["stop_reason"]) == (9, "accepted")
    assert sage["usage"]["judge"]["calls"] == 1
    assert "plain text" in caplog.text


def two_models() -> tuple[ToolChat, ToolChat, Any]:
    a = ToolChat(replies=["from a", graded_call(9)])
    b = ToolChat(replies=["from b", graded_call(9)])
    return a, b, a.configurable_alternatives(ConfigurableField(id="llm"), default_key="a", b=b)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("wrap", [lambda llm: llm, lambda llm: llm.bind()], ids=["plain", "bound"])
async def test_the_configured_model_grades(wrap, is_async):
    a, b, llm = two_models()
    chain, config = over(wrap(llm)), {"configurable": {"llm": "b"}}
    out = await chain.ainvoke("bees?", config) if is_async else chain.invoke("bees?", config)
    assert (out["answer"], out["sage"]["score"]) == ("from b", 9)
    assert (len(a.seen), len(b.seen)) == (0, 2)
    assert b.bound["tools"][0]["title"] == "verdict"


def test_configuration_bound_to_the_model_itself():
    a, b, llm = two_models()
    out = over(llm.with_config(configurable={"llm": "b"})).invoke("bees?")
    assert out["answer"] == "from b" and (len(a.seen), len(b.seen)) == (0, 2)
