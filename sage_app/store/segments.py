"""Vectors in append-only files, searched through a memory map.

A segment file holds `ROWS` unit vectors twice: as 16-bit fixed-point numbers, and as one bit per dimension
(its sign). A search compares the bits of all rows with those of the question, which reads 48 bytes a row at
384 dimensions, and takes the exact product with the few thousand rows that differ least. Among many rows it
compares half of the bits first, and the others of the rows that do best. Rows are written once and never
changed.
What a search does not touch takes no memory, and opening a file reads nothing.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.protocol import unit_rows
from sage_core.errors import StoreError

# Rows of a file: 27 MB at 384 dimensions.
ROWS = 32_768
# Where a store holds no more rows than this, all products are taken.
_EXACT = 2_048
# Rows whose exact product is taken where there are more: factor * rows ** power, and this many times `n` at
# least. all-MiniLM-L6-v2, 300 questions: of the 30 nearest among 14,000, 28,000 and 56,000 passages and
# sentences 99.94%, 99.94% and 99.98% are among those so picked (of the 60 nearest 99.7%, 99.8%, 99.8%).
_SHORTLIST, _SHORTLIST_POWER, _SHORTLIST_LEAST = 90, 0.3, 32
# From so many rows of so many words on, half of the bits are compared first, and the others only of this
# share of the rows. A tenth of 14,000, 28,000 and 56,000 rows holds 94.4%, 97.1% and 98.5% of the 60 nearest,
# and of 500,000 (mixtures of near ones of the 56,000) 99.7%. Groups of rows made by k-means hold less: 86.8%,
# 90.3%, 91.7% and 97.9%.
_HALVED, _HALVED_WORDS, _SHARE = 131_072, 6, 1 / 8
# The limit for that share is found on every so many-th row.
_SAMPLED = 16
# A file's length is a multiple of so many rows (sparse where the system can), so that a reader's map of it
# seldom has to be made again: the pages of a new map must all be found again.
_STEP = 1_024
# Rows compared at a time: their bits and the counts fit a processor's cache.
_BLOCK = 16_384
# Numbers from -1 to 1 as int16: as precise as float16 at its best, and 25 times as fast to turn into float32.
_ONE = 32_767


def _words(dimension: int) -> int:
    """64-bit words of a row's signs."""
    return -(-dimension // 64)


def signs(vectors: NDArray[Any]) -> NDArray[np.uint64]:
    """The signs of vectors ``(n, d)`` as bits, shape ``(n, words)``."""
    packed = np.packbits(vectors > 0, axis=1)
    padded = np.zeros((len(vectors), 8 * _words(vectors.shape[1])), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)


def _bit_counts_by_table(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Bits that are set in each word, for numpy before 2.0."""
    counts = _TABLE[np.ascontiguousarray(words).view(np.uint16)].reshape(*words.shape, 4)
    return np.asarray(counts.sum(axis=-1), dtype=np.uint8)


_bit_counts: Any = getattr(np, "bitwise_count", None)
if _bit_counts is None:
    _TABLE = np.array([bin(i).count("1") for i in range(1 << 16)], dtype=np.uint8)
    _bit_counts = _bit_counts_by_table


class SegmentMissingError(StoreError):
    """A file is not there: the store is damaged, or a writer has just deleted it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One file, as far as it is written.

    Attributes:
        first: Row number of its first row.
        path: The file.
        bits: Signs, shape ``(words, rows)``.
        vectors: Shape ``(rows, d)``, in units of 1 / 32,767.
        data: What both lie in.
        file: Device and number of the file.
    """

    first: int
    path: Path
    bits: NDArray[np.uint64]
    vectors: NDArray[np.int16]
    data: mmap.mmap
    file: tuple[int, int]

    @classmethod
    def open(cls, path: Path, first: int, rows: int, dimension: int) -> Segment:
        """Map ``rows`` rows of a file; StoreError where it is missing or too short."""
        try:
            _check_size(path, rows, dimension)
            with path.open("rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                status = os.fstat(file.fileno())
        except FileNotFoundError:  # deleted just now
            raise SegmentMissingError(_damaged(path, "is missing")) from None
        except (OSError, ValueError) as error:
            raise StoreError(_damaged(path, f"cannot be read ({error})")) from error
        return cls._of(path, first, rows, dimension, data, (status.st_dev, status.st_ino))

    @classmethod
    def _of(
        cls, path: Path, first: int, rows: int, dimension: int, data: mmap.mmap, file: tuple[int, int]
    ) -> Segment:
        words = _words(dimension)
        # Not numpy's memmap, which takes ten times as long to open, and to slice.
        bits = np.frombuffer(data, np.uint64, words * ROWS).reshape(words, ROWS)[:, :rows]
        vectors = np.frombuffer(data, "<i2", rows * dimension, words * ROWS * 8).reshape(rows, dimension)
        return cls(first, path, bits, vectors, data, file)

    def with_rows(self, rows: int) -> Segment:
        """The same file with another number of rows, by the same map where it reaches so far; as `open`."""
        dimension = self.vectors.shape[1]
        # Only POSIX promises that a map shows what is written to its file.
        if os.name == "posix" and _size(rows, dimension) <= len(self.data):
            status = _check_size(self.path, rows, dimension)
            if (status.st_dev, status.st_ino) == self.file:
                return self._of(self.path, self.first, rows, dimension, self.data, self.file)
        return self.open(self.path, self.first, rows, dimension)

    def check(self) -> None:
        """Raise StoreError where the file is gone or shorter than it was."""
        _check_size(self.path, *self.vectors.shape)


def _size(rows: int, dimension: int) -> int:
    """Bytes of a file of so many rows."""
    return _words(dimension) * ROWS * 8 + rows * dimension * 2


def _check_size(path: Path, rows: int, dimension: int) -> os.stat_result:
    """Reading beyond the end of a mapped file ends the process: never read more than there is."""
    try:
        status, needed = path.stat(), _size(rows, dimension)
    except FileNotFoundError:
        raise SegmentMissingError(_damaged(path, "is missing")) from None
    if status.st_size < needed:
        raise StoreError(_damaged(path, f"has {status.st_size:,} of {needed:,} bytes"))
    return status


def write_rows(path: Path, start: int, vectors: NDArray[np.float32]) -> None:
    """Write vectors, scaled to length 1, from row ``start`` of a file; they are on disk when this returns."""
    words, dimension = _words(vectors.shape[1]), vectors.shape[1]
    vectors = unit_rows(vectors)
    new = not path.exists()
    bits = np.ascontiguousarray(signs(vectors).T)
    with path.open("xb" if new else "r+b") as file:
        for word in range(words):
            file.seek((word * ROWS + start) * 8)
            file.write(bits[word].tobytes())
        file.seek(words * ROWS * 8 + start * dimension * 2)
        file.write(np.rint(vectors * _ONE).astype("<i2").tobytes())
        file.flush()
        whole = min(ROWS, -(-(start + len(vectors)) // _STEP) * _STEP)
        if os.fstat(file.fileno()).st_size < _size(whole, dimension):
            file.truncate(_size(whole, dimension))
        os.fsync(file.fileno())
    if new:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Have a new file's name on the disk too, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class Index:
    """The rows of a store at one moment.

    Attributes:
        segments: Files in order of their rows.
        dead: For each segment, which rows no longer count, shape ``(rows,)``; None if all do.
    """

    segments: Sequence[Segment]
    dead: Sequence[NDArray[np.bool_] | None]

    def nearest(self, query: NDArray[np.float32], n: int) -> list[tuple[int, float]]:
        """Row numbers and cosines of the ``n`` rows most similar to a unit vector ``(d,)``, best first."""
        if not self.segments:
            return []
        rows = sum(s.vectors.shape[0] for s in self.segments)
        size = max(int(_SHORTLIST * rows**_SHORTLIST_POWER), _SHORTLIST_LEAST * n)
        scaled = query / np.float32(_ONE)
        picked = self._alive() if rows <= max(_EXACT, size) else self._shortlist(query, size)
        numbers: list[NDArray[np.int64]] = []
        cosines: list[NDArray[np.float32]] = []
        for segment, places in zip(self.segments, picked, strict=True):
            if len(places):
                numbers.append(places + segment.first)
                some = segment.vectors[places].astype(np.float32)
                # Not `@`: it shares so small a product among threads, which on a busy machine wait for each
                # other for hundreds of times as long as the product takes.
                cosines.append(np.einsum("ij,j->i", some, scaled))
        if not numbers:
            return []
        number, cosine = np.concatenate(numbers), np.concatenate(cosines)
        if len(cosine) > n:
            best = np.argpartition(-cosine, n - 1)[:n]
            # Ties at the border are broken by row, as they are within.
            best = np.flatnonzero(cosine >= cosine[best].min())
            number, cosine = number[best], cosine[best]
        order = np.lexsort((number, -cosine))[:n]
        return list(zip(number[order].tolist(), cosine[order].tolist(), strict=True))

    def cosines(self, query: NDArray[np.float32], rows: Sequence[int]) -> list[float]:
        """Cosines of a unit vector ``(d,)`` with these rows."""
        scaled = query / np.float32(_ONE)
        numbers = np.asarray(rows, dtype=np.int64)
        values = np.zeros(len(numbers), dtype=np.float32)
        for segment in self.segments:
            inside = (numbers >= segment.first) & (numbers < segment.first + len(segment.vectors))
            if inside.any():
                vectors = segment.vectors[numbers[inside] - segment.first].astype(np.float32)
                values[inside] = np.einsum("ij,j->i", vectors, scaled)
        return list(values.tolist())

    def _alive(self) -> list[NDArray[np.int64]]:
        return [
            np.arange(len(s.vectors)) if dead is None else np.flatnonzero(~dead)
            for s, dead in zip(self.segments, self.dead, strict=True)
        ]

    def _shortlist(self, query: NDArray[np.float32], size: int) -> list[NDArray[np.int64]]:
        """Places in each segment of the rows whose signs differ least from the query's."""
        [code] = signs(query[None, :])
        rows = sum(s.bits.shape[1] for s in self.segments)
        halved = rows >= _HALVED and len(code) >= _HALVED_WORDS
        first = len(code) // 2 if halved else len(code)
        most = len(query) + 1  # differences that no row can have
        distances = [_distances(s.bits[:first], code[:first]) for s in self.segments]
        for distance, dead in zip(distances, self.dead, strict=True):
            if dead is not None:
                distance[dead] = most
        if not halved:
            return _least(distances, size, most)
        sample = [d[::_SAMPLED] for d in distances]
        limit = _limit(_counts(sample, most), max(int(_SHARE * rows), 4 * size) // _SAMPLED)
        places = [np.flatnonzero(d <= limit) for d in distances]
        rest = [
            d[p] + _distances(np.take(s.bits[first:], p, axis=1), code[first:])
            for s, d, p in zip(self.segments, distances, places, strict=True)
        ]
        return [p[picked] for p, picked in zip(places, _least(rest, size, most), strict=True)]


def _counts(distances: Sequence[NDArray[np.uint16]], most: int) -> NDArray[np.int64]:
    """How many rows have each distance below ``most``."""
    counts = np.zeros(most, dtype=np.int64)
    for distance in distances:
        counts += np.bincount(distance, minlength=most)[:most]
    return counts


def _limit(counts: NDArray[np.int64], n: int) -> int:
    """The least distance within which enough rows lie."""
    return min(int(np.searchsorted(np.cumsum(counts), n)), len(counts) - 1)


def _least(distances: Sequence[NDArray[np.uint16]], n: int, most: int) -> list[NDArray[np.int64]]:
    """Places of the ``n`` least of all distances below ``most``.

    Equal distances are all taken, unless they are so many that their rows are much alike anyway.
    """
    counts = _counts(distances, most)
    limit = _limit(counts, n)
    picked = [np.flatnonzero(d <= limit) for d in distances]
    if sum(map(len, picked)) <= 4 * n:
        return picked
    room = 4 * n - int(counts[:limit].sum())
    for i, distance in enumerate(distances):
        ties = np.flatnonzero(distance == limit)[: max(room, 0)]
        room -= len(ties)
        picked[i] = np.union1d(np.flatnonzero(distance < limit), ties)
    return picked


def _distances(bits: NDArray[np.uint64], code: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """How many signs of each row differ from ``code``."""
    out = np.empty(bits.shape[1], dtype=np.uint16)
    for start in range(0, bits.shape[1], _BLOCK):
        block = slice(start, start + _BLOCK)
        total = _bit_counts(bits[0, block] ^ code[0]).astype(np.uint16)
        for word in range(1, len(code)):
            total += _bit_counts(bits[word, block] ^ code[word])
        out[block] = total
    return out


def _damaged(path: Path, what: str) -> str:
    return f"the store is damaged: {path} {what}. Make it anew with `sage-rag ingest --rebuild`"
