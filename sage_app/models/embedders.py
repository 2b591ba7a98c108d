"""Embedding models by name: the bundled one, models of sentence-transformers, and those of a server."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_app.models.served import OpenAIEmbedder
from sage_core.embedding.local import LocalEmbedder
from sage_core.embedding.minilm import BUNDLED, DEFAULT_EMBEDDER, MiniLMEmbedder
from sage_core.embedding.protocol import Embedder, unit_rows
from sage_core.errors import InputError, MissingExtraError, ModelError
from sage_core.text.tokens import TokenCounter, TokenizerCounter

logger = logging.getLogger(__name__)

OPENAI = "openai:"
"""Before the name of a model behind OpenAI's interface."""

_HOSTED = ("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002")


def named_embedder(
    name: str, *, base_url: str | None = None, timeout: float = 60.0, device: str | None = None
) -> Embedder:
    """The embedding model of a name.

        >>> named_embedder("openai:text-embedding-3-small").name
        'text-embedding-3-small'

    Args:
        name: ``"all-MiniLM-L6-v2"``, which is bundled; any other sentence-transformers name or folder;
            ``"openai:MODEL"`` for a model of OpenAI, or of a server with the same interface.
        base_url: Address of that server, up to ``/v1``; ``OPENAI_BASE_URL``, else OpenAI's, where None.
            Ignored for models that run here.
        timeout: Seconds that one request may take.
        device: As in torch; None chooses. The bundled model runs on the CPU; with another device
            sentence-transformers loads the original from the hub.

    Raises:
        InputError: For a blank name, or one of a hosted model.
    """
    if not isinstance(name, str) or not name.strip() or name.strip() == OPENAI:
        raise InputError(
            f"the embedding model's name is blank: say 'all-MiniLM-L6-v2', a name or folder of "
            f"sentence-transformers, or '{OPENAI}text-embedding-3-small'"
        )
    kind, colon, model = name.partition(":")
    hosted = name.rpartition("/")[2] in _HOSTED
    # No name on the hub has a colon; on Windows a path may have one, after a letter.
    if hosted or (colon and len(kind) > 1 and f"{kind}:" != OPENAI and not Path(name).exists()):
        meant = f"{OPENAI}{model or name.rpartition('/')[2]}"
        raise InputError(
            f"no embedding model {name!r}: did you mean {meant!r}? There are {DEFAULT_EMBEDDER!r}, any name "
            f"or folder of sentence-transformers, and '{OPENAI}MODEL'"
        )
    if name.startswith(OPENAI):
        return OpenAIEmbedder(name.removeprefix(OPENAI), base_url=base_url, timeout=timeout)
    if name in BUNDLED and device in (None, "cpu"):
        return MiniLMEmbedder()
    return SentenceTransformerEmbedder(name, device=device)


def as_vectors(name: str, given: object, dimensions: int) -> NDArray[np.float32]:
    """What an embedding model gave, as an array: lists of numbers will do.

    Args:
        name: The model's, for the message.
        given: A vector, or a row for each text.
        dimensions: 1 for a vector, 2 for rows.

    Raises:
        InputError: For anything else.
    """
    try:
        found = np.asarray(given)
    except ValueError:  # rows of several lengths
        found = np.asarray(None)
    if found.dtype.kind not in "fiu" or (found.size and found.ndim != dimensions):
        wanted = "a vector" if dimensions == 1 else "a row of numbers for each text"
        raise InputError(f"the embedding model {name!r} gave {given!r:.80}, not {wanted}")
    if found.ndim != dimensions:  # of no texts
        found = found.reshape((0,) * dimensions)
    return found.astype(np.float32, copy=False)


# What sentence-transformers raises: OSError for files and downloads, the others for files of another kind
# or damaged ones, a device that torch does not know (RuntimeError) or was not built for (AssertionError).
LOADING_ERRORS = (
    *(OSError, ValueError, LookupError, RuntimeError, AssertionError, TypeError, AttributeError),
    ImportError,  # of the module of a folder that a newer library wrote
)


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
        normalize: Scale vectors to length 1, as an `Embedder` gives them. False keeps their length, for
            models whose products of vectors mean something else than cosines.

    Raises:
        InputError: For an empty name.
        MissingExtraError: On first use, where sentence-transformers is not installed.
        ModelError: On first use, where the model cannot be loaded.
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        device: str | None = None,
        normalize: bool = True,
    ) -> None:
        if not str(name_or_path).strip():
            raise InputError("an embedding model needs a name or a folder")
        self._source = str(name_or_path)
        self._device = device
        self._normalize = normalize
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
        """One row for each text. Hold the lock."""
        model = self._loaded()
        encode = model.encode_query if question else model.encode_document
        # An empty prompt "document", which the library adds, hides the folder's own "passage" from it.
        prompts = [*(["query"] if question else ["document", "passage", "corpus"]), model.default_prompt_name]
        own = next((name for name in prompts if model.prompts.get(name)), None)
        if not texts:
            # Older releases say `get_sentence_embedding_dimension`.
            size = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
            return np.zeros((0, int(size() or 0)), dtype=np.float32)
        rows = np.asarray(encode(list(texts), prompt_name=own, show_progress_bar=False), dtype=np.float32)
        return unit_rows(rows) if self._normalize else rows

    def _load(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer, __version__
        except ImportError as error:
            raise MissingExtraError(f"the embedding model {self._source!r}", "models") from error
        logger.info("loading embedding model %s", self._source)
        try:
            with quiet_loading():
                model = SentenceTransformer(
                    self._source,
                    device=self._device,
                    trust_remote_code=False,
                    model_kwargs={"use_safetensors": True},
                )
        except LOADING_ERRORS as error:
            raise ModelError(
                f"cannot load the embedding model {self._source!r} by sentence-transformers {__version__} "
                f"({error}). Give a folder of this version with weights in safetensors."
            ) from error
        if Path(self._source).is_dir() and not Path(self._source, "modules.json").is_file():
            logger.warning("%s has no modules.json: mean pooling is assumed", self._source)
        return model.float() if model.device.type == "cpu" else model
