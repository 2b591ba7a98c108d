"""Sage: ingest, retrieve, ask and aask, with a real LLM client against a scripted server."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sage_app.answers import Capabilities, ExtractiveAnswerer
from sage_app.pipeline.sage import Sage
from sage_core.errors import InputError, StoreError
from sage_core.feedback import Verdict
from sage_core.llm import Completion
from sage_core.llm.prompting import shows_passages
from sage_core.llm.usage import NO_USAGE, TokenUsage
from sage_core.ranking import HybridReranker
from sage_core.selection import Gradient, Scale
from tests.fakes.llm_server import LLMServer, Reply, Request
from tests.fakes.models import HashEmbedder, WordReranker
from tests.fakes.sages import small_sage
from tests.fakes.stores import fill, run
from tests.fakes.threads import together

ANIMALS = [
    "puffin", "kittiwake", "guillemot", "shag", "petrel", "gannet", "fulmar", "tern", "skua", "eider",
    "dunlin", "plover",
]  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("birds")
    texts = {
        f"{animal}.txt": f"The {animal} lays {i + 1} eggs on the cliff.\n\nA {animal} was seen on day {i}.\n"
        for i, animal in enumerate(ANIMALS)
    }
    assert len(run(folder / "store", fill(folder / "docs", texts)).added) == len(ANIMALS)
    return folder / "store"


@pytest.fixture
def sage(store: Path) -> Iterator[Sage]:
    with make(store) as made:
        yield made


def make(store: Path, url: str | None = None, **settings: Any) -> Sage:
    parts = {"url": url} if url else {"answerer": settings.pop("answerer", None) or ExtractiveAnswerer()}
    return small_sage(store, **parts, **{"candidates": 12, "min_k": 2, **settings})


def script(request: Request) -> Reply | str:
    """Answers with the first passage's bird; grades 3 and asks for more while one passage is shown."""
    if request.is_critic:
        low = request.user.count("lays") + request.user.count("seen on") <= 2
        return json.dumps({"reason": "r", "score": 3 if low else 9, "adjust": 1 if low else 0, "passage": 1})
    return "answer: " + next(a for a in ANIMALS if a in request.user.lower())


def test_retrieve_scores_ranks_and_selects(sage: Sage) -> None:
    retrieval = sage.retrieve("how many eggs lays the puffin?")
    assert len(retrieval.candidates) == 12
    scores = [c.score for c in retrieval.candidates]
    assert all(type(s) is float for s in scores) and scores == sorted(scores, reverse=True)
    best = retrieval.hits[0]
    assert best.chunk.text == "The puffin lays 1 eggs on the cliff."
    assert Path(best.chunk.source).name == "puffin.txt"
    assert retrieval.tokens == sum(c.tokens for c in retrieval.hits)
    assert retrieval.tokens_all == sum(c.tokens for c in retrieval.candidates)
    json.dumps(retrieval.to_dict(), allow_nan=False)


def test_ask_without_an_llm_says_so(sage: Sage) -> None:
    answer = sage.ask("how many eggs lays the puffin?")
    assert "The puffin lays 1 eggs on the cliff." in answer.text.replace("**", "")
    assert answer.answerer == "extractive, no LLM"
    assert answer.feedback.verdict is not None and answer.feedback.verdict.source == "heuristic"
    assert answer.feedback.usage.calls == 0
    json.dumps(answer.to_dict(), allow_nan=False)


def test_asking_an_llm_in_rounds(store: Path) -> None:
    with LLMServer(script) as server, make(store, server.base_url, min_k=1, rule=Gradient(0.9)) as sage:
        answer = sage.ask("how many eggs lays the puffin?")
    assert answer.text == "answer: puffin"
    assert answer.score == 9 and answer.feedback.stop_reason == "accepted"
    assert len(answer.feedback.rounds) == 2
    assert len(answer.sources) == 2
    assert len(server.answer_requests) == len(server.critic_requests) == 2
    # What was counted is what was sent.
    for candidate in answer.sources:
        assert candidate.chunk.text in server.answer_requests[-1].user
    assert answer.feedback.usage.prompt == 400


def test_multiple_choice(store: Path) -> None:
    with (
        LLMServer(["B) two", '{"score": 9, "adjust": 0, "passage": 1}']) as server,
        make(store, server.base_url) as sage,
    ):
        sage.ask("how many eggs lays the puffin?", ["one", "two"])
    assert "two" in server.answer_requests[0].user


def test_the_event_loop_is_not_blocked(store: Path) -> None:
    loop_ran = threading.Event()

    class WaitingEmbedder(HashEmbedder):
        def embed_query(self, text: str) -> NDArray[np.float32]:
            assert loop_ran.wait(30)
            return super().embed_query(text)

    async def ask(sage: Sage) -> None:
        asyncio.get_running_loop().call_later(0.01, loop_ran.set)
        assert (await sage.aask("how many eggs lays the tern?")).text

    with make(store, embedder=WaitingEmbedder()) as sage:
        asyncio.run(ask(sage))


def test_asking_from_many_threads(sage: Sage) -> None:
    sage.answerer = ExtractiveAnswerer()
    answers = together(partial(sage.ask, f"how many eggs lays the {bird}?") for bird in ANIMALS)
    assert all(f"The {bird} lays" in answer.text for bird, answer in zip(ANIMALS, answers, strict=True))


