"""What min_k is where nobody gave one, and what selection says to values that are none."""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest

from sage_app import SageConfig
from sage_core import FeedbackConfig, select
from sage_core.errors import InputError
from sage_core.feedback import FeedbackLoop
from sage_core.selection import (
    Gradient,
    RankedScores,
    SelectionConfig,
    effective_min_k,
    read_scores,
)
from sage_core.selection.rules import Earliest, FixedK, RelativeToTop, Threshold

FALLING = [0.9, 0.8, 0.7] + [0.01] * 12
NAMES_THE_NUMBER = [
    FixedK(3),
    Threshold(0.5),
    RelativeToTop(0.5),
    Earliest((FixedK(3), Threshold(0.5))),
]


class Custom:
    """A rule written before rules had a min_k of their own."""

    def cut(self, scores: RankedScores, min_k: int) -> tuple[int, str]:
        return 2, "two"


class TestMinKThatNobodyGave:
    @pytest.mark.parametrize("rule", NAMES_THE_NUMBER, ids=lambda rule: type(rule).__name__)
    def test_does_not_raise_what_a_rule_names(self, rule):
        assert select(FALLING, rule=rule) == select(FALLING, rule=rule, min_k=1)
        assert select(FALLING, rule=rule).cut < 7
        assert FeedbackConfig(selection=SelectionConfig(rule=rule)).selection.effective_min_k == 1

    @pytest.mark.parametrize(
        "rule", ["auto", "gradient", Gradient(), Earliest((Gradient(), FixedK(3))), Custom()]
    )
    def test_is_seven_for_the_gradient_and_for_custom_rules(self, rule):
        assert select(FALLING, rule=rule) == select(FALLING, rule=rule, min_k=7)
        assert FeedbackConfig(selection=SelectionConfig(rule=rule)).selection.effective_min_k == 7

    def test_is_lowered_to_max_k(self):
        assert select(FALLING, max_k=3).cut == 3
        assert FeedbackConfig(selection=SelectionConfig(max_k=3)).selection.effective_min_k == 3
        for policy in ("adaptive", "paper"):
            loop = FeedbackLoop(
                FALLING, config=FeedbackConfig(selection=SelectionConfig(max_k=3), policy=policy)
            )
            assert loop.start().selection.cut == 3

    def test_a_given_one_is_kept_and_checked(self):
        assert select(FALLING, rule=FixedK(3), min_k=5).cut == 5
        assert (
            FeedbackConfig(selection=SelectionConfig(rule=FixedK(3), min_k=5)).selection.effective_min_k == 5
        )
        with pytest.raises(InputError, match="min_k"):
            select(FALLING, min_k=7, max_k=3)
        assert effective_min_k(2, 3, FixedK(9)) == 2


@pytest.mark.parametrize(
    "scores",
    ["abc", b"abc", 3, None, {"a": 1.0}, [0.5, "0.4", None], [0.5, [0.4, 0.3]], [1j], np.ones((2, 2))],
)
def test_what_is_no_list_of_numbers_is_told(scores):
    for use in (select, FeedbackLoop):
        with pytest.raises(InputError, match="score"):
            use(scores)


def test_numpy_arrays_generators_and_mixes_are_scores():
    values = [0.9, 0.8, math.nan, 0.01]
    expected = select(values, min_k=1)
    for same in (np.array(values), np.array(values, dtype=object), tuple(values), iter(values)):
        assert select(same, min_k=1) == expected
    assert select([0.9, np.float64(0.8), None, 0.01], min_k=1).scores == expected.scores
    assert select(np.array(values), min_k=np.int64(1)) == expected
    assert (
        FeedbackLoop(np.array(values), config=FeedbackConfig(selection=SelectionConfig(min_k=1)))
        .start()
        .selection
        == expected
    )


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("min_k", (-1, 2.0, True, "3")),
        ("max_k", (math.nan, 0)),
        ("gradient", (-0.1, 1.1, math.nan, "0.3")),
        ("rule", (3, FixedK, "top-k")),
    ],
)
def test_wrong_arguments_of_a_selection_are_named(name, values):
    doors = [partial(select, FALLING), SelectionConfig, SelectionConfig().updated]
    for door, value in product(doors, values):
        with pytest.raises(InputError, match=name):
            door(**{name: value})


def test_bounds_that_exclude_each_other_and_an_unknown_scale_are_named():
    for door in (partial(select, FALLING), SelectionConfig):
        with pytest.raises(InputError, match="max_k"):
            door(min_k=5, max_k=4)
    with pytest.raises(InputError, match="scale"):
        select([], scale="percent")


@pytest.mark.parametrize(
    ("config", "name", "values"),
    [
        (FeedbackConfig, "accept_score", (0, 11, math.nan, "9", True)),
        (FeedbackConfig, "max_rounds", (0, 2.5, "3")),
        (FeedbackConfig, "policy", ("bold",)),
        (FeedbackConfig, "max_calls", (0, 1.5)),
        (FeedbackConfig, "max_llm_tokens", (0, True)),
        (FeedbackConfig, "no_answer", ("no", (1,))),
        (SageConfig, "candidates", (2.5,)),
        (SageConfig, "feedback", ({"min_k": 3},)),
        (SelectionConfig, "max_context_tokens", (0, 1.5)),
    ],
)
def test_wrong_settings_are_named(config, name, values):
    for value in values:
        with pytest.raises(InputError, match=name):
            config(**{name: value})


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedK(0),
        lambda: FixedK(2.5),
        lambda: FixedK("3"),
        lambda: Threshold(math.nan),
        lambda: Threshold("0.5"),
        lambda: RelativeToTop(1.5),
    ],
)
def test_wrong_settings_of_a_rule_are_told(make):
    with pytest.raises(InputError):
        make()


@pytest.mark.parametrize("name", ["distance", "auto"])
def test_a_scale_that_has_to_be_read_first_is_told(name: str) -> None:
    with pytest.raises(InputError, match="read_scores"):
        select([0.1, 0.5, 0.9], scale=name)  # type: ignore[arg-type]
    found = read_scores([0.9, 0.5, 0.6, 0.8, 0.1], name)  # type: ignore[arg-type]
    assert select(found.scores, scale=found.scale, min_k=1).indices[0] == (4 if name == "distance" else 0)
    with pytest.raises(InputError) as told:
        select([5.0, 1.0], scale="probability")
    # No scale is proposed that `select` does not know.
    assert "'distance'" not in str(told.value) and "'unbounded'" in str(told.value)
