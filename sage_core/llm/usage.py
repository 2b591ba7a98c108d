"""Tokens used."""

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


def estimate_usage(prompt: Iterable[str], completion: str, calls: int = 1) -> TokenUsage:
    """An estimate, marked as such: `estimate_tokens`, and four tokens around each message."""
    sent = sum(estimate_tokens(text) + 4 for text in prompt)
    return TokenUsage(sent, estimate_tokens(completion), calls, estimated=True)
