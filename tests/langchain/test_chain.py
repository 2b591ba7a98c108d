"""The chain: keys, rounds, every way of calling it, what happens when things fail, and what it counts."""

import json
import threading
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, RunnableBinding, RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import BaseModel

from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig
from sage_core.feedback.critic import critic_messages
from sage_core.llm.prompting import NO_ANSWER
from sage_core.llm.prompts import answer_messages
from sage_core.selection import SelectionConfig
from sage_langchain import SageChain, SageCompressor, SageRetriever, create_sage_chain
from tests.fakes.doors import at_door
from tests.fakes.langchain import (
    ListReranker,
    ScriptedChat,
    ToolChat,
    WatchingCounter,
    WordEmbeddings,
    tokens,
)
from tests.fakes.models import grade

SCORES = [0.9, 0.85, 0.8, 0.1, 0.09, 0.08, 0.01, 0.009]
DOCUMENTS = [
    Document(page_content=f"Passage {i} about bees.", id=str(i), metadata={"i": i}) for i in range(8)
]
TWO_ROUNDS = ["draft one", grade(5, 1), "draft two", grade(9)]


def retriever(**settings: Any) -> SageRetriever:
    settings = at_door(**{"min_k": 2, "rule": "gradient", **settings})
    compressor = SageCompressor(reranker=ListReranker(SCORES), **settings)
    return SageRetriever(base_retriever=lambda _: DOCUMENTS, base_compressor=compressor)


def chain(*replies: Any, model: type[ScriptedChat] = ScriptedChat, **settings: Any) -> SageChain:
    own = settings.pop("retriever", retriever())
    return create_sage_chain(model(replies=list(replies)), own, **at_door(**settings))


def test_two_rounds_and_the_keys_of_the_output():
    out = chain(*TWO_ROUNDS).invoke({"input": "bees?", "chat_history": []})
    assert list(out) == ["input", "chat_history", "context", "answer", "sage"]
    assert out["answer"] == "draft two"
    sage = json.loads(json.dumps(out["sage"], allow_nan=False))
    assert (sage["stop_reason"], sage["best_round"], sage["score"]) == ("accepted", 2, 9)
    first, second = (r["selection"]["indices"] for r in sage["rounds"])
    assert first == [0, 1, 2] and len(second) > 3
    assert [d.metadata["i"] for d in out["context"]] == second
    assert [d.metadata["relevance_score"] for d in out["context"]] == SCORES[: len(second)]
    assert all("relevance_score" not in d.metadata for d in DOCUMENTS)


def test_asks_with_the_prompts_of_the_core():
    c = chain(*TWO_ROUNDS)
    expected = []
    for shown in c.invoke("Where are the bees?")["sage"]["rounds"]:
        texts = [DOCUMENTS[i].page_content for i in shown["selection"]["indices"]]
        expected.append(answer_messages("Where are the bees?", texts))
        said = shown["answer"]  # what two words claim is unsure, so that the critic is asked about it
        expected.append(critic_messages("Where are the bees?", texts, said, statements=[said]))
    roles = {"system": "system", "human": "user"}
    asked = [[(roles[m.type], m.content) for m in call] for call in c.llm.seen]
    assert asked == [[(m.role, m.content) for m in call] for call in expected]


async def test_every_way_of_calling_gives_the_same():
    expected = chain(*TWO_ROUNDS).invoke({"input": "bees?"})
    assert await chain(*TWO_ROUNDS).ainvoke({"input": "bees?"}) == expected
    assert chain(*TWO_ROUNDS).batch(["bees?"]) == [expected]
    assert await chain(*TWO_ROUNDS).abatch(["bees?"]) == [expected]
    assert sum_of(list(chain(*TWO_ROUNDS).stream("bees?"))) == expected
    assert sum_of([x async for x in chain(*TWO_ROUNDS).astream("bees?")]) == expected
    piped = RunnableLambda(lambda q: {"input": q}) | chain(*TWO_ROUNDS)
    assert piped.invoke("bees?") == expected
    piped = RunnableLambda(lambda q: {"input": q}) | chain(*TWO_ROUNDS)
    assert sum_of(list(piped.stream("bees?"))) == expected
    for key in ("query", "question"):
        out = chain(*TWO_ROUNDS).invoke({key: "bees?"})
        assert out == {key: "bees?", **expected}


async def test_no_tokens_are_counted_on_the_event_loop(monkeypatch):
    counter = WatchingCounter()
    monkeypatch.setattr("sage_langchain._session.COUNTER", counter)
    await chain(*TWO_ROUNDS).ainvoke("bees?")
    async for _ in chain("all of it", grade(4, 1), max_rounds=1).astream("bees?"):
        pass
    await chain("one", grade(9)).ainvoke("bees?")
    assert len(counter.threads) >= 8 and threading.get_ident() not in counter.threads


def sum_of(chunks: list[Any]) -> dict[str, Any]:
    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    return dict(total)


