"""Ingest a folder and kill this process at a given step, as a power cut would. Run by test_store.py.

Usage: crash.py STORE FOLDER STEP COUNT
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

import sage_core.pipeline.ingest
from sage_core.pipeline.ingest import ingest
from sage_core.ranking import HybridReranker
from sage_core.store.chroma_store import ChromaStore
from sage_core.store.manifest import Manifest
from sage_core.store.vector_files import VectorFiles
from tests.fakes.models import BlankLineSegmenter, HashEmbedder


def dying(method: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The method, which kills the process instead of running for the ``count``-th time."""
    left = [count]

    def run(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return method(*args, **kwargs)

    return run


STEPS: dict[str, tuple[type, str]] = {
    "settings": (Manifest, "put_settings"),
    "begin": (Manifest, "begin"),
    "commit": (Manifest, "commit"),
    "sweep": (ChromaStore, "_sweep"),
    "swept": (Manifest, "swept"),
    "remove": (Manifest, "remove"),
    "vectors": (VectorFiles, "write"),
}


def main() -> None:
    store, folder, step, count = sys.argv[1:]
    sage_core.pipeline.ingest._BATCH_CHARACTERS = 1  # every document is a batch of its own
    owner, name = STEPS[step]
    setattr(owner, name, dying(getattr(owner, name), int(count)))
    embedder = HashEmbedder()
    reranker = HybridReranker(embedder)
    ingest(ChromaStore(store), [folder], BlankLineSegmenter(), embedder, reranker=reranker)
    sys.exit(f"{step} was not reached {count} times")


if __name__ == "__main__":
    main()
