"""What the answers took: tokens and money, by role and by question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sage_core.errors import InputError
from sage_core.llm.usage import NO_USAGE, Price, TokenUsage, cost, total_usage


@dataclass(frozen=True, slots=True)
class CostSummary:
    """Tokens and money of a run.

    Attributes:
        questions: Number of questions.
        usage: Tokens of answering, by role.
        preparation: Tokens of preparing documents (summaries), by role.
        money: Money of answering (equation 1); None without a price.
        preparation_money: Money of preparing; None without a price.
    """

    questions: int
    usage: Mapping[str, TokenUsage]
    preparation: Mapping[str, TokenUsage]
    money: float | None
    preparation_money: float | None

    @property
    def tokens(self) -> int:
        """Tokens of answering, sent and received."""
        return total_usage(self.usage.values()).total

    @property
    def tokens_per_question(self) -> float:
        """Tokens of answering one question, on average."""
        return self.tokens / self.questions

    @property
    def money_per_question(self) -> float | None:
        """Money of answering one question, on average; None without a price."""
        return None if self.money is None else self.money / self.questions

    def efficiency(self, quality: float, *, include_preparation: bool = False) -> float | None:
        """Quality by money (equation 2); None without a price or where nothing was paid.

        Args:
            quality: Any score where more is better.
            include_preparation: Count the money of preparing documents as well.
        """
        if self.money is None or self.preparation_money is None:
            return None
        money = self.money + (self.preparation_money if include_preparation else 0.0)
        return quality / money if money else None

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        return {
            "questions": self.questions,
            "usage": {role: u.to_dict() for role, u in self.usage.items()},
            "preparation": {role: u.to_dict() for role, u in self.preparation.items()},
            "tokens_per_question": self.tokens_per_question,
            "money": self.money,
            "preparation_money": self.preparation_money,
            "money_per_question": self.money_per_question,
        }


def summarise_cost(
    usages: Iterable[Mapping[str, TokenUsage]],
    price: Price | Mapping[str, Price] | None = None,
    *,
    preparation: Mapping[str, TokenUsage] | None = None,
) -> CostSummary:
    """Sum up what a run took.

    Args:
        usages: LLM tokens of each question, by role.
        price: Price of the LLM, or by role where roles have LLMs of their own; None counts tokens only.
        preparation: LLM tokens of preparing the documents, by role.

    Raises:
        InputError: Without questions, or where a role has no price.
    """
    usages = list(usages)
    if not usages:
        raise InputError("there are no answers to sum up")
    by_role: dict[str, TokenUsage] = {}
    for usage in usages:
        for role, tokens in usage.items():
            by_role[role] = by_role.get(role, NO_USAGE) + tokens
    before = dict(preparation or {})
    return CostSummary(len(usages), by_role, before, _money(by_role, price), _money(before, price))


def _money(usage: Mapping[str, TokenUsage], price: Price | Mapping[str, Price] | None) -> float | None:
    if price is None:
        return None
    if isinstance(price, Price):
        return cost(total_usage(usage.values()), price)
    if missing := sorted(role for role in usage if role not in price):
        raise InputError(f"no price for {', '.join(missing)}: there are prices for {', '.join(price)}")
    return sum(cost(tokens, price[role]) for role, tokens in usage.items())
