"""How long and how much memory: latency by stage, and the peak of a block (papers' Tables VIII and IX)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sage_core.errors import InputError

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds of a stage over many questions.

    Attributes:
        n: Questions that had the stage.
        mean: Mean.
        median: Median.
        p95: 95th percentile (linear interpolation between neighbours).
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
        host_bytes: Resident memory of this process; None where the system does not tell.
        gpu_bytes: Memory of PyTorch's tensors on all CUDA devices; None where none was used.
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