@pytest.mark.parametrize("rounds", [1, 3])
async def test_keys_and_stream_order_of_create_retrieval_chain(rounds):
    pytest.importorskip("langchain_classic")
    from langchain_classic.chains.combine_documents import create_stuff_documents_chain
    from langchain_classic.chains.retrieval import create_retrieval_chain

    prompt = ChatPromptTemplate.from_template("{context}\n{input}")
    stock = create_retrieval_chain(
        retriever(), create_stuff_documents_chain(ScriptedChat(replies=["the answer"]), prompt)
    )
    ours = chain("the answer", grade(9), prompt=prompt, max_rounds=rounds)
    given = {"input": "bees?", "other": 1}
    expected, found = list(stock.stream(given)), list(ours.stream(given))
    assert found[:-1] == expected
    assert list(found[-1]) == ["sage"]
    again = chain("the answer", grade(9), prompt=prompt, max_rounds=rounds)
    assert [x async for x in again.astream(given)] == found
    assert (
        ours.llm.seen[0][0].content
        == "Passage 0 about bees.\n\nPassage 1 about bees.\n\nPassage 2 about bees.\nbees?"
    )


# Failures


def test_an_error_of_the_first_answer_is_raised():
    with pytest.raises(RuntimeError, match="server gone"):
        chain(RuntimeError("server gone")).invoke("bees?")
    with pytest.raises(RuntimeError, match="server gone"):
        list(chain(RuntimeError("server gone"), max_rounds=1).stream("bees?"))


def test_no_documents_ask_no_model():
    for settings in ({}, {"max_rounds": 1}):
        c = chain(retriever=lambda _: [], **settings)
        out = c.invoke("bees?")
        assert (out["answer"], out["context"]) == (NO_ANSWER, [])
        assert out["sage"]["stop_reason"] == "no_candidates"
        assert sum_of(list(c.stream("bees?"))) == out
        assert c.llm.seen == []


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"prompt": ChatPromptTemplate.from_template("{input}")}, "context"),
        ({"prompt": "{context} {input}"}, "prompt"),
        ({"max_round": 2}, "max_round"),
    ],
)
def test_wrong_construction_is_named(settings, named):
    with pytest.raises((InputError, TypeError), match=named):
        chain(**settings)
    with pytest.raises(InputError, match="question"):
        chain().invoke({"text": "bees?"})


# Usage


def test_usage_is_summed_by_role_from_what_the_models_report():
    replies = [
        AIMessage(content="one", usage_metadata=tokens(100, 10)),
        AIMessage(content=grade(5, 1), usage_metadata=tokens(200, 20)),
        AIMessage(content="two", usage_metadata=tokens(300, 30)),
        AIMessage(content=grade(9), usage_metadata=tokens(400, 40)),
    ]
    usage = chain(*replies).invoke("bees?")["sage"]["usage"]
    assert usage["generate"] == {"prompt": 400, "completion": 40, "calls": 2, "estimated": False}
    assert usage["judge"] == {"prompt": 600, "completion": 60, "calls": 2, "estimated": False}
    assert usage["total"] == {"prompt": 1000, "completion": 100, "calls": 4, "estimated": False}


# Prompts


def test_the_prompt_has_the_keys_of_the_input():
    prompt = ChatPromptTemplate.from_template("{context}\n---\n{input} {mood}")
    c = chain("one", grade(9), prompt=prompt)
    c.invoke({"input": "bees?", "mood": "please"})
    texts = "\n\n".join(f"Passage {i} about bees." for i in range(3))
    expected = f"{texts}\n---\nbees? please"
    assert c.llm.seen[0][0].content == expected
    assert "[1] Passage 0 about bees." in c.llm.seen[1][-1].content


def test_multiple_choice():
    c = chain("B. canal", grade(9))
    out = c.invoke({"input": "Where?", "options": ["roof", "canal"]})
    assert out["options"] == ["roof", "canal"]
    for call in c.llm.seen:
        assert "B. canal" in call[-1].content and "exactly one is right" in call[0].content


def test_models_that_are_no_chat_models():
    c = create_sage_chain(FakeListLLM(responses=["the answer", grade(9)]), retriever())
    assert c.invoke("bees?")["answer"] == "the answer"
    blocks = AIMessage(content=[{"type": "text", "text": "from "}, {"type": "text", "text": "blocks"}])
    assert chain(blocks, grade(9)).invoke("bees?")["answer"] == "from blocks"


# What comes out besides text


class Hour(BaseModel):
    """When something happens."""

    hour: int


def hours(*found: int) -> Any:
    calls = [
        AIMessage("", tool_calls=[{"name": "Hour", "args": {"hour": h}, "id": "1", "type": "tool_call"}])
        for h in found
    ]
    return ToolChat(replies=calls).with_structured_output(Hour)


