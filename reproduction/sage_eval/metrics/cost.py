"""What answers took: tokens, money, time and memory, and quality for it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sage_core.errors import InputError
from sage_core.llm.usage import NO_USAGE, TokenUsage, total_usage
from sage_eval.prices import Price, cost, cost_efficiency


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


_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds of a stage over many questions.

    Attributes:
        n: Questions that had the stage.
        mean: Mean.
        median: Median.
        p95: 95th percentile (linear interpolation between neighbors).
        total: Sum.
    """

    n: int
    mean: float
    median: float
    p95: float
    total: float


def latency_summary(seconds: Iterable[Mapping[str, float]]) -> dict[str, Latency]:
    """Latency by stage, and of all stages together as ``"total"``.

    Args:
        seconds: Time by stage of each question. A question without a stage does not count for it.

    Raises:
        InputError: Where a time is negative or no number, or a stage is called ``"total"``.
    """
    rows = list(seconds)
    stages = list(dict.fromkeys(stage for row in rows for stage in row))
    if "total" in stages:
        raise InputError("a stage cannot be called 'total': that is the sum of the stages")
    found = {stage: _latency([row[stage] for row in rows if stage in row]) for stage in stages}
    return {**found, "total": _latency([sum(row.values()) for row in rows])} if rows else {}


def _latency(values: list[float]) -> Latency:
    data = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(data) & (data >= 0)).all():
        raise InputError("a time is a number of at least 0 seconds")
    median, p95 = np.quantile(data, (0.5, 0.95))
    return Latency(len(data), float(data.mean()), float(median), float(p95), float(data.sum()))


@dataclass(slots=True)
class MemoryPeak:
    """Most memory in use at one time; filled in when the block ends.

    Attributes:
        host_bytes: Resident memory of this process; None if the system does not tell.
        gpu_bytes: Memory of PyTorch's tensors on all CUDA devices; None if none was used.
        of_block: Whether the peak is that of the block. Outside Linux it is that of the whole process so far.
    """

    host_bytes: int | None = None
    gpu_bytes: int | None = None
    of_block: bool = False


@contextlib.contextmanager
def memory_peak() -> Iterator[MemoryPeak]:
    """Measure the most memory that a ``with`` block uses; what it gives is filled in when the block ends.

    All threads of the process count. Blocks cannot be nested: an inner one restarts the count of the outer.
    """
    peak = MemoryPeak(of_block=_restart())
    try:
        yield peak
    finally:
        peak.host_bytes = _host_peak()
        peak.gpu_bytes = _gpu_peak()


def _restart() -> bool:
    """Start counting anew; whether the system lets us."""
    cuda = _cuda()
    if cuda is not None:
        for device in range(cuda.device_count()):
            cuda.reset_peak_memory_stats(device)
    try:
        _CLEAR.write_text(_RESET_PEAK)
    except OSError:
        return False
    return True


def _host_peak() -> int | None:
    with contextlib.suppress(OSError, ValueError, StopIteration):
        line = next(x for x in _STATUS.read_text().splitlines() if x.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    with contextlib.suppress(ImportError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return None


def _gpu_peak() -> int | None:
    cuda = _cuda()
    if cuda is None:
        return None
    return sum(int(cuda.max_memory_allocated(device)) for device in range(cuda.device_count()))


def _cuda() -> Any:
    """PyTorch's CUDA where it is in use already; it is not imported for this."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda if cuda is not None and cuda.is_available() and cuda.is_initialized() else None


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


def summarize_cost(
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
