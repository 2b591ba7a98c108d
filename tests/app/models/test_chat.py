"""The OpenAI adapter against a real server on 127.0.0.1 that misbehaves as told."""

import asyncio
import copy
import logging
import pickle
import sys
import traceback
from collections.abc import Iterator

import pytest

from sage_app.models import OpenAIChat, OpenAIEmbedder
from sage_core.errors import InputError, LLMError, MissingExtraError
from sage_core.feedback import VERDICT_SCHEMA
from sage_core.llm import Completion, Message
from sage_core.llm.usage import TokenUsage
from tests.fakes.llm_server import LLMServer, Reply, Script

pytest.importorskip("openai")

KEY = "sk-secret-0123456789abcdef"
HELLO = [Message("system", "Be brief."), Message("user", "Where is the lighthouse?")]


def chat_with(server: LLMServer, **settings: object) -> OpenAIChat:
    settings = {"api_key": KEY, "timeout": 5.0, **settings}
    return OpenAIChat("test-model", base_url=server.base_url, **settings)


def ask(script: Script, **settings: object) -> tuple[Completion, LLMServer]:
    """The same question sync, async and streamed: one answer, whichever way it was asked."""
    with LLMServer(script) as server:
        reply = chat_with(server, **settings).complete(HELLO)
    with LLMServer(script) as other:
        assert asyncio.run(chat_with(other, **settings).acomplete(HELLO)) == reply
    return reply, server


def ask_and_fail(script: Script, **settings: object) -> tuple[LLMError, LLMServer]:
    with LLMServer(script) as server:
        with pytest.raises(LLMError) as caught:
            chat_with(server, **settings).complete(HELLO)
        with pytest.raises(LLMError) as caught_async:
            asyncio.run(chat_with(server, **settings).acomplete(HELLO))
    assert str(caught_async.value) == str(caught.value)
    return caught.value, server


def test_a_reply_and_its_usage() -> None:
    reply, server = ask(["On the north cape."])
    assert reply == Completion("On the north cape.", TokenUsage(100, 10, 1), "stop")
    request = server.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.body["model"] == "test-model"
    assert request.body["temperature"] == 0.0
    assert request.body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where is the lighthouse?"},
    ]
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_usage_that_is_absent_is_estimated_and_marked() -> None:
    reply, _ = ask([Reply("On the north cape.", usage=None)])
    assert reply.usage == TokenUsage(3 + 4 + 6 + 4, 5, 1, estimated=True)
    with LLMServer([Reply("On the north cape.", usage=None)]) as server:
        assert streamed(server)[1].usage == reply.usage
    assert ask([Reply(None, refusal="I will not.")])[0].text == "I will not.", "a refusal is a reply"


@pytest.mark.parametrize("status", [429, 503])
def test_passing_trouble_is_retried(status: int) -> None:
    busy = Reply(status=status, headers={"retry-after-ms": "1"})
    reply, server = ask([busy, busy, "At last."])
    assert (reply.text, len(server.requests)) == ("At last.", 3)
    assert reply.usage.calls == 1


@pytest.mark.parametrize("trouble", [Reply(drop=True), Reply("A long reply that breaks off.", half=True)])
def test_broken_connections_are_retried(trouble: Reply) -> None:
    reply, server = ask([trouble, "Whole."])
    assert (reply.text, len(server.requests)) == ("Whole.", 2)


@pytest.mark.parametrize(
    "raw",
    [
        *("{not json", "<html>busy</html>", '{"choices": []}', '{"unexpected": true}', "[1, 2]", "null", ""),
        *('{"choices": [{"message": null}]}', '{"choices": ["text"]}'),
    ],
)
def test_what_is_no_reply_is_told(raw: str) -> None:
    error, _ = ask_and_fail([Reply(raw=raw)])
    assert "could not be read" in str(error) and error.retryable
    assert error.__context__ is None


SPENT = {"message": "out of money", "code": "insufficient_quota", "type": "insufficient_quota"}


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (Reply(status=401), "API key"),
        (Reply(status=403), "API key"),
        (Reply(status=404), "no such model"),
        (Reply(status=429, error=SPENT), "out of money"),
        (Reply(status=400, error={"message": "context too long"}), "context too long"),
        (Reply(status=307, headers={"location": "http://127.0.0.1:1/v1"}), "redirects"),
        (Reply(status=422, raw='{"detail": [{"msg": "Extra inputs are not permitted"}]}'), "Extra inputs"),
        (Reply(None, finish_reason="length"), "length"),
        (Reply(None, finish_reason="content_filter"), "content_filter"),
    ],
)
def test_lasting_trouble_says_what_to_do(trouble: Reply, words: str) -> None:
    error, _ = ask_and_fail([trouble], max_retries=0)
    assert words in str(error) and not error.retryable


