"""Ingest a folder and kill this process at a given step, as a power cut would. Run by test_store.py.

Usage: crash.py STORE FOLDER STEP COUNT [rebuild]
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

import sage_app.pipeline.ingest
import sage_app.store.folder
from sage_app.pipeline.ingest import ingest
from sage_app.store.folder import FolderStore
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


STEPS: dict[str, tuple[Any, str]] = {
    "create": (FolderStore, "_has_vectors"),  # within the transaction that makes the tables
    "clear up": (FolderStore, "_clear_up"),
    "append": (FolderStore, "_append"),
    "replace": (FolderStore, "_replace"),  # vectors are written, nothing else
    "chunks": (sage_app.store.folder, "_insert_chunks"),
    "count": (FolderStore, "_commit_change"),  # the last statement of the transaction
    "remove": (FolderStore, "remove"),
    "compact": (FolderStore, "_compact"),
    "move": (FolderStore, "_drop"),  # within the transaction that moves documents to another file
    "delete": (FolderStore, "_delete_files"),
    "publish": (FolderStore, "_publish"),
}


def main() -> None:
    store, folder, step, count, *rebuild = sys.argv[1:]
    sage_app.pipeline.ingest._BATCH_CHARACTERS = 1  # every document is a batch of its own
    sage_app.store.folder._LEAST_DEAD = 0  # files are compacted at once
    owner, name = STEPS[step]
    setattr(owner, name, dying(getattr(owner, name), int(count)))
    embedder = HashEmbedder()
    ingest(FolderStore(store), [folder], BlankLineSegmenter(), embedder, rebuild=bool(rebuild))
    sys.exit(f"{step} was not reached {count} times")


if __name__ == "__main__":
    main()
