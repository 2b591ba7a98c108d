"""Where token tables start from: what a pretrained sentence model knows of each token, in few dimensions."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.sentence_transformer import LOADING_ERRORS, bundled_model_path, quiet_loading
from sage_core.errors import MissingExtraError, ModelError
from sage_core.segmentation.models.ops import Floats

_log = logging.getLogger(__name__)
_SPREAD = 0.5  # standard deviation of the tables' entries
_RARE = 1e-3  # tokens above this share of the text weigh little (Arora et al. 2017)
_RAREST, _COMMON = 1e-7, 1.5e-3
_BATCH = 1024


def pretrained_features(name_or_path: str, vocabulary: int) -> Floats:
    """What a sentence-transformers model knows of each token of its vocabulary.

    Returns:
        (vocabulary, 2 * width): the token's word embedding, and the model's output for the token alone.

    Raises:
        MissingExtraError: Without torch and sentence-transformers.
        ModelError: Where the model has another vocabulary.
    """
    import torch

    model = load_sentence_transformer(name_or_path, "cpu")
    transformer = model[0].auto_model.eval()
    words = transformer.get_input_embeddings().weight.detach().float().numpy()
    if len(words) != vocabulary:
        raise ModelError(f"{name_or_path} has {len(words)} tokens, the bundled tokenizer {vocabulary}")
    begin, end = model.tokenizer.cls_token_id, model.tokenizer.sep_token_id
    alone = []
    with torch.inference_mode():
        for start in range(0, vocabulary, _BATCH):
            ids = torch.arange(start, min(start + _BATCH, vocabulary))
            rows = torch.stack([torch.full_like(ids, begin), ids, torch.full_like(ids, end)], 1)
            alone.append(transformer(input_ids=rows, attention_mask=torch.ones_like(rows))[0].mean(1).numpy())
    _log.info("pretrained features of %d tokens from %s", vocabulary, name_or_path)
    return np.concatenate([_unit(words), _unit(np.concatenate(alone))], axis=1)


def principal_components(features: Floats, size: int) -> Floats:
    """(rows, size) first principal components, scaled to the spread tables start with."""
    centred = (features - features.mean(0)).astype(np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    axes = vectors[:, ::-1][:, :size]
    axes = axes * np.sign(
        axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])]
    )  # a sign that does not depend on LAPACK
    table = centred @ axes
    result: Floats = (table / table.std() * _SPREAD).astype(np.float32)
    return result


def token_shares(ids: NDArray[np.int32], vocabulary: int) -> NDArray[np.float64]:
    """Share of every token in a text."""
    counts = np.bincount(ids, minlength=vocabulary).astype(np.float64)
    shares: NDArray[np.float64] = counts / max(1.0, counts.sum())
    return shares


def start_weights(shares: NDArray[np.float64]) -> Floats:
    """Log weights of tokens in the mean: frequent ones weigh little (smooth inverse frequency)."""
    result: Floats = np.log(_RARE / (_RARE + shares)).astype(np.float32)
    return result


def rarity(shares: NDArray[np.float64]) -> Floats:
    """Weights of tokens where names are compared: 0 for frequent ones, up to 1."""
    values = np.clip(-np.log(shares + _RAREST) + np.log(_COMMON), 0.0, None)
    result: Floats = (values / max(float(values.max()), 1e-9)).astype(np.float32)
    return result


def _unit(rows: Floats) -> Floats:
    centred = rows - rows.mean(0)
    result: Floats = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-6)
    return result


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