@pytest.mark.parametrize(
    ("model", "expected"),
    [(lambda: hours(7), Hour(hour=7)), (lambda: RunnableLambda(lambda _: {"hour": 7}), {"hour": 7})],
)
@pytest.mark.parametrize("rounds", [1, 3])
async def test_an_object_is_the_answer_and_streamed_whole(model, expected, rounds):
    def made() -> tuple[SageChain, ScriptedChat]:
        critic, loop = ScriptedChat(replies=[grade(9)]), FeedbackConfig(max_rounds=rounds)
        settings: Any = {"critic": critic, "loop": loop}
        return create_sage_chain(model(), retriever(), **settings), critic

    c, critic = made()
    assert c.invoke("bees?")["answer"] == (await made()[0].ainvoke("bees?"))["answer"] == expected
    assert '{"hour":7}' in str(critic.seen[0]).replace(" ", ""), "the critic reads it as JSON"
    pieces = [x["answer"] for x in made()[0].stream("bees?") if "answer" in x]
    assert [x["answer"] async for x in made()[0].astream("bees?") if "answer" in x] == pieces == [expected]


@pytest.mark.parametrize(("grades", "best"), [([2, 9], 8), ([5, 2], 7)])
def test_the_object_of_the_best_round_is_the_answer(grades, best):
    critic = ScriptedChat(replies=[grade(score, 1) for score in grades])
    settings: Any = {"critic": critic, "loop": FeedbackConfig(max_rounds=2)}
    assert create_sage_chain(hours(7, 8), retriever(), **settings).invoke("bees?")["answer"] == Hour(
        hour=best
    )


# Composition


def test_with_config_retry_fallbacks_and_configurable_fields():
    assert chain(*TWO_ROUNDS).with_config(tags=["a"]).invoke("bees?")["answer"] == "draft two"
    flaky = ScriptedChat(replies=[RuntimeError("busy"), "one", grade(9)])
    inside = create_sage_chain(flaky.with_retry(wait_exponential_jitter=False), retriever())
    assert inside.invoke("bees?")["answer"] == "one"
    around = chain(RuntimeError("busy"), "one", grade(9)).with_retry(wait_exponential_jitter=False)
    assert around.invoke("bees?")["answer"] == "one"
    fallen = chain(RuntimeError("down")).with_fallbacks([chain("second", grade(9))])
    assert fallen.invoke("bees?")["answer"] == "second"
    limited = chain(*TWO_ROUNDS).configurable_fields(loop=ConfigurableField(id="loop"))
    assert (
        limited.invoke("bees?", {"configurable": {"loop": FeedbackConfig(max_rounds=1)}})["answer"]
        == "draft one"
    )


def test_wrapped_retrievers_are_found_and_others_are_wrapped():
    exact = retriever().model_copy(update={"k": 4})
    for given, size in (
        (retriever().with_config(tags=["a"]), 3),
        (retriever().with_retry(), 3),
        (retriever().with_fallbacks([retriever()]), 3),
        (retriever().bind(k=1), 1),
        (RunnableBinding(bound=retriever().bind(k=1), kwargs={"k": 2}), 2),
        (retriever().configurable_fields(k=ConfigurableField(id="k")), 3),
        (exact, 4),
    ):
        out = chain("one", grade(9), retriever=given).invoke("bees?")
        assert len(out["context"]) == size
    store = InMemoryVectorStore(WordEmbeddings())
    assert isinstance(chain(retriever=store).retriever, SageRetriever)
    assert isinstance(chain(retriever=store.as_retriever()).retriever, SageRetriever)
    assert isinstance(chain(retriever=lambda q: DOCUMENTS).retriever, SageRetriever)
    configured = retriever().configurable_fields(k=ConfigurableField(id="k"))
    out = chain("one", grade(9), retriever=configured).invoke("bees?", {"configurable": {"k": 2}})
    assert len(out["context"]) == 2


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_as_tool():
    tool = chain("the answer", grade(9)).as_tool(name="ask", description="Ask the documents.")
    assert tool.args["input"]["type"] == "string"
    assert tool.invoke({"input": "bees?"})["answer"] == "the answer"


def test_repr_shows_settings_only():
    assert repr(chain(max_rounds=2)) == "SageChain()"


async def test_the_configured_model_answers_and_grades():
    a, b = ScriptedChat(replies=[]), ScriptedChat(replies=["from b", grade(9)] * 2)
    either = a.configurable_alternatives(ConfigurableField(id="llm"), default_key="a", b=b)
    made, config = create_sage_chain(either, retriever()), {"configurable": {"llm": "b"}}
    for out in (made.invoke("bees?", config), await made.ainvoke("bees?", config)):
        assert (out["answer"], out["sage"]["score"]) == ("from b", 9)
    assert (len(a.seen), len(b.seen)) == (0, 4)


def test_a_selection_of_the_loop_goes_before_the_retriever_s():
    def sent(**settings: Any) -> int:
        made = create_sage_chain(ScriptedChat(replies=["a", grade(9)]), retriever(), **settings)
        return len(made.invoke("bees?")["context"])

    five = SelectionConfig(rule="auto", min_k=5, max_k=5)
    assert sent() == 3
    assert sent(loop=FeedbackConfig(policy="paper", selection=five)) == sent(selection=five) == 5
    assert sent(loop=FeedbackConfig(policy="paper", selection=SelectionConfig(max_k=1, min_k=1))) == 1
