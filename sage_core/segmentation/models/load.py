"""The models behind one door: ``load_model``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core._checks import likely_typo
from sage_core.documents.discovery import as_path, kind_of
from sage_core.embedding.ops import Tensors
from sage_core.embedding.storage import CONFIG_FILE, MODEL_FILE, load_folder
from sage_core.errors import ModelError
from sage_core.segmentation.models.context import ContextConfig, ContextNetwork
from sage_core.segmentation.models.pair import PairModel, calibration, encoder_config, probability
from sage_core.segmentation.models.protocol import BoundaryModel

WEIGHTS = Path(__file__).parents[1] / "weights"
DEFAULT = "context"  # what "default" stands for


class ContextModel:
    """P(same) from several sentences on each side; see ``context.py``.

    Args:
        config: ``encoder``, ``context`` (see ``ContextConfig``) and ``calibration``.
        tensors: Weights.
        fingerprint: Identifies them.

    Raises:
        ModelError: Where weights and configuration do not fit.
    """

    kind = "context"
    tokenizer_name = "bert"

    def __init__(self, config: dict[str, Any], tensors: Tensors, fingerprint: str) -> None:
        self.config = config
        self.fingerprint = fingerprint
        context = ContextConfig.from_dict(config["context"])
        self.network = ContextNetwork(encoder_config(config), context, tensors)
        self._calibration = calibration(config)

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """P(same) for every pair of neighbors; see ``protocol.BoundaryModel``."""
        return self.probabilities_and_lengths(documents)[0]

    def probabilities_and_lengths(
        self, documents: Sequence[Sequence[str]]
    ) -> tuple[list[NDArray[np.float32]], NDArray[np.int64]]:
        """Also the number of tokens of every sentence; see ``protocol.CountingModel``."""
        logits, lengths = self.network.logits(documents)
        return [probability(values, self._calibration) for values in logits], lengths


def load_model(name_or_path: str | Path = "default") -> BoundaryModel:
    """A boundary model by name or folder.

    Args:
        name_or_path: ``"default"``, ``"pair"`` (the paper's model), ``"context"``, or a folder holding
            ``model.safetensors`` and ``config.json``.

    Raises:
        ModelError: Where there is no such model, or its files are damaged.
        InputError: For a name that is blank, or that cannot be looked up.
    """
    folder = find_model(name_or_path)
    return _bundled(folder) if folder.parent == WEIGHTS else read_model(folder)


def find_model(name_or_path: str | Path) -> Path:
    """The folder of a model, which is not read; errors are those of `load_model`."""
    name = DEFAULT if name_or_path == "default" else name_or_path
    if isinstance(name, str) and name in bundled_models():
        return WEIGHTS / name
    path = as_path(name)
    if kind_of(path) != "folder":
        known = ["default", *bundled_models()]
        meant = likely_typo(str(name), known)
        hint = f" (did you mean {meant!r}?)" if meant else ""
        raise ModelError(
            f"there is no model {str(name)!r}{hint}; give one of {', '.join(known)}, or the folder of a "
            "trained one"
        )
    return path


def bundled_models() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(path.parent.name for path in WEIGHTS.glob(f"*/{CONFIG_FILE}"))


@lru_cache(maxsize=8)
def _bundled(folder: Path) -> BoundaryModel:
    return read_model(folder)


def read_model(folder: Path) -> BoundaryModel:
    """The model in a folder; ModelError where it cannot be read, or is of an unknown kind."""
    config, tensors, fingerprint = load_folder(folder)
    kind = config.get("kind")
    try:
        if kind == "pair":
            return PairModel(config, tensors, fingerprint)
        if kind == "context":
            return ContextModel(config, tensors, fingerprint)
    except ModelError as error:
        raise ModelError(f"{folder / MODEL_FILE}: {error}") from error
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ModelError(
            f"the configuration in {folder} is damaged: {error!r}; train the model again"
        ) from error
    raise ModelError(f"{folder} holds a model of kind {kind!r}; known are 'pair' and 'context'")
