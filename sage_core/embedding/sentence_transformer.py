"""Models of sentence-transformers as an `Embedder`."""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.local import LocalEmbedder
from sage_core.embedding.minilm import BUNDLED, DEFAULT_EMBEDDER
from sage_core.embedding.protocol import unit_rows
from sage_core.errors import InputError, MissingExtraError, ModelError
from sage_core.text.tokens import TokenCounter, TokenizerCounter

logger = logging.getLogger(__name__)

# Characters, padding included, that one forward pass takes. Packing texts of like length up to this size
# is about 1.6 times as fast as batches of 32 on a CPU; an accelerator wants far larger passes.
_BATCH_CHARACTERS = 8_192
_BATCH_CHARACTERS_ACCELERATOR = 262_144
_MAX_BATCH = 1_024

# Forward passes after which freed memory is given back to the system.
_TRIM_PASSES = 16


def pack_by_length(lengths: Sequence[int], budget: int, *, largest: int = _MAX_BATCH) -> list[list[int]]:
    """Positions of items in batches of like length, from short to long, so that little of a batch is padding.

    A batch's items times its longest item are ``budget`` at most, but for a single longer one; its items
    ``largest``.
    """
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        batch = batches[-1] if batches else None
        if batch is None or len(batch) >= largest or (len(batch) + 1) * lengths[i] > budget:
            batches.append([i])
        else:
            batch.append(i)
    return batches


def _give_memory_back() -> None:
    """Have the C library return free memory to the system, where it is glibc.

    Every forward pass has other shapes, which leaves gaps that no later pass fits: in 5,000 texts the process
    grew by 350 MB, and without end.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


# What sentence-transformers raises: OSError for files and downloads, the others for files of another kind
# or damaged ones, a device that torch does not know (RuntimeError) or was not built for (AssertionError).
LOADING_ERRORS = (OSError, ValueError, LookupError, RuntimeError, AssertionError, TypeError, AttributeError)


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Keep transformers from drawing progress bars while it loads weights (a library prints nothing)."""
    from transformers.utils import logging as transformers_logging

    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


class SentenceTransformerEmbedder(LocalEmbedder):
    """Any sentence-transformers model. Loads on first use, pickles without its weights, safe across threads.

    The bundled all-MiniLM-L6-v2 needs none of this: see `MiniLMEmbedder`.

    Texts beyond the model's own limit (256 word pieces for all-MiniLM-L6-v2) are embedded by their
    beginning. Weights load from safetensors only.

    Examples:
        >>> embedder = SentenceTransformerEmbedder("BAAI/bge-small-en-v1.5")
        >>> embedder.embed_documents(["The ferry leaves at seven."]).shape  # doctest: +SKIP
        (1, 384)

    Args:
        name_or_path: A model's name or folder; a name that is not a folder is fetched by
            sentence-transformers from the Hugging Face hub.
        device: ``"cpu"``, ``"cuda"``, ...; None lets sentence-transformers choose.
        batch_characters: Characters, padding included, in one forward pass.
        normalize: Scale vectors to length 1, as an `Embedder` gives them. False keeps their length, for
            models whose products of vectors mean something else than cosines.

    Raises:
        InputError: For an empty name or a batch size below 1.
        MissingExtraError: On first use, where sentence-transformers is not installed.
        ModelError: On first use, where the model cannot be loaded.
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        device: str | None = None,
        batch_characters: int | None = None,
        normalize: bool = True,
    ) -> None:
        if not str(name_or_path).strip():
            raise InputError("an embedding model needs a name or a folder")
        if batch_characters is not None and batch_characters < 1:
            raise InputError(f"batch_characters must be at least 1, not {batch_characters}")
        self._source = str(name_or_path)
        self._device = device
        self._batch_characters = batch_characters
        self._normalize = normalize
        self._passes = 0
        super().__init__()

    @property
    def name(self) -> str:
        """The model's name; all-MiniLM-L6-v2 has one name wherever its files lie."""
        return DEFAULT_EMBEDDER if self._source in BUNDLED else self._source

    @property
    def max_tokens(self) -> int | None:
        """Most tokens of a text that the model reads, marks at its ends not counted; loads the model."""
        with self._lock:
            limit = self._loaded().max_seq_length
        return int(limit) - 2 if limit else None

    @property
    def counter(self) -> TokenCounter:
        """Counts what the model reads; loads the model."""
        with self._lock:
            return TokenizerCounter(self._loaded().tokenizer)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._source!r})"

    def _encode(self, texts: Sequence[str], *, question: bool) -> NDArray[np.float32]:
        """Unit rows for ``texts``, encoded in batches of like length. Hold the lock."""
        model = self._loaded()
        # Models with separate prompts for questions and passages have these; older releases only `encode`.
        encode = getattr(model, "encode_query" if question else "encode_document", model.encode)
        if not texts:
            # Older releases say `get_sentence_embedding_dimension`.
            size = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
            return np.zeros((0, int(size() or 0)), dtype=np.float32)
        on_cpu = str(getattr(model, "device", "cpu")) == "cpu"
        budget = self._batch_characters or (_BATCH_CHARACTERS if on_cpu else _BATCH_CHARACTERS_ACCELERATOR)
        parts: list[tuple[list[int], NDArray[Any]]] = []
        for batch in pack_by_length([len(t) for t in texts], budget):
            rows = encode([texts[i] for i in batch], batch_size=len(batch), show_progress_bar=False)
            parts.append((batch, np.asarray(rows, dtype=np.float32)))
            self._passes += 1
            if on_cpu and self._passes % _TRIM_PASSES == 0:
                _give_memory_back()
        vectors = np.empty((len(texts), parts[0][1].shape[1]), dtype=np.float32)
        for batch, rows in parts:
            vectors[batch] = rows
        return unit_rows(vectors) if self._normalize else vectors

    def _load(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingExtraError(f"the embedding model {self._source!r}", "models") from error
        logger.info("loading embedding model %s", self._source)
        try:
            with quiet_loading():
                return SentenceTransformer(
                    self._source,
                    device=self._device,
                    trust_remote_code=False,
                    model_kwargs={"use_safetensors": True},
                )
        except LOADING_ERRORS as error:
            raise ModelError(
                f"cannot load the embedding model {self._source!r} ({error}). Give the folder of a "
                "sentence-transformers model with weights in safetensors; MiniLMEmbedder() needs no download."
            ) from error
