"""A hundred questions at once against a server with 50 ms latency: none lost, none mixed up, none held back."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from sage_core.answering import LLMAnswerer
from sage_core.feedback import FeedbackConfig, FeedbackLoop, FeedbackResult, arun_loop
from sage_core.llm import OpenAIChat
from sage_core.pipeline.sage import Sage
from sage_core.selection import Scale, Selection
from sage_core.selection.rules import FixedK
from tests.fakes.llm_server import LLMServer, Reply, Request
from tests.fakes.models import BlankLineSegmenter, HashEmbedder

pytestmark = [pytest.mark.slow, pytest.mark.soak]

pytest.importorskip("openai")

QUESTIONS = 100
LATENCY = 0.05
SCORES = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
# Five at first, and all nine when the critic asks for more.
CONFIG = FeedbackConfig(rule=FixedK(5))


def mark_of(request: Request) -> str:
    """The mark of the question a request is about; the same in question, passages and answer."""
    marks = set(re.findall(r"mark-\d+", request.user))
    assert len(marks) == 1, f"a request that mixes questions: {marks}"
    return marks.pop()


def server_script(request: Request) -> Reply | str:
    """Answers with the question's mark; every third question needs a second round, some replies fail once."""
    mark = mark_of(request)
    number = int(mark.removeprefix("mark-"))
    if not request.is_critic:
        return f"the answer to {mark}"
    narrow = request.user.count(f"passage of {mark}") < len(SCORES)
    low = number % 3 == 0 and narrow
    return json.dumps({"reason": mark, "score": 3 if low else 9, "adjust": 1 if low else 0})


def passages(number: int) -> list[str]:
    return [f"passage of mark-{number}, the {i}th" for i in range(len(SCORES))]


def ask_of(number: int) -> str:
    return f"What is mark-{number}?"


async def aask(answerer: LLMAnswerer, number: int) -> FeedbackResult:
    """One question from first answer to last grade, as a facade would ask it."""
    question, texts = ask_of(number), passages(number)

    def context(selection: Selection) -> list[str]:
        return [texts[i] for i in selection.indices]

    return await arun_loop(
        FeedbackLoop(SCORES, "probability", CONFIG),
        lambda s: answerer.agenerate(question, context(s)),
        lambda s, a: answerer.ajudge(question, context(s), a),
    )


def check(number: int, result: FeedbackResult) -> None:
    assert result.answer == f"the answer to mark-{number}"
    assert all(r.verdict is not None and r.verdict.reason == f"mark-{number}" for r in result.rounds)


def answerer_for(server: LLMServer) -> LLMAnswerer:
    return LLMAnswerer(OpenAIChat("test", base_url=server.base_url, api_key="sk-test", backoff=0.001))


async def test_a_hundred_questions_at_once() -> None:
    slots = 3
    # The server holds back its first reply until all have asked: a client that queues them would never get one.
    with LLMServer(server_script, latency=LATENCY, slots=slots, hold=QUESTIONS) as server:
        answerer = answerer_for(server)
        results = await asyncio.wait_for(
            asyncio.gather(*(aask(answerer, n) for n in range(QUESTIONS))), timeout=60
        )
    for number, result in enumerate(results):
        check(number, result)
    # Every third question took a second answer and a second grade; a question asks one thing at a time.
    again = len(range(0, QUESTIONS, 3))
    assert sum(result.usage.calls for result in results) == len(server.requests) == 2 * (QUESTIONS + again)
    assert server.max_in_flight == QUESTIONS
    assert server.most_at_work == slots


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
    return json.dumps({"reason": mark, "score": 9 if own else 1, "adjust": 0})


async def test_a_hundred_aask_at_once(tmp_path: Path) -> None:
    pytest.importorskip("chromadb")
    notes = tmp_path / "notes.txt"
    notes.write_text("\n\n".join(f"Of mark-{n} it is said that it is number {n}." for n in range(QUESTIONS)))
    with (
        LLMServer(sage_script, latency=LATENCY) as server,
        Sage(
            tmp_path / "store",
            segmenter=BlankLineSegmenter(),
            embedder=HashEmbedder(dimension=512),
            reranker=SharedWords(),
            answerer=answerer_for(server),
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


class SharedWords:
    """Scores a text by the question's words in it."""

    name = "shared words"
    scale: Scale = "probability"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        wanted = set(re.findall(r"[\w-]+", query))
        return [len(wanted & set(re.findall(r"[\w-]+", text))) / len(wanted) for text in texts]


async def test_a_time_limit_of_the_caller_is_kept() -> None:
    with LLMServer([Reply("late", delay=30)]) as server:
        answerer = answerer_for(server)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(aask(answerer, 1), timeout=0.2)
