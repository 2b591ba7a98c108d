"""What turns the features of the offline reranker into a probability."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sage_core.errors import ModelError
from sage_core.ranking.features import FEATURES

CROSSED = "cross_encoder"
"""Name of the feature that is a cross-encoder's logit."""

FILE = "calibration.json"
CROSSED_FILE = "calibration_cross_encoder.json"


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic model over `FEATURES`, fitted by ``benchmarks/calibrate_reranker.py``.

    Examples:
        >>> Calibration.load().embedder
        'all-MiniLM-L6-v2'

    Attributes:
        embedder: Name of the embedding model whose cosines it was fitted on.
        coefficients: One per feature; with a cross-encoder, its logit's last.
        intercept: The log-odds where every feature is 0.
        cross_encoder: Name of the cross-encoder whose logit it was fitted on; None for none.
        ceiling: The highest probability: of the chunks that match a question in every way, this share holds
            evidence.
    """

    embedder: str
    coefficients: tuple[float, ...]
    intercept: float
    cross_encoder: str | None = None
    ceiling: float = 1.0

    @classmethod
    def load(cls, path: Path | None = None, *, crossed: bool = False) -> Calibration:
        """Read a calibration.

        Args:
            path: The file; None for the package's.
            crossed: Whether the logit of a cross-encoder is among the features.

        Raises:
            ModelError: For a file that cannot be read or was fitted on other features.
        """
        try:
            source = path or resources.files("sage_core.ranking").joinpath(CROSSED_FILE if crossed else FILE)
            data = json.loads(source.read_text(encoding="utf-8"))
            coefficients = data["coefficients"]
            expected = (*FEATURES, CROSSED) if crossed else FEATURES
            if tuple(coefficients) != expected:
                raise ValueError(f"fitted on {', '.join(coefficients)}, not on {', '.join(expected)}")
            values = tuple(float(x) for x in coefficients.values())
            crossing = str(data["cross_encoder"]) if crossed else None
            ceiling = float(data.get("ceiling", 1.0))
            if not 0 < ceiling <= 1:
                raise ValueError(f"its ceiling is {ceiling}, not a probability above 0")
            return cls(str(data["embedder"]), values, float(data["intercept"]), crossing, ceiling)
        except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise ModelError(
                f"cannot use the calibration {path or 'of the package'} ({error}): remake it with "
                "benchmarks/calibrate_reranker.py"
            ) from error

    def probability(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability of relevance for each row of ``features``."""
        logits = features @ np.array(self.coefficients) + self.intercept
        # A sigmoid that cannot overflow.
        return np.asarray(self.ceiling * 0.5 * (1.0 + np.tanh(0.5 * logits)))
