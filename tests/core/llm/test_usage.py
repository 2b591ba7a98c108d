"""Tokens of calls, added up and estimated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.llm.usage import (
    NO_USAGE,
    TokenUsage,
    estimate_tokens,
    estimate_usage,
    total_usage,
)

USAGES = st.builds(
    TokenUsage, st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 99), st.booleans()
)


@given(USAGES, USAGES)
def test_usage_adds_up(a: TokenUsage, b: TokenUsage) -> None:
    both = a + b
    assert both.total == a.total + b.total
    assert both.calls == a.calls + b.calls
    assert both.estimated == (a.estimated or b.estimated)
    assert a + NO_USAGE == a
    assert total_usage([a, b]) == both


def test_usage_cannot_be_negative() -> None:
    with pytest.raises(InputError):
        TokenUsage(prompt=-1)


def test_estimates_are_marked() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("abcde") == 2
    assert estimate_tokens("你好") == 2
    assert estimate_usage(["abcd", ""], "xy") == TokenUsage(9, 1, 1, estimated=True)
