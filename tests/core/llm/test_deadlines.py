"""One deadline for a whole call, and a limit on the reply, in all that talk to servers."""

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from sage_core.embedding.openai import OpenAIEmbedder
from sage_core.errors import InputError, LLMError, RerankerError, SageError
from sage_core.llm import Message, OpenAIChat
from sage_core.ranking import RemoteReranker
from tests.fakes.bad_server import (
    BadServer,
    Behavior,
    dripping_body,
    dripping_headers,
    endless_stream,
    flood,
    headers_and_nothing,
)
from tests.fakes.llm_server import LLMServer

pytest.importorskip("openai")

HELLO = [Message("user", "Where is the lighthouse?")]
SECONDS = 0.4
# A machine under load is late, but not by this much; without a deadline these calls take a minute or for ever.
LATE = 15


def complete(url: str) -> object:
    return OpenAIChat("m", base_url=url, api_key="k", timeout=SECONDS).complete(HELLO)


def acomplete(url: str) -> object:
    return asyncio.run(OpenAIChat("m", base_url=url, api_key="k", timeout=SECONDS).acomplete(HELLO))


def stream(url: str) -> object:
    return list(OpenAIChat("m", base_url=url, api_key="k", timeout=SECONDS).stream(HELLO))


def embed(url: str) -> object:
    return OpenAIEmbedder("m", base_url=url, api_key="k", timeout=SECONDS).embed_query("ferry")


def rerank(url: str) -> object:
    return RemoteReranker(url, timeout=SECONDS).score("ferry", ["a", "b"])


@pytest.mark.parametrize(
    ("call", "behavior"),
    [
        *((call, dripping_body) for call in (complete, acomplete, stream, embed, rerank)),
        *(
            (call, nothing)
            for call in (stream, rerank)
            for nothing in (headers_and_nothing, dripping_headers)
        ),
    ],
)
def test_a_call_ends_with_its_time(call: Callable[[str], object], behavior: Behavior) -> None:
    with BadServer(behavior) as server:
        began = time.monotonic()
        with pytest.raises((LLMError, RerankerError), match=f"{SECONDS} s") as caught:
            call(server.base_url)
        assert time.monotonic() - began + 0.05 >= SECONDS and time.monotonic() - began < LATE
    assert caught.value.retryable
    assert server.requests <= 1  # none where loading the client took all of the time


def test_an_endless_stream_ends_and_shows_what_came() -> None:
    with BadServer(endless_stream) as server:
        pieces: list[object] = []
        with pytest.raises(LLMError):
            # Long enough for a first piece on a busy machine.
            pieces.extend(_each(OpenAIChat("m", base_url=server.base_url, api_key="k", timeout=1.5), pieces))
    assert pieces and set(pieces) == {"on and "}


def _each(chat: OpenAIChat, pieces: list[object]) -> list[object]:
    for piece in chat.stream(HELLO):
        pieces.append(piece)
    return []


def test_the_reader_of_a_stream_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with LLMServer(["one two three"]) as server:
        stream = OpenAIChat("m", base_url=server.base_url, api_key="k", timeout=20.0).stream(HELLO)
        assert next(stream) == "one "
        late = SimpleNamespace(monotonic=lambda: time.monotonic() + 30)  # half a minute later
        monkeypatch.setattr("sage_core.llm.attempts.time", late)
        assert [*stream][-1].text == "one two three"  # type: ignore[union-attr]


@pytest.mark.parametrize("call", [complete, acomplete, embed, rerank])
def test_a_flood_is_cut_off(call: Callable[[str], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SECONDS", 60)
    with BadServer(flood) as server, pytest.raises(SageError, match="max_reply_bytes") as caught:
        call(server.base_url)
    assert "max_reply_bytes" in str(caught.value) and not caught.value.retryable  # type: ignore[attr-defined]
    assert server.requests == 1


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "1"])
def test_the_limit_is_a_number_of_bytes(wrong: object) -> None:
    with pytest.raises(InputError, match="max_reply_bytes"):
        OpenAIChat("m", max_reply_bytes=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="max_reply_bytes"):
        RemoteReranker("http://localhost:1", max_reply_bytes=wrong)  # type: ignore[arg-type]
