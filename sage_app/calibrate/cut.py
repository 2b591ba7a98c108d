"""A cut with a promise: at most so much of the evidence is lost, on further questions like those given.

Over probabilities four families of cuts are tried, each of one parameter that keeps more as it grows: a
number of candidates, a number of tokens, a threshold on the score, a share of the best score. Over other
scores it is the number of candidates. Without ``confidence`` the promise is about the mean over further
questions *and* over the questions that happen to be given (conformal risk control: Angelopoulos, Bates,
Fisch, Lei and Schuster, 2022). With it, the mean loss of the cut itself stays within the limit with that
probability (learn then test: Angelopoulos, Bates, Candes, Jordan and Lei, 2021).

Both need questions that are independent draws of those to come. Many questions about one passage are not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sage_core._checks import check_float, check_int
from sage_core.errors import InputError
from sage_core.selection.config import SelectionConfig
from sage_core.selection.rules import FixedK, RelativeToTop, Threshold
from sage_core.selection.scales import Scale, check_scale, rank_order, to_ratio_scale, usable_scores

Family = Literal["fixed k", "tokens", "threshold", "share of the best"]
FAMILIES: tuple[Family, ...] = ("fixed k", "tokens", "threshold", "share of the best")

# Parameters are fixed beforehand, because the tests in sequence need that; each list keeps more and more.
_TOKENS = tuple(sorted({round(20 * 1.08**i) for i in range(110)}))
_THRESHOLDS = (*(float(f"{1 / (1 + math.exp(-4 + i / 10)):.3g}") for i in range(120)), 0.0)
_SHARES = (*(float(f"{0.92**i:.3g}") for i in range(120)), 0.0)
# The share of the questions that choose the family, where they cannot calibrate as well.
_CHOOSING = 3


@dataclass(frozen=True, slots=True)
class RankedQuestion:
    """The ranked candidates of a question, and how much of its evidence is lost by ending after each.

    Examples:
        >>> RankedQuestion.of([0.2, 0.9], [50, 40], [{"b"}, {"a"}], {"a", "b"}).losses
        (1.0, 0.5, 0.0)

    Attributes:
        scores: Best first; None if the reranker gave none. Those come last.
        tokens: Length of each candidate.
        losses: Share of the evidence that is lost where none, one, two, ... are kept: one more than there are
            candidates, never rising, within 0..1.

    Raises:
        InputError: Where they do not fit together.
    """

    scores: tuple[float | None, ...]
    tokens: tuple[int, ...]
    losses: tuple[float, ...]

    def __post_init__(self) -> None:
        known = usable_scores(self.scores)
        if rank_order(known) != list(range(len(known))):
            raise InputError("scores are best first, and those that are missing last")
        if len(self.tokens) != len(known) or len(self.losses) != len(known) + 1:
            raise InputError(
                f"{len(self.tokens)} tokens and {len(self.losses)} losses for {len(known)} scores: one token "
                "count each, and one loss more"
            )
        for count in self.tokens:
            check_int("tokens", count, minimum=0)
        for value in self.losses:
            check_float("losses", value, minimum=0, maximum=1)
        if any(b > a + 1e-9 for a, b in zip(self.losses, self.losses[1:], strict=False)):
            raise InputError("losses fall, or stay, as more is kept")

    @classmethod
    def of(
        cls,
        scores: Sequence[float | None],
        tokens: Sequence[int],
        holds: Sequence[Collection[Hashable]],
        evidence: Collection[Hashable],
    ) -> RankedQuestion:
        """A question whose candidates hold pieces of evidence.

        Args:
            scores: One per candidate, in any order.
            tokens: Length of each.
            holds: Which pieces each holds.
            evidence: All that the question needs, also what no candidate holds.

        Raises:
            InputError: Where there is no evidence, or the lengths differ.
        """
        needed = set(evidence)
        if not needed:
            raise InputError("evidence is empty: leave out questions that nothing answers")
        if not len(scores) == len(tokens) == len(holds):
            raise InputError(f"{len(scores)} scores, {len(tokens)} tokens and {len(holds)} holds: one each")
        known = usable_scores(scores)
        order = rank_order(known)
        missing, losses = set(needed), [1.0]
        for i in order:
            missing -= set(holds[i])
            losses.append(len(missing) / len(needed))
        return cls(tuple(known[i] for i in order), tuple(tokens[i] for i in order), tuple(losses))


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A cut that keeps its promise, and what that takes.

    Attributes:
        selection: The cut, for settings and adapters.
        family: Which kind of cut it is.
        parameter: Its parameter.
        limit: Most of the evidence that may be lost, on average.
        confidence: Probability with which the promise holds; None for on average.
        questions: Number of questions used.
        loss: Mean share of the evidence lost on them.
        tokens: Mean tokens kept of them.
    """

    selection: SelectionConfig
    family: Family
    parameter: float
    limit: float
    confidence: float | None
    questions: int
    loss: float
    tokens: float

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "family": self.family,
            "parameter": self.parameter,
            "loss_limit": self.limit,
            "confidence": self.confidence,
            "questions": self.questions,
            "loss": round(self.loss, 4),
            "tokens": round(self.tokens, 1),
        }


