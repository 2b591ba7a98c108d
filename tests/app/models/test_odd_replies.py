"""Replies that no parser takes, and redirects."""

import json
from pathlib import Path

import pytest

from sage_app import LLMAnswerer, Sage
from sage_app.models import OpenAIChat, OpenAIEmbedder
from sage_core.errors import LLMError
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
def test_what_no_parser_takes_is_an_error_of_ours(name: str) -> None:
    with LLMServer([Reply(raw=UNREADABLE[name])]) as server, pytest.raises(LLMError, match="not be read"):
        chat_with(server).complete(QUESTION)


def test_half_an_emoji_reaches_neither_the_caller_nor_the_critic(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        return (
            Reply('{"score": 9, "adjust": 0, "passage": 1}') if request.is_critic else Reply(raw=HALF_EMOJI)
        )

    with LLMServer(script) as server, sage_with(server, tmp_path) as sage:
        answer = sage.ask("When does the ferry leave?", options=["a\ud800", "at seven \ud83d"])
        answer.text.encode()
        assert answer.text == "At seven \ufffd" and answer.score == 9


def test_text_in_parts_is_joined_and_an_error_in_a_good_reply_is_said() -> None:
    parts = BODY.replace(
        b'"At seven."', b'[{"type": "text", "text": "At "}, {"type": "text", "text": "seven."}]'
    )
    error = b'{"error": {"message": "Provider returned error", "code": 502}, "choices": null}'
    with LLMServer([Reply(raw=parts), Reply(raw=error)]) as server:
        chat = chat_with(server, max_retries=0)
        assert chat.complete(QUESTION).text == "At seven."
        with pytest.raises(LLMError, match="Provider returned error"):
            chat.complete(QUESTION)


def test_half_an_emoji_is_embedded() -> None:
    with LLMServer([], embed=lambda text: [float("\ufffd" in text), 1.0]) as server:
        embedder = OpenAIEmbedder("m", base_url=server.base_url)
        assert embedder.embed_query("a\ud83d")[0] > 0 and embedder.embed_documents(["a\ud83d"])[0, 0] > 0


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_to_another_server_is_not_followed(status: int) -> None:
    with LLMServer(["At seven."]) as other:
        elsewhere = Reply("", status=status, headers={"location": other.base_url + "/chat/completions"})
        with LLMServer([elsewhere]) as server, pytest.raises(LLMError, match="redirect") as caught:
            chat_with(server).complete(QUESTION)
        assert not other.requests and not caught.value.retryable
