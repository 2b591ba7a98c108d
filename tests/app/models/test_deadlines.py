"""One deadline for a whole call, in all that talk to servers."""

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from sage_app.models import OpenAIChat, OpenAIEmbedder
from sage_core.errors import LLMError
from sage_core.llm import Message
from tests.fakes.llm_server import (
    BadServer,
    Behavior,
    LLMServer,
    dripping_body,
    dripping_headers,
    endless_stream,
    headers_and_nothing,
)

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


@pytest.mark.parametrize(
    ("call", "behavior"),
    [
        *((call, dripping_body) for call in (complete, acomplete, stream, embed)),
        *((call, nothing) for call in (stream, embed) for nothing in (headers_and_nothing, dripping_headers)),
    ],
)
def test_a_call_ends_with_its_time(call: Callable[[str], object], behavior: Behavior) -> None:
    with BadServer(behavior) as server:
        began = time.monotonic()
        with pytest.raises(LLMError, match=f"{SECONDS} s") as caught:
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
        monkeypatch.setattr("sage_app.models.served.time", late)
        assert [*stream][-1].text == "one two three"  # type: ignore[union-attr]