def test_no_store_and_an_empty_store(tmp_path: Path) -> None:
    with make(tmp_path / "none") as sage, pytest.raises(StoreError):
        sage.ask("anything?")
    (tmp_path / "a.txt").write_text("Text.")
    with make(tmp_path / "store") as sage:
        sage.ingest(tmp_path / "a.txt")
        assert sage.ask("text?").sources
        (tmp_path / "a.txt").unlink()
        sage.ingest([tmp_path / "a.txt"])
        with pytest.raises(StoreError, match="empty"):
            sage.ask("text?")


def test_the_name_is_checked_before_the_model_loads(store: Path) -> None:
    class Unloadable(HashEmbedder):
        def embed_query(self, text: str) -> NDArray[np.float32]:
            raise AssertionError("loaded")

    with make(store, embedder=Unloadable("other")) as sage, pytest.raises(StoreError):
        sage.retrieve("eggs?")
    with make(store) as sage:
        assert sage.retrieve("eggs?").candidates
        sage._retriever.embedder = Unloadable("other")
        with pytest.raises(StoreError):
            sage.retrieve("eggs?")


def test_a_reranker_that_miscounts_is_an_error(store: Path) -> None:
    class Short(WordReranker):
        def score(self, query: str, texts: Sequence[str]) -> list[float]:
            return super().score(query, texts)[1:]

    with make(store, reranker=Short()) as sage, pytest.raises(InputError, match=r"11.*12"):
        sage.retrieve("eggs?")


def test_shown_passages_that_do_not_answer_ask_for_no_further_round(tmp_path: Path) -> None:
    texts = ["The ferry leaves at seven.", "Seals sleep on rocks.", "Tea grows on hills.", "Bees fly far."]
    with small_sage(tmp_path / "store", reranker=HybridReranker(), min_k=1, rule="gradient") as sage:
        sage.ingest(fill(tmp_path / "docs", {f"{i}.txt": text for i, text in enumerate(texts)}))
        answer = sage.ask("Who composed the opera about the glacier?")
    assert shows_passages(answer.text) and len(answer.feedback.rounds) == 1
    assert answer.feedback.verdict is not None and answer.feedback.verdict.adjust == 0


class OwnAnswerer:
    """A user's own: streams, and takes the places of passages."""

    label = "own"
    capabilities = Capabilities(headings=False, places=True)

    def __init__(self) -> None:
        self.places: list[Sequence[str]] = []

    def generate(self, question: str, context: Sequence[str], **asked: Any) -> tuple[str, TokenUsage]:
        self.places.append(asked["places"])
        return "Two eggs.", NO_USAGE

    def judge(
        self, question: str, context: Sequence[str], answer: str, **asked: Any
    ) -> tuple[Verdict, TokenUsage]:
        assert len(asked["places"]) == len(context)
        return Verdict(9), NO_USAGE

    async def agenerate(self, *given: Any, **asked: Any) -> tuple[str, TokenUsage]:
        return self.generate(*given, **asked)

    async def ajudge(self, *given: Any, **asked: Any) -> tuple[Verdict, TokenUsage]:
        return self.judge(*given, **asked)


class RankedAnswerer(OwnAnswerer):
    """Takes what the ranking says of each passage."""

    capabilities = Capabilities(headings=False, places=True, relevance=True)

    def generate(self, question: str, context: Sequence[str], **asked: Any) -> tuple[str, TokenUsage]:
        self.relevance = asked.get("relevance")
        return super().generate(question, context, places=asked["places"])


class OwnStreamingAnswerer(OwnAnswerer):
    def stream(self, question: str, context: Sequence[str], **asked: Any) -> Iterator[str | Completion]:
        yield from ("Two ", "eggs.")
        yield Completion("Two eggs.", NO_USAGE)

    async def astream(self, *given: Any, **asked: Any) -> AsyncIterator[str | Completion]:
        for piece in self.stream(*given, **asked):
            yield piece


def test_an_answerer_may_know_how_likely_each_passage_is_relevant(store: Path) -> None:
    class Logits(WordReranker):
        scale: Scale = "logit"

    answerer = RankedAnswerer()
    with make(store, answerer=answerer, reranker=WordReranker()) as sage:
        retrieval = sage.ask("how many eggs lays the kittiwake?").retrieval
    scores = [hit.score for hit in retrieval.hits]
    assert answerer.relevance == scores and len(scores) > 1
    with make(store, answerer=answerer, reranker=Logits()) as sage:
        sage.ask("how many eggs lays the kittiwake?")
    assert answerer.relevance is None, "scores that are no probabilities do not say how likely"


def test_an_answerer_of_the_users_own_gets_places_and_streams(store: Path) -> None:
    question = "how many eggs lays the kittiwake?"
    plain, streaming = OwnAnswerer(), OwnStreamingAnswerer()
    with make(store, answerer=plain) as made:
        assert made.ask(question).text == "Two eggs."
        assert all(plain.places) and "kittiwake.txt" in plain.places[0][0]
    with make(store, answerer=streaming) as made:
        pieces = [event for event in made.stream(question) if isinstance(event, str)]
    assert pieces == ["Two ", "eggs."] and not streaming.places
