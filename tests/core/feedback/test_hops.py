"""Further searches for what is missing: the loop, the critic's word for it, `Sage`, and both frameworks."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sage_app import LLMAnswerer, Sage, SageConfig
from sage_app.models import OpenAIChat
from sage_core import FeedbackConfig, FeedbackResult, Verdict
from sage_core.errors import InputError, LLMError
from sage_core.feedback import (
    Done,
    FeedbackLoop,
    Generate,
    Search,
    critic_messages,
    follow_up,
    parse_verdict,
    run_loop,
)
from sage_core.selection import SelectionConfig
from tests.fakes.llm_server import LLMServer, Request
from tests.fakes.models import BlankLineSegmenter, HashEmbedder, WordReranker

SCORES = [0.9, 0.8, 0.1, 0.09]


def searching(config: FeedbackConfig, **parts: Any) -> tuple[FeedbackLoop, Any]:
    """A loop that has been told what is missing after its first round, and its request."""
    loop = FeedbackLoop(SCORES, config=config, **parts)
    loop.start()
    loop.answered("The owner of the ship.")
    return loop, loop.judged(Verdict(4, 1, missing="Who owned the Petrel?"))


def test_what_is_missing_is_searched_for_and_stands_beside_what_was_shown() -> None:
    loop, step = searching(
        FeedbackConfig(selection=SelectionConfig(min_k=2, max_k=4, rule="gradient"), hops=1)
    )
    assert isinstance(step, Search) and step.question == "Who owned the Petrel?" and step.round == 1
    assert step.selection.indices == (0, 1)
    step = loop.found([(4, 0.95), (2, 0.5), (5, 0.1)], None)
    assert isinstance(step, Generate)
    assert step.selection.indices == (4, 0, 1, 2) and step.selection.candidates == 6
    assert step.selection.scores == (0.95, 0.9, 0.8, 0.5)
    assert step.selection.reason == "2 found for what was missing, beside 2 shown before"
    loop.answered("Mara Holt.")
    done = loop.judged(Verdict(10))
    assert isinstance(done, Done) and done.result.stop_reason == "accepted" and done.result.best_round == 2
    again = FeedbackResult.from_dict(json.loads(json.dumps(done.result.to_dict())))
    assert again == done.result and again.rounds[1].searched == "Who owned the Petrel?"


def test_a_hit_that_was_shown_is_not_doubled() -> None:
    loop, _ = searching(FeedbackConfig(selection=SelectionConfig(min_k=2, rule="gradient"), hops=1))
    step = loop.found([(0, 0.99), (4, 0.97), (1, 0.1)])
    assert isinstance(step, Generate) and step.selection.indices == (0, 4, 1)
    assert step.selection.scores == (0.99, 0.97, 0.8)  # the better of both


@pytest.mark.parametrize(("limits", "kept"), [({"max_k": 2}, (4, 0)), ({"max_k": 3}, (4, 0, 1))])
def test_the_limit_on_chunks_holds(limits: dict[str, int], kept: tuple[int, ...]) -> None:
    loop, _ = searching(FeedbackConfig(selection=SelectionConfig(min_k=2, rule="gradient", **limits), hops=1))
    step = loop.found([(4, 0.95)])
    assert isinstance(step, Generate) and step.selection.indices == kept


def test_the_budget_of_tokens_holds() -> None:
    selection = SelectionConfig(min_k=2, rule="gradient", max_context_tokens=120)
    config = FeedbackConfig(selection=selection, hops=1)
    loop, _ = searching(config, sizes=[40, 50, 10, 10])
    step = loop.found([(4, 0.95), (5, 0.94)], [30, 45])
    assert isinstance(step, Generate) and step.selection.indices == (4, 5, 0)
    loop, _ = searching(config, sizes=[40, 50, 10, 10])
    with pytest.raises(InputError, match="size"):
        loop.found([(4, 0.95)])


@pytest.mark.parametrize("hits", [[], [(0, 0.9)], [(1, None)]])
def test_where_nothing_new_is_found_the_loop_goes_on_as_without(
    hits: Sequence[tuple[int, float | None]],
) -> None:
    loop, _ = searching(FeedbackConfig(selection=SelectionConfig(min_k=2, rule="gradient"), hops=1))
    step = loop.found(hits)
    assert isinstance(step, Generate) and step.selection.indices == (0, 1, 2, 3)  # twice as many
    assert loop.rounds[1].searched == ""


def test_searches_end_with_hops_rounds_and_questions_asked_before() -> None:
    loop, _ = searching(
        FeedbackConfig(selection=SelectionConfig(min_k=1, rule="gradient"), max_rounds=6, hops=3)
    )
    loop.found([(4, 0.7)])
    loop.answered("Mara Holt.")
    step = loop.judged(Verdict(4, 1, missing="who owned  THE petrel?"))  # asked before
    assert isinstance(step, Search) and step.question == "" and step.asked == ("Who owned the Petrel?",)
    assert isinstance(loop.found([]), Generate)
    loop.answered("Mara Holt.")
    assert isinstance(loop.judged(Verdict(4, 1, missing="Where was Mara Holt born?")), Search)
    loop.found([(5, 0.7)])
    loop.answered("Brenn.")
    assert not isinstance(loop.judged(Verdict(4, 1, missing="Where is Brenn?")), Search)
    for config in (FeedbackConfig(), FeedbackConfig(hops=1, max_rounds=1)):
        _, step = searching(config)
        assert not isinstance(step, Search)


def test_a_search_needs_room_for_the_round_after_it() -> None:
    _, step = searching(FeedbackConfig(hops=1, max_calls=3))
    assert isinstance(step, Done) and step.result.stop_reason == "budget"


@pytest.mark.parametrize("hits", [[(6, 0.5)], [(-1, 0.5)], [(4, 0.5), (6, 0.4)]])
def test_numbers_of_new_candidates_have_no_gap(hits: list[tuple[int, float]]) -> None:
    loop, _ = searching(FeedbackConfig(hops=1))
    with pytest.raises(InputError, match="4"):
        loop.found(hits)
    with pytest.raises(InputError, match=r"waits for found\(\)"):
        loop.answered("x")


@pytest.mark.parametrize("search", [None, "fails"])
def test_a_driver_without_a_search_or_with_one_that_fails_goes_on(search: str | None) -> None:
    def fails(_: Search) -> Any:
        raise LLMError("no server")

    loop = FeedbackLoop(
        SCORES,
        config=FeedbackConfig(selection=SelectionConfig(min_k=2, rule="gradient"), hops=1, max_rounds=2),
    )
    result = run_loop(
        loop,
        lambda _: ("x", None),
        lambda *_: (Verdict(4, 1, missing="Who?"), None),
        search=fails if search else None,
    )
    assert [r.selection.cut for r in result.rounds] == [2, 4] and result.stop_reason == "max_rounds"


def test_where_nobody_says_what_is_missing_a_name_of_the_passages_is_searched_for() -> None:
    question = "Where was the owner of the Petrel born?"
    passages = ["The Petrel belonged to Mara Holt.", "Old Sam Weir had the Gull."]
    assert follow_up(question, passages) == "Mara Holt owner born"
    assert follow_up(question, passages, ["Mara Holt owner born"]) == "Old Sam Weir owner born"
    assert follow_up("Who was Mara Holt?", ["Mara Holt sailed."]) == "" == follow_up(question, [])
    loop = FeedbackLoop(
        SCORES, config=FeedbackConfig(selection=SelectionConfig(min_k=2, rule="gradient"), hops=1)
    )
    loop.start()
    step = loop.answered("The documents do not say.")  # an abstention asks for more by itself
    assert isinstance(step, Search) and step.question == ""
    step = loop.found([(4, 0.95)], None, "Mara Holt owner born")
    assert isinstance(step, Generate) and loop.rounds[1].searched == "Mara Holt owner born"
    _, step = searching(FeedbackConfig(hops=1))
    loop = FeedbackLoop(SCORES, config=FeedbackConfig(hops=1))
    loop.start()
    loop.answered("x")
    assert not isinstance(loop.judged(Verdict(4, -1)), Search), "asked for less, not for more"


# -- the critic --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ("Who owned the Petrel?", "Who owned the Petrel?"),
        ("  Who owned\nthe Petrel? ", "Who owned the Petrel?"),
        *[(nothing, "") for nothing in ("", "none", "None.", "N/A", "-", None, 5, ["x"], "x" * 501)],
    ],
)
def test_what_a_critic_says_is_missing_is_read(said: object, missing: str) -> None:
    reply = {"reason": "r", "score": 4, "adjust": 1, "missing": said}
    assert parse_verdict(reply).missing == parse_verdict(f"Here: {json.dumps(reply)}").missing == missing
    assert parse_verdict({"score": 4, "missing": said}).missing == missing
    assert parse_verdict("Score: 4, adjust: +1, missing: who owned it").missing == ""


def test_the_critic_is_asked_only_where_it_can_be_searched_for() -> None:
    plain, asked = (critic_messages("q", ["p"], "a", missing=m)[0].content for m in (False, True))
    assert '"missing"' not in plain and asked.startswith(plain) and '"missing"' in asked


# -- the whole ---------------------------------------------------------------------------------------------

PAGES = {
    "petrel.txt": "The Petrel was a schooner. Her owner was Mara Holt.",
    "holt.txt": "Mara Holt was born in Brenn in 1871.",
    **{f"{i}.txt": f"Bee {i} flies over a meadow." for i in range(6)},
}
QUESTION = "Where was the owner of the schooner Petrel born?"
MISSING = "Where was Mara Holt born?"


def critic_and_answer(request: Request) -> str:
    """Says what is missing where the passages name the owner and not her birth; answers from what it sees."""
    seen = re.sub(r"<<BEGIN QUESTION.*?<<END QUESTION", "", request.user, flags=re.DOTALL)
    known = "in Brenn in 1871" in seen
    if not request.is_critic:
        return "In Brenn." if known else "She was Mara Holt."
    if known:
        return json.dumps({"reason": "complete", "score": 10, "adjust": 0, "missing": ""})
    return json.dumps({"reason": "her birth is missing", "score": 4, "adjust": 1, "missing": MISSING})


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    for name, text in PAGES.items():
        (tmp_path / "docs" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "docs" / name).write_text(text)
    return tmp_path / "docs"


class OwnerFirst(WordReranker):
    """Scores by shared words, and low for what the question does not name, as a real one would."""

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        names = [word for word in re.findall(r"[A-Z]\w+", query) if word != "Where"]
        return [0.9 if any(name in text for name in names) else 0.05 for text in texts]


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("hops", [0, 1])
@pytest.mark.parametrize("says", [True, False])
def test_sage_finds_the_passage_that_only_another_one_names(
    pages: Path, tmp_path: Path, awaited: bool, hops: int, says: bool
) -> None:
    def script(request: Request) -> str:
        return critic_and_answer(request) if says else critic_and_answer(request).replace(MISSING, "")

    feedback = FeedbackConfig(selection=SelectionConfig(min_k=1, max_k=3, rule="gradient"), hops=hops)
    with (
        LLMServer(script) as server,
        Sage(
            tmp_path / "store",
            segmenter=BlankLineSegmenter(),
            embedder=HashEmbedder(),
            reranker=OwnerFirst(),
            answerer=LLMAnswerer(OpenAIChat("m", base_url=server.base_url, api_key="k")),
            config=SageConfig(candidates=4, feedback=feedback, context=False),
        ) as sage,
    ):
        sage.ingest(pages)
        answer = asyncio.run(sage.aask(QUESTION)) if awaited else sage.ask(QUESTION)
        schemas = ["missing" in json.dumps(r.body.get("response_format", "")) for r in server.critic_requests]
    assert set(schemas) == {hops == 1}
    if not hops:
        assert all(not r.searched for r in answer.feedback.rounds)
        return
    assert answer.text == "In Brenn." and answer.feedback.stop_reason == "accepted"
    searched = MISSING if says else "Mara Holt born"
    assert answer.feedback.rounds[1].searched == searched
    used = [answer.retrieval.candidates[i].chunk.text for i in answer.feedback.selection.indices]
    assert {PAGES["petrel.txt"], PAGES["holt.txt"]} <= {*used} and len(used) == len({*used}) <= 3
    ids = [c.chunk.id for c in answer.retrieval.candidates]
    assert len(ids) == len(set(ids)) and answer.retrieval.found_first is not None
    json.dumps(answer.to_dict(), allow_nan=False)
    assert searched in str(answer.feedback) and searched in answer.to_html()
