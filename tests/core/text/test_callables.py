"""Fingerprints of functions: equal exactly where the functions compute the same."""

import re
from functools import partial
from typing import Any

import pytest

from sage_core.text.callables import function_fingerprint

LIMIT = 3


def counted(text: str) -> int:
    return min(len(text), LIMIT)


def outer(step: Any) -> Any:
    def inner(text: str) -> int:
        return len(text) // step

    return inner


class Stateful:
    def __call__(self, text: str) -> int:
        return len(text)


class Named(Stateful):
    fingerprint = "counts characters"


def test_the_same_function_has_the_same_fingerprint() -> None:
    assert function_fingerprint(counted) == function_fingerprint(counted) is not None
    assert function_fingerprint(outer(2)) == function_fingerprint(outer(2))
    assert function_fingerprint(partial(outer, 2)) == function_fingerprint(partial(outer, 2))
    assert function_fingerprint(len) == function_fingerprint(len) != function_fingerprint(repr)
    assert function_fingerprint(Named()) == function_fingerprint(Named())


def test_what_differs_in_code_or_values_differs() -> None:
    functions = [
        lambda t: len(t),
        lambda t: len(t) + 1,
        lambda t, by=1: len(t) // by,
        lambda t, by=2: len(t) // by,
        outer(1),
        outer(2),
        outer("2"),
        outer(re.compile("a")),
        outer(re.compile("b")),
        outer([1, 2]),
        outer(outer(1)),
        outer(outer(2)),
        partial(outer, 1),
        partial(outer, 2),
        partial(outer, step=2),
    ]
    assert len({function_fingerprint(f) for f in functions}) == len(functions)


def test_a_value_of_the_module_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = function_fingerprint(counted)
    monkeypatch.setitem(globals(), "LIMIT", 4)
    assert function_fingerprint(counted) != before


def test_what_depends_on_hidden_state_has_none() -> None:
    class Local:
        pass

    for function in (Stateful(), Stateful().__call__, outer(Stateful()), outer(Local), [].append):
        assert function_fingerprint(function) is None


def test_a_function_that_calls_itself() -> None:
    def again(n: int) -> int:
        return n and again(n - 1)

    assert function_fingerprint(again) is not None
