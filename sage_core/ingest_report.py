"""What an ingest tells while it runs and when it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something below a folder that was left out, and why.

    Attributes:
        source: A file that could not be read, a folder that could not be opened, or a link to a folder.
        reason: Why, and what to do about it.
        unopened: It could not even be opened, so that nobody knows what is below it. What the store has of
            it stays.
    """

    source: str
    reason: str
    unopened: bool = False


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """How far an ingest is.

    Attributes:
        done: Bytes of the files finished, unchanged ones included.
        total: Bytes of all files.
        files: Number of files finished.
        chunks: Chunks written.
        source: The file finished last.
    """

    done: int
    total: int
    files: int
    chunks: int
    source: str


ProgressFunction = Callable[[IngestProgress], None]


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest did.

    Attributes:
        added: Documents that were not in the store.
        changed: Documents replaced.
        unchanged: Documents whose content is the one in the store.
        removed: Documents taken out, because their files are gone or can no longer be read.
        skipped: What was left out below folders; see `Skipped`.
        chunks: Chunks written.
        documents_in_store: Documents in the store afterwards.
        chunks_in_store: Their chunks.
        seconds: Wall time.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    chunks: int
    documents_in_store: int
    chunks_in_store: int
    seconds: float

    @property
    def complete(self) -> bool:
        """Whether every file and folder could be opened."""
        return not any(skipped.unopened for skipped in self.skipped)

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        return {
            "added": list(self.added),
            "changed": list(self.changed),
            "unchanged": list(self.unchanged),
            "removed": list(self.removed),
            "skipped": [asdict(skipped) for skipped in self.skipped],
            "chunks": self.chunks,
            "store": {"documents": self.documents_in_store, "chunks": self.chunks_in_store},
            "seconds": round(self.seconds, 3),
        }
