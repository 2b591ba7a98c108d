"""Streaming answers: judged before or after, read as often as one likes, sync and async."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.utils import get_tokenizer

from sage_llamaindex import SageNodePostprocessor, SageQueryEngine, feedback_of
from sage_llamaindex._streams import AsyncTokenReplay, TokenReplay
from tests.fakes.llamaindex import FixedRetriever, Recorder, ScriptedLLM, grade, trace_of

SCORES = (0.9, 0.8, 0.7, 0.6, 0.5)


def engine(llm: ScriptedLLM, *scores: float, **options: Any) -> SageQueryEngine:
    options.setdefault("streaming", True)
    sage = SageNodePostprocessor(min_k=2, gradient=0.99, scale="probability")
    return SageQueryEngine.from_args(
        FixedRetriever(*(scores or SCORES)), llm=llm, node_postprocessors=[sage], **options
    )


class TestJudgedBefore:
    def test_the_best_answer_is_streamed_and_can_be_read_again(self) -> None:
        llm = ScriptedLLM.of(["first", "second", "third"], [grade(3, 1), grade(8, 1), grade(2, 1)])
        response = engine(llm).query("q")
        assert isinstance(response, StreamingResponse)
        assert list(response.response_gen) == list("second")
        assert list(response.response_gen) == list("second")
        assert str(response) == "second"
        assert response.get_response().response == "second"
        assert list(response.response_gen) == list("second")
        assert feedback_of(response).score == 8  # type: ignore[union-attr]

    def test_it_prints_as_the_stock_response_does(self, capsys: pytest.CaptureFixture[str]) -> None:
        response = engine(ScriptedLLM.of(["spoken"])).query("q")
        assert isinstance(response, StreamingResponse)
        response.print_response_stream()
        assert capsys.readouterr().out == "spoken"
        response.print_response_stream()
        assert capsys.readouterr().out == "spoken\n"

    async def test_async(self) -> None:
        llm = ScriptedLLM.of(["first", "second"], [grade(3, 1), grade(9)])
        response = await engine(llm).aquery("q")
        assert isinstance(response, AsyncStreamingResponse)
        for _ in range(2):
            assert [t async for t in response.response_gen] == list("second")
        assert "".join([t async for t in response.async_response_gen()]) == "second"
        assert "".join([t async for t in response.async_response_gen()]) == "second"
        assert (await response.get_response()).response == "second"
        assert len(response.source_nodes) == feedback_of(response).selection.cut  # type: ignore[union-attr]

    async def test_async_as_text_from_another_loop(self) -> None:
        response = await engine(ScriptedLLM.of(["spoken"])).aquery("q")
        assert await asyncio.to_thread(str, response) == "spoken"

    async def test_no_candidates(self) -> None:
        found = SageQueryEngine.from_args(FixedRetriever(), llm=ScriptedLLM.of(), streaming=True)
        assert str(found.query("q")) == "Empty Response"
        response = await found.aquery("q")
        assert isinstance(response, AsyncStreamingResponse)
        assert [t async for t in response.response_gen] == ["Empty Response"]

    def test_the_streaming_switch_is_read_at_each_question(self) -> None:
        found = engine(ScriptedLLM.of(), streaming=False)
        assert not isinstance(found.query("q"), StreamingResponse)
        found._response_synthesizer._streaming = True
        assert isinstance(found.query("q"), StreamingResponse)


class TestJudgedAfter:
    def test_tokens_come_before_the_grade_is_asked_for(self, recorder: Recorder) -> None:
        llm = ScriptedLLM.of(["spoken", "never"], [grade(2, 1)])
        response = engine(llm, feedback="after_stream").query("q")
        assert isinstance(response, StreamingResponse)
        assert next(response.response_gen) == "s"
        assert llm.asked("critic") == []
        assert feedback_of(response) is None
        assert list(response.response_gen) == list("spoken")
        assert len(llm.asked("critic")) == len(llm.asked("answer")) == 1
        assert response.metadata is not None
        assert response.metadata["sage"]["score"] == 2
        assert list(response.response_gen) == list("spoken")
        assert recorder.names().count("SageFeedbackEvent") == 1

    async def test_async(self) -> None:
        llm = ScriptedLLM.of(["spoken"], [grade(2, 1)])
        response = await engine(llm, feedback="after_stream").aquery("q")
        assert isinstance(response, AsyncStreamingResponse)
        assert await anext(response.response_gen) == "s"
        assert llm.asked("critic") == []
        assert [t async for t in response.response_gen] == list("spoken")
        assert response.metadata is not None
        assert response.metadata["sage"]["score"] == 2
        assert [t async for t in response.response_gen] == list("spoken")
        assert len(llm.asked("critic")) == 1

    async def test_without_streaming_the_one_answer_is_graded(self) -> None:
        llm = ScriptedLLM.of(["said"], [grade(2, 1)])
        found = engine(llm, feedback="after_stream", streaming=False)
        for response in (found.query("q"), await found.aquery("q")):
            assert str(response) == "said"
            assert response.metadata is not None
            assert (response.metadata["sage"]["score"], response.metadata["sage"]["rounds"]) == (2, 1)

    @pytest.mark.parametrize("streaming", [False, True])
    @pytest.mark.parametrize("chats", [False, True])
    async def test_the_tokens_of_the_answer_are_counted(self, streaming: bool, chats: bool) -> None:
        counter = TokenCountingHandler(tokenizer=get_tokenizer())
        Settings.callback_manager = CallbackManager([counter])
        llm = ScriptedLLM.of(["some spoken words"], chats=chats, callback_manager=Settings.callback_manager)
        found = engine(llm, feedback="after_stream", streaming=streaming)
        for response in (found.query("q"), await found.aquery("q")):
            if isinstance(response, AsyncStreamingResponse):
                assert [token async for token in response.response_gen]
            assert str(response) == "some spoken words"
            result = trace_of(response)
            for role in ("generate", "judge"):
                assert result.usage_by_role[role].calls == 1
                assert result.usage_by_role[role].prompt > 20
            assert result.usage_by_role["generate"].completion == 3
            # The handler counts it twice where one method of the fake LLM calls another.
            calls = {(c.prompt, c.completion): c.total_token_count for c in counter.llm_token_counts}
            if not chats:
                assert abs(result.usage.total - sum(calls.values())) <= 8

    async def test_what_the_reader_asks_meanwhile_is_not_counted(self) -> None:
        found = engine(ScriptedLLM.of(["spoken"]), feedback="after_stream")
        other = ScriptedLLM.of(["else"])
        response = found.query("q")
        assert isinstance(response, StreamingResponse)
        for _ in response.response_gen:
            other.complete("anything")
        again = await found.aquery("q")
        assert isinstance(again, AsyncStreamingResponse)
        async for _ in again.response_gen:
            await other.acomplete("anything")
        for each in (response, again):
            assert feedback_of(each).usage.calls == 2  # type: ignore[union-attr]

    async def test_a_failing_critic_does_not_break_the_stream(self) -> None:
        llm = ScriptedLLM.of(["spoken"], [ConnectionError("gone")])
        found = engine(llm, feedback="after_stream")
        response = found.query("q")
        assert isinstance(response, StreamingResponse)
        assert "".join(response.response_gen) == "spoken"
        other = await found.aquery("q")
        assert isinstance(other, AsyncStreamingResponse)
        assert "".join([t async for t in other.response_gen]) == "spoken"
        for each in (response, other):
            assert feedback_of(each).stop_reason == "critic_failed"  # type: ignore[union-attr]

    async def test_no_candidates(self) -> None:
        found = SageQueryEngine.from_args(
            FixedRetriever(), llm=ScriptedLLM.of(), streaming=True, feedback="after_stream"
        )
        response = found.query("q")
        assert str(response) == "Empty Response"
        assert feedback_of(response).stop_reason == "empty"  # type: ignore[union-attr]


class TestOff:
    async def test_the_stock_stream_goes_through(self) -> None:
        llm = ScriptedLLM.of(["spoken"])
        found = engine(llm, feedback="off")
        response = found.query("q")
        assert isinstance(response, StreamingResponse)
        other = await found.aquery("q")
        assert isinstance(other, AsyncStreamingResponse)
        for _ in range(2):  # and can be read again
            assert "".join(response.response_gen) == "spoken"
            assert "".join([t async for t in other.response_gen]) == "spoken"
        assert str(response) == "spoken"
        assert llm.asked("critic") == []


class TestReplays:
    def test_readers_at_different_places_share_one_source(self) -> None:
        ended: list[str] = []
        source = iter("abcd")
        replay = TokenReplay(source, ended.append)
        one, two = iter(replay), iter(replay)
        assert [next(one), next(one), next(two)] == ["a", "b", "a"]
        assert list(two) == ["b", "c", "d"]
        assert list(one) == ["c", "d"]
        assert ended == ["abcd"]
        assert next(replay) == "a"
        assert replay.send(None) == "b"
        replay.close()
        assert list(replay) == list("abcd")

    async def test_async_readers(self) -> None:
        async def source() -> AsyncIterator[str]:
            for token in "abc":
                await asyncio.sleep(0)
                yield token

        ended: list[str] = []

        async def note(text: str) -> None:
            ended.append(text)

        replay = AsyncTokenReplay(source(), note)

        async def read() -> str:
            return "".join([token async for token in replay])

        assert await asyncio.gather(read(), read(), read()) == ["abc"] * 3
        assert ended == ["abc"]
        assert await anext(replay) == "a"
        assert await replay.asend(None) == "b"
        await replay.aclose()


class TestBrokenStreams:
    """A stream that breaks off is never taken for a whole answer, however often it is read."""

    def test_every_reader_gets_the_error(self) -> None:
        def broken() -> Iterator[str]:
            yield "half "
            raise ConnectionError("gone")

        ended: list[str] = []
        replay = TokenReplay(broken(), ended.append)
        for _ in range(3):
            got: list[str] = []
            with pytest.raises(ConnectionError, match="gone"):
                got.extend(_keeping(replay, got))
            assert got == ["half "]
        assert ended == [], "what is not whole is not graded"

    async def test_every_async_reader_gets_the_error(self) -> None:
        async def broken() -> AsyncIterator[str]:
            yield "half "
            raise ConnectionError("gone")

        ended: list[str] = []

        async def note(text: str) -> None:
            ended.append(text)

        replay = AsyncTokenReplay(broken(), note)
        for _ in range(3):
            got: list[str] = []
            with pytest.raises(ConnectionError, match="gone"):
                async for token in replay:
                    got.append(token)
            assert got == ["half "]
        assert ended == []


def _keeping(replay: TokenReplay, got: list[str]) -> list[str]:
    for token in replay:
        got.append(token)
    return []
