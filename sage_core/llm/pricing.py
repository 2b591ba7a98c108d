"""Prices of models as data, and the report of what a run cost and saved (paper, section II-B and II-C)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sage_core.errors import InputError
from sage_core.llm.usage import Price, TokenUsage, cost, total_usage


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices by model name. None are built in: they change, and differ by provider.

    Examples:
        >>> prices = PriceList({"gpt-4o-mini": Price(0.15, 0.6)})
        >>> prices.of("gpt-4o-mini")
        Price(prompt=0.15, completion=0.6)

    Attributes:
        prices: Price by model name.
    """

    prices: Mapping[str, Price] = field(default_factory=dict)

    @classmethod
    def from_file(cls, path: str | Path) -> PriceList:
        """Read ``{"model": {"prompt": 0.15, "completion": 0.6}}``: money for a million tokens.

        Raises:
            InputError: Where the file is missing or holds something else.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls({str(k): Price(float(v["prompt"]), float(v["completion"])) for k, v in data.items()})
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(
                f'no prices in {path} ({error}): it should look like {{"model": {{"prompt": 0.15, '
                '"completion": 0.6}}, money for a million tokens'
            ) from error

    def of(self, model: str) -> Price | None:
        """The price of a model, or of the longest listed name that a dated or numbered name continues."""
        if model in self.prices:
            return self.prices[model]
        known = [n for n in self.prices if re.fullmatch(rf"{re.escape(n)}-[\d.-]+", model)]
        return self.prices[max(known, key=len)] if known else None

    def with_price(self, model: str, price: Price) -> PriceList:
        """The same list with one price more, or another."""
        return PriceList({**self.prices, model: price})


@dataclass(frozen=True, slots=True)
class CostReport:
    """What a run took, by role, and what it saved against showing the best ``top_k`` chunks once.

    Attributes:
        usage: Tokens by role.
        money: Money by role (equation 1); None without a price.
        saved_tokens: Context tokens of the returned answer fewer than top-k's; None where not known.
        saved_money: The same at the price of tokens sent; None without a price.
        top_k: What is compared with.
    """

    usage: Mapping[str, TokenUsage]
    money: Mapping[str, float] | None
    saved_tokens: int | None
    saved_money: float | None
    top_k: int | None

    @property
    def total(self) -> float | None:
        """Money for all roles; None without a price."""
        return None if self.money is None else sum(self.money.values())

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        return {
            "usage": {role: usage.to_dict() for role, usage in self.usage.items()},
            "money": dict(self.money) if self.money is not None else None,
            "total_money": self.total,
            "saved_tokens": self.saved_tokens,
            "saved_money": self.saved_money,
            "top_k": self.top_k,
        }

    def __str__(self) -> str:
        rows = [*self.usage.items(), ("total", total_usage(self.usage.values()))]
        lines = [self._line(role, usage) for role, usage in rows]
        if self.money is None:
            lines.append("no price is set for this model: tokens only")
        if self.saved_tokens is not None:
            word = "fewer" if self.saved_tokens >= 0 else "more"
            money = "" if self.saved_money is None else f", {abs(self.saved_money):.6f} {word} in money"
            tokens = f"{abs(self.saved_tokens)} {word} tokens than top-{self.top_k}"
            lines.append(f"context of the answer: {tokens}{money}")
        return "\n".join(lines)

    def _line(self, role: str, usage: TokenUsage) -> str:
        about = "about " if usage.estimated else ""
        line = f"{role}: {usage.calls} calls, {about}{usage.prompt} + {usage.completion} tokens"
        if self.money is None:
            return line
        money = self.total if role == "total" and role not in self.money else self.money.get(role)
        return f"{line}, {money:.6f}"


def cost_report(
    usage_by_role: Mapping[str, TokenUsage],
    price: Price | None,
    *,
    context_tokens: int | None = None,
    top_k_tokens: int | None = None,
    top_k: int | None = None,
) -> CostReport:
    """Report a run.

    Args:
        usage_by_role: Tokens by role, such as `FeedbackResult.usage_by_role`, summed over a run.
        price: Price of the model; None counts tokens only.
        context_tokens: Tokens of the context the answer was made from. Grading and further rounds are in
            the usage, not in what was saved.
        top_k_tokens: Tokens the best ``top_k`` chunks would have taken.
        top_k: What is compared with, for the report.

    Returns:
        The report. Saved tokens may be negative: a selection can be wider than top-k.
    """
    saved = None
    if context_tokens is not None and top_k_tokens is not None:
        saved = top_k_tokens - context_tokens
    return CostReport(
        usage=dict(usage_by_role),
        money={role: cost(u, price) for role, u in usage_by_role.items()} if price is not None else None,
        saved_tokens=saved,
        saved_money=saved * price.prompt / 1_000_000 if saved is not None and price is not None else None,
        top_k=top_k,
    )
