"""The bundled models behind one door: ``load_model``, and the paper's model of two sentences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.errors import ModelError
from sage_core.segmentation.context import ContextConfig, ContextNetwork
from sage_core.segmentation.encoder import EncoderConfig, StaticEncoder, tokenize
from sage_core.segmentation.ops import Floats, Tensors, linear, relu, require, sigmoid
from sage_core.segmentation.protocol import BoundaryModel
from sage_core.segmentation.storage import CONFIG_FILE, WEIGHTS, load_folder

DEFAULT = "pair"  # what "default" stands for
_GAPS_A_BLOCK = 1024


class PairModel:
    """P(same) from two sentences: the paper's figure 4.

    Args:
        config: ``encoder`` (see ``EncoderConfig``), ``hidden``, ``calibration`` (``scale`` and ``shift`` of
            the logit).
        tensors: Weights.
        fingerprint: Identifies them.

    Raises:
        ModelError: Where weights and configuration do not fit.
    """

    kind = "pair"
    tokenizer_name = "bert"

    def __init__(self, config: dict[str, Any], tensors: Tensors, fingerprint: str) -> None:
        self.config = config
        self.fingerprint = fingerprint
        self.encoder = StaticEncoder(encoder_config(config), tensors)
        self._calibration = calibration(config)
        size, hidden = self.encoder.size, int(config["hidden"])
        require(
            tensors,
            {
                "hidden.weight": (4 * size, hidden),
                "hidden.bias": (hidden,),
                "output.weight": (hidden, 1),
                "output.bias": (1,),
            },
        )
        self._tensors = tensors
        # W [x1, x2, x1 - x2, x1 * x2] = (Wa + Wc) x1 + (Wb - Wc) x2 + Wd (x1 * x2)
        first, second, difference, product = np.split(tensors["hidden.weight"], 4)
        self._folded = np.concatenate([first + difference, second - difference, product])

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """P(same) for every pair of neighbours; see ``protocol.BoundaryModel``."""
        return self.probabilities_and_lengths(documents)[0]

    def probabilities_and_lengths(
        self, documents: Sequence[Sequence[str]]
    ) -> tuple[list[NDArray[np.float32]], NDArray[np.int64]]:
        """Also the number of tokens of every sentence; see ``protocol.CountingModel``."""
        sentences = [text for document in documents for text in document]
        tokens = tokenize(sentences, self.encoder.config.max_tokens)
        vectors, _ = self.encoder.encode_tokens(tokens)
        values = probability(self.logits(vectors[:-1], vectors[1:]), self._calibration)
        return split_gaps(values, [len(document) for document in documents]), tokens.full_lengths

    def pair_probabilities(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float32]:
        """P(same) of pairs of sentences, whatever their order in a text."""
        tokens = tokenize([*left, *right], self.encoder.config.max_tokens)
        vectors, _ = self.encoder.encode_tokens(tokens)
        return probability(self.logits(vectors[: len(left)], vectors[len(left) :]), self._calibration)

    def logits(self, left: Floats, right: Floats) -> Floats:
        """(p,) logits, before calibration, of p pairs of vectors."""
        result = np.empty(len(left), np.float32)
        for start in range(0, len(left), _GAPS_A_BLOCK):
            rows = slice(start, start + _GAPS_A_BLOCK)
            features = np.concatenate([left[rows], right[rows], left[rows] * right[rows]], axis=1)
            hidden = relu(features @ self._folded + self._tensors["hidden.bias"])
            result[rows] = linear(hidden, self._tensors, "output")[:, 0]
        return result


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
        """P(same) for every pair of neighbours; see ``protocol.BoundaryModel``."""
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
    """
    name = DEFAULT if name_or_path == "default" else name_or_path
    bundled = WEIGHTS / name if isinstance(name, str) and name in bundled_models() else None
    if bundled is not None:
        return _bundled(bundled)
    path = Path(name).expanduser()
    if not path.is_dir():
        known = ", ".join(["default", *bundled_models()])
        raise ModelError(
            f"there is no model {str(name)!r}; give one of {known}, or the folder of a trained one"
        )
    return read_model(path)


def bundled_models() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(path.parent.name for path in WEIGHTS.glob(f"*/{CONFIG_FILE}"))


@lru_cache(maxsize=8)
def _bundled(folder: Path) -> BoundaryModel:
    return read_model(folder)


def read_model(folder: Path) -> BoundaryModel:
    """The model in a folder.

    Raises:
        ModelError: Where it cannot be read, or is of a kind this version does not know.
    """
    config, tensors, fingerprint = load_folder(folder)
    kinds: dict[str, type[PairModel] | type[ContextModel]] = {"pair": PairModel, "context": ContextModel}
    kind = kinds.get(str(config.get("kind")))
    if kind is None:
        raise ModelError(f"{folder} holds a model of kind {config.get('kind')!r}; known are {sorted(kinds)}")
    try:
        return kind(config, tensors, fingerprint)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"the configuration in {folder} is damaged: {error!r}; train the model again"
        ) from error


def encoder_config(config: dict[str, Any]) -> EncoderConfig:
    """The encoder's part of a model's configuration."""
    return EncoderConfig(**{name: int(value) for name, value in config["encoder"].items()})


def calibration(config: dict[str, Any]) -> tuple[float, float]:
    """``(scale, shift)`` such that P(same) = sigmoid(scale * logit + shift)."""
    values = config.get("calibration", {"scale": 1.0, "shift": 0.0})
    return float(values["scale"]), float(values["shift"])


def probability(logits: Floats, calibrated: tuple[float, float]) -> NDArray[np.float32]:
    """P(same) from logits."""
    return sigmoid(logits * np.float32(calibrated[0]) + np.float32(calibrated[1]))


def split_gaps(values: NDArray[np.float32], sizes: Sequence[int]) -> list[NDArray[np.float32]]:
    """Values of all neighbours of one long row of sentences, by document; none between documents."""
    ends = np.cumsum(sizes)
    return [values[end - size : max(end - 1, end - size)] for end, size in zip(ends, sizes, strict=True)]
