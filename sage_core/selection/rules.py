"""Rules that decide how many of the ranked scores to keep: the paper's gradient, and others.

Each is a pure function of the scores, best first. Those that look at shares (gradient, relative) read
the ratio scale; `Threshold` reads raw scores, in the scorer's own unit.

All but `Gradient` name the number themselves, so that ``min_k`` is 1 unless it is given; `Earliest`
takes over what its rules have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, ClassVar, Literal, Protocol, get_args

from sage_core._checks import check_float, check_int
from sage_core.errors import InputError
from sage_core.selection.scales import Scale

RuleName = Literal["auto", "gradient"]

PAPER_GRADIENT = 0.3
"""The paper's g."""

DEFAULT_MIN_K = 7
"""Least number to keep by rules that look for a cliff, where nothing is said of tokens (paper: min_k)."""

DEFAULT_MIN_TOKENS = 250
"""The floor of ``rule="auto"``: as many candidates as come nearest to so many tokens."""


EMPTY_BELOW = 0.02
"""Below this probability of the best candidate a result has `low_confidence`."""


@dataclass(frozen=True, slots=True)
class RankedScores:
    """Usable scores of one candidate list, best first. What a `Rule` looks at.

    Examples:
        >>> Gradient().cut(RankedScores(raw=(2.0, -3.0), ratio=(1.0, 0.0067)), min_k=1)[0]
        1

    Attributes:
        raw: Finite scores (or +inf) as the scorer gave them, descending.
        ratio: The same on a positive ratio scale (`to_ratio_scale`), descending.
        scale: What the raw scores are, for reasons in words; None if that is not known.
    """

    raw: tuple[float, ...]
    ratio: tuple[float, ...]
    scale: Scale | None = None


class Rule(Protocol):
    """Decides how many of the best scores to keep. A pure function of the scores.

    A rule that names the number itself may also have ``default_min_k = 1``: what ``min_k`` is where nobody
    gave one. Without it that is `DEFAULT_MIN_K`.

    Examples:
        >>> class Half:
        ...     def cut(self, scores: RankedScores, min_k: int) -> tuple[int, str]:
        ...         return len(scores.raw) // 2, "half of them"
        >>> from sage_core import select
        >>> select([0.9, 0.8, 0.7, 0.6], rule=Half(), min_k=1).indices
        (0, 1)
    """

    def cut(self, scores: RankedScores, min_k: int) -> tuple[int, str]:
        """How many to keep (the caller bounds it by ``min_k`` and ``max_k``), and a readable reason."""
        ...


@dataclass(frozen=True, slots=True)
class Gradient:
    """The paper's rule (section V, Algorithm 2) as a `Rule`: keep while a score exceeds g of the last.

    Examples:
        >>> from sage_core import select
        >>> select([0.9, 0.8, 0.1], rule=Gradient(0.3), min_k=1).indices
        (0, 1)
    """

    gradient: float = PAPER_GRADIENT

    def __post_init__(self) -> None:
        check_gradient(self.gradient)

    def cut(self, scores: RankedScores, min_k: int) -> tuple[int, str]:
        """As many as stand before the first cliff."""
        return gradient_stop(scores.ratio, min_k, self.gradient)


def gradient_stop(ratio: Sequence[float], min_k: int, gradient: float) -> tuple[int, str]:
    """The gradient rule on descending numbers: how many to keep, and why.

    The first cliff counts, also one above ``min_k``: the caller then keeps ``min_k``. So a floor that is
    raised by one adds at most one. (Algorithm 2 as printed looks for a cliff below ``min_k`` only, and keeps
    the whole tail where the one cliff stands above it.)
    """
    # From rank 1, not from min_k: see the docstring. With min_k=0 the best may fail too.
    for i in range(min(min_k, 1), len(ratio)):
        score = ratio[i]
        previous = ratio[i - 1] if i else score
        if score <= 0:
            return i, f"nothing from rank {i + 1} on is evidence (score 0 or below)"
        # Equality covers inf, where inf > g * inf is false.
        if not (score > gradient * previous or score == previous):
            return i, f"rank {i + 1} falls to {score / previous:.2f} of rank {i} (limit {gradient:g})"
    return len(ratio), "no cliff: the scores fall smoothly to the end"


