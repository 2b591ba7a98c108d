"""`FeedbackConfig`: shorthands of its selection, copies with changes, and everything else that a dataclass does."""

import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from sage_core import FeedbackConfig, SelectionConfig
from sage_core.errors import InputError
from sage_core.selection import FixedK


def test_arguments_by_place_are_those_of_the_signature() -> None:
    config = FeedbackConfig(7, 1, "paper", 5, 900, 3, 0.4, 9, "gradient", ("none",))
    assert (config.accept_score, config.max_rounds, config.policy) == (7, 1, "paper")
    assert (config.max_calls, config.max_tokens, config.no_answer) == (5, 900, ("none",))
    assert config.selection == SelectionConfig("gradient", min_k=3, max_k=9, gradient=0.4)


def test_shorthands_replace_values_of_the_selection_and_are_read_from_it() -> None:
    selection = SelectionConfig(rule=FixedK(4), min_k=1, empty_below=0.1)
    config = FeedbackConfig(min_k=2, max_k=6, min_tokens=50, selection=selection)
    assert config.selection == replace(selection, min_k=2, max_k=6, min_tokens=50)
    assert (config.min_k, config.max_k, config.rule, config.gradient) == (2, 6, FixedK(4), None)
    assert config.least == config.selection.effective_min_k == 2


def test_a_copy_with_changes() -> None:
    config = FeedbackConfig(7, min_k=3, max_k=6, rule="gradient", hops=1)
    assert replace(config, hops=2) == FeedbackConfig(7, min_k=3, max_k=6, rule="gradient", hops=2)
    assert replace(config, min_k=4).selection == replace(config.selection, min_k=4)
    # Values read from the old selection do not come back into the new one.
    assert replace(config, selection=SelectionConfig()).selection == SelectionConfig()
    assert replace(config, selection=SelectionConfig(min_k=5), max_k=8).selection == SelectionConfig(
        min_k=5, max_k=8
    )
    with pytest.raises(InputError):
        replace(config, accept_score=11)


def test_equality_repr_and_pickling() -> None:
    config = FeedbackConfig(min_k=3, rule=FixedK(4))
    same = FeedbackConfig(selection=SelectionConfig(FixedK(4), min_k=3))
    assert config == same and hash(config) == hash(same) and config != FeedbackConfig()
    assert pickle.loads(pickle.dumps(config)) == config
    assert (
        repr(config)
        == f"FeedbackConfig({', '.join(f'{f.name}={getattr(config, f.name)!r}' for f in fields(config))})"
    )
    with pytest.raises(FrozenInstanceError):
        config.hops = 2  # type: ignore[misc]
