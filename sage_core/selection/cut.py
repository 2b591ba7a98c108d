"""How many of the ranked chunks to keep: the gradient cut (paper, Algorithm 2) behind one `select`."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from sage_core._checks import check_float, check_int, check_optional_int
from sage_core.errors import InputError
from sage_core.selection.rules import (
    AUTO_MAX_TOKENS,
    AUTO_MAX_TOKENS_FOR_TWO,
    DEFAULT_MIN_K,
    DEFAULT_MIN_TOKENS,
    EMPTY_BELOW,
    RankedScores,
    Rule,
    RuleName,
    resolve_rule,
)
from sage_core.selection.scales import (
    Scale,
    check_probabilities,
    check_scale,
    rank_order,
    to_ratio_scale,
    usable_scores,
)

logger = logging.getLogger(__name__)

EmptyBelow = float | Literal["auto"] | None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which candidates were kept.

    Examples:
        >>> from sage_core import select
        >>> kept = select([0.1, 0.9, 0.8], min_k=1, rule="gradient")
        >>> kept.indices, kept.cut, kept.candidates
        ((1, 2), 2, 3)

    Attributes:
        indices: Positions in the caller's list, best first.
        scores: The scores at those positions as the scorer gave them; None if it gave none.
        candidates: Number of candidates there were.
        reason: Human-readable: where the cut fell and why.
        min_k: Number of candidates that was kept in any case.
        best_probability: Of the best candidate, 0..1; None if the scores are no probabilities (nor logits).
    """

    indices: tuple[int, ...]
    scores: tuple[float | None, ...]
    candidates: int
    reason: str
    min_k: int = field(default=0, compare=False)
    best_probability: float | None = None

    @property
    def low_confidence(self) -> bool:
        """Whether the candidates hardly bear on the question: an opinion, for the application to act on."""
        return self.best_probability is not None and self.best_probability < EMPTY_BELOW

    @property
    def cut(self) -> int:
        """Number of candidates kept."""
        return len(self.indices)

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form (infinite scores become None)."""
        scores = [s if s is not None and math.isfinite(s) else None for s in self.scores]
        return {
            "indices": list(self.indices),
            "scores": scores,
            "cut": self.cut,
            "candidates": self.candidates,
            "reason": self.reason,
            "best_probability": self.best_probability,
            "low_confidence": self.low_confidence,
        }


def select(
    scores: Sequence[float | None],
    *,
    scale: Scale = "probability",
    rule: Rule | RuleName = "auto",
    min_k: int | None = None,
    gradient: float | None = None,
    max_k: int | None = None,
    tokens: Sequence[int] | None = None,
    min_context_tokens: int | None = None,
    empty_below: EmptyBelow = None,
    max_context_tokens: int | None = None,
) -> Selection:
    """Keep the best candidates up to the point where ``rule`` cuts (paper, section V).

    The result does not depend on the order of the input, but for ties, which keep their order. On
    ``logit`` it does not change when a constant is added to all scores, on ``cosine`` not under any
    increasing affine map, on ``unbounded`` not under multiplication by a positive constant.

    Args:
        scores: One per candidate, in any order: numbers and None, or a NumPy array. None, NaN and -inf rank
            last and never extend the cut.
        scale: What the numbers are; see `to_ratio_scale`.
        rule: ``"auto"``, ``"gradient"`` (the paper's), or any `Rule`, such as those of
            `sage_core.selection.rules`; see `resolve_rule`.
        min_k: Least number to keep, whatever the rule says; None for the rule's own, see `effective_min_k`.
            With 0 a rule such as `Threshold` may keep none: "nothing relevant".
        gradient: Share of its predecessor that a score must exceed, 0..1. Giving it asks for the gradient
            rule, where None means 0.3.
        max_k: Most to keep, whatever the rule says; None for no limit.
        tokens: Length of each candidate, which the floor in tokens needs. Without them ``"auto"`` keeps at
            least 7, as ``"gradient"`` does.
        min_context_tokens: Least tokens to keep, in whole candidates: the best ones that together reach it.
            None: for ``"auto"`` where no ``min_k`` is given as many as come nearest to 250 tokens, else none.
        empty_below: Keep none if the best is less probable than this: "nothing relevant". None: some of any
            candidates is kept. ``"auto"`` is `EMPTY_BELOW`. Overrules ``min_k``. Holds for probabilities and
            logits; other scales say nothing of relevance.
        max_context_tokens: Most tokens to keep, in whole candidates and at least one, whatever else is asked
            for; needs ``tokens``. None: ``"auto"`` and ``"gradient"`` add nothing to their floor that would
            pass 1,000 tokens, or 1,600 with two candidates.

    Returns:
        The selection; empty for no candidates, or by ``empty_below``.

    Raises:
        InputError: For scores that are no numbers, for numbers outside 0..1 said to be probabilities, and
            arguments out of range.
    """
    check_scale(scale)
    check_floor(min_context_tokens, empty_below)
    check_optional_int("max_context_tokens", max_context_tokens, minimum=1)
    name, rule = rule, resolve_rule(rule, scale, gradient)
    least = effective_min_k(min_k, max_k, rule)
    known = usable_scores(scores)
    if scale == "probability":
        check_probabilities(known, named=False)
    total = len(known)
    if not total:
        return Selection((), (), 0, "no candidates")
    # Stable on ties, so that the same list gives the same chunks in every process.
    order = rank_order(known)
    raw = tuple(value for i in order if (value := known[i]) is not None)
    best = _best_probability(raw, scale)
    limit = EMPTY_BELOW if isinstance(empty_below, str) else empty_below or 0.0
    if best is not None and best < limit:
        reason = f"nothing relevant: the best has a probability of {best:.3f} (empty_below={limit:g})"
        logger.info("%s; empty_below=None always keeps some of the %d candidates", reason, total)
        return Selection((), (), total, reason, best_probability=best)
    floor = token_floor(name, min_k, gradient, min_context_tokens)
    counts = _token_counts(tokens, order)
    if counts and floor:
        reached = _about(counts, floor, exactly=min_context_tokens is not None)
        # Both floors hold where both are given: whichever keeps more.
        least = reached if min_k is None else max(reached, min_k)
        least = least if max_k is None else min(least, max_k)
    else:
        floor = 0
        # A floor of no tokens is none, not that of a list whose tokens are not known.
        least = min(least, 1) if counts and min_context_tokens == 0 and min_k is None else least
    keep, reason = rule.cut(RankedScores(raw, tuple(to_ratio_scale(raw, scale)), scale), least)
    # A ceiling of the rules by name only: a rule object has said itself how much it wants.
    if isinstance(name, str) and counts and max_context_tokens is None:
        within, most = _within(counts)
        if within < keep:
            keep, reason = within, f"{within + 1} would take more than {most:,} tokens"
    cut = _bounded(keep, total, least, max_k)
    reason = _explain(reason, keep, cut, total, least, max_k, floor)
    # Last, above every floor: prompts have a limit, and what exceeds it is lost anyway.
    if max_context_tokens is not None and counts:
        within = fitting(counts, max_context_tokens)
        if within < cut:
            reason = f"{within + 1} would take more than max_context_tokens={max_context_tokens:,}"
            cut, least = within, min(least, within)
    indices = tuple(order[:cut])
    return Selection(indices, tuple(known[i] for i in indices), total, reason, min(least, total), best)


def _best_probability(raw: Sequence[float], scale: Scale) -> float | None:
    """The probability of the first of some scores, best first; None if they are none."""
    if not raw or scale not in ("probability", "logit"):
        return None
    # Of a logit the sigmoid, by tanh: exp(-x) would overflow below -709.
    return min(max(raw[0], 0.0), 1.0) if scale == "probability" else 0.5 * (1 + math.tanh(0.5 * raw[0]))


def _token_counts(tokens: Sequence[int] | None, order: Sequence[int]) -> list[int]:
    """The lengths of the candidates from best to worst; empty where they are not given."""
    if tokens is None:
        return []
    if isinstance(tokens, str) or not hasattr(tokens, "__len__") or not hasattr(tokens, "__getitem__"):
        raise InputError(f"tokens are the lengths of the candidates, one number each, not {tokens!r}")
    if len(tokens) != len(order):
        raise InputError(f"{len(tokens)} token counts for {len(order)} scores: one per candidate")
    return [check_int("a length in tokens", tokens[i], minimum=0) for i in order]


def _about(tokens: Sequence[int], floor: int, *, exactly: bool) -> int:
    """How many of the first have about ``floor`` tokens together, at least one; all if they have fewer.

    A floor that the user set is reached; the default one is a size to come near to.
    """
    totals = list(accumulate(tokens))
    reached = next((count for count, total in enumerate(totals, start=1) if total >= floor), len(totals))
    nearer = reached > 1 and totals[reached - 1] - floor > floor - totals[reached - 2]
    return reached - 1 if nearer and not exactly else reached


def fitting(tokens: Sequence[int], most: int) -> int:
    """How many of the first have at most so many tokens together, at least one."""
    # Totals only grow, so counting those that fit gives the length of the prefix.
    return max(sum(total <= most for total in accumulate(tokens)), 1)


def _within(tokens: Sequence[int]) -> tuple[int, int]:
    """How many of the first `AUTO_MAX_TOKENS` leave room for, at least one, and the limit that ends them."""
    totals = list(accumulate(tokens))
    fit = sum(total <= AUTO_MAX_TOKENS for total in totals)
    if fit > 1 or len(totals) < 2:
        return max(fit, 1), AUTO_MAX_TOKENS
    return (2, AUTO_MAX_TOKENS) if totals[1] <= AUTO_MAX_TOKENS_FOR_TWO else (1, AUTO_MAX_TOKENS_FOR_TWO)


def _explain(reason: str, keep: int, cut: int, total: int, min_k: int, max_k: int | None, floor: int) -> str:
    """The rule's reason, or the bound that overruled it."""
    if floor and keep < cut:
        return f"min_context_tokens={floor} takes {cut}, though the rule would have kept {keep}"
    if total <= min_k and cut == total and not floor:
        return f"all candidates, as there are no more than min_k={min_k}"
    if max_k is not None and keep > max_k:
        return f"max_k={max_k} reached before a cliff"
    if keep < cut:
        return f"min_k={min_k} kept, though the rule would have kept {keep}"
    return reason


def _bounded(keep: int, total: int, min_k: int, max_k: int | None) -> int:
    """``keep`` forced into ``min_k..max_k`` and ``0..total``."""
    keep = max(keep, min_k)
    if max_k is not None:
        keep = min(keep, max_k)
    return min(keep, total)


def effective_min_k(min_k: int | None, max_k: int | None = None, rule: Rule | RuleName = "auto") -> int:
    """The least number to keep: ``min_k`` where it is given, else the rule's own, lowered to ``max_k``.

    A rule's own is 7 for those that look for a cliff (``"auto"``, ``"gradient"``) and for custom ones, and 1
    for those that name the number themselves, such as `sage_core.selection.rules.FixedK`.

    Raises:
        InputError: Unless 0 <= min_k <= max_k.
    """
    check_bounds(min_k, max_k)
    if min_k is not None:
        return min_k
    least = DEFAULT_MIN_K if isinstance(rule, str) else int(getattr(rule, "default_min_k", DEFAULT_MIN_K))
    return least if max_k is None else min(least, max_k)


def token_floor(
    rule: Rule | RuleName, min_k: int | None, gradient: float | None, min_context_tokens: int | None
) -> int:
    """Least tokens to keep: ``min_context_tokens``, else 250 for ``"auto"`` without a number of chunks."""
    if min_context_tokens is not None:
        return min_context_tokens
    return DEFAULT_MIN_TOKENS if rule == "auto" and gradient is None and min_k is None else 0


def check_floor(min_context_tokens: int | None, empty_below: EmptyBelow) -> None:
    """Raise InputError for a negative number of tokens, or what is no probability."""
    check_optional_int("min_context_tokens", min_context_tokens, minimum=0)
    if isinstance(empty_below, str):
        if empty_below != "auto":
            raise InputError(f"empty_below is 'auto', a probability or None, not {empty_below!r}")
    elif empty_below is not None:
        check_float("empty_below", empty_below, minimum=0, maximum=1)


def check_bounds(min_k: int | None, max_k: int | None) -> None:
    """Raise InputError unless 0 <= min_k <= max_k and 1 <= max_k; None of either is fine."""
    most = check_optional_int("max_k", max_k, minimum=1)
    if min_k is None:
        return
    least = check_int("min_k", min_k, minimum=0)
    if most is not None and most < least:
        raise InputError(f"max_k must be at least min_k ({least}), not {most}: lower min_k too")
