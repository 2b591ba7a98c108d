"""Which models a store was made with, and whether others may be used with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

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
    """

    embedder: str
    probe: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    segmenter: str = ""

    def difference(self, given: StoreIdentity) -> str | None:
        """How ``given`` differs, as "this, not that"; None where it may be used with a store of ``self``.

        The embedding model must agree by name, dimension and the vector it gives the probe; the segmenter by
        fingerprint, unless ``given`` has none.
        """
        if self.embedder != given.embedder:
            return f"embedding model {self.embedder!r}, not with {given.embedder!r}"
        mine, other = self.probe.size, given.probe.size
        if other and mine != other:
            return f"{self.embedder!r} of {mine} dimensions, not with one of {other}"
        if other and float(self.probe @ given.probe) < _SAME_MODEL:
            return f"other weights of {self.embedder!r} than these"
        if given.segmenter and self.segmenter != given.segmenter:
            return f"segmenter {self.segmenter[:12]}, not with {given.segmenter[:12]}"
        return None

    def to_settings(self) -> dict[str, Setting]:
        """What a manifest keeps of it."""
        return {
            "embedder": self.embedder,
            "probe": self.probe.astype("<f4").tobytes(),
            "segmenter": self.segmenter,
        }

    @classmethod
    def from_settings(cls, settings: Mapping[str, Setting]) -> StoreIdentity:
        """The reverse of `to_settings`."""
        probe = settings["probe"]
        return cls(
            str(settings["embedder"]),
            np.frombuffer(probe if isinstance(probe, bytes) else b"", dtype="<f4"),
            str(settings["segmenter"]),
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
