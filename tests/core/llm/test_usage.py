"""Tokens, prices, and what a run cost (paper, equations 1 and 2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.llm.usage import (
    NO_USAGE,
    Price,
    TokenUsage,
    cost,
    cost_efficiency,
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


def test_equation_1_on_the_papers_example() -> None:
    # 10 dollars for a million tokens in, 30 for a million out.
    assert cost(TokenUsage(1_000_000, 1_000_000, 1), Price(10, 30)) == 40
    assert cost(TokenUsage(2_000, 100, 1), Price(10, 30)) == pytest.approx(0.023)


def test_equation_2() -> None:
    assert cost_efficiency(0.75, 0.5) == 1.5
    # A ratio to a baseline of the same quality at twice the cost.
    assert cost_efficiency(0.75, 0.5, baseline=cost_efficiency(0.75, 1.0)) == 2
    for money, baseline in ((0, 1.0), (-1, 1.0), (1, 0.0)):
        with pytest.raises(InputError):
            cost_efficiency(0.5, money, baseline=baseline)


@pytest.mark.parametrize("price", [(-1, 0), (0, -1), (float("nan"), 0)])
def test_a_price_is_not_negative(price: tuple[float, float]) -> None:
    with pytest.raises(InputError):
        Price(*price)


def test_estimates_are_marked() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("abcde") == 2
    assert estimate_tokens("你好") == 2
    assert estimate_usage(["abcd", ""], "xy") == TokenUsage(9, 1, 1, estimated=True)
