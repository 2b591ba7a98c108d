"""The models behind one door: ``load_model``."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from sage_core._checks import near_match
from sage_core.embedding.ops import Tensors
from sage_core.embedding.storage import CONFIG_FILE, MODEL_FILE, load_folder
from sage_core.errors import MissingExtraError, ModelError
from sage_core.paths import as_path, kind_of
from sage_core.segmentation.models.context import ContextModel
from sage_core.segmentation.models.pair import EncodedModel, PairModel
from sage_core.segmentation.models.protocol import BoundaryModel

WEIGHTS = Path(__file__).parents[1] / "weights"
DEFAULT = "context"  # what "default" stands for


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
        hint = near_match(str(name), known)
        raise ModelError(
            f"there is no model {str(name)!r}{hint}; give one of {', '.join(known)}, or a folder"
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
    kind = str(config.get("kind"))
    kinds: dict[str, type[EncodedModel]] = {"pair": PairModel, "context": ContextModel}
    try:
        if kind == "transformer":
            return _transformer(folder, config, tensors, fingerprint)
        if kind not in kinds:
            raise ModelError(
                f"{folder} holds a model of kind {kind!r}; known are {', '.join(kinds)}, transformer"
            )
        return kinds[kind](config, tensors, fingerprint)
    except ModelError as error:
        raise ModelError(f"{folder / MODEL_FILE}: {error}") from error
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ModelError(
            f"the configuration in {folder} is damaged: {error!r}; train the model again"
        ) from error


def _transformer(folder: Path, config: dict[str, Any], tensors: Tensors, fingerprint: str) -> BoundaryModel:
    try:
        from sage_core.segmentation.models.transformer import TransformerModel
    except ImportError as error:
        raise MissingExtraError("a transformer as boundary model", "models") from error
    return TransformerModel(folder, config, tensors, fingerprint)
