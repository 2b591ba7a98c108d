"""What a client sees while a chain runs: pieces, tags, events, and nothing that is taken back later."""

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableConfig, RunnableLambda

from sage_core.feedback import FeedbackConfig
from sage_langchain import SageChain, create_sage_chain
from tests.fakes.langchain import ScriptedChat, tokens
from tests.fakes.models import grade
from tests.langchain.test_chain import TWO_ROUNDS, chain, retriever


class StreamingChat(ScriptedChat):
    """Streams its replies word by word, and reports usage with the last piece where told to."""

    usage: Any = None

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        run_manager = kwargs.get("run_manager")
        self.seen.append(messages)
        reply = self.replies[len(self.seen) - 1]
        if isinstance(reply, BaseException):
            raise reply
        words = reply.split(" ")
        for i, word in enumerate(words):
            piece = word if i == len(words) - 1 else word + " "
            message = AIMessageChunk(
                content=piece, usage_metadata=self.usage if i == len(words) - 1 else None
            )
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk


def shapes(chunks: list[Any]) -> list[tuple[str, Any]]:
    return [(key, value if key == "answer" else None) for c in chunks for key, value in c.items()]


LIVE = [
    ("input", None),
    ("context", None),
    ("answer", "all "),
    ("answer", "of "),
    ("answer", "it"),
    ("sage", None),
]


@pytest.mark.parametrize("reply", [grade(4, 1), RuntimeError("gone")])
async def test_a_single_round_is_streamed_as_the_model_writes_it(reply):
    def made() -> SageChain:
        return chain("all of it", reply, model=StreamingChat, max_rounds=1)

    for chunks in (list(made().stream("bees?")), [c async for c in made().astream("bees?")]):
        assert shapes(chunks) == LIVE
        trace = chunks[-1]["sage"]
        assert trace["answer"] == "all of it" and trace["score"] == (4 if isinstance(reply, str) else None)
        assert trace["stop_reason"] == ("max_rounds" if isinstance(reply, str) else "critic_failed")
    assert made().invoke("bees?")["answer"] == "all of it"


async def test_the_context_comes_before_the_model_is_asked():
    c = chain("all of it", grade(9), model=StreamingChat, max_rounds=1)
    stream = c.stream("bees?")
    assert [list(next(stream)) for _ in range(2)] == [["input"], ["context"]] and c.llm.seen == []
    assert next(stream) == {"answer": "all "} and len(c.llm.seen) == 1
    stream.close()
    assert len(c.llm.seen) == 1


async def test_drafts_are_never_streamed_as_the_answer():
    for chunks in (
        list(chain(*TWO_ROUNDS, model=StreamingChat).stream("bees?")),
        [c async for c in chain(*TWO_ROUNDS, model=StreamingChat).astream("bees?")],
    ):
        assert shapes(chunks) == [("input", None), ("context", None), ("answer", "draft two"), ("sage", None)]
        assert [d.metadata["i"] for d in chunks[1]["context"]] == chunks[-1]["sage"]["selection"]["indices"]


def test_usage_of_streamed_answers():
    made = create_sage_chain(
        StreamingChat(replies=["all of it"], usage=tokens(50, 3)),
        retriever(),
        loop=FeedbackConfig(max_calls=1),
    )
    usage = list(made.stream("bees?"))[-1]["sage"]["usage"]["generate"]
    assert usage == {"prompt": 50, "completion": 3, "calls": 1, "estimated": False}
    silent = chain("all of it", model=StreamingChat, max_calls=1)
    usage = list(silent.stream("bees?"))[-1]["sage"]["usage"]["generate"]
    assert usage["estimated"] is True and usage["completion"] == 3


class Tags(BaseCallbackHandler):
    """Collects the tags of every model call, and custom events."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.events: list[tuple[str, Any]] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, *, tags: Any = None, **kwargs: Any) -> None:
        self.calls.append(sorted(t for t in tags if t.startswith(("sage:", "mine"))))

    def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
        self.events.append((name, data))


AWAITED = pytest.mark.parametrize("awaited", [False, True])


@AWAITED
@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: RunnableLambda(lambda x: x) | m])
async def test_tags_reach_the_models_also_inside_chains(wrap, awaited):
    seen, c = Tags(), create_sage_chain(wrap(ScriptedChat(replies=TWO_ROUNDS)), retriever())
    config: RunnableConfig = {"callbacks": [seen], "tags": ["mine"]}
    _ = await c.ainvoke("bees?", config) if awaited else c.invoke("bees?", config)
    assert seen.calls == [
        ["mine", f"sage:{role}", f"sage:round:{n}"] for n in (1, 2) for role in ("generate", "critic")
    ]


@AWAITED
async def test_rounds_are_announced(awaited):
    seen, c = Tags(), chain(*TWO_ROUNDS)
    config: RunnableConfig = {"callbacks": [seen]}
    _ = await c.ainvoke("bees?", config) if awaited else c.invoke("bees?", config)
    rounds = [(n, d["round"], d["score"], d["adjust"]) for n, d in seen.events]
    assert rounds == [("sage_round", 1, 5, 1), ("sage_round", 2, 9, 0)]


@pytest.mark.parametrize(("rounds", "pieces"), [(3, ["draft two"]), (1, ["draft ", "one"])])
async def test_events_with_the_final_tag_are_the_final_answer(rounds, pieces):
    c = chain(*TWO_ROUNDS, model=StreamingChat, max_rounds=rounds)
    final, models = [], set()
    async for event in c.astream_events({"input": "bees?"}, version="v2"):
        if event["event"] == "on_chain_stream" and "sage:final" in event["tags"]:
            final.append(event["data"]["chunk"])
        if event["event"].startswith("on_chat_model"):
            assert {"sage:generate", "sage:critic"} & set(event["tags"])
            assert "sage:final" not in event["tags"]
            models.add(event["event"])
    assert final == pieces
    assert "on_chat_model_stream" in models


async def test_an_output_fed_back_can_be_streamed_and_added_up():
    replies = ["one", grade(9), "two", grade(9), "three", grade(9)]
    c = create_sage_chain(ScriptedChat(replies=replies), retriever())
    again = {**c.invoke({"input": "bees?", "chat_history": []}), "input": "more?"}
    for chunks, answer in ((list(c.stream(again)), "two"), ([x async for x in c.astream(again)], "three")):
        assert set(chunks[0]) == {"input", "chat_history"}
        whole = sum(chunks[1:], chunks[0])
        assert whole["answer"] == answer and len(whole["context"]) == 3
