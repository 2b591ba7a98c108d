"""One question through the core's driver: plain, awaited and step by step, over passages in a list."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from sage_core.feedback import Done, FeedbackConfig, FeedbackLoop, Step, Verdict
from sage_core.feedback.drivers import Answered, Judged, Steps, adrive, drive
from sage_core.question import Question
from sage_core.selection import Selection, SelectionConfig
from sage_core.verify import Source

FERRY, HOLT = "The Petrel belonged to Mara Holt.", "Mara Holt was born in Ulm."


class Asked(Question[str]):
    """Answers with what it was shown; grades by whether the town is in the answer."""

    def __init__(self, graded: Sequence[float | Exception] = (), **settings: Any) -> None:
        config = FeedbackConfig(selection=SelectionConfig(min_k=1, rule="gradient"), **settings)
        super().__init__("Where was the owner of the Petrel born?", config, [FERRY, HOLT])
        self._graded = list(graded)

    @property
    def loop(self) -> FeedbackLoop:
        return FeedbackLoop([0.9, 0.2], "probability", self.config)

    def passages(self, selection: Selection) -> list[str]:
        return [self.candidates[i] for i in selection.indices]

    def sources(self, selection: Selection) -> list[Source]:
        return [Source(text) for text in self.passages(selection)]

    def generate(self, selection: Selection) -> Steps[Answered]:
        return " ".join(self.passages(selection)), None
        yield

    def judge(self, selection: Selection, answer: str) -> Steps[Judged]:
        grade = self._graded.pop(0) if self._graded else 9.0 if "Ulm" in answer else 3.0
        if isinstance(grade, Exception):
            raise grade
        verdict = yield from self.reviewed(Verdict(grade, 1 if grade < 9 else 0), selection, answer)
        return verdict, None


def test_rounds_go_on_until_a_grade_is_good_plain_or_awaited() -> None:
    plain, awaited = Asked(), Asked()
    results = [drive(plain.rounds(plain.loop)), asyncio.run(adrive(awaited.rounds(awaited.loop)))]
    assert results[0].to_dict() == results[1].to_dict()
    assert results[0].stop_reason == "accepted" and "Ulm" in results[0].answer


def test_a_critic_that_breaks_loses_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    asked = Asked([RuntimeError("broken")])
    result = drive(asked.rounds(asked.loop))
    assert (result.stop_reason, result.answer) == ("critic_failed", FERRY)
    assert result.rounds[0].error == "broken" and "the critic failed" in caplog.text


def test_only_listed_failures_are_lived_with() -> None:
    class Strict(Asked):
        failures = (OSError,)

    asked = Strict([RuntimeError("a bug")])
    with pytest.raises(RuntimeError, match="a bug"):
        drive(asked.rounds(asked.loop))


def test_step_by_step_the_result_is_the_same() -> None:
    whole, asked = Asked(), Asked()
    loop = asked.loop
    request: Step = loop.start()
    while not isinstance(request, Done):
        request = drive(asked.step(loop, request))
    assert request.result == drive(whole.rounds(whole.loop)) and len(loop.rounds) == 2


def test_a_critic_is_overruled_by_what_the_passages_contradict() -> None:
    asked = Asked([9.0])
    selection = asked.loop.first_selection
    verdict, _ = drive(asked.judge(selection, "The Petrel did not belong to Mara Holt."))
    assert verdict.vetoed_by and (verdict.score or 0) < 9
