"""Tokens used, what they cost (paper, equation 1) and what one unit of money buys (equation 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from sage_core.errors import InputError


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one or several LLM calls.

    Examples:
        >>> TokenUsage(900, 40, 1) + TokenUsage(950, 10, 1)
        TokenUsage(prompt=1850, completion=50, calls=2, estimated=False)

    Attributes:
        prompt: Tokens sent.
        completion: Tokens received.
        calls: Number of LLM calls.
        estimated: True where any part was counted by us because the server did not report it.
    """

    prompt: int = 0
    completion: int = 0
    calls: int = 0
    estimated: bool = False

    def __post_init__(self) -> None:
        if min(self.prompt, self.completion, self.calls) < 0:
            raise InputError(f"token usage cannot be negative: {self}")

    @property
    def total(self) -> int:
        """Tokens sent and received."""
        return self.prompt + self.completion

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.calls + other.calls,
            self.estimated or other.estimated,
        )

    def to_dict(self) -> dict[str, int | bool]:
        """A JSON-ready form."""
        return asdict(self)


NO_USAGE = TokenUsage()


def total_usage(parts: Iterable[TokenUsage]) -> TokenUsage:
    """The sum of several usages."""
    total = NO_USAGE
    for part in parts:
        total = total + part
    return total


def estimate_tokens(text: str) -> int:
    """About how many tokens a text is: a token for every four bytes of UTF-8, rounded up.

    Good to some 20% for English prose under the usual byte-pair vocabularies; used only where a server does
    not say.
    """
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def estimate_usage(prompt: Iterable[str], completion: str) -> TokenUsage:
    """An estimate of one call, marked as such: `estimate_tokens`, and four tokens around each message."""
    sent = sum(estimate_tokens(text) + 4 for text in prompt)
    return TokenUsage(sent, estimate_tokens(completion), 1, estimated=True)


@dataclass(frozen=True, slots=True)
class Price:
    """What an LLM charges, in one currency per million tokens.

    Examples:
        >>> from sage_core import cost
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


def cost_efficiency(quality: float, money: float, *, baseline: float = 1.0) -> float:
    """Quality bought per unit of money, relative to a baseline's (paper, equation 2).

    Args:
        quality: Any score where more is better (accuracy, F1).
        money: What it cost, above 0.
        baseline: ``cost_efficiency`` of the system compared with, so that the result is a ratio.

    Raises:
        InputError: Where ``money`` or ``baseline`` is not above 0.
    """
    if not money > 0 or not baseline > 0:
        raise InputError("cost efficiency needs money and a baseline above 0")
    return quality / money / baseline
