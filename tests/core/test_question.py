"""One question through the core's driver: plain, awaited, streamed and resumed, over passages in a list."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from sage_core.feedback import Done, FeedbackConfig, FeedbackLoop, FeedbackResult, Verdict
from sage_core.feedback.drivers import Answered, Call, Judged, Steps, adrive, drive
from sage_core.feedback.pool import EvidencePool
from sage_core.question import Found, Question
from sage_core.selection import Selection, SelectionConfig
from sage_core.verify import Source

FERRY, HOLT, BEES = "The Petrel belonged to Mara Holt.", "Mara Holt was born in Ulm.", "Bees fly in May."
FIRST = [(FERRY, 0.9), (BEES, 0.2)]


class Asked(Question[str]):
    """Answers with what it was shown; grades by whether the town is in the answer."""

    def __init__(self, graded: Sequence[float | Exception] = (), **settings: Any) -> None:
        config = FeedbackConfig(selection=SelectionConfig(min_k=1, max_k=2), **settings)
        super().__init__("Where was the owner of the Petrel born?", config, EvidencePool([FERRY, BEES], str))
        self._scores = [score for _, score in FIRST]
        self._graded = list(graded)
        self.searched: list[str] = []

    @property
    def loop(self) -> FeedbackLoop:
        return FeedbackLoop(self._scores, "probability", self.config, sizes=self.sizes(self.pool.items))

    def passages(self, selection: Selection) -> list[str]:
        return [self.pool.items[i] for i in selection.indices]

    def sources(self, selection: Selection) -> list[Source]:
        return [Source(text) for text in self.passages(selection)]

    def plain(self, candidate: str) -> str:
        return candidate

    def sizes(self, candidates: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in candidates]

    def scores(self) -> list[float | None]:
        return [*self._scores, *(0.8 for _ in self.pool.items[len(FIRST) :])]

    def named(self, shown: Selection) -> tuple[Sequence[int], Sequence[str]]:
        return [], []

    def retrieve(self, query: str) -> Steps[Found[str]]:
        async def asearch(query: str) -> list[str]:
            return self.search_for(query)

        return (yield from Call(self.search_for, asearch, query)), [0.8]

    def search_for(self, query: str) -> list[str]:
        self.searched.append(query)
        return [HOLT]

    def generate(self, selection: Selection) -> Steps[Answered]:
        return " ".join(self.passages(selection)), None
        yield

    def judge(self, selection: Selection, answer: str) -> Steps[Judged]:
        grade = self._graded.pop(0) if self._graded else 9.0 if "Ulm" in answer else 3.0
        if isinstance(grade, Exception):
            raise grade
        verdict = yield from self.reviewed(Verdict(grade, 1 if grade < 9 else 0), selection, answer)
        return verdict, None


def test_a_name_in_the_passages_is_searched_for_and_read_plain_or_awaited() -> None:
    plain, awaited = Asked(hops=1), Asked(hops=1)
    results = [drive(plain.rounds(plain.loop)), asyncio.run(adrive(awaited.rounds(awaited.loop)))]
    assert results[0].to_dict() == results[1].to_dict()
    assert results[0].stop_reason == "accepted" and "Ulm" in results[0].answer
    assert plain.searched == awaited.searched == ["Mara Holt owner born"]
    assert plain.pool.items == [FERRY, BEES, HOLT]


def test_a_critic_that_breaks_loses_no_answer() -> None:
    asked = Asked([RuntimeError("broken")])
    result = drive(asked.rounds(asked.loop))
    assert (result.stop_reason, result.answer) == ("critic_failed", FERRY)


def test_only_listed_failures_are_lived_with() -> None:
    class Strict(Asked):
        failures = (OSError,)

    asked = Strict([RuntimeError("a bug")])
    with pytest.raises(RuntimeError, match="a bug"):
        drive(asked.rounds(asked.loop))


def test_step_by_step_and_from_any_round_on_the_result_is_the_same() -> None:
    whole = Asked(hops=1)
    expected: FeedbackResult = drive(whole.rounds(whole.loop))
    for known in range(len(expected.rounds) + 1):
        asked = Asked(hops=1)
        loop = asked.loop
        request = drive(asked.resumed(loop, expected.rounds[:known]))
        while not isinstance(request, Done):
            request = drive(asked.step(loop, request))
        assert request.result.to_dict() == expected.to_dict()
        assert asked.pool.items == whole.pool.items


def test_a_critic_is_overruled_by_what_the_passages_contradict() -> None:
    asked = Asked([9.0])
    selection = asked.loop.first_selection
    verdict, _ = drive(asked.judge(selection, "The Petrel did not belong to Mara Holt."))
    assert verdict.vetoed_by and (verdict.score or 0) < 9