@dataclass(frozen=True, slots=True)
class FixedK:
    """Keep the best ``k``, whatever their scores: plain top-k.

    Examples:
        >>> from sage_core import select
        >>> select([0.9, 0.8, 0.7], rule=FixedK(2)).indices
        (0, 1)
    """

    k: int
    default_min_k: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_int("k", self.k, minimum=1)

    def cut(self, scores: RankedScores, min_k: int) -> tuple[int, str]:
        """``k`` of them."""
        return self.k, f"the {self.k} best"


@dataclass(frozen=True, slots=True)
class Threshold:
    """Keep scores of at least ``value``, in the scorer's own unit.

    Examples:
        >>> from sage_core import select
        >>> select([0.9, 0.8, 0.7], rule=Threshold(0.75)).indices
        (0, 1)
    """

    value: float
    default_min_k: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_float("value", self.value)

    def cut(self, scores: RankedScores, min_k: int) -> tuple[int, str]:
        """As many as reach ``value``."""
        keep = sum(1 for s in scores.raw if s >= self.value)
        return keep, f"{keep} scores reach {self.value:g}"


@dataclass(frozen=True, slots=True)
class RelativeToTop:
    """Keep scores of at least ``share`` times the best (on the ratio scale).

    Examples:
        >>> from sage_core import select
        >>> select([0.9, 0.8, 0.7], rule=RelativeToTop(0.8)).indices
        (0, 1)
    """

    share: float = 0.8
    default_min_k: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_float("share", self.share, minimum=0, maximum=1)

    def cut(self, scores: RankedScores, min_k: int) -> tuple[int, str]:
        """As many as reach ``share`` of the best."""
        floor = self.share * scores.ratio[0] if scores.ratio else 0.0
        # A score of 0 is no evidence, also where the best is 0 and the floor with it.
        keep = sum(1 for s in scores.ratio if s >= floor and s > 0)
        if keep == len(scores.ratio):
            return keep, f"all {keep} scores reach {self.share:g} of the best"
        fallen = scores.ratio[keep] / scores.ratio[0] if scores.ratio[0] > 0 else 0.0
        least = {"cosine": "of the way from the last to the best", "logit": "of the best's odds"}.get(
            scores.scale or "", "of the best"
        )
        return keep, f"rank {keep + 1} falls to {fallen:.2f} {least} (limit {self.share:g})"


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first of several cuts: whichever rule keeps least.

    Examples:
        >>> from sage_core import select
        >>> select([0.9, 0.8, 0.7], rule=Earliest((FixedK(2), Threshold(0.1)))).indices
        (0, 1)
    """

    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        if not self.rules:
            raise InputError("Earliest needs at least one rule")

    @property
    def default_min_k(self) -> int:
        """The largest of its rules' own."""
        return max(int(getattr(rule, "default_min_k", DEFAULT_MIN_K)) for rule in self.rules)

    def cut(self, scores: RankedScores, min_k: int) -> tuple[int, str]:
        """The least that one of the rules keeps."""
        return min((rule.cut(scores, min_k) for rule in self.rules), key=lambda cut: cut[0])


AUTO_MAX_K = 15
"""Most that ``rule="auto"`` keeps above ``min_k``."""

AUTO_MAX_TOKENS = 1_000
"""Most tokens that ``rule="auto"`` keeps, in whole candidates and at least one: 15 of our own chunks."""

AUTO_MAX_TOKENS_FOR_TWO = 1_600
"""Most tokens of two candidates by ``rule="auto"``: one large node alone often misses the evidence."""

# Tuned on the development sets; "unbounded" has no zero to be a share of.
_SHARES: dict[Scale, float] = {"probability": 0.07, "cosine": 0.4, "logit": 0.1}


