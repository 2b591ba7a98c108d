"""A trace that was written can be read back."""

import json
from functools import partial

import pytest

from sage_core import FeedbackConfig, FeedbackResult, InputError
from sage_core.feedback import Done, FeedbackLoop, Judge, Round, Verdict, run_loop
from sage_core.feedback.drivers import Compute, drive, one_step
from sage_core.llm.usage import TokenUsage
from sage_core.selection import SelectionConfig
from tests.fakes.results_to_show import failed_critic, hostile, nothing_found, usual


@pytest.mark.parametrize("make", [usual, failed_critic, nothing_found, hostile])
def test_a_trace_survives_being_saved(make):
    result = make().feedback
    again = FeedbackResult.from_dict(json.loads(json.dumps(result.to_dict())))
    assert again == result
    assert again._repr_html_() == result._repr_html_()


@pytest.mark.parametrize(
    "trace", [{}, {"answer": "x"}, [], {**usual().feedback.to_dict(), "stop_reason": "bored"}]
)
def test_anything_else_is_told(trace):
    with pytest.raises(InputError, match="no trace"):
        FeedbackResult.from_dict(trace)


def _computed(function, *arguments):
    return (yield from Compute(function, *arguments))


def test_a_loop_goes_on_after_the_rounds_of_another():
    """Saved before each of its calls: the same result, and nothing is asked for that is known."""
    config = FeedbackConfig(selection=SelectionConfig(min_k=2, rule="gradient", gradient=0.99))
    scores = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    grades = iter([Verdict(4, 1), Verdict(6, 1), Verdict(5, -1)])
    states: list[tuple[int, list[Round]]] = []

    def answer(selection):
        states.append((len(states), list(loop.rounds)))
        return f"from {selection.cut}", TokenUsage(prompt=100, completion=10, calls=1)

    def judge(selection, text):
        states.append((len(states), list(loop.rounds)))
        return next(grades), TokenUsage(prompt=110, completion=5, calls=1)

    loop = FeedbackLoop(scores, config=config)
    result = run_loop(loop, answer, judge)
    assert len(states) == 2 * len(result.rounds) == 6
    for calls, rounds in list(states):
        saved = [Round.from_dict(json.loads(json.dumps(r.to_dict()))) for r in rounds]
        grades = iter([Verdict(4, 1), Verdict(6, 1), Verdict(5, -1)][calls // 2 :])
        states.clear()
        loop = FeedbackLoop(scores, config=config)
        step = loop.resume(saved)
        while not isinstance(step, Done):
            step = drive(one_step(loop, step, partial(_computed, answer), partial(_computed, judge)))
        assert step.result == result
        assert len(states) == 6 - calls


def test_failures_are_part_of_what_is_resumed():
    loop = FeedbackLoop([0.9, 0.8, 0.1], config=FeedbackConfig(selection=SelectionConfig(min_k=1)))
    loop.start()
    loop.answered("one")
    loop.judged(Verdict(4, 1))
    ended = loop.answer_failed("busy")
    assert (
        FeedbackLoop([0.9, 0.8, 0.1], config=FeedbackConfig(selection=SelectionConfig(min_k=1))).resume(
            loop.rounds
        )
        == ended
    )
    loop = FeedbackLoop([0.9])
    loop.start()
    assert isinstance(loop.answered("one"), Judge)
    ended = loop.critic_failed("busy")
    assert FeedbackLoop([0.9]).resume(loop.rounds) == ended


@pytest.mark.parametrize("scores", [[0.9], [0.1, 0.9, 0.8], []])
def test_rounds_of_other_candidates_are_refused(scores):
    loop = FeedbackLoop([0.9, 0.8, 0.1])
    loop.start()
    loop.answered("one")
    with pytest.raises(InputError, match="candidates"):
        FeedbackLoop(scores).resume(loop.rounds)


def test_unknown_keys_are_ignored_at_every_depth() -> None:
    from sage_core.feedback.types import _usage, _verdict

    verdict, usage = (
        _verdict({"score": 8.0, "adjust": 0, "later": 1}),
        _usage({"prompt": 1, "completion": 2, "calls": 1, "later": 1}),
    )
    assert verdict is not None and verdict.score == 8 and usage.prompt == 1
