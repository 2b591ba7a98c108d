"""The floor in tokens, and nothing relevant as a result."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.feedback import Done, FeedbackConfig, FeedbackLoop, Verdict
from sage_core.selection import FixedK, SelectionConfig, select
from sage_core.selection.rules import EMPTY_BELOW

SCORES = [0.67, 0.12, 0.03, 0.02, 0.0, 0.0, 0.0]


def test_one_stock_node_reaches_the_floor():
    kept = select(SCORES, tokens=[1024] * 7)
    assert kept.indices == (0,) and kept.min_k == 1


def test_short_chunks_are_kept_until_the_floor():
    kept = select(SCORES, tokens=[100] * 7)
    assert kept.cut == kept.min_k == 3
    assert kept.reason == "min_context_tokens=250 takes 3, though the rule would have kept 1"
    assert select(SCORES, tokens=[10] * 7).cut == 7
    assert select(SCORES, tokens=[100] * 7, min_context_tokens=101).cut == 2


def test_the_default_floor_is_whatever_comes_nearest():
    assert select(SCORES, tokens=[160] * 7).cut == 2, "320 is as near as 160 is not"
    assert select(SCORES, tokens=[200, 190, 10, 10, 10, 10, 10]).cut == 1
    assert select(SCORES, tokens=[200, 190, 10, 10, 10, 10, 10], min_context_tokens=250).cut == 2
    assert select(SCORES, tokens=[0] * 7).cut == 7


def test_a_second_large_node_is_kept_where_the_rule_keeps_it():
    assert select([0.6, 0.5, 0.4], tokens=[790] * 3).cut == 2
    assert select([0.6, 0.5, 0.4], tokens=[810] * 3).cut == 1
    assert select([0.6, 0.01, 0.01], tokens=[790] * 3).cut == 1


def test_the_floor_counts_the_best_and_not_the_first():
    assert select([0.01, 0.9, 0.02], tokens=[10, 300, 10]).indices == (1,)


def test_who_names_a_number_of_chunks_gets_it():
    tokens = [1024] * 7
    assert select(SCORES, tokens=tokens, min_k=4).cut == 4
    assert select(SCORES, tokens=tokens, rule="gradient").cut == 7, "the paper's min_k"
    assert select(SCORES, tokens=tokens, gradient=0.3).cut == 7
    assert select(SCORES, tokens=tokens, rule=FixedK(2)).cut == 2
    assert select(SCORES, tokens=[100] * 7, rule="gradient", min_context_tokens=150).cut == 2
    assert select(SCORES, tokens=[100] * 7, min_k=1, min_context_tokens=150).cut == 2, "both floors hold"
    assert select(SCORES, tokens=[10] * 7, max_k=2).cut == 2


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 400)), min_size=1, max_size=20), st.integers(0, 900)
)
def test_the_floor_is_reached_by_as_few_as_possible(rows, floor):
    scores, tokens = [s for s, _ in rows], [t for _, t in rows]
    kept = SelectionConfig(rule=FixedK(1), min_context_tokens=floor).select(scores, tokens=tokens)
    held = [tokens[i] for i in kept.indices]
    assert sum(held) >= floor or kept.cut == len(rows)
    assert kept.cut == 1 or sum(held[:-1]) < floor


def test_the_loop_begins_at_the_floor():
    for policy in ("adaptive", "paper"):
        config = FeedbackConfig(policy=policy)
        assert FeedbackLoop(SCORES, config=config, sizes=[1024] * 7).first_selection.cut == 1
        assert FeedbackLoop(SCORES, config=config, sizes=[100] * 7).first_selection.cut == 3


def test_nothing_relevant_is_asked_for():
    faint = [0.005, 0.004, 0.001]
    assert select(faint).cut == 3
    kept = select(faint, empty_below=0.01)
    assert kept.indices == () and kept.candidates == 3 and "nothing relevant" in kept.reason
    assert select([0.5, 0.001], empty_below=0.01).cut == 2
    assert select([-6.0, -7.0], scale="logit", empty_below=0.01).cut == 0
    assert select([-4.0, -7.0], scale="logit", empty_below=0.01).cut == 2
    assert select([0.001, 0.0], scale="cosine", empty_below=0.01).cut == 2
    assert select([None, None], empty_below=0.01).cut == 2, "scores that are not known say nothing"


@pytest.mark.parametrize(
    "settings", [{}, {"min_k": 1}, {"rule": "gradient"}, {"gradient": 0.3}, {"rule": FixedK(2)}, {"max_k": 1}]
)
@pytest.mark.parametrize("scale", ["probability", "logit", "cosine", "unbounded"])
@pytest.mark.parametrize("n", [1, 2, 40])
def test_something_is_kept_of_any_candidates(settings, scale, n):
    faint = [0.0] * n if scale != "logit" else [-50.0] * n
    assert SelectionConfig(**settings).select(faint, scale, [100] * n).cut > 0


def test_who_asks_for_it_gets_nothing_relevant_by_one_rule():
    faint = [EMPTY_BELOW - 0.001] * 12
    for settings in ({}, {"min_k": 1}, {"rule": "gradient"}, {"gradient": 0.3}):
        kept = SelectionConfig(empty_below="auto", **settings).select(faint)
        assert kept.indices == () and kept.low_confidence
        assert kept.reason == "nothing relevant: the best has a probability of 0.019 (empty_below=0.02)"
    assert SelectionConfig(empty_below="auto").select([EMPTY_BELOW, *faint]).cut > 0
    assert SelectionConfig(empty_below=0.5).select([0.4, 0.3]).cut == 0, "of two candidates too"
    with pytest.raises(InputError, match="'auto'"):
        SelectionConfig(empty_below="never")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scores", "scale", "best"),
    [
        ([0.2, 0.7, None], "probability", 0.7),
        ([0.0, -3.0], "logit", 0.5),
        ([0.2, 0.7], "cosine", None),
        ([None, math.nan], "probability", None),
        ([], "probability", None),
    ],
)
def test_a_selection_says_how_probable_its_best_is(scores, scale, best):
    kept = select(scores, scale=scale)
    assert kept.best_probability == best and not kept.low_confidence
    assert kept.to_dict()["best_probability"] == best


def test_low_confidence_is_an_opinion_that_comes_with_the_result():
    kept = select([EMPTY_BELOW / 2, 0.0])
    assert kept.cut == 2 and kept.low_confidence and kept.to_dict()["low_confidence"] is True


def test_named_rules_have_a_ceiling_above_their_floor():
    smooth = [0.9 - 0.001 * i for i in range(71)]
    for settings in ({"rule": "gradient"}, {"gradient": 0.3}, {"rule": "gradient", "min_k": 2}, {"min_k": 2}):
        kept = SelectionConfig(**settings).select(smooth, tokens=[66] * 71)
        assert kept.cut == 15, settings
    assert SelectionConfig(rule="gradient").select(smooth, tokens=[500] * 71).cut == 7, "the paper's floor"
    assert SelectionConfig(rule=FixedK(40)).select(smooth, tokens=[66] * 71).cut == 40


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 400)), min_size=1, max_size=20),
    st.integers(1, 900),
    st.sampled_from(
        [{}, {"min_k": 5}, {"min_context_tokens": 500}, {"rule": FixedK(9)}, {"rule": "gradient"}]
    ),
)
def test_a_ceiling_overrules_every_floor(rows, most, settings):
    scores, tokens = [s for s, _ in rows], [t for _, t in rows]
    config = SelectionConfig(max_context_tokens=most, empty_below=None, **settings)
    kept = config.select(scores, tokens=tokens)
    assert kept.cut >= 1 and (kept.cut == 1 or sum(tokens[i] for i in kept.indices) <= most)
    wanted = SelectionConfig(max_context_tokens=10**6, empty_below=None, **settings).select(
        scores, tokens=tokens
    )
    assert kept.cut <= wanted.cut
    assert kept.cut == wanted.cut or f"max_context_tokens={most}" in kept.reason
    assert config.select(scores).cut >= 1, "without tokens there is nothing to count"


def test_a_ceiling_replaces_that_of_auto():
    large = [0.6, 0.5, 0.45, 0.4]
    assert select(large, tokens=[900] * 4).cut == 1
    assert select(large, tokens=[900] * 4, max_context_tokens=2700).cut == 3


@pytest.mark.parametrize("policy", ["adaptive", "paper"])
def test_no_round_goes_over_the_ceiling(policy):
    config = FeedbackConfig(
        policy=policy, max_rounds=5, selection=SelectionConfig(max_context_tokens=500, empty_below=None)
    )
    loop = FeedbackLoop([0.9 - i / 100 for i in range(20)], config=config, sizes=[100] * 20)
    step, cuts = loop.start(), []
    while not isinstance(step, Done):
        cuts.append(step.selection.cut)
        loop.answered("a")
        step = loop.judged(Verdict(3, 1))
    assert cuts[0] > 1 and max(cuts) == 5


def test_values_out_of_range():
    assert SelectionConfig(max_context_tokens=1).counts_tokens
    with pytest.raises(InputError, match="max_context_tokens"):
        SelectionConfig(max_context_tokens=0)
    for wrong in ({"min_context_tokens": -1}, {"empty_below": 1.5}, {"min_context_tokens": 1.5}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            SelectionConfig(**wrong)
    with pytest.raises(InputError, match=r"2.*3"):
        select([0.1, 0.2, 0.3], tokens=[1, 2])


def test_a_floor_of_no_tokens_is_none():
    scores, tokens = [0.9, 0.02, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01], [60] * 8
    assert select(scores, tokens=tokens, min_context_tokens=0).cut == 1
    assert select(scores, tokens=tokens, min_context_tokens=0, min_k=2).cut == 2
