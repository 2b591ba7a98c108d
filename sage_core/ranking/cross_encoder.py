"""Cross-encoders: a transformer reads the question and the text together."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sage_core._microbatch import MicroBatcher
from sage_core.embedding.pairs import SHORTEST_PAIR
from sage_core.embedding.sentence_transformer import LOADING_ERRORS, quiet_loading
from sage_core.errors import InputError, MissingExtraError, ModelError
from sage_core.ranking.packed import OFFLINE, PackedCrossEncoder, is_packed, require_offline_folder
from sage_core.ranking.protocol import Request, check_request
from sage_core.selection import Scale
from sage_core.text.tokens import without_lone_surrogates

logger = logging.getLogger(__name__)

# How transformers names classification heads: BERT and most others, GPT-like ones, XLNet and XLM.
_HEADS = ("classifier", "classification_head", "score", "logits_proj", "sequence_summary", "pre_classifier")

_Predict = Callable[[list[tuple[str, str]]], Any]


class CrossEncoderReranker:
    """A cross-encoder with one output: sage-minilm, or any of sentence-transformers. Gives raw logits.

    A sigmoid in half precision rounds the best scores to the same 1.0 and with it loses their order, so
    none is applied and the weights are held in float32. Loads on first use, pickles without its weights, safe
    across threads.

    Examples:
        >>> texts = ["It leaves at seven.", "Bees fly."]
        >>> scores = CrossEncoderReranker().score("When does the ferry leave?", texts)
        >>> scores[0] > scores[1]
        True

    Args:
        name_or_path: ``"sage-minilm"``, the cross-encoder of the distribution sage-rag-models (English, six
            layers, no download), a model's name on the Hugging Face hub, or a folder.
        device: ``"cpu"``, ``"cuda"``, ...; None lets sentence-transformers choose.
        batch_size: Pairs in one forward pass.
        max_length: Most tokens of a pair; the rest of the text is not read. None: the model's own limit.

    Raises:
        InputError: For an empty name or sizes below 1.
        MissingExtraError: On first use, where sentence-transformers is not installed.
        ModelError: On first use, where sage-minilm is not installed, or the model cannot be loaded, is no
            sequence classifier (such as an embedding model), or does not give one score per pair.
    """

    scale: Scale = "logit"

    def __init__(
        self,
        name_or_path: str | Path = OFFLINE,
        *,
        device: str | None = None,
        batch_size: int = 32,
        max_length: int | None = None,
    ) -> None:
        if not str(name_or_path).strip():
            raise InputError("a cross-encoder needs a name or a folder")
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, not {batch_size}")
        if max_length is not None and max_length < SHORTEST_PAIR:
            raise InputError(f"max_length must be at least {SHORTEST_PAIR}, not {max_length}")
        self.name = str(name_or_path)
        self._device = device
        self._batch_size = batch_size
        self._max_length = max_length
        self._model: _Predict | None = None
        self._init_runtime_state()

    def _init_runtime_state(self) -> None:
        """Create locks and the batcher; called again after unpickling."""
        # Fast tokenizers cannot be shared by threads, and torch uses every core within one call anyway.
        self._lock = threading.Lock()
        self._batcher: MicroBatcher[Request, list[float]] = MicroBatcher(
            self.score_many, weight=lambda request: len(request.texts), limit=512, delay=0.002
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None, "_lock": None, "_batcher": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._init_runtime_state()

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One raw logit per text; see `Reranker.score`. Simultaneous calls share batches."""
        check_request(query, texts)
        return self._batcher(Request(query, texts))

    def score_many(self, requests: Sequence[Request]) -> list[list[float]]:
        """Score the candidates of several questions in shared batches; see `BatchReranker.score_many`."""
        clean = without_lone_surrogates
        questions = [clean(request.query) for request in requests]
        pairs = [(q, clean(t)) for q, request in zip(questions, requests, strict=True) for t in request.texts]
        # One flat list shares batches between questions; the iterator deals the scores out again.
        logits = iter(self._predict(pairs))
        return [[next(logits) for _ in request.texts] for request in requests]

    def _predict(self, pairs: list[tuple[str, str]]) -> list[float]:
        if not pairs:
            return []
        with self._lock:
            logits = self._loaded()(pairs)
        return [float(x) for x in np.asarray(logits, dtype=np.float32).reshape(len(pairs))]

    def _loaded(self) -> _Predict:
        """The function that scores pairs; its model is loaded once. Hold the lock."""
        if self._model is None:
            logger.info("loading cross-encoder %s", self.name)
            folder = require_offline_folder() if self.name == OFFLINE else Path(self.name)
            if self.name == OFFLINE or is_packed(folder):
                packed = PackedCrossEncoder(folder, device=self._device, max_length=self._max_length)
                self._model = packed.logits
            else:
                self._model = self._of_sentence_transformers()
        return self._model

    def _of_sentence_transformers(self) -> _Predict:
        """The model of that name or folder, held in float32."""
        try:
            import torch
            from sentence_transformers import CrossEncoder
        except ImportError as error:
            raise MissingExtraError("a cross-encoder", "models") from error
        try:
            with quiet_loading():
                check_head(self.name)
                model = CrossEncoder(
                    self.name,
                    device=self._device,
                    max_length=self._max_length,
                    trust_remote_code=False,
                    model_kwargs={"use_safetensors": True},
                )
        except LOADING_ERRORS as error:
            raise ModelError(
                f"cannot load the cross-encoder {self.name!r} ({error}). Give the folder of a "
                "sequence-classification model with one output, or a name that can be downloaded."
            ) from error
        outputs = int(model.config.num_labels)
        # Generative rerankers report the size of a vocabulary or 2 here and are scored by two words.
        if outputs != 1 and not str((model.config.architectures or [""])[0]).endswith("ForCausalLM"):
            raise ModelError(
                f"{self.name!r} gives {outputs} scores per pair (a classifier?); a reranker gives one"
            )
        model.float()
        return partial(
            model.predict,
            batch_size=self._batch_size,
            activation_fn=torch.nn.Identity(),
            show_progress_bar=False,
            convert_to_numpy=True,
        )


