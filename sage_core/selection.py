"""How many of the ranked chunks to keep: the gradient cut (paper, Algorithm 2) behind one `select`.

Scores carry their scale, because a rule on ratios means something only where 0 is "no evidence" and a
quotient is a quotient. `to_ratio_scale` is the documented map of each scale to such numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from sage_core.errors import InputError
from sage_core.shown import Shown

Scale = Literal["probability", "logit", "cosine", "unbounded"]
SCALES: tuple[Scale, ...] = get_args(Scale)

RuleName = Literal["auto", "gradient"]

PAPER_GRADIENT = 0.3
"""The paper's g."""

# Cosines of one candidate list that differ by less than this are one score with rounding noise.
FLAT_SPREAD = 1e-6


@dataclass(frozen=True, slots=True)
class RankedScores:
    """Usable scores of one candidate list, best first. What a `Rule` looks at.

    Attributes:
        raw: Finite scores (or +inf) as the scorer gave them, descending.
        ratio: The same on a positive ratio scale (`to_ratio_scale`), descending.
    """

    raw: tuple[float, ...]
    ratio: tuple[float, ...]


class Rule(Protocol):
    """Decides how many of the best scores to keep. A pure function of the scores."""

    def cut(self, scores: RankedScores, min_k: int) -> tuple[int, str]:
        """How many to keep (the caller bounds it by ``min_k`` and ``max_k``), and why, for people."""
        ...


