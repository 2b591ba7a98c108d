"""What turns the features of the offline reranker into a probability."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.errors import ModelError
from sage_core.ranking.features import MEANING, WORDS

FILE = "calibration.json"


@dataclass(frozen=True, slots=True)
class Logistic:
    """A logistic model with a ceiling.

    Attributes:
        coefficients: One per feature.
        intercept: The log-odds where every feature is 0.
        ceiling: The highest probability: of the chunks that match a question in every way, this share holds
            evidence.
    """

    coefficients: tuple[float, ...]
    intercept: float
    ceiling: float = 1.0

    def probability(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability of relevance for each row of ``features``."""
        logits = features @ np.array(self.coefficients) + self.intercept
        # A sigmoid that cannot overflow.
        return np.asarray(self.ceiling * 0.5 * (1.0 + np.tanh(0.5 * logits)))


@dataclass(frozen=True, slots=True)
class Calibration:
    """The two logistic models of the hybrid, fitted by ``benchmarks/calibrate_reranker.py``.

    Examples:
        >>> len(Calibration.load().with_scores.coefficients)
        5

    Attributes:
        with_scores: Over the standardized scores of a search and the words.
        words_only: Over the words, where there are no scores.
    """

    with_scores: Logistic
    words_only: Logistic

    @classmethod
    def load(cls, path: Path | None = None) -> Calibration:
        """Read a calibration.

        Args:
            path: The file; None for the package's.

        Raises:
            ModelError: For a file that cannot be read or was fitted on other features.
        """
        try:
            source = path or resources.files("sage_core.ranking").joinpath(FILE)
            data = json.loads(source.read_text(encoding="utf-8"))
            return cls(
                _read(data["with_scores"], (*MEANING, *WORDS)),
                _read(data["words_only"], WORDS),
            )
        except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise ModelError(
                f"cannot use the calibration {path or 'of the package'} ({error}): remake it with "
                "benchmarks/calibrate_reranker.py"
            ) from error


def _read(data: Mapping[str, Any], features: tuple[str, ...]) -> Logistic:
    """A model over ``features``; those that the file leaves out have no weight."""
    coefficients = data["coefficients"]
    # A subset may be fitted without some; another feature would be multiplied with the wrong column.
    if not coefficients or not set(coefficients) <= set(features):
        raise ValueError(f"fitted on {', '.join(coefficients)}, not on {', '.join(features)}")
    ceiling = float(data["ceiling"])
    if not 0 < ceiling <= 1:
        raise ValueError(f"its ceiling is {ceiling}, not a probability above 0")
    return Logistic(
        tuple(float(coefficients.get(name, 0.0)) for name in features), float(data["intercept"]), ceiling
    )