def check_head(name: str) -> None:
    """Refuse a model without a trained classification head: a new one would give random scores.

    Raises:
        ModelError: Where the configuration names another kind of model, or the weights hold no head.
        OSError: Where there is no such model.
    """
    from transformers.utils import cached_file

    def read(path: str) -> dict[str, Any]:
        cached = cached_file(name, path, _raise_exceptions_for_missing_entries=False)
        return {} if cached is None else dict(json.loads(Path(cached).read_text(encoding="utf-8")))

    if read("config_sentence_transformers.json").get("model_type") == "CrossEncoder":
        return  # sentence-transformers' own format: its modules say how the score is made
    kind = str((read("config.json").get("architectures") or [""])[0])
    if kind.endswith("ForCausalLM"):
        return  # scored by the log-odds of two words, such as "yes" against "no": no head is needed
    if kind and not kind.endswith("ForSequenceClassification"):
        raise ModelError(f"{name!r} is a {kind}, no cross-encoder: scores would be random. {_advice(kind)}")
    weights = cached_file(name, "model.safetensors", _raise_exceptions_for_missing_entries=False)
    if weights is not None and not _has_head(Path(weights)):
        raise ModelError(f"{name!r} has no weights of a classification head: scores would be random")


def _has_head(weights: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, framework="numpy") as file:
            return any(key.startswith(_HEADS) for key in file.keys())  # noqa: SIM118 (no mapping)
    except SafetensorError as error:
        raise ValueError(f"{weights} is damaged: {error}") from error


def _advice(kind: str) -> str:
    """What to use such a model with."""
    if kind.endswith("ForConditionalGeneration"):
        return "A reranker of that kind (monoT5) is not supported: take one with a score, or Qwen3-Reranker."
    return "Give a sequence-classification model with one output; an embedding model is an embedder's."
