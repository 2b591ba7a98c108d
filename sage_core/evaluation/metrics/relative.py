"""The second paper's scores against a perfect retriever, and Table XI's relative cost efficiency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sage_core.errors import InputError
from sage_core.llm.usage import cost_efficiency


def relative_maximum(scores: Sequence[float]) -> float:
    """Mean score of answers made from the right chunk alone: what a perfect retriever would reach.

    "The Chronicles of RAG", section 3.1: each question is answered from the chunk it was made from, by the
    LLM that is measured, and graded as all others are.

    Raises:
        InputError: Without scores.
    """
    if not len(scores):
        raise InputError("the relative maximum needs the scores of answers made from the right chunks")
    return float(sum(scores) / len(scores))


def degradation(score: float, maximum: float) -> float:
    """Part of the relative maximum that is lost: 1 - score / maximum ("The Chronicles of RAG", equation 1).

    Positive where something is lost; the paper's tables print it with a minus sign. Negative where a method
    beats the right chunk alone.

    Raises:
        InputError: Where the maximum is not above 0.
    """
    if not maximum > 0:
        raise InputError(f"the relative maximum must be above 0, not {maximum!r}")
    return 1 - score / maximum


def relative_cost_efficiency(
    rows: Mapping[str, tuple[float, float]], *, baseline: str | None = None
) -> dict[str, float]:
    """Quality by cost of each method (equation 2), relative to one of them (Table XI).

    Args:
        rows: Quality and cost by method. The cost may be money, or tokens, as in Table XI.
        baseline: The method that is 1; None for the best.

    Raises:
        InputError: Without rows, for a cost that is not above 0, or a baseline that is not there or whose
            quality is 0.
    """
    if baseline is not None and baseline not in rows:
        raise InputError(f"there is no method {baseline!r} to compare with: there are {', '.join(rows)}")
    found = {name: cost_efficiency(quality, cost) for name, (quality, cost) in rows.items()}
    unit = found[baseline] if baseline is not None else max(found.values(), default=0.0)
    if not unit > 0:
        raise InputError("relative cost efficiency needs a method whose quality is above 0 to compare with")
    return {name: value / unit for name, value in found.items()}