@dataclass(frozen=True, slots=True)
class Selection(Shown):
    """Which candidates were kept.

    Attributes:
        indices: Positions in the caller's list, best first.
        scores: The scores at those positions as the scorer gave them; None where it gave none.
        cut: Number of candidates kept; equals ``len(indices)``.
        candidates: Number of candidates there were.
        reason: Where the cut fell and why, for people.
    """

    indices: tuple[int, ...]
    scores: tuple[float | None, ...]
    cut: int
    candidates: int
    reason: str

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form (infinite scores become None)."""
        scores = [s if s is not None and math.isfinite(s) else None for s in self.scores]
        return {
            "indices": list(self.indices),
            "scores": scores,
            "cut": self.cut,
            "candidates": self.candidates,
            "reason": self.reason,
        }


def _usable(score: float | None) -> float | None:
    """The score as a Python float; None for None, NaN and -inf, which are no evidence at all."""
    if score is None:
        return None
    value = float(score)
    return None if math.isnan(value) or value == -math.inf else value


def rank_order(scores: Sequence[float | None]) -> list[int]:
    """Positions of ``scores`` from best to worst: stable on ties, None, NaN and -inf last."""
    keys = [_usable(s) for s in scores]
    return sorted(
        range(len(keys)), key=lambda i: -math.inf if (key := keys[i]) is None else key, reverse=True
    )


def to_ratio_scale(scores: Sequence[float], scale: Scale) -> list[float]:
    """Map scores to numbers >= 0 whose quotients mean something.

    - ``probability``: itself, clipped to 0..1.
    - ``logit``: odds relative to the best, ``exp(s - max)``. Adding a constant to every logit changes
      nothing, and a ratio of g is a drop of ``-ln(g)`` logits. A sigmoid would flatten the top instead.
    - ``cosine``: min-max within the list, because the cosines of one embedding model crowd a narrow band
      (neighbours differ by 3%) and a raw ratio never falls. A spread under `FLAT_SPREAD` gives all 1.
    - ``unbounded`` (BM25, the paper's own reranker): itself; at or below 0 there is no evidence.

    Args:
        scores: Any order; finite or +inf.
        scale: What the numbers are.

    Returns:
        As many numbers, in the same order.

    Raises:
        InputError: For an unknown scale.
    """
    if scale not in SCALES:
        raise InputError(f"unknown score scale {scale!r}: one of {', '.join(SCALES)}")
    if not scores:
        return []
    high, low = max(scores), min(scores)
    if scale == "probability":
        return [min(max(s, 0.0), 1.0) for s in scores]
    if scale == "unbounded":
        return [max(s, 0.0) for s in scores]
    if scale == "logit":
        return [1.0 if s == high else math.exp(s - high) for s in scores]
    spread = high - low
    if spread < FLAT_SPREAD:
        return [1.0] * len(scores)
    if math.isinf(spread):
        return [1.0 if s == high else 0.0 for s in scores]
    return [(s - low) / spread for s in scores]


def gradient_cut(
    scores: Sequence[float | None],
    *,
    min_k: int = 7,
    gradient: float = PAPER_GRADIENT,
    max_k: int | None = None,
) -> int:
    """How many scores to keep before they fall off a cliff (paper, section V and Algorithm 2).

    Keep the best ``min_k``; then keep each next score while it exceeds ``gradient`` times the one before it;
    stop at the first that does not. (The paper prints ``score / g`` and never updates ``score``; read that
    way nothing is ever added.) Ties are kept together while positive.

    Args:
        scores: On a positive ratio scale (see `to_ratio_scale`), in any order. A score at or below 0, None
            or NaN is no evidence: it fills up to ``min_k`` but never extends the cut.
        min_k: Least number to keep, at least 1.
        gradient: Share of its predecessor that a score must exceed, 0..1. 0 keeps every positive score.
        max_k: Most to keep; None for no limit.

    Returns:
        A number from ``min(min_k, len(scores))`` to ``min(max_k, len(scores))``; 0 for no scores.

    Raises:
        InputError: For arguments out of range.
    """
    check_bounds(min_k, max_k)
    check_gradient(gradient)
    usable = sorted((v for s in scores if (v := _usable(s)) is not None), reverse=True)
    keep, _ = _gradient_stop(usable, min_k, gradient)
    return bounded(keep, len(scores), min_k, max_k)


def _gradient_stop(ratio: Sequence[float], min_k: int, gradient: float) -> tuple[int, str]:
    """The gradient rule on descending numbers: how many to keep, and why."""
    for i in range(min_k, len(ratio)):
        previous, score = ratio[i - 1], ratio[i]
        if score <= 0:
            return i, f"nothing from rank {i + 1} on is evidence (score 0 or below)"
        # Equality covers inf, where inf > g * inf is false.
        if not (score > gradient * previous or score == previous):
            return i, f"rank {i + 1} falls to {score / previous:.2f} of rank {i} (limit {gradient:g})"
    return len(ratio), "no cliff: the scores fall smoothly to the end"


@dataclass(frozen=True, slots=True)
class Gradient:
    """The paper's rule as a `Rule`; see `gradient_cut`."""

    gradient: float = PAPER_GRADIENT

    def __post_init__(self) -> None:
        check_gradient(self.gradient)

    def cut(self, scores: RankedScores, min_k: int) -> tuple[int, str]:
        """See `Rule.cut`."""
        return _gradient_stop(scores.ratio, min_k, self.gradient)


def resolve_rule(rule: Rule | RuleName, scale: Scale, gradient: float | None = None) -> Rule:
    """The rule that a name stands for.

    Args:
        rule: A rule, returned as it is; ``"gradient"``, the paper's; or ``"auto"``: what measured best on
            the development sets for scores of this scale (`sage_core.selection_rules.default_rule`).
        scale: What the scores are.
        gradient: The paper's g. Giving it asks for the gradient rule.

    Raises:
        InputError: For an unknown name, or a gradient out of range.
    """
    if not isinstance(rule, str):
        return rule
    if rule not in get_args(RuleName):
        raise InputError(
            f"unknown rule {rule!r}: 'auto', 'gradient', or an object of sage_core.selection_rules"
        )
    if rule == "gradient" or gradient is not None:
        return Gradient(PAPER_GRADIENT if gradient is None else gradient)
    # The rules build on this module.
    from sage_core.selection_rules import default_rule

    return default_rule(scale)


def select(
    scores: Sequence[float | None],
    *,
    scale: Scale = "probability",
    rule: Rule | RuleName = "auto",
    min_k: int = 7,
    gradient: float | None = None,
    max_k: int | None = None,
) -> Selection:
    """Keep the best candidates up to the point where ``rule`` cuts (paper, section V).

    The result does not depend on the order of the input, but for ties, which keep their order. On
    ``logit`` it does not change when a constant is added to all scores, on ``cosine`` not under any
    increasing affine map, on ``unbounded`` not under multiplication by a positive constant.

    Args:
        scores: One per candidate, in any order. None, NaN and -inf rank last and never extend the cut.
        scale: What the numbers are; see `to_ratio_scale`.
        rule: ``"auto"``, ``"gradient"`` (the paper's), or any `Rule`, such as those of
            `sage_core.selection_rules`; see `resolve_rule`.
        min_k: Least number to keep, whatever the rule says.
        gradient: See `gradient_cut`. Giving it asks for the gradient rule, where None means 0.3.
        max_k: Most to keep, whatever the rule says; None for no limit.

    Returns:
        The selection; empty for no candidates.

    Raises:
        InputError: For arguments out of range.
    """
    check_bounds(min_k, max_k)
    if scale not in SCALES:
        raise InputError(f"unknown score scale {scale!r}: one of {', '.join(SCALES)}")
    rule = resolve_rule(rule, scale, gradient)
    total = len(scores)
    if not total:
        return Selection((), (), 0, 0, "no candidates")
    order = rank_order(scores)
    raw = tuple(value for i in order if (value := _usable(scores[i])) is not None)
    wanted, reason = rule.cut(RankedScores(raw, tuple(to_ratio_scale(raw, scale))), min_k)
    cut = bounded(wanted, total, min_k, max_k)
    kept = tuple(order[:cut])
    return Selection(
        kept,
        tuple(_usable(scores[i]) for i in kept),
        cut,
        total,
        _explain(reason, wanted, cut, total, min_k, max_k),
    )


def _explain(reason: str, wanted: int, cut: int, total: int, min_k: int, max_k: int | None) -> str:
    """The rule's reason, or the bound that overruled it."""
    if total <= min_k and cut == total:
        return f"all {total} candidates: no more than min_k={min_k}"
    if max_k is not None and wanted > max_k:
        return f"max_k={max_k} reached before a cliff"
    if wanted < cut:
        return f"min_k={min_k} kept, though the rule would have kept {wanted}"
    return reason


def bounded(keep: int, total: int, min_k: int, max_k: int | None) -> int:
    """``keep`` forced into ``min_k..max_k`` and ``0..total``."""
    keep = max(keep, min_k)
    if max_k is not None:
        keep = min(keep, max_k)
    return min(keep, total)


def check_bounds(min_k: int, max_k: int | None) -> None:
    """Raise InputError unless 1 <= min_k <= max_k."""
    if min_k < 1:
        raise InputError(f"min_k must be at least 1, not {min_k}")
    if max_k is not None and max_k < min_k:
        raise InputError(f"max_k must be at least min_k ({min_k}), not {max_k}: lower min_k too")


def check_gradient(gradient: float) -> None:
    """Raise InputError unless 0 <= gradient <= 1."""
    if not 0.0 <= gradient <= 1.0:
        raise InputError(f"gradient must be between 0 and 1, not {gradient}")
