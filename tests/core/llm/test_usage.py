"""Tokens, prices, and what a run cost (paper, equations 1 and 2)."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.llm.pricing import PriceList, cost_report
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


def test_prices_are_data(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text(
        json.dumps({"small": {"prompt": 0.15, "completion": 0.6}, "small-2": {"prompt": 1, "completion": 2}})
    )
    prices = PriceList.from_file(path)
    assert prices.of("small") == Price(0.15, 0.6)
    # A dated name is priced as the name it continues; small-2 is another model.
    assert prices.of("small-2024-07-18") == Price(0.15, 0.6)
    assert prices.of("unheard-of") is None
    assert prices.with_price("mine", Price(1, 1)).of("mine") == Price(1, 1)
    assert prices.of("mine") is None


def test_a_dated_name_takes_the_longest_name_it_continues() -> None:
    prices = PriceList({"base": Price(1, 1), "base-mini": Price(0.1, 0.1)})
    assert prices.of("base-2026-01-01") == Price(1, 1)
    assert prices.of("base-mini-2026-01-01") == Price(0.1, 0.1)
    assert prices.of("baseless") is None
    numbered = PriceList({"base-4": Price(1, 1), "base-4-1": Price(2, 2)})
    assert numbered.of("base-4-1-2026") == Price(2, 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"m": 1}',
        '{"m": {"prompt": 1}}',
        '{"m": {"prompt": "x", "completion": 1}}',
        '{"m": {"prompt": -1, "completion": 1}}',
    ],
)
def test_a_price_file_that_is_none_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"prices\.json"):
        PriceList.from_file(path)
    with pytest.raises(InputError, match=r"missing\.json"):
        PriceList.from_file(tmp_path / "missing.json")


BY_ROLE = {"generate": TokenUsage(10_000, 1_000, 5), "judge": TokenUsage(12_000, 500, 5)}


def test_a_report_by_role() -> None:
    report = cost_report(BY_ROLE, Price(10, 30), context_tokens=8_000, top_k_tokens=20_000, top_k=20)
    assert report.money == {"generate": pytest.approx(0.13), "judge": pytest.approx(0.135)}
    assert (report.saved_tokens, report.saved_money) == (12_000, pytest.approx(0.12))
    assert json.loads(json.dumps(report.to_dict()))["total_money"] == report.total == pytest.approx(0.265)
    assert all(part in str(report) for part in ("generate", "top-20", "12000 fewer"))


def test_a_report_without_a_price_counts_tokens_only() -> None:
    report = cost_report({"generate": TokenUsage(5, 5, 1, estimated=True)}, None)
    assert (report.total, report.saved_tokens, report.saved_money) == (None, None, None)
    assert "about" in str(report) and "no price" in str(report)


def test_what_was_not_saved_is_said() -> None:
    report = cost_report(BY_ROLE, Price(10, 30), context_tokens=9_000, top_k_tokens=8_000, top_k=7)
    assert report.saved_tokens == -1_000
    assert "1000 more" in str(report)