@dataclass(frozen=True, slots=True)
class _Curve:
    """A family on some questions: arrays of shape ``(questions, parameters)``, keeping more and more."""

    family: Family
    parameters: Sequence[float]
    losses: NDArray[np.float64]
    tokens: NDArray[np.float64]

    def rows(self, index: NDArray[np.intp]) -> _Curve:
        return _Curve(self.family, self.parameters, self.losses[index], self.tokens[index])

    def first(self, limit: float) -> int | None:
        """The smallest parameter whose mean loss is at most ``limit``."""
        within = np.flatnonzero(self.losses.mean(axis=0) <= limit + 1e-12)
        return int(within[0]) if len(within) else None

    def cost(self, at: int) -> float:
        return float(self.tokens[:, at].mean())


def calibrate(
    questions: Sequence[RankedQuestion],
    *,
    loss: float = 0.1,
    confidence: float | None = None,
    scale: Scale = "probability",
    seed: int = 0,
) -> Calibrated:
    """Find the cut with the fewest tokens that loses at most ``loss`` of the evidence.

    Examples:
        >>> question = RankedQuestion((0.9, 0.2, 0.1), (40, 50, 60), (1.0, 0.0, 0.0, 0.0))
        >>> found = calibrate([question] * 60)
        >>> found.tokens, found.loss
        (40.0, 0.0)

    Args:
        questions: Questions with their ranked candidates; the order does not matter but for the draw that
            chooses the family.
        loss: Most of the evidence that may be lost, on average over questions. What the candidates do not
            hold counts as lost.
        confidence: Promise it with this probability; None for on average over sets of questions, which is
            cheaper.
        scale: What the scores are. Only over probabilities are other families than the fixed k tried.
        seed: Of the draw that chooses the family, where ``confidence`` is None.

    Raises:
        InputError: Where no cut keeps the promise: too few questions, which the message counts, or candidates
            that hold too little of the evidence.
    """
    check_float("loss", loss, minimum=0.001, maximum=0.999)
    if confidence is not None:
        check_float("confidence", confidence, minimum=0.5, maximum=0.9999)
    check_int("seed", seed, minimum=0)
    check_scale(scale)
    n = len(questions)
    if not n:
        raise InputError("no questions: write some with the evidence that answers them")
    curves = _curves(questions, scale)
    if confidence is None and len(curves) > 1:
        # The family is chosen by questions that do not calibrate: the mean of a loss has no union bound that
        # is worth having. A third is enough to tell families apart, and leaves the correction small.
        order = np.random.default_rng(seed).permutation(n)
        choosing, calibrating = order[: n // _CHOOSING], order[n // _CHOOSING :]
    else:
        # Tests of all families hold together at a level that is divided by their number, so all questions
        # calibrate and the cheapest passing cut may be chosen freely.
        choosing = calibrating = np.arange(n)
    level = None if confidence is None else (1 - confidence) / len(curves)
    if confidence is None:
        bound = _crc_limit(loss, len(calibrating))

        def cost(curve: _Curve) -> float:
            part = curve.rows(choosing)
            at = part.first(max(bound, 0)) if len(choosing) else None
            return math.inf if at is None else part.cost(at)

        chosen = min(curves, key=cost)
        cuts = [(chosen, chosen.rows(calibrating).first(bound))]
    else:
        cuts = [(curve, _tested(curve, n, loss, level)) for curve in curves]
    passing = [(curve, at) for curve, at in cuts if at is not None]
    if not passing:
        raise InputError(_refusal(curves, n, loss, level))
    curve, at = min(passing, key=lambda pair: pair[0].cost(pair[1]))
    parameter = curve.parameters[at]
    return Calibrated(
        _selection(curve.family, parameter),
        curve.family,
        parameter,
        loss,
        confidence,
        n,
        float(curve.losses[:, at].mean()),
        curve.cost(at),
    )


def _curves(questions: Sequence[RankedQuestion], scale: Scale) -> list[_Curve]:
    """Every family on every question, as `SelectionConfig.select` would cut with each parameter."""
    longest = max(len(q.scores) for q in questions)
    # The longest list ends the numbers: beyond it all are kept, and nothing more is lost or tested.
    parameters: dict[Family, Sequence[float]] = {
        "fixed k": range(1, max(longest, 1) + 1),
        "tokens": _TOKENS,
        "threshold": _THRESHOLDS,
        "share of the best": _SHARES,
    }
    cuts: dict[Family, list[NDArray[np.intp]]] = {family: [] for family in FAMILIES}
    for q in questions:
        raw = np.array([s for s in q.scores if s is not None], dtype=np.float64)
        ratio = np.array(to_ratio_scale(raw.tolist(), scale), dtype=np.float64)
        total = np.cumsum(q.tokens)
        best = ratio[0] if len(ratio) else 0.0
        numbers = {
            "fixed k": np.asarray(parameters["fixed k"]),
            "tokens": np.searchsorted(total, _TOKENS, side="left") + 1,
            "threshold": np.searchsorted(-raw, -np.asarray(_THRESHOLDS), side="right"),
            "share of the best": np.minimum(
                np.searchsorted(-ratio, -np.asarray(_SHARES) * best, side="right"), np.sum(ratio > 0)
            ),
        }
        for family in FAMILIES:
            cuts[family].append(np.clip(numbers[family], min(1, len(q.scores)), len(q.scores)))
    losses = [np.asarray(q.losses) for q in questions]
    tokens = [np.concatenate([[0], np.cumsum(q.tokens)]) for q in questions]
    return [
        _Curve(
            family,
            parameters[family],
            np.stack([row[cut] for row, cut in zip(losses, cuts[family], strict=True)]),
            np.stack([row[cut] for row, cut in zip(tokens, cuts[family], strict=True)]).astype(np.float64),
        )
        for family in FAMILIES
        # A score that is no probability says little beyond the order: over three sets and three kinds of such
        # scores, cuts by it took as many tokens as a fixed number, and the choice costs questions.
        if family == "fixed k" or scale == "probability"
    ]


def _selection(family: Family, parameter: float) -> SelectionConfig:
    if family == "fixed k":
        return SelectionConfig(rule=FixedK(int(parameter)))
    if family == "tokens":  # the floor is the cut, above a rule that asks for as little as there is
        return SelectionConfig(rule=FixedK(1), min_context_tokens=int(parameter))
    return SelectionConfig(rule=Threshold(parameter) if family == "threshold" else RelativeToTop(parameter))


def _crc_limit(loss: float, n: int) -> float:
    """Most mean loss of ``n`` questions for which n/(n+1) of it and 1/(n+1) are within ``loss``.

    A refusal counts as no loss: it is the largest parameter, which the theorem needs to keep the limit.
    """
    return loss - (1 - loss) / n


def _tested(curve: _Curve, n: int, loss: float, level: float | None) -> int | None:
    """The smallest parameter that fixed-sequence testing reaches, from the largest down."""
    passed = None
    for at, mean in reversed(list(enumerate(curve.losses.mean(axis=0)))):
        if level is None or p_value(float(mean), n, loss) > level:
            break
        passed = at
    return passed


def p_value(mean: float, n: int, limit: float) -> float:
    """Hoeffding-Bentkus p-value of "the expected loss is above ``limit``", for ``n`` losses within 0..1."""
    if mean >= limit:
        return 1.0
    entropy = (1 - mean) * math.log((1 - mean) / (1 - limit))
    if mean > 0:
        entropy += mean * math.log(mean / limit)
    # Rounding must not turn 3.0000000001 losses into 4.
    most = math.ceil(n * mean - 1e-9)
    log_choose = math.lgamma(n + 1)
    tail = sum(
        math.exp(
            log_choose
            - math.lgamma(i + 1)
            - math.lgamma(n - i + 1)
            + i * math.log(limit)
            + (n - i) * math.log1p(-limit)
        )
        for i in range(most + 1)
    )
    return min(math.exp(-n * entropy), math.e * tail, 1.0)


def _passes(mean: float, n: int, loss: float, level: float | None) -> bool:
    """Whether ``n`` questions of this mean loss keep the promise."""
    if level is None:
        return mean <= _crc_limit(loss, n - n // _CHOOSING) + 1e-12
    return p_value(mean, n, loss) <= level


def _refusal(curves: Sequence[_Curve], n: int, loss: float, level: float | None) -> str:
    """Why no cut keeps the promise, and what would help."""
    least = min(float(curve.losses.mean(axis=0)[-1]) for curve in curves)
    if least >= loss:
        return (
            f"all candidates together lose {least:.1%} of the evidence, more than the {loss:.1%} allowed: no "
            "cut can keep that; fetch more candidates, use a better retriever, or allow more loss"
        )
    needed = n + 1
    while not _passes(least, needed, loss, level):
        needed += max(1, needed // 50)
    return (
        f"{n} questions are too few to promise a loss of at most {loss:.1%}: about {needed} like these are "
        "needed; write more, or allow more loss"
    )
