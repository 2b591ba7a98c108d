"""Embeddings that are kept: a text is embedded once, whatever the number of methods and runs."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError, StoreError

logger = logging.getLogger(__name__)

Floats = NDArray[np.float32]

PROBE = "A text that tells one embedding model from another."
_UNKNOWN = -1  # no stored vector has this probe
_SAME = 2e-3  # a probe's entries differ by less between machines and batches, by far more between models
_QUERIED = 500  # keys in one query: SQLite takes no more than 999 variables in old releases


class CachedEmbedder:
    """An `Embedder` that remembers. On a CPU embedding is what an evaluation spends its time on.

    Vectors are kept in memory and, with a folder, in one SQLite file per model and server, which several
    processes may use at a time and which a broken-off run leaves usable. Before a file is used one probe text
    is embedded: vectors that were kept for another answer to it (another model of the same name, another
    width) are left alone and not served. Vectors are the same as the embedder's, to the bit. (Those of a real
    model differ in the last bits with the texts that shared a batch; here the first one stays.) Safe across
    threads.

    Args:
        embedder: The embedder. Its name, and its ``endpoint`` where it has one, name the file.
        folder: Where the file lies; None for memory only.
        in_memory: Most vectors held in memory, those used longest ago going first.

    Raises:
        InputError: For ``in_memory`` below 1.
        StoreError: Where the folder cannot be used.
    """

    def __init__(
        self, embedder: Embedder, folder: str | Path | None = None, *, in_memory: int = 100_000
    ) -> None:
        if in_memory < 1:
            raise InputError(f"in_memory must be at least 1, not {in_memory}")
        self.embedder = embedder
        self._kept: OrderedDict[bytes, Floats] = OrderedDict()
        self._in_memory = in_memory
        self._lock = threading.Lock()
        endpoint = getattr(embedder, "endpoint", "")
        where = f"{embedder.name} {endpoint}" if endpoint else embedder.name
        self._disk = _Disk(Path(folder), where) if folder is not None else None
        self._probe_lock = threading.Lock()
        self.embedded = 0
        """Texts that had to be embedded so far."""

    @property
    def name(self) -> str:
        """The embedder's."""
        return self.embedder.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.embedder!r})"

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        if not texts:
            return self.embedder.embed_documents([])
        return np.stack(self._vectors("document", texts, self.embedder.embed_documents))

    def embed_query(self, text: str) -> Floats:
        """See `Embedder.embed_query`. The array is read-only."""
        return self._vectors("query", [text], lambda new: self.embedder.embed_query(new[0])[None])[0]

    def close(self) -> None:
        """Close the file."""
        if self._disk is not None:
            self._disk.close()

    def _vectors(self, kind: str, texts: Sequence[str], embed: Callable[[list[str]], Floats]) -> list[Floats]:
        """One read-only row per text: from memory, from the file, or new."""
        keys = [_key(kind, text) for text in texts]
        self._identify()
        with self._lock:
            found = {key: self._kept[key] for key in dict.fromkeys(keys) if key in self._kept}
            missing = {k: text for k, text in zip(keys, texts, strict=True) if k not in found}
            if missing and self._disk is not None:
                found.update(self._disk.read(list(missing)))
                missing = {k: text for k, text in missing.items() if k not in found}
        if missing:  # without the lock: the embedder knows itself how to share threads
            rows = np.asarray(embed(list(missing.values())), dtype=np.float32)
            if len(rows) != len(missing):
                raise InputError(f"{self.name} gave {len(rows)} vectors for {len(missing)} texts")
            rows.setflags(write=False)
            found.update(zip(missing, rows, strict=True))
        with self._lock:
            self.embedded += len(missing)
            if missing and self._disk is not None:
                self._disk.write({key: found[key] for key in missing})
            self._keep(found)
        return [found[key] for key in keys]

    def _identify(self) -> None:
        """Find out, once, which vectors of the file are this model's."""
        if self._disk is None or self._disk.identified:
            return
        with self._probe_lock:
            if not self._disk.identified:
                probe = np.asarray(self.embedder.embed_documents([PROBE]), dtype=np.float32)[0]
                with self._lock:
                    self._disk.identify(probe)

    def _keep(self, found: dict[bytes, Floats]) -> None:
        self._kept.update(found)
        for key in found:
            self._kept.move_to_end(key)
        while len(self._kept) > self._in_memory:
            self._kept.popitem(last=False)


def _key(kind: str, text: str) -> bytes:
    return hashlib.blake2b(f"{kind}\x00{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _Disk:
    """Vectors of the models of one name in a file, told apart by a probe. Hold the owner's lock."""

    def __init__(self, folder: Path, model: str) -> None:
        self.identified = False
        self._probe = 0
        digest = hashlib.blake2b(model.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        self._path = folder / f"embeddings-{digest}.sqlite3"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self._path, timeout=60, check_same_thread=False)
            with self._database as database:
                database.execute("CREATE TABLE IF NOT EXISTS probes (id INTEGER PRIMARY KEY, vector BLOB)")
                database.execute(
                    "CREATE TABLE IF NOT EXISTS probed_vectors "
                    "(probe INTEGER, key BLOB, vector BLOB NOT NULL, PRIMARY KEY (probe, key))"
                )
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def identify(self, probe: Floats) -> None:
        """Read and write only vectors whose model gives about this vector for the probe text."""
        try:
            with self._database as database:
                for number, vector in database.execute("SELECT id, vector FROM probes"):
                    known = np.frombuffer(vector, "<f4")
                    if known.shape == probe.shape and np.allclose(known, probe, rtol=0.01, atol=_SAME):
                        self._probe = number
                        break
                else:
                    added = database.execute("INSERT INTO probes (vector) VALUES (?)", (probe.tobytes(),))
                    self._probe = int(added.lastrowid or 0)
        except sqlite3.Error as error:
            self._probe = _UNKNOWN
            logger.warning("embeddings are not kept in %s: %s", self._path, error)
        self.identified = True

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Floats]:
        """The vectors of those keys that are there."""
        found: dict[bytes, Floats] = {}
        try:
            for start in range(0, len(keys), _QUERIED):
                part = keys[start : start + _QUERIED]
                marks = ",".join("?" * len(part))
                rows = self._database.execute(
                    f"SELECT key, vector FROM probed_vectors WHERE probe = ? AND key IN ({marks})",
                    [self._probe, *part],
                )
                found.update((bytes(key), np.frombuffer(vector, "<f4")) for key, vector in rows)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        return found

    def write(self, vectors: dict[bytes, Floats]) -> None:
        """Add vectors, all or none."""
        rows = [(self._probe, key, np.asarray(vector, "<f4").tobytes()) for key, vector in vectors.items()]
        try:
            with self._database as database:
                database.executemany("INSERT OR IGNORE INTO probed_vectors VALUES (?, ?, ?)", rows)
        except sqlite3.Error as error:
            # A full disk must not cost the run what it has just computed.
            logger.warning("embeddings are not kept in %s: %s", self._path, error)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _unusable(self, error: Exception) -> StoreError:
        return StoreError(f"the embeddings in {self._path} cannot be used ({error}): delete the file")
