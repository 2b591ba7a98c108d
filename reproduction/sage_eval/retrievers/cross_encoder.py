"""Cross-encoders of sentence-transformers, which the papers rerank with."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sage_app.models.embedders import LOADING_ERRORS, quiet_loading
from sage_core.errors import InputError, MissingExtraError, ModelError
from sage_core.ranking.protocol import check_request
from sage_core.selection import Scale
from sage_core.text.tokens import without_lone_surrogates


class CrossEncoderReranker:
    """A transformer with one output that reads the question and the text together. Gives raw logits.

    A sigmoid in half precision rounds the best scores to the same 1.0 and with it loses their order, so none
    is applied and the weights are held in float32. Loads on first use.

    Args:
        name_or_path: A model's name on the Hugging Face hub, or a folder.
        device: ``"cpu"``, ``"cuda"``, ...; None lets sentence-transformers choose.

    Raises:
        InputError: For an empty name.
        MissingExtraError: On first use, if sentence-transformers is not installed.
        ModelError: On first use, if the model cannot be loaded or does not give one score per pair.
    """

    scale: Scale = "logit"

    def __init__(self, name_or_path: str | Path, *, device: str | None = None) -> None:
        if not str(name_or_path).strip():
            raise InputError("a cross-encoder needs a name or a folder")
        self.name = str(name_or_path)
        self._device = device
        self._model: Any = None
        self._lock = threading.Lock()  # fast tokenizers cannot be shared by threads

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One raw logit per text; see `sage_core.ranking.Reranker.score`."""
        check_request(query, texts)
        if not texts:
            return []
        question = without_lone_surrogates(query)
        with self._lock:
            model = self._loaded()
            logits = model.predict(
                [(question, without_lone_surrogates(text)) for text in texts],
                activation_fn=_unchanged,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return [float(x) for x in np.asarray(logits, dtype=np.float32).reshape(len(texts))]

    def _loaded(self) -> Any:
        """The model, loaded once. Hold the lock."""
        if self._model is None:
            try:
                from sentence_transformers import CrossEncoder
            except ImportError as error:
                raise MissingExtraError("a cross-encoder", "models") from error
            try:
                with quiet_loading():
                    model = CrossEncoder(
                        self.name,
                        device=self._device,
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
                raise ModelError(f"{self.name!r} gives {outputs} scores per pair; a reranker gives one")
            model.float()
            self._model = model
        return self._model


def _unchanged(logits: Any) -> Any:
    return logits
