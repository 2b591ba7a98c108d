"""A hundred questions at once against a server with 50 ms latency: none lost, none mixed up, none held back."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from sage_app.answers import LLMAnswerer
from sage_app.models import OpenAIChat
from sage_core.selection import Scale
from tests.fakes.llm_server import LLMServer, Reply, Request
from tests.fakes.models import HashEmbedder
from tests.fakes.sages import small_sage

pytestmark = [pytest.mark.slow, pytest.mark.soak]

pytest.importorskip("openai")

QUESTIONS = 100
LATENCY = 0.05


def question_mark(request: Request) -> str:
    """The mark in the question alone; the passages of a real search may name others."""
    found = re.search(r"<<BEGIN QUESTION \w+>>\n.*?(mark-\d+)", request.user, re.DOTALL)
    assert found is not None
    return found[1]


def sage_script(request: Request) -> str:
    mark = question_mark(request)
    if not request.is_critic:
        return f"the answer to {mark}"
    # The critic must have been shown this question's answer and no other.
    own = re.findall(r"the answer to (mark-\d+)", request.user) == [mark]
    return json.dumps({"reason": mark, "score": 9 if own else 1, "adjust": 0, "passage": 1})


async def test_a_hundred_aask_at_once(tmp_path: Path) -> None:
    pytest.importorskip("chromadb")
    notes = tmp_path / "notes.txt"
    notes.write_text("\n\n".join(f"Of mark-{n} it is said that it is number {n}." for n in range(QUESTIONS)))
    # The server holds back its first reply until all have asked: a client that queues them would never get one.
    with (
        LLMServer(sage_script, latency=LATENCY, slots=3, hold=QUESTIONS) as server,
        small_sage(
            tmp_path / "store",
            url=server.base_url,
            embedder=HashEmbedder(dimension=512),
            reranker=SharedWords(),
        ) as sage,
    ):
        sage.ingest(notes)
        asked = [sage.aask(f"What is said of mark-{n}?") for n in range(QUESTIONS)]
        answers = await asyncio.wait_for(asyncio.gather(*asked), timeout=120)
    for number, answer in enumerate(answers):
        assert answer.text == f"the answer to mark-{number}"
        assert answer.feedback.score == 9
        assert answer.feedback.verdict.reason == f"mark-{number}"
    assert len(server.requests) == 2 * QUESTIONS
    assert server.max_in_flight == QUESTIONS and server.most_at_work == 3


class SharedWords:
    """Scores a text by the question's words in it."""

    name = "shared words"
    scale: Scale = "probability"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        wanted = set(re.findall(r"[\w-]+", query))
        return [len(wanted & set(re.findall(r"[\w-]+", text))) / len(wanted) for text in texts]


async def test_a_time_limit_of_the_caller_is_kept() -> None:
    with LLMServer([Reply("late", delay=30)]) as server:
        answerer = LLMAnswerer(OpenAIChat("test", base_url=server.base_url, api_key="sk-test"))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(answerer.agenerate("What?", ["This."]), timeout=0.2)
