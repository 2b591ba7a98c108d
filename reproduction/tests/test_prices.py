"""A file of prices."""

import json
from pathlib import Path

import pytest
from sage_eval.prices import Price, PriceList, cost

from sage_core.errors import InputError
from sage_core.llm.usage import TokenUsage


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
        "[" * 100_000,
    ],
)
def test_a_price_file_that_is_none_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"prices\.json"):
        PriceList.from_file(path)
    with pytest.raises(InputError, match=r"missing\.json"):
        PriceList.from_file(tmp_path / "missing.json")


def test_equation_1_on_the_papers_example() -> None:
    # 10 dollars for a million tokens in, 30 for a million out.
    assert cost(TokenUsage(1_000_000, 1_000_000, 1), Price(10, 30)) == 40
    assert cost(TokenUsage(2_000, 100, 1), Price(10, 30)) == pytest.approx(0.023)


@pytest.mark.parametrize("price", [(-1, 0), (0, -1), (float("nan"), 0)])
def test_a_price_is_not_negative(price: tuple[float, float]) -> None:
    with pytest.raises(InputError):
        Price(*price)
