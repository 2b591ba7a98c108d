"""Streaming answers: judged before or after, read as often as one likes, sync and async."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse

from sage_core.selection import Gradient, SelectionConfig
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine, feedback_of
from sage_llamaindex._streams import AsyncTokenReplay, TokenReplay
from tests.fakes.doors import at_door
from tests.fakes.llamaindex import FixedRetriever, Recorder, ScriptedLLM, grade, trace_of

SCORES = (0.9, 0.8, 0.7, 0.6, 0.5)


def engine(llm: ScriptedLLM, *scores: float, **options: Any) -> SageQueryEngine:
    sage = SageNodePostprocessor(selection=SelectionConfig(min_k=2, rule=Gradient(0.99)), scale="probability")
    given = {"node_postprocessors": [sage], "streaming": True, **options}
    return SageQueryEngine.from_args(FixedRetriever(*(scores or SCORES)), llm=llm, **at_door(**given))


async def read(response: Any) -> list[str]:
    """The pieces of a streamed response, of either kind."""
    if isinstance(response, AsyncStreamingResponse):
        return [token async for token in response.response_gen]
    assert isinstance(response, StreamingResponse)
    return list(response.response_gen)


async def both(made: SageQueryEngine) -> list[Any]:
    return [made.query("q"), await made.aquery("q")]


class TestJudgedBefore:
    def test_the_best_answer_is_streamed_and_can_be_read_again(self) -> None:
        llm = ScriptedLLM.of(["first", "second", "third"], [grade(3, 1), grade(8, 1), grade(2, 1)])
        response = engine(llm).query("q")
        assert list(response.response_gen) == list(response.response_gen) == list("second")
        assert str(response) == response.get_response().response == "second"
        assert list(response.response_gen) == list("second") and trace_of(response).score == 8

    async def test_async(self) -> None:
        llm = ScriptedLLM.of(["first", "second"], [grade(3, 1), grade(9)])
        response = await engine(llm).aquery("q")
        for _ in range(2):
            assert await read(response) == list("second")
            assert "".join([t async for t in response.async_response_gen()]) == "second"
        assert (await response.get_response()).response == "second"
        assert await asyncio.to_thread(str, response) == "second", "as text from another loop"
        assert len(response.source_nodes) == trace_of(response).selection.cut

    @pytest.mark.parametrize("feedback", ["before_stream", "after_stream"])
    async def test_no_candidates(self, feedback: str) -> None:
        made = SageQueryEngine.from_args(
            FixedRetriever(), llm=ScriptedLLM.of(), streaming=True, feedback=feedback
        )
        for response in await both(made):
            assert (
                await read(response) == ["Empty Response"]
                and trace_of(response).stop_reason == "no_candidates"
            )

    def test_the_streaming_switch_is_read_at_each_question(self) -> None:
        found = engine(ScriptedLLM.of(), streaming=False)
        assert not isinstance(found.query("q"), StreamingResponse)
        found._response_synthesizer._streaming = True
        assert isinstance(found.query("q"), StreamingResponse)


class TestJudgedAfter:
    @pytest.mark.parametrize("awaited", [False, True])
    async def test_tokens_come_before_the_grade_is_asked_for(self, recorder: Recorder, awaited: bool) -> None:
        llm = ScriptedLLM.of(["spoken", "never"], [grade(2, 1)])
        made = engine(llm, feedback="after_stream")
        response = await made.aquery("q") if awaited else made.query("q")
        assert (await anext(response.response_gen) if awaited else next(response.response_gen)) == "s"
        assert llm.asked("critic") == [] and feedback_of(response) is None
        assert await read(response) == list("spoken")
        assert len(llm.asked("critic")) == len(llm.asked("answer")) == 1
        assert response.metadata["sage"]["score"] == 2
        assert await read(response) == list("spoken")
        assert len(llm.asked("critic")) == recorder.names().count("SageFeedbackEvent") == 1

    async def test_without_streaming_the_one_answer_is_graded(self) -> None:
        llm = ScriptedLLM.of(["said"], [grade(2, 1)])
        for response in await both(engine(llm, feedback="after_stream", streaming=False)):
            summary = response.metadata["sage"]
            assert (str(response), summary["score"], summary["rounds"]) == ("said", 2, 1)

    @pytest.mark.parametrize("streaming", [False, True])
    async def test_the_tokens_of_the_answer_are_estimated(self, streaming: bool) -> None:
        llm = ScriptedLLM.of(["some spoken words"])
        for response in await both(engine(llm, feedback="after_stream", streaming=streaming)):
            if streaming:
                await read(response)
            assert str(response) == "some spoken words"
            usage = trace_of(response).usage_by_role
            for role in ("generate", "judge"):
                assert usage[role].calls == 1 and usage[role].prompt > 10 and usage[role].estimated
            assert usage["generate"].completion == 5  # of 17 bytes

    async def test_a_failing_critic_does_not_break_the_stream(self) -> None:
        llm = ScriptedLLM.of(["spoken"], [ConnectionError("gone")])
        for response in await both(engine(llm, feedback="after_stream")):
            assert await read(response) == list("spoken")
            assert trace_of(response).stop_reason == "critic_failed"


async def test_without_feedback_the_stock_stream_goes_through() -> None:
    llm = ScriptedLLM.of(["spoken"])
    for response in await both(engine(llm, feedback="off")):
        for _ in range(2):  # and can be read again
            assert await read(response) == list("spoken")
    assert llm.asked("critic") == []


async def later(items: Iterable[str]) -> AsyncIterator[str]:
    for item in items:
        await asyncio.sleep(0)
        yield item


class TestReplays:
    def test_readers_at_different_places_share_one_source(self) -> None:
        ended: list[str] = []
        replay = TokenReplay(iter("abcd"), ended.append)
        one, two = iter(replay), iter(replay)
        assert [next(one), next(one), next(two)] == ["a", "b", "a"]
        assert (list(two), list(one), ended) == (["b", "c", "d"], ["c", "d"], ["abcd"])
        assert (next(replay), replay.send(None)) == ("a", "b")
        replay.close()
        assert list(replay) == list("abcd")

    async def test_async_readers(self) -> None:
        ended: list[str] = []

        async def note(text: str) -> None:
            ended.append(text)

        replay = AsyncTokenReplay(later("abc"), note)

        async def whole() -> str:
            return "".join([token async for token in replay])

        assert await asyncio.gather(whole(), whole(), whole()) == ["abc"] * 3
        assert ended == ["abc"]
        assert (await anext(replay), await replay.asend(None)) == ("a", "b")
        await replay.aclose()


class BreaksOff(ScriptedLLM):
    """An LLM whose connection is gone after half of the answer."""

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        yield CompletionResponse(text="half ", delta="half ")
        raise ConnectionError("gone")

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return later(self.stream_complete(prompt))


async def test_a_stream_that_breaks_off_is_never_taken_for_a_whole_answer() -> None:
    """However often it is read."""
    llm = BreaksOff.of()
    for response in await both(engine(llm, feedback="after_stream")):
        for _ in range(3):
            pieces: list[str] = []
            with pytest.raises(ConnectionError):
                if isinstance(response, AsyncStreamingResponse):
                    async for token in response.response_gen:
                        pieces.append(token)
                else:
                    for token in response.response_gen:
                        pieces.append(token)
            assert pieces == ["half "]
        assert feedback_of(response) is None
    assert llm.asked("critic") == [], "what is not whole is not graded"
