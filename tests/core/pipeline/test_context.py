"""What `Sage` sends: in rank or document order, neighbors joined, within a budget, never another text."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sage_core.pipeline.context import Passage, build_context
from sage_core.pipeline.sage import Sage
from sage_core.selection import Scale
from sage_core.text.spans import Span
from tests.fakes.llm_server import LLMServer, Reply, Request
from tests.fakes.sages import small_sage

LOG = (
    "Day one: the ferry left at seven.\n\n"
    "Day two: the ferry, the ferry and again the ferry.\r\n\r\n"
    "Day three: nothing.\n \n"
    "Day four: the ferry came home.\n"
)
OTHER = "The ferry was painted.\n\nA ferry is a boat."
QUESTION = "where is the ferry"


class Counted:
    """Says how often the ferry is named, as a share."""

    name = "ferries"
    scale: Scale = "probability"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [min(t.count("ferry") / 4, 1.0) + (0.01 if "Day four" in t else 0) for t in texts]


def make(store: Path, **settings: Any) -> Sage:
    settings = {"min_k": 5, "max_k": 5, "context": False, **settings}
    return small_sage(store, reranker=Counted(), **settings)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    (folder / "log.txt").write_bytes(LOG.encode())
    (folder / "other.txt").write_bytes(OTHER.encode())
    with make(folder / "store") as sage:
        assert sage.ingest(folder).chunks == 6
    return folder / "store"


def test_rank_order_is_what_it_was(store: Path) -> None:
    with make(store) as sage:
        found = sage.retrieve(QUESTION)
    assert found.texts(found.selection) == [c.chunk.text for c in found.hits]
    assert found.hits[0].chunk.text.startswith("Day two")


def test_document_order_joins_neighbors_exactly(store: Path) -> None:
    with make(store, order="document") as sage:
        found = sage.retrieve(QUESTION)
        passages = found.passages(found.selection)
        answer = sage.ask(QUESTION)
    texts = {Path(str(p.document)).name: p.text for p in passages}
    assert len(passages) == 3  # days one and two, day four, and both of the other
    whole = {"log.txt": LOG, "other.txt": OTHER}
    for passage in passages:
        name = Path(str(passage.document)).name
        assert passage.span is not None and passage.span.of(whole[name]) == passage.text
        starts = [found.candidates[i].chunk.start for i in passage.members]
        assert starts == sorted(starts)
        assert all(found.candidates[i].chunk.text in passage.text for i in passage.members)
    assert texts["other.txt"] == OTHER
    assert sorted(i for p in passages for i in p.members) == list(found.selection.indices)
    data = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    assert [c["candidates"] for c in data["context"]] == [list(p.members) for p in passages]


def test_what_is_not_selected_is_not_joined_over(store: Path) -> None:
    with make(store, order="document", min_k=2, max_k=2) as sage:
        found = sage.retrieve(QUESTION)
    assert found.texts(found.selection) == [
        "Day two: the ferry, the ferry and again the ferry.",
        "Day four: the ferry came home.",
    ]


def test_answer_and_critic_are_sent_the_same_passages(store: Path) -> None:
    def script(request: Request) -> Reply | str:
        return '{"score": 9, "adjust": 0}' if request.is_critic else "at sea"

    with LLMServer(script) as server, make(store, url=server.base_url, order="document") as sage:
        sage.ask(QUESTION)
        asyncio.run(sage.aask(QUESTION))
    for request in [*server.answer_requests, *server.critic_requests]:
        assert OTHER in request.user


@pytest.mark.parametrize("order", ["rank", "document"])
def test_no_round_goes_over_the_budget(store: Path, order: str) -> None:
    def script(request: Request) -> Reply | str:
        return '{"score": 2, "adjust": 1}' if request.is_critic else "at sea"

    budget = 40
    with LLMServer(script) as server:
        bounds = {"min_k": 1, "max_k": None, "gradient": 0.95, "max_context_tokens": budget}
        with make(store, url=server.base_url, order=order, **bounds) as sage:
            answer = sage.ask(QUESTION)
    retrieval = answer.retrieval
    used = [sum(c.tokens for c in retrieval.chosen(r.selection)) for r in answer.feedback.rounds]
    assert len(used) > 1 and max(used) <= budget
    # One more would not have fitted, so the loop went as far as it could, and stopped there.
    assert answer.feedback.stop_reason in ("unchanged", "max_rounds")
    cuts = [r.selection.cut for r in answer.feedback.rounds]
    assert len(set(cuts)) == len(cuts)


def test_the_lowest_scored_are_left_out_and_the_best_stays(store: Path) -> None:
    with make(store) as sage:
        everything = sage.retrieve(QUESTION)
    for budget in (1, 20, 35, 1000):
        with make(store, max_context_tokens=budget) as sage:
            found = sage.retrieve(QUESTION)
        assert found.selection.indices == everything.selection.indices[: found.selection.cut]
        assert found.tokens <= budget or found.selection.cut == 1
        fewer = found.selection.cut < everything.selection.cut
        assert fewer == ("max_context_tokens" in found.selection.reason) == (budget < 1000)
        if fewer:
            assert found.tokens + everything.candidates[found.selection.cut].tokens > budget


def test_known_white_space_joins_without_the_document() -> None:
    text = "One.\n\nTwo.  Three."
    spans = [Span(0, 4), Span(6, 10), Span(12, 18)]
    gaps = ["\n\n", "", ""]
    parts = [Passage(s.of(text), "d", s, after=gap) for s, gap in zip(spans, gaps, strict=True)]
    joined = build_context(parts)
    assert [(p.text, p.members) for p in joined] == [("One.\n\nTwo.", (0, 1)), ("Three.", (2,))]
    wrong = [Passage("One.", "d", spans[0], after="\n"), parts[1]]
    assert len(build_context(wrong)) == 2, "white space of another length is not what lies between"
