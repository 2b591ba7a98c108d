"""Replies that no parser takes, addresses with a password in them, and redirects."""

import json
import logging
import pickle
import traceback
from pathlib import Path

import pytest

from sage_app import LLMAnswerer, Sage
from sage_app.models import OpenAIChat, OpenAIEmbedder
from sage_core.errors import InputError, LLMError
from sage_core.llm import Message
from tests.fakes.llm_server import LLMServer, Reply, Request
from tests.fakes.sages import small_sage

pytest.importorskip("openai")

QUESTION = [Message("user", "When does the ferry leave?")]
WHOLE = {
    "id": "1",
    "object": "chat.completion",
    "created": 0,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "At seven."}, "finish_reason": "stop"}
    ],
}
BODY = json.dumps(WHOLE).encode()
UNREADABLE = {
    "not UTF-8": BODY.replace(b"At seven", b"At \xff seven"),
    # Deeper than the interpreter follows, and no deeper than a stack is where a library raised that limit.
    "deep": b"[" * 5_000 + b"]" * 5_000,
    "a long number": BODY.replace(b'"created": 0', b'"created": ' + b"9" * 5000),
}
HALF_EMOJI = BODY.replace(b"At seven.", b"At seven \\ud83d")


def chat_with(server: LLMServer, **settings: object) -> OpenAIChat:
    return OpenAIChat("m", base_url=server.base_url, **{"max_retries": 1, **settings})


def sage_with(server: LLMServer, folder: Path) -> Sage:
    (folder / "ferry.txt").write_text("The ferry leaves at seven.\n\nThe mill grinds oats.")
    sage = small_sage(folder / "store", answerer=LLMAnswerer(chat_with(server)))
    sage.ingest(folder / "ferry.txt")
    return sage


@pytest.mark.parametrize("name", UNREADABLE)
async def test_an_unreadable_reply_is_an_llm_error(name: str) -> None:
    with LLMServer(lambda request: Reply(raw=UNREADABLE[name])) as server:
        chat = chat_with(server)
        with pytest.raises(LLMError) as caught:
            chat.complete(QUESTION)
        assert caught.value.retryable
        with pytest.raises(LLMError):
            await chat.acomplete(QUESTION)


@pytest.mark.parametrize("name", UNREADABLE)
async def test_what_the_critic_replies_loses_no_answer(name: str, tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        return Reply(raw=UNREADABLE[name]) if request.is_critic else Reply("At seven.")

    with LLMServer(script) as server, sage_with(server, tmp_path) as sage:
        answers = [sage.ask("When does the ferry leave?"), await sage.aask("When does the ferry leave?")]
    for answer in answers:
        assert answer.text == "At seven." and answer.feedback.stop_reason == "critic_failed"


def test_whatever_a_critic_raises_loses_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("a bug of a critic")

    with LLMServer(["At seven."]) as server, sage_with(server, tmp_path) as sage:
        monkeypatch.setattr(sage.answerer, "judge", broken)
        answer = sage.ask("When does the ferry leave?")
    assert answer.text == "At seven." and answer.feedback.stop_reason == "critic_failed"


def test_half_an_emoji_reaches_neither_the_caller_nor_the_critic(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        return (
            Reply('{"score": 9, "adjust": 0, "passage": 1}') if request.is_critic else Reply(raw=HALF_EMOJI)
        )

    with LLMServer(script) as server, sage_with(server, tmp_path) as sage:
        answer = sage.ask("When does the ferry leave?", options=["a\ud800", "at seven \ud83d"])
        answer.text.encode()
        assert answer.text == "At seven \ufffd" and answer.score == 9


def test_half_an_emoji_is_embedded() -> None:
    with LLMServer([], embed=lambda text: [float("\ufffd" in text), 1.0]) as server:
        embedder = OpenAIEmbedder("m", base_url=server.base_url)
        assert embedder.embed_query("a\ud83d")[0] > 0 and embedder.embed_documents(["a\ud83d"])[0, 0] > 0


def with_login(address: str) -> str:
    return address.replace("http://", "http://ann:PASS%40WORD@")


@pytest.mark.parametrize("from_environment", [False, True])
def test_a_password_in_the_address_is_sent_as_a_header_and_seen_nowhere(
    from_environment: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    with LLMServer(lambda request: "At seven.", embed=lambda text: [1.0]) as server:
        address: str | None = with_login(server.base_url)
        if from_environment:
            monkeypatch.setenv("OPENAI_BASE_URL", str(address))
            address = None
        chat = OpenAIChat("m", base_url=address, max_retries=0)
        assert chat.complete(QUESTION).text == "At seven."
        assert "".join(chat.stream(QUESTION).__next__().split()) == "At"
        embedder = OpenAIEmbedder("m", base_url=address)
        embedder.embed_query("a")
        login = "Basic YW5uOlBBU1NAV09SRA=="
        assert {request.headers["authorization"] for request in server.requests} == {login}
    with pytest.raises(LLMError) as caught:
        chat.complete(QUESTION)  # the server is gone
    seen = caplog.text + repr(chat) + str(caught.value) + repr(vars(caught.value))
    seen += pickle.dumps(chat).decode("latin-1") + pickle.dumps(embedder).decode("latin-1")
    assert "PASS" not in seen and str(login) not in seen


@pytest.mark.parametrize("from_environment", [False, True])
def test_a_server_that_repeats_the_password_does_not_spread_it(
    from_environment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spill = Reply(status=401, error={"message": "no: ann:PASS@WORD, PASS%40WORD, Basic YW5uOlBBU1NAV09SRA=="})
    with LLMServer([spill] * 3, embed=lambda text: [1.0], embed_first=[spill]) as server:
        address: str | None = with_login(server.base_url)
        if from_environment:
            monkeypatch.setenv("OPENAI_BASE_URL", str(address))
            address = None
        chat = OpenAIChat("m", base_url=address, max_retries=0)
        embedder = OpenAIEmbedder("m", base_url=address, max_retries=0)
        for ask in (
            lambda: chat.complete(QUESTION),
            lambda: list(chat.stream(QUESTION)),
            lambda: embedder.embed_query("a"),
        ):
            with pytest.raises(LLMError, match="no: ") as caught:
                ask()
            seen = repr(vars(caught.value)) + "".join(traceback.format_exception(caught.value))
            assert "PASS" not in seen and "YW5uOl" not in seen, seen


def test_a_refused_address_is_quoted_without_what_is_secret() -> None:
    with pytest.raises(InputError) as caught:
        OpenAIChat("m", base_url="ftp://ann:PASSWORD@host/?k=KEY")
    assert "PASSWORD" not in str(caught.value) and "KEY" not in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_to_another_server_is_not_followed(status: int) -> None:
    with LLMServer(["At seven."]) as other:
        elsewhere = Reply("", status=status, headers={"location": other.base_url + "/chat/completions"})
        with LLMServer([elsewhere]) as server, pytest.raises(LLMError, match="redirect") as caught:
            chat_with(server).complete(QUESTION)
        assert not other.requests and not caught.value.retryable