def test_no_server_at_all() -> None:
    with LLMServer(["x"]) as server:
        address = server.base_url
    chat = OpenAIChat("m", base_url=address, api_key=KEY, max_retries=0)
    with pytest.raises(LLMError, match="is the server running") as caught:
        chat.complete(HELLO)
    assert caught.value.retryable


@pytest.mark.parametrize("status", [400, 422, 500])
def test_structured_output_refused_is_left_out_from_then_on(status: int) -> None:
    def script(request: object) -> Reply | str:
        if "response_format" in request.body:
            return Reply(status=status, error={"message": "unknown field", "param": None})
        return "9"

    with LLMServer(script) as server:
        chat = chat_with(server, max_retries=0)
        assert chat.complete(HELLO, schema=VERDICT_SCHEMA).text == "9"
        assert chat.complete(HELLO, schema=VERDICT_SCHEMA).text == "9"
    assert ["response_format" in r.body for r in server.requests] == [True, False, False]


def test_instructions_stand_in_the_question_if_the_model_has_no_other_place() -> None:
    def script(request: object) -> Reply | str:
        if request.system:
            return Reply(status=400, error={"message": "System role not supported"})
        return "fine"

    with LLMServer(script) as server:
        chat = chat_with(server)
        assert [chat.complete(HELLO).text, "".join([*chat.stream(HELLO)][:-1])] == ["fine", "fine"]
    assert [r.user for r in server.requests[1:]] == ["Be brief.\n\nWhere is the lighthouse?"] * 2


def test_a_failure_that_goes_on_without_a_setting_is_not_its_fault() -> None:
    turns = iter([Reply(status=500)] * 2 + ["9"])
    with LLMServer(lambda _: next(turns)) as server:
        chat = chat_with(server, max_retries=0)
        with pytest.raises(LLMError, match="status 500"):
            chat.complete(HELLO, schema=VERDICT_SCHEMA)
        assert chat.complete(HELLO, schema=VERDICT_SCHEMA).text == "9"
    assert ["response_format" in r.body for r in server.requests] == [True, False, True]


def test_settings_a_model_refuses_are_adapted() -> None:
    def script(request: object) -> Reply | str:
        for name in ("temperature", "max_tokens"):
            if name in request.body:
                return Reply(status=400, error={"message": f"Unsupported parameter: '{name}'", "param": name})
        return "fine"

    with LLMServer(script) as server:
        assert chat_with(server, max_tokens=50).complete(HELLO).text == "fine"
    assert server.requests[-1].body["max_completion_tokens"] == 50
    assert len(server.requests) == 3


def streamed(server: LLMServer, **settings: object) -> tuple[list[str], Completion]:
    """Stream sync and async; both must give the same."""
    pieces = list(chat_with(server, **settings).stream(HELLO))

    async def collect() -> list[str | Completion]:
        return [piece async for piece in chat_with(server, **settings).astream(HELLO)]

    assert asyncio.run(collect()) == pieces
    assert isinstance(pieces[-1], Completion)
    return [p for p in pieces[:-1] if isinstance(p, str)], pieces[-1]


def test_streaming() -> None:
    with LLMServer(["On the north cape."]) as server:
        pieces, whole = streamed(server)
    assert pieces == ["On ", "the ", "north ", "cape."]
    assert whole == Completion("On the north cape.", TokenUsage(100, 10, 1), "stop")
    assert server.requests[0].body["stream_options"] == {"include_usage": True}


def test_a_stream_that_fails_before_its_first_piece_is_retried() -> None:
    for trouble in (Reply(status=503), Reply(drop=True)):
        turns = iter([trouble, "a b", trouble, "a b"])
        with LLMServer(lambda _r, turns=turns: next(turns)) as server:
            assert streamed(server)[0] == ["a ", "b"]


@pytest.mark.parametrize(
    "trouble", [Reply("one two three four", half=True), Reply("one two", stream_error={"message": "gone"})]
)
def test_a_stream_that_breaks_off_is_an_error_not_a_repeat(trouble: Reply) -> None:
    with LLMServer([trouble]) as server:
        got: list[object] = []
        with pytest.raises(LLMError):
            got.extend(chat_with(server).stream(HELLO))
        with pytest.raises(LLMError):
            asyncio.run(_drain(chat_with(server)))
    assert len(server.requests) == 2


