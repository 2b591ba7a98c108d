"""What tokens cost (paper, equation 1), and prices as data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sage_core.errors import InputError
from sage_core.llm.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class Price:
    """What an LLM charges, in one currency per million tokens.

    Examples:
        >>> round(cost(TokenUsage(900, 40, 1), Price(prompt=0.15, completion=0.6)), 6)
        0.000159

    Attributes:
        prompt: Price of a million tokens sent.
        completion: Price of a million tokens received.
    """

    prompt: float
    completion: float

    def __post_init__(self) -> None:
        if not (self.prompt >= 0 and self.completion >= 0):
            raise InputError(f"a price is a number of at least 0, not {self}")


def cost(usage: TokenUsage, price: Price) -> float:
    """Money for ``usage`` (paper, equation 1: input tokens and output tokens, each at its own price)."""
    return (usage.prompt * price.prompt + usage.completion * price.completion) / 1_000_000


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
