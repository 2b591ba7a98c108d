"""Scores of candidates: which of them are usable, their order, and what a quotient of two means.

Scores carry their scale, because a rule on ratios means something only where 0 is "no evidence" and a
quotient is a quotient. `to_ratio_scale` is the documented map of each scale to such numbers.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

from sage_core.errors import InputError

Scale = Literal["probability", "logit", "cosine", "unbounded"]
SCALES: tuple[Scale, ...] = get_args(Scale)

# Cosines of one candidate list that differ by less than this are one score with rounding noise.
FLAT_SPREAD = 1e-6


def check_scale(scale: str) -> None:
    """Raise InputError for an unknown scale."""
    if scale in ("auto", "distance"):
        raise InputError(
            f"scale={scale!r} is for read_scores of sage_core.selection, which gives scores and their scale: "
            "found = read_scores(scores, ...); select(found.scores, scale=found.scale)"
        )
    if scale not in SCALES:
        raise InputError(f"unknown score scale {scale!r}: one of {', '.join(SCALES)}")


def plain_scores(scores: Iterable[Any]) -> list[float | None]:
    """Scores as Python floats; None stays.

    Args:
        scores: One per candidate: numbers and None in any iterable, or a one-dimensional NumPy array.

    Raises:
        InputError: For anything else. Text is refused even where it reads as a number.
    """
    single = isinstance(scores, str | bytes | Mapping) or getattr(scores, "ndim", 1) == 0
    if single or not isinstance(scores, Iterable):
        raise InputError(f"scores are a list of numbers, one per candidate, not {type(scores).__name__}")
    return [None if score is None else _plain(score, position) for position, score in enumerate(scores)]


def _plain(score: Any, position: int) -> float:
    try:
        if isinstance(score, str | bytes):
            raise TypeError
        return float(score)
    except (TypeError, ValueError):  # ValueError: an array of several numbers
        raise InputError(f"score {position} is {score!r}: a score is a number, or None") from None
    except OverflowError:  # an int of so many digits cannot even be written down
        raise InputError(f"score {position} is too large: a score is a float, up to 1.8e308") from None


def usable_scores(scores: Iterable[Any]) -> list[float | None]:
    """`plain_scores`, with None also for NaN and -inf, which are no evidence at all."""
    return [
        None if score is None or math.isnan(score) or score == -math.inf else score
        for score in plain_scores(scores)
    ]


def rank_order(scores: Iterable[float | None]) -> list[int]:
    """Positions of ``scores`` from best to worst: stable on ties, None, NaN and -inf last.

    Raises:
        InputError: As `usable_scores`.
    """
    keys = [-math.inf if score is None else score for score in usable_scores(scores)]
    return sorted(range(len(keys)), key=keys.__getitem__, reverse=True)


def to_ratio_scale(scores: Sequence[float], scale: Scale) -> list[float]:
    """Map scores to numbers >= 0 whose quotients mean something.

    - ``probability``: itself, clipped to 0..1.
    - ``logit``: odds relative to the best, ``exp(s - max)``. Adding a constant to every logit changes
      nothing, and a ratio of g is a drop of ``-ln(g)`` logits. A sigmoid would flatten the top instead.
    - ``cosine``: min-max within the list, because the cosines of one embedding model crowd a narrow band
      (neighbors differ by 3%) and a raw ratio never falls. A spread under `FLAT_SPREAD` gives all 1.
    - ``unbounded`` (BM25, the paper's own reranker): itself; at or below 0 there is no evidence.

    Args:
        scores: Any order; finite or +inf.
        scale: What the numbers are.

    Returns:
        As many numbers, in the same order.

    Raises:
        InputError: For an unknown scale.
    """
    check_scale(scale)
    scores = [float(score) for score in scores]
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
    # Min-max would blow rounding errors up into a ranking.
    if spread < FLAT_SPREAD:
        return [1.0] * len(scores)
    # inf - inf is NaN: only the infinite best are told from the rest.
    if math.isinf(spread):
        return [1.0 if s == high else 0.0 for s in scores]
    return [(s - low) / spread for s in scores]


ScaleName = Scale | Literal["auto", "distance"]
"""What a caller may say scores are: a `Scale`; ``"distance"`` (0 is nearest); or ``"auto"``: look at them."""
SCALE_NAMES: tuple[ScaleName, ...] = (*SCALES, "auto", "distance")

# Cosines of unit vectors come out a little above 1, probabilities a little above 1 or below 0.
_ROUNDING = 1e-3
# Equal similarities of one store may differ by rounding.
_NOISE = 1e-9
# Six lists, each with the chunk at its head: 6 / 60. One list alone gives at most 1 / 60.
_LARGEST_RANK_FUSION = 0.1


class ScoreReading(NamedTuple):
    """Scores as `select` takes them; see `read_scores`.

    Examples:
        >>> read_scores([0.2, 0.9, None], "auto").scale
        'cosine'

    Attributes:
        scores: Higher is better. Finite numbers, and None if there is no evidence.
        scale: What they are.
    """

    scores: list[float | None]
    scale: Scale


def finite_score(score: Any) -> float | None:
    """A score that every JSON file and vector store can hold, with its place in the ranking.

    NaN and -inf, which are no evidence, become None like None itself; +inf becomes the largest float.

    Raises:
        InputError: For what is no number.
    """
    value = usable_scores([score])[0]
    # JSON has no Infinity; the largest float keeps its place at the head.
    return value if value is None else min(value, sys.float_info.max)


def check_probabilities(
    scores: Iterable[float | None], source: str = "the scores", *, named: bool = True
) -> None:
    """Raise InputError where a score lies outside 0..1 and so is no probability.

    ``named``: the message offers every `ScaleName`, not only a `Scale`.
    """
    more = ", 'distance', 'auto'" if named else ""
    for score in scores:
        if score is not None and not -_ROUNDING <= score <= 1 + _ROUNDING:
            raise InputError(
                f"{source} lie outside 0..1 ({score:g}), so they are no probabilities: say what they are, "
                f"scale='logit' (raw model outputs), 'cosine', 'unbounded' (BM25, grades){more}"
            )


def guess_scale(scores: Sequence[float | None]) -> Scale:
    """The scale that scores of one candidate list look like.

    Between -1 and 1: ``cosine``, taken relative to the list, which is also safe for what Chroma and relative
    score fusion give, and for probabilities. At or above 0, some above 1: ``unbounded`` (BM25, an LLM's
    grades from 1 to 10), and likewise where all are above 0 and at most 0.1 (reciprocal rank fusion, which
    says nothing of relevance). Else ``logit`` (a cross-encoder without activation).

    Logits that are all positive look like BM25; name the scale where that can happen.
    """
    known = [s for s in scores if s is not None and math.isfinite(s)]
    # Before the range of cosines, which holds these too.
    if known and min(known) > 0 and max(known) <= _LARGEST_RANK_FUSION:
        return "unbounded"
    if not known or (min(known) >= -1 - _ROUNDING and max(known) <= 1 + _ROUNDING):
        return "cosine"
    return "unbounded" if min(known) >= 0 else "logit"


def rises(scores: Sequence[float | None]) -> bool:
    """Whether the scores of a search's results, best first, are distances: the last is above the first."""
    known = [s for s in scores if s is not None and not math.isnan(s)]
    return len(known) > 1 and known[-1] > known[0]


def read_scores(
    scores: Iterable[Any], scale: ScaleName = "auto", *, source: str = "the scores"
) -> ScoreReading:
    """Scores of any retriever or reranker, made ready for `select`.

    Args:
        scores: One per candidate.
        scale: A `Scale`; ``"distance"`` where smaller is nearer (FAISS's L2): the negatives are taken, on
            the cosine scale, which looks at differences within the list only; or ``"auto"``: told by their
            range (`guess_scale`). Which way a list counts says `sage_core.ranking.standing`.
        source: Whose they are, for messages.

    Raises:
        InputError: For an unknown scale, for what is no number, and for numbers outside 0..1 that are said to
            be probabilities.
    """
    if scale not in SCALE_NAMES:
        raise InputError(f"unknown score scale {scale!r}: one of {', '.join(SCALE_NAMES)}")
    finite = [finite_score(score) for score in plain_scores(scores)]
    if scale == "distance":
        # Negated they have no zero: "cosine" reads differences within the list only.
        return ScoreReading([None if s is None else -s for s in finite], "cosine")
    if scale == "probability":
        check_probabilities(finite, source)
    return ScoreReading(finite, guess_scale(finite) if scale == "auto" else scale)


def store_similarities(
    raw: Sequence[float], convert: Callable[[float], float] | None = None
) -> Callable[[float], float]:
    """From a raw score of a vector store's results to a similarity, higher is better.

    Args:
        raw: The store's scores, in the store's order, best first.
        convert: From a raw score to a similarity; None if the store has no such function. Scores that rise
            are then distances, and count by their negatives.
    """
    plain = [float(score) for score in raw]
    as_listed: Callable[[float], float] = operator.neg if rises(plain) else float
    if convert is None:
        return as_listed
    for (earlier, a), (later, b) in pairwise((float(convert(score)), score) for score in plain):
        # The store ranks one way and converts another (Chroma does, for inner products of 1 and above), or
        # tells results apart that its conversion does not. Its ranking is its purpose.
        if later > earlier + _NOISE or (later > earlier - _NOISE and abs(a - b) > FLAT_SPREAD):
            return as_listed
    return convert
