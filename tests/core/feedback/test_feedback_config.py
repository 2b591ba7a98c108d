"""`FeedbackConfig`: copies with changes, and everything else that a dataclass does."""

import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from sage_core import FeedbackConfig, SelectionConfig
from sage_core.errors import InputError
from sage_core.selection import FixedK


def test_arguments_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        FeedbackConfig(7)  # type: ignore[misc]
    with pytest.raises(TypeError):
        FeedbackConfig(min_k=3)  # type: ignore[call-arg]  # of its selection
    assert FeedbackConfig().selection == SelectionConfig()


def test_a_copy_with_changes() -> None:
    config = FeedbackConfig(accept_score=7, selection=SelectionConfig(min_k=3))
    assert replace(config, max_rounds=2) == FeedbackConfig(
        accept_score=7, selection=SelectionConfig(min_k=3), max_rounds=2
    )
    # Values of the old selection do not come back into the new one.
    assert replace(config, selection=SelectionConfig()).selection.min_k is None
    with pytest.raises(InputError):
        replace(config, accept_score=11)


def test_equality_repr_and_pickling() -> None:
    config = FeedbackConfig(selection=SelectionConfig(min_k=3, rule=FixedK(4)))
    same = FeedbackConfig(selection=SelectionConfig(FixedK(4), min_k=3))
    assert config == same and hash(config) == hash(same) and config != FeedbackConfig()
    assert pickle.loads(pickle.dumps(config)) == config
    assert (
        repr(config)
        == f"FeedbackConfig({', '.join(f'{f.name}={getattr(config, f.name)!r}' for f in fields(config))})"
    )
    with pytest.raises(FrozenInstanceError):
        config.max_rounds = 2  # type: ignore[misc]
