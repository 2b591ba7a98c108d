"""What answers took in memory, and quality for what was paid."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_core.errors import InputError


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
    if not all(cost > 0 for _, cost in rows.values()):
        raise InputError("relative cost efficiency needs costs above 0")
    found = {name: quality / cost for name, (quality, cost) in rows.items()}
    unit = found[baseline] if baseline is not None else max(found.values(), default=0.0)
    if not unit > 0:
        raise InputError("relative cost efficiency needs a method whose quality is above 0 to compare with")
    return {name: value / unit for name, value in found.items()}


_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


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
