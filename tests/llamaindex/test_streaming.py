"""Streaming answers: graded before they are shown, or not at all, sync and async."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import Any

import pytest
from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse

from sage_llamaindex import SageQueryEngine
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM, grade, trace_of
from tests.llamaindex.engines import both, engine

streamed = partial(engine, streaming=True)


async def read(response: Any) -> list[str]:
    """The pieces of a streamed response, of either kind."""
    if isinstance(response, AsyncStreamingResponse):
        return [token async for token in response.response_gen]
    assert isinstance(response, StreamingResponse)
    return list(response.response_gen)


class TestGraded:
    def test_the_best_answer_is_streamed(self) -> None:
        llm = ScriptedLLM.of(["first", "second", "third"], [grade(3, 1), grade(8, 1), grade(2, 1)])
        response = streamed(llm).query("q")
        assert list(response.response_gen) == list("second")
        # What was read in pieces is there as a text, too.
        assert str(response) == response.get_response().response == "second"
        assert trace_of(response).score == 8

    async def test_no_candidates(self) -> None:
        made = SageQueryEngine.from_args(FixedRetriever(), llm=ScriptedLLM.of(), streaming=True)
        for response in await both(made):
            assert await read(response) == ["Empty Response"]
            assert trace_of(response).stop_reason == "no_candidates"

    def test_the_streaming_switch_is_read_at_each_question(self) -> None:
        found = engine(ScriptedLLM.of())
        assert not isinstance(found.query("q"), StreamingResponse)
        found._response_synthesizer._streaming = True
        assert isinstance(found.query("q"), StreamingResponse)


async def test_without_a_critic_the_stock_stream_goes_through() -> None:
    llm = ScriptedLLM.of(["<think>well</think>spoken"])
    for response in await both(streamed(llm, critic="off")):
        assert "".join(await read(response)) == response.response_txt == "spoken"
    assert llm.asked("critic") == []


async def later(items: Iterable[str]) -> AsyncIterator[str]:
    for item in items:
        await asyncio.sleep(0)
        yield item


class BreaksOff(ScriptedLLM):
    """An LLM whose connection is gone after half of the answer."""

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        yield CompletionResponse(text="half ", delta="half ")
        raise ConnectionError("gone")

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return later(self.stream_complete(prompt))


async def test_a_stream_that_breaks_off_is_never_taken_for_a_whole_answer() -> None:
    llm = BreaksOff.of()
    with pytest.raises(ConnectionError):
        streamed(llm).query("q")
    with pytest.raises(ConnectionError):
        await streamed(llm).aquery("q")
    assert llm.asked("critic") == [], "what is not whole is not graded"
    for response in await both(streamed(llm, critic="off")):
        with pytest.raises(ConnectionError):
            await read(response)
        assert response.response_txt is None
