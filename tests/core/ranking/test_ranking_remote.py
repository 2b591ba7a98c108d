"""The HTTP reranker against a real server on this machine."""

import asyncio
import json
import math
import pickle
import types

import pytest

from sage_core.errors import InputError, RerankerError
from sage_core.ranking import RemoteReranker
from tests.fakes.llm_server import LLMServer, Reply

pytest.importorskip("httpx")


class Server(LLMServer):
    """Answers each request with the next of ``replies``: a function of the body, or (status, body, headers)."""

    def __init__(self):
        self.replies = []
        super().__init__(self._reply)

    def _reply(self, request):
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        status, content, headers = reply if isinstance(reply, tuple) else (200, reply(request.body), {})
        raw = content if isinstance(content, bytes) else json.dumps(content)
        return Reply(status=status, raw=raw, headers=headers)

    @property
    def url(self):
        return f"{self.base_url}/rerank"


@pytest.fixture
def server():
    with Server() as running:
        yield running


@pytest.fixture
def waits(monkeypatch):
    """Seconds waited between attempts, which do not pass."""
    seconds = []

    async def sleep(duration):
        seconds.append(duration)

    own = types.SimpleNamespace(**{**vars(asyncio), "sleep": sleep})
    monkeypatch.setattr("sage_core.llm.attempts.asyncio", own)
    return seconds


def by_length(key, score, outer):
    """A server that scores by length of text and answers best first, as real ones do."""

    def reply(body):
        rows = [{"index": i, score: len(t) / 100} for i, t in enumerate(body[key])]
        rows.sort(key=lambda r: -r[score])
        return {outer: rows} if outer else rows

    return reply


TEXTS = ["four", "a longer one", "", "mid one"]
EXPECTED = [0.04, 0.12, 0.0, 0.07]


@pytest.mark.parametrize(
    ("key", "score", "outer"),
    [
        ("documents", "relevance_score", "results"),
        ("documents", "relevance_score", "data"),
        ("texts", "score", None),
    ],
)
def test_scores_come_back_in_the_order_sent(server, key, score, outer):
    server.replies = [by_length(key, score, outer)]
    reranker = RemoteReranker(server.url, model="m-1", api_key="secret", documents_key=key)
    assert reranker.score("how long?", TEXTS) == EXPECTED
    request = server.requests[0]
    assert request.path == "/v1/rerank"
    assert request.headers["authorization"] == "Bearer secret"
    assert request.body == {"query": "how long?", key: TEXTS, "model": "m-1"}


def test_options_and_headers_are_sent(server):
    server.replies = [by_length("documents", "score", "results")]
    RemoteReranker(server.url, options={"truncate": True}, headers={"X-Team": "blue"}).score("q", ["a"])
    request = server.requests[0]
    assert request.body["truncate"] is True
    assert "model" not in request.body
    assert request.headers["x-team"] == "blue"
    assert "authorization" not in request.headers


def test_batches(server):
    server.replies = [by_length("documents", "score", "results")]
    reranker = RemoteReranker(server.url, batch_size=3)
    assert reranker.score("q", TEXTS) == EXPECTED
    assert [len(request.body["documents"]) for request in server.requests] == [3, 1]


def test_no_texts_send_nothing(server):
    assert RemoteReranker(server.url).score("q", []) == []
    assert server.requests == []


def test_it_gives_up_after_max_retries(server, waits):
    server.replies = [(500, b"out of memory", {})]
    with pytest.raises(RerankerError, match="500") as caught:
        RemoteReranker(server.url, max_retries=2).score("q", TEXTS)
    assert caught.value.retryable
    assert len(server.requests) == 3


def test_a_wrong_key_is_not_tried_again(server, waits):
    server.replies = [(401, {"error": "bad key"}, {})]
    with pytest.raises(RerankerError, match="401") as caught:
        RemoteReranker(server.url, api_key="secret").score("q", TEXTS)
    assert not caught.value.retryable
    assert waits == []
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        {"detail": "hello"},
        {"results": [{"index": 0}]},
        {"results": [{"index": 9, "score": 1}]},
        {"results": [{"index": 0, "score": 1}, {"index": 0, "score": 1}]},
        {"results": [{"index": 0, "score": "high"}]},
        {"results": ["a", "b"]},
        {"results": [{"index": "0", "score": 1}]},
        {"results": [{"index": 1, "score": 0.5}]},
        7,
    ],
)
def test_another_shape_is_an_error(server, answer):
    server.replies = [(200, answer, {})]
    with pytest.raises(RerankerError):
        RemoteReranker(server.url).score("q", ["a", "b"])


def test_a_null_score_is_nan(server):
    server.replies = [(200, {"results": [{"index": 0, "score": None}, {"index": 1, "score": 3}]}, {})]
    first, second = RemoteReranker(server.url, scale="logit").score("q", ["a", "b"])
    assert math.isnan(first)
    assert second == 3.0


@pytest.mark.parametrize(
    "arguments",
    [
        {"url": "file:///etc/hosts"},
        {"url": "localhost:80"},
        {"scale": "stars"},
        {"batch_size": 0},
        {"timeout": 0},
        {"max_retries": -1},
    ],
)
def test_bad_arguments(arguments):
    with pytest.raises(InputError):
        RemoteReranker(**{"url": "http://127.0.0.1/rerank", **arguments})


def test_the_key_is_not_shown_and_it_pickles():
    reranker = RemoteReranker("http://127.0.0.1/rerank", model="m", api_key="secret", scale="logit")
    assert "secret" not in repr(reranker)
    again = pickle.loads(pickle.dumps(reranker))
    assert (again.name, again.scale) == ("m", "logit")