async def _drain(chat: OpenAIChat) -> None:
    async for _ in chat.astream(HELLO):
        pass


def test_a_stream_left_early_leaves_the_adapter_usable() -> None:
    with LLMServer(["one two three"]) as server:
        chat = chat_with(server)
        stream = chat.stream(HELLO)
        assert next(stream) == "one "
        stream.close()
        assert chat.complete(HELLO).text == "one two three"
        chat.close()
        assert chat.complete(HELLO).text == "one two three"


def test_one_adapter_in_several_event_loops() -> None:
    with LLMServer(["x"]) as server:
        chat = chat_with(server)
        for _ in range(3):
            assert asyncio.run(chat.acomplete(HELLO)).text == "x"


# The key


def texts_of(error: BaseException) -> Iterator[str]:
    """Everything that a log, a report or a person might see of an error."""
    seen: BaseException | None = error
    while seen is not None:
        yield str(seen)
        yield repr(seen)
        yield repr(getattr(seen, "__dict__", ""))
        seen = seen.__cause__ or seen.__context__
    yield "".join(traceback.format_exception(error))


@pytest.mark.parametrize("key", [KEY, "a key of another shape 42"])
@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_server_that_repeats_the_key_does_not_spread_it(
    status: int, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    spill = Reply(status=status, error={"message": f"bad key {key}, Bearer {key}", "code": key, "param": key})
    error, _ = ask_and_fail([spill], max_retries=0, api_key=key)
    with LLMServer([], embed=lambda text: [1.0], embed_first=[spill] * 9) as server:
        embedder = OpenAIEmbedder("m", api_key=key, base_url=server.base_url, max_retries=0)
        with pytest.raises(LLMError) as caught:
            embedder.embed_query("q")
    for text in (*texts_of(error), *texts_of(caught.value), caplog.text, repr(embedder)):
        assert key not in text
    assert key.encode() not in pickle.dumps(embedder)


def test_the_key_is_in_no_repr_log_or_pickle(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with LLMServer(["fine"]) as server:
        chat = chat_with(server)
        chat.complete(HELLO)
        assert KEY not in repr(chat)
        assert KEY not in caplog.text
        packed = pickle.dumps(chat)
        assert KEY.encode() not in packed
        again = pickle.loads(packed)
        assert again.complete(HELLO).text == "fine"
        assert server.requests[-1].headers["authorization"] == "Bearer none-needed"
        copy.deepcopy(chat).complete(HELLO)
        assert server.requests[-1].headers["authorization"] == f"Bearer {KEY}"


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with LLMServer(["x"]) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert OpenAIChat("m").complete(HELLO).text == "x"
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_without_a_key_it_says_what_to_do() -> None:
    with pytest.raises(LLMError, match="OPENAI_API_KEY"):
        OpenAIChat("m").complete(HELLO)


def test_without_the_package_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError, match=r"sage-rag\[openai\]"):
        OpenAIChat("m", api_key=KEY).complete(HELLO)


@pytest.mark.parametrize("wrong", [{"timeout": 0}, {"max_retries": -1}, {"temperature": -1.0}])
def test_settings_out_of_range(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        OpenAIChat("m", **wrong)
    with pytest.raises(InputError):
        OpenAIChat("")


def test_a_key_loses_its_newline_and_one_that_is_no_key_is_told() -> None:
    with LLMServer(["yes"]) as server:
        OpenAIChat("m", base_url=server.base_url, api_key="sk-test\n").complete([Message("user", "?")])
        assert server.requests[0].headers["authorization"] == "Bearer sk-test"
        with pytest.raises(InputError, match="OPENAI_API_KEY"):
            OpenAIChat("m", base_url=server.base_url, api_key="sk-ключ").complete([Message("user", "?")])


@pytest.mark.parametrize(
    "url",
    [
        "http://ann:pw@h/v1?key=sk-secret",
        "https://h/v1#sk-secret",
        "http://ann:pw@h/v1",
        "ftp://ann:pw@h/?k=secret",
    ],
)
def test_an_address_with_a_secret_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(InputError, match=r"api_key|http://") as told:
        OpenAIChat("m", base_url=url)
    assert "secret" not in str(told.value) and "pw" not in str(told.value)
