"""Embeddings of chunks and of their sentences, made at ingest so that no question waits for them.

One file of float16 rows for every batch of documents, read through a memory map: what no question
touches takes no memory. A file is complete before anything refers to it, is never changed, and goes when no
document that counts is in it any more. Files that nothing refers to were left by a run that was broken off.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.protocol import TextVectors
from sage_core.errors import StoreError

logger = logging.getLogger(__name__)

_OPEN_FILES = 256


def _most_open() -> int:
    """How many files to keep open: each map holds one, and macOS lets a process have 256 in all."""
    try:
        import resource
    except ImportError:  # Windows
        return _OPEN_FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _OPEN_FILES if soft < 0 else max(min(_OPEN_FILES, soft // 4), 1)


class VectorFiles:
    """The files of one store. Safe across threads.

    Args:
        folder: Where they lie; made by `write`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: OrderedDict[str, NDArray[np.float16] | None] = OrderedDict()
        self._lock = threading.Lock()
        self._most_open = _most_open()

    def write(self, maker: str, vectors: Sequence[TextVectors]) -> tuple[str, list[str]]:
        """Write a file.

        Args:
            maker: Name of what made the vectors; `read` must be given the same.
            vectors: Of each text.

        Returns:
            The file's name, and for each text the reference by which `read` finds its rows.

        Raises:
            StoreError: Where it cannot be written.
        """
        name = f"{_tag(maker)}-{secrets.token_hex(8)}.npy"
        blocks = [_rows(v) for v in vectors]
        starts = np.cumsum([0, *(len(b) for b in blocks)])
        temporary = self.folder / f"{name}.part"
        try:
            self.folder.mkdir(exist_ok=True)
            with temporary.open("wb") as file:
                np.save(file, np.concatenate(blocks), allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.folder / name)
        except OSError as error:
            raise StoreError(f"cannot write vectors to {self.folder}: {error.strerror or error}") from error
        return name, [f"{name}:{start}:{len(b)}" for start, b in zip(starts, blocks, strict=False)]

    def read(self, maker: str, reference: str) -> TextVectors | None:
        """What `write` gave this reference for; None where it is gone, damaged or another maker's."""
        name, _, place = reference.partition(":")
        if not name.startswith(f"{_tag(maker)}-"):
            return None
        rows = self._file(name)
        if rows is None:
            return None
        start, length = (int(part) for part in place.split(":"))
        block = rows[start : start + length]
        if len(block) != length:
            return None
        return TextVectors(block[0], block[1:] if length > 1 else block)

    def _file(self, name: str) -> NDArray[np.float16] | None:
        with self._lock:
            if name in self._open:
                self._open.move_to_end(name)
                return self._open[name]
        rows: NDArray[np.float16] | None = None
        try:
            mapped = np.load(self.folder / name, mmap_mode="r", allow_pickle=False)
            if mapped.ndim == 2 and mapped.dtype == np.float16:
                rows = mapped.view(np.ndarray)  # slices of a memmap are slow to make
        except (OSError, ValueError, EOFError) as error:
            logger.warning("vectors in %s cannot be read (%s): texts are embedded anew", name, error)
        with self._lock:
            self._open[name] = rows
            while len(self._open) > self._most_open:
                self._open.popitem(last=False)
        return rows

    def keep_only(self, names: Collection[str]) -> None:
        """Delete every file but these."""
        if not self.folder.is_dir():
            return
        for path in self.folder.iterdir():
            if path.name not in names and path.name.endswith((".npy", ".npy.part")):
                with self._lock:
                    self._open.pop(path.name, None)
                try:
                    path.unlink(missing_ok=True)
                except PermissionError:
                    logger.info("%s is in use: it goes next time", path)  # Windows, another process reads

    def size(self) -> int:
        """Bytes on disk."""
        if not self.folder.is_dir():
            return 0
        return sum(path.stat().st_size for path in self.folder.glob("*.npy"))

    def clear(self) -> None:
        """Delete all of them."""
        with self._lock:
            self._open.clear()
        shutil.rmtree(self.folder, ignore_errors=True)


def _rows(vectors: TextVectors) -> NDArray[np.float16]:
    """The text's vector, then its sentences'; one row where the text is one sentence."""
    chunk = np.asarray(vectors.chunk, dtype=np.float16)[None, :]
    sentences = np.asarray(vectors.sentences, dtype=np.float16)
    if len(sentences) == 1 and np.array_equal(chunk, sentences):
        return chunk
    return np.concatenate([chunk, sentences])


def _tag(maker: str) -> str:
    return hashlib.sha256(maker.encode()).hexdigest()[:8]