def default_rule(scale: Scale) -> Rule:
    """What ``rule="auto"`` means for scores of a scale: whichever of three ends the list first.

    - The paper's cliff: a score falls to 0.3 of the one before it.
    - A slope: a score falls to a share of the best. 0.07 of a probability; 0.1 of the best's odds for logits,
      that is 2.3 below the best; 0.4 of the way from the last candidate's cosine to the best's. Unbounded
      scores have no such share, because nothing is known of their zero.
    - `AUTO_MAX_K` candidates, or `AUTO_MAX_TOKENS` tokens where `select` knows them: where nothing stands
      out, more of them bring little, and nodes of 1,000 tokens flood a prompt. Two may have
      `AUTO_MAX_TOKENS_FOR_TWO`.

    Measured over LlamaIndex's stock index on five development sets (444 questions, the reranker fitted
    without each): shares of 0.12, 0.1, 0.08 and 0.06 send 88.7, 88.9, 89.3 and 90.0% of the evidence in 537,
    559, 594 and 642 tokens.

    Args:
        scale: What the scores are.
    """
    share = _SHARES.get(scale)
    slope = () if share is None else (RelativeToTop(share),)
    return Earliest((Gradient(), *slope, FixedK(AUTO_MAX_K)))


def resolve_rule(rule: Rule | RuleName, scale: Scale, gradient: float | None = None) -> Rule:
    """The rule that a name stands for.

    Args:
        rule: A rule, returned as it is; ``"gradient"``, the paper's; or ``"auto"``: what measured best on
            the development sets for scores of this scale (`sage_core.selection.rules.default_rule`).
        scale: What the scores are.
        gradient: The paper's g. Giving it asks for the gradient rule.

    Raises:
        InputError: For an unknown name, or a gradient out of range.
    """
    if gradient is not None:
        check_gradient(gradient)
    if not isinstance(rule, str):
        if isinstance(rule, type) or not callable(getattr(rule, "cut", None)):
            raise InputError(
                f"rule is 'auto', 'gradient' or a rule object of sage_core.selection.rules, not {rule!r}"
            )
        return rule
    if rule not in get_args(RuleName):
        raise InputError(
            f"unknown rule {rule!r}: 'auto', 'gradient', or an object of sage_core.selection.rules"
        )
    if rule == "gradient" or gradient is not None:
        return Gradient(PAPER_GRADIENT if gradient is None else gradient)
    return default_rule(scale)


def check_gradient(gradient: float) -> None:
    """Raise InputError unless 0 <= gradient <= 1."""
    check_float("gradient", gradient, minimum=0, maximum=1)


_BY_NAME: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (FixedK, Threshold, RelativeToTop, Gradient)
}


def rule_to_data(rule: Rule | RuleName) -> Any:
    """A rule as JSON-ready data, for `rule_from_data`; a name as it is.

    Of a rule that is not one of this module the name of its class is all that is kept.
    """
    if isinstance(rule, str):
        return rule
    if isinstance(rule, Earliest):
        return {"rule": "Earliest", "rules": [rule_to_data(part) for part in rule.rules]}
    settings: dict[str, Any] = {}
    if is_dataclass(rule) and not isinstance(rule, type):
        settings = asdict(rule)
    return {"rule": type(rule).__name__, **settings}


def rule_from_data(data: Any) -> Any:
    """A rule from what `rule_to_data` gave; rules themselves, and names, pass unchanged.

    Raises:
        InputError: For a rule that is not one of this module: it has to be passed again.
    """
    if not isinstance(data, Mapping):
        return data
    settings = dict(data)
    name = settings.pop("rule", None)
    if name == "Earliest" and isinstance(rules := settings.get("rules", ()), Sequence):
        return Earliest(tuple(rule_from_data(part) for part in rules))
    if not isinstance(name, str) or name not in _BY_NAME:
        known = ", ".join([*_BY_NAME, "Earliest"])
        raise InputError(f"the rule {name!r} is not one of {known}: pass it again, from_dict(data, rule=...)")
    try:
        return _BY_NAME[name](**settings)
    except TypeError as error:
        raise InputError(f"settings of the rule {name} that it does not have: {error}") from None
