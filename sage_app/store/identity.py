"""Which models a store was made with, and whether others may be used with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from sage_core.errors import StoreError

Setting = str | int | float | bytes | None

# Two runs of one embedding model differ by rounding; two models differ by far more.
_SAME_MODEL = 0.999


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """The models a store was made with.

    Attributes:
        embedder: Name of the embedding model.
        probe: The model's vector of a fixed text, shape ``(d,)``: its dimension, and proof of its weights;
            shape ``(0,)`` where the model has not been loaded.
        segmenter: `Segmenter.fingerprint`; empty where it does not matter (searching).
        settings: What the fingerprint stands for (`Segmenter.settings`), to tell what differs; empty where
            that is not known, as in stores of earlier versions.
    """

    embedder: str
    probe: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    segmenter: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)

    def difference(self, other: StoreIdentity) -> str | None:
        """How ``other`` differs, as "this, not that"; None if it may be used with a store of ``self``.

        The embedding model must agree by name, dimension and the vector it gives the probe; the segmenter by
        fingerprint, unless ``other`` has none.
        """
        if self.embedder != other.embedder:
            return f"embedding model {self.embedder!r}, not with {other.embedder!r}"
        size = other.probe.size
        if size and self.probe.size != size:
            return f"{self.embedder!r} of {self.probe.size} dimensions, not with one of {size}"
        if size and float(self.probe @ other.probe) < _SAME_MODEL:
            return f"other weights of {self.embedder!r} than these"
        if other.segmenter and self.segmenter != other.segmenter:
            return self._segmenter_difference(other)
        return None

    def require(self, other: StoreIdentity, location: str) -> None:
        """Raise StoreError unless ``other`` may be used with the store of ``self`` at ``location``."""
        difference = self.difference(other)
        if difference is not None:
            raise StoreError(
                f"the store at {location} was made with {difference}: use the same, ingest into another "
                "store, or make it anew with `sage-rag ingest --rebuild`"
            )

    def info(self, path: str, documents: int, chunks: int) -> StoreInfo:
        """What to say of a store made with these models."""
        return StoreInfo(path, documents, chunks, self.embedder, self.probe.size, self.segmenter)

    def _segmenter_difference(self, other: StoreIdentity) -> str:
        names = [
            n for n in {**self.settings, **other.settings} if self.settings.get(n) != other.settings.get(n)
        ]
        if not (names and self.settings and other.settings):
            return f"segmenter {self.segmenter[:12]}, not with {other.segmenter[:12]}"
        mine, theirs = (
            ", ".join(f"{name}={identity.settings.get(name)}" for name in names) for identity in (self, other)
        )
        return f"segmenter {mine}, not with {theirs}"

    def to_settings(self) -> dict[str, Setting]:
        """What a manifest keeps of it."""
        return {
            "embedder": self.embedder,
            "probe": self.probe.astype("<f4").tobytes(),
            "segmenter": self.segmenter,
            "segmenter_settings": json.dumps(dict(self.settings), default=str),
        }

    @classmethod
    def from_settings(cls, settings: Mapping[str, Setting]) -> StoreIdentity:
        """The reverse of `to_settings`."""
        probe = settings["probe"]
        return cls(
            str(settings["embedder"]),
            np.frombuffer(probe if isinstance(probe, bytes) else b"", dtype="<f4"),
            str(settings["segmenter"]),
            dict(json.loads(str(settings.get("segmenter_settings") or "{}"))),
        )


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store holds.

    Attributes:
        path: Its folder.
        documents: Number of documents.
        chunks: Number of their chunks.
        embedder: Name of the embedding model.
        dimension: Length of its vectors.
        segmenter: Fingerprint of the segmenter.
    """

    path: str
    documents: int
    chunks: int
    embedder: str
    dimension: int
    segmenter: str

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        return asdict(self)
