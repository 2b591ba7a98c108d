"""The feedback loop: what it asks for, when it stops, what it returns."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.feedback import (
    Done,
    FeedbackConfig,
    FeedbackLoop,
    FeedbackResult,
    Generate,
    Judge,
    Verdict,
    run_loop,
)
from sage_core.feedback.loop import UNKNOWN_USAGE
from sage_core.llm.prompting import NO_ANSWER
from sage_core.llm.usage import TokenUsage
from sage_core.selection import SelectionConfig
from sage_core.selection.cut import Selection
from tests.core.feedback.scripts import CLIFF, ONE_CALL, UNREADABLE, cuts, drive, grade
from tests.fakes.paper_figures import FIGURE_8

# Three that stand out and a flat rest, of which 3, 6, 12 and 24 are kept in turn.
from tests.fakes.sages import loop_config
from tests.fakes.scores import ANY_SCORE, on_scale


@pytest.mark.parametrize(
    ("adjust", "settings", "scores", "kept", "floors"),
    [
        (1, {}, None, [9, 9, 9], [7, 8, 9]),  # it repeats its own context
        (-1, {}, None, [9, 9, 9], [7, 6, 5]),
        (1, {"min_k": 2, "max_k": 2}, None, [2, 2, 2], [2, 2, 2]),
        (-1, {"min_k": 2, "max_rounds": 4}, [9.0, 1.0, 0.1], [2, 1, 1, 1], [2, 1, 1, 1]),
    ],
)
def test_the_papers_policy(adjust, settings, scores, kept, floors) -> None:
    given = {} if scores is None else {"scores": scores}
    result = drive([grade(3, adjust)] * len(kept), loop_config(policy="paper", **settings), **given)
    assert (cuts(result), [r.min_k for r in result.rounds]) == (kept, floors)


def test_doubling_then_halfway() -> None:
    nine = FeedbackConfig(max_rounds=9, selection=SelectionConfig(min_k=3))
    assert cuts(drive([grade(2, 1)] * 4, nine, CLIFF)) == [3, 6, 12, 24]
    assert cuts(drive([grade(2, -1)] * 3, nine, CLIFF)) == [3, 2, 1]
    # More, more, less, more, less: closes in on the cut between, tries none twice, and ends.
    contrary = [grade(2, a) for a in (1, 1, -1, 1, -1)]
    result = drive(contrary, nine, CLIFF)
    assert cuts(result) == [3, 6, 12, 9, 10]
    assert result.stop_reason == "unchanged"


@pytest.mark.parametrize(
    ("verdicts", "settings", "stop", "score", "calls"),
    [
        ([grade(9)], {}, "accepted", 9, 2),
        ([UNREADABLE], {}, "critic_failed", None, 2),
        ([grade(4, 1), UNREADABLE], {}, "critic_failed", 4, 4),
        ([], {"max_calls": 1}, "budget", None, 1),
        ([grade(3, 1)], {"max_calls": 3}, "budget", 3, 2),  # no round begins that cannot be graded
        ([], {"max_llm_tokens": 1}, "budget", None, 1),
    ],
)
def test_how_it_ends(verdicts, settings, stop, score, calls) -> None:
    result = drive(verdicts, loop_config(**settings))
    assert (result.answer, result.score, result.best_round) == ("from 9", score, 1)
    assert (result.stop_reason, result.usage.calls) == (stop, calls)


def test_a_tie_goes_to_fewer_tokens() -> None:
    assert drive([grade(5, 1), grade(5, 1), grade(5, 1)]).best_round == 1
    narrowing = drive([grade(5, -1), grade(5, -1), grade(5, -1)])
    assert narrowing.best_round == 3
    # Sizes count, not the number of chunks: here what narrowing drops is empty, so the tie stays with round 1.
    sizes = [10, 0, 0, 0, 0, 0, 0, 0, 0] + [0] * 6
    assert drive([grade(5, -1), grade(5, -1), grade(5, -1)], sizes=sizes).best_round == 1


def test_a_budget_of_tokens_foresees_the_next_round() -> None:
    assert drive([grade(3, 1)], FeedbackConfig(max_llm_tokens=439)).stop_reason == "budget"
    assert len(drive([grade(3, 1), grade(9)], FeedbackConfig(max_llm_tokens=440)).rounds) == 2
    # With sizes the growth of the context is foreseen too: 6 chunks of 50 tokens, read twice.
    sizes = [50] * len(FIGURE_8)
    assert drive([grade(3, 1)], FeedbackConfig(max_llm_tokens=1039), sizes=sizes).stop_reason == "budget"
    assert len(drive([grade(3, 1), grade(9)], FeedbackConfig(max_llm_tokens=1040), sizes=sizes).rounds) == 2


def test_unknown_usage_counts_as_a_call() -> None:
    loop = FeedbackLoop([0.9], "probability", FeedbackConfig(max_calls=1))
    loop.start()
    step = loop.answered("yes")
    assert isinstance(step, Done)
    assert step.result.usage == UNKNOWN_USAGE


def test_an_answer_that_says_there_is_none_needs_no_critic() -> None:
    def generate(selection: Selection) -> tuple[str, TokenUsage]:
        return ("“The documents do not say”" if selection.cut < 12 else "Found."), ONE_CALL

    asked: list[str] = []

    def judge(_selection: Selection, answer: str) -> tuple[Verdict, TokenUsage]:
        asked.append(answer)
        return grade(9), ONE_CALL

    config = FeedbackConfig(selection=SelectionConfig(min_k=3))
    result = run_loop(FeedbackLoop(CLIFF, "unbounded", config), generate, judge)
    assert (asked, cuts(result), result.usage.calls) == (["Found."], [3, 6, 12], 4)
    assert [r.verdict.source for r in result.rounds] == ["no answer", "no answer", "critic"]
    # The literal loop, and one told not to, ask the critic all the same.
    for other in (
        FeedbackConfig(selection=SelectionConfig(min_k=3), policy="paper"),
        FeedbackConfig(selection=SelectionConfig(min_k=3), no_answer=()),
    ):
        asked.clear()
        run_loop(FeedbackLoop(CLIFF, "unbounded", other), generate, judge)
        assert asked == ["“The documents do not say”"]


@pytest.mark.parametrize("policy", ["adaptive", "paper"])
def test_a_blank_answer_is_none_and_is_asked_for_again(policy) -> None:
    config = FeedbackConfig(selection=SelectionConfig(min_k=3), policy=policy)
    replies = iter(["  \n", "<think>Hm.</think>", "At nine."])
    result = run_loop(
        FeedbackLoop(CLIFF, "unbounded", config),
        lambda s: (next(replies), ONE_CALL),
        lambda s, answer: (grade(9 if answer == "At nine." else 10), ONE_CALL),
    )
    assert (result.answer, result.stop_reason, len(result.rounds)) == ("At nine.", "accepted", 3)


@pytest.mark.parametrize(
    ("scores", "first", "expected"),
    [
        (CLIFF, "Perhaps.", ("Perhaps.", 4, "max_rounds")),  # it does not replace a graded answer
        ([0.9, 0.8], NO_ANSWER, (NO_ANSWER, 1, "unchanged")),  # where there is no other, it is one
    ],
)
def test_an_answer_that_says_there_is_none(scores, first, expected) -> None:
    result = run_loop(
        FeedbackLoop(scores, "unbounded", FeedbackConfig(selection=SelectionConfig(min_k=3))),
        lambda s: (first if s.cut <= 3 else NO_ANSWER, ONE_CALL),
        lambda s, a: (grade(4, 1), ONE_CALL),
    )
    assert (result.answer, result.score, result.stop_reason) == expected


@pytest.mark.parametrize("needed", range(1, 25))
def test_an_oracle_is_never_worse_off_than_after_its_first_answer(needed: int) -> None:
    """An LLM that is right exactly when the first ``needed`` candidates are in its context."""

    def generate(selection: Selection) -> tuple[str, TokenUsage]:
        return ("right" if selection.cut >= needed else "wrong"), ONE_CALL

    def judge(_selection: Selection, answer: str) -> tuple[Verdict, TokenUsage]:
        return (grade(9) if answer == "right" else grade(3, 1)), ONE_CALL

    config = FeedbackConfig(selection=SelectionConfig(min_k=3))
    result = run_loop(FeedbackLoop(CLIFF, "unbounded", config), generate, judge)
    # Three rounds see 3, 6 and 12 candidates.
    assert (result.answer == "right") == (needed <= 12)
    assert result.stop_reason == ("accepted" if needed <= 12 else "max_rounds")
    # Where none is right the cheapest of the wrong answers is returned: the first.
    assert result.best_round == (1 if needed <= 3 or needed > 12 else len(result.rounds))


def test_steps_out_of_order_are_refused() -> None:
    loop = FeedbackLoop([0.9, 0.1])
    with pytest.raises(InputError, match=r"start\(\)"):
        loop.answered("early")
    with pytest.raises(InputError, match="result"):
        _ = loop.result
    step = loop.start()
    assert isinstance(step, Generate)
    with pytest.raises(InputError, match=r"answered\(\)"):
        loop.start()
    with pytest.raises(InputError):
        loop.answer_failed("gone")
    judge = loop.answered("text", ONE_CALL)
    assert isinstance(judge, Judge)
    done = loop.judged(grade(10), ONE_CALL)
    assert isinstance(done, Done)
    assert loop.result is done.result
    with pytest.raises(InputError):
        loop.judged(grade(10), ONE_CALL)


def test_sizes_must_fit() -> None:
    with pytest.raises(InputError, match="size"):
        FeedbackLoop([0.9, 0.1], sizes=[1])
    with pytest.raises(InputError, match="negative"):
        FeedbackLoop([0.9], sizes=[-1])


@pytest.mark.parametrize("fields", [(0, 0), (11, 0), (float("nan"), 0), (None, 2), (5, 2)])
def test_a_verdict_out_of_range_is_refused(fields: tuple[float | None, int]) -> None:
    with pytest.raises(InputError):
        Verdict(*fields)


def test_the_trace_prints_and_serialises() -> None:
    result = drive([Verdict(3, 1, reason="The year is missing."), UNREADABLE])
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert data["stop_reason"] == "critic_failed"
    assert [r["selection"]["cut"] for r in data["rounds"]] == [9, 15]
    assert data["usage"]["total"]["calls"] == 4
    text = str(result)
    assert "round 1: 9 of 15 chunks" in text
    assert "<- returned" in text.splitlines()[0]
    assert "asked for more: 9 -> 15" in text
    assert "grade 3, asked for more: The year is missing." in text
    assert "grade could not be read" in text
    assert "generate 200 + 20 tokens in 2 calls" in text
    assert pickle.loads(pickle.dumps(result)) == result


SCORES = st.lists(ANY_SCORE | st.sampled_from([0.0, 0.5, 1.0]), max_size=40)
VERDICTS = st.lists(
    st.one_of(
        st.builds(Verdict, st.integers(1, 10), st.sampled_from([-1, 0, 1])),
        st.builds(Verdict, st.floats(1, 8), st.sampled_from([-1, 1])),
        st.just(UNREADABLE),
    ),
    min_size=12,
    max_size=12,
)


@given(
    scores=SCORES,
    verdicts=VERDICTS,
    scale=st.sampled_from(["probability", "logit", "cosine", "unbounded"]),
    policy=st.sampled_from(["adaptive", "paper"]),
    rounds=st.integers(1, 12),
    min_k=st.integers(1, 10),
    room=st.one_of(st.none(), st.integers(0, 10)),
    max_calls=st.one_of(st.none(), st.integers(1, 30)),
)
def test_whatever_the_critic_says(scores, verdicts, scale, policy, rounds, min_k, room, max_calls) -> None:
    """Ends, keeps its budgets and an answer, never repeats an adaptive selection, and is deterministic."""
    scores = on_scale(scores, scale)
    max_k = None if room is None else min_k + room
    config = FeedbackConfig(
        policy=policy,
        max_rounds=rounds,
        selection=SelectionConfig(min_k=min_k, max_k=max_k),
        max_calls=max_calls,
    )

    def run() -> FeedbackResult:
        given_verdicts = iter(verdicts)
        return run_loop(
            FeedbackLoop(scores, scale, config),
            lambda s: (f"from {s.cut}", ONE_CALL),
            lambda s, a: (next(given_verdicts), ONE_CALL),
        )

    result = run()
    tried = cuts(result)
    assert len(tried) <= rounds
    if not scores:
        assert (result.answer, result.stop_reason, result.best_round) == ("", "no_candidates", 0)
        return
    assert all(1 <= c <= len(scores) and (max_k is None or c <= max_k) for c in tried)
    if policy == "adaptive":
        assert len(set(tried)) == len(tried)
        for before, after in zip(result.rounds, result.rounds[1:], strict=False):
            assert (after.selection.cut > before.selection.cut) == (before.verdict.adjust > 0)
    if max_calls is not None:
        assert result.usage.calls <= max_calls
    graded = [r.score for r in result.rounds if r.score is not None]
    assert result.score == (max(graded) if graded else None)
    assert result.answer == f"from {result.selection.cut}"
    assert result == run()
    json.dumps(result.to_dict(), allow_nan=False)


def test_an_unchanged_selection_says_which_reason():
    asked_for_none = drive([grade(4, 0)], scores=[0.9, 0.8])
    nowhere_to_go = drive([grade(4, -1)], scores=[0.9])
    assert (asked_for_none.stop_reason, nowhere_to_go.stop_reason) == ("unchanged", "unchanged")
    assert asked_for_none.stop_meaning == "another round would use the same passages"
    assert nowhere_to_go.stop_meaning.startswith("every selection in the direction that the critic asked for")
