"""The bundled embedding model, all-MiniLM-L6-v2 in 8 bits: numpy alone, no download."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.encoder import load_encoder, mean_of_texts
from sage_core.embedding.local import LocalEmbedder
from sage_core.embedding.protocol import unit_rows
from sage_core.text.tokens import PieceCounter, without_lone_surrogates
from sage_core.text.wordpiece import TOKENIZER_FILE, without_rules

DEFAULT_EMBEDDER = "all-MiniLM-L6-v2"
BUNDLED = (DEFAULT_EMBEDDER, f"sentence-transformers/{DEFAULT_EMBEDDER}")
"""Names of the bundled model."""

WEIGHTS = Path(__file__).parent / "weights" / DEFAULT_EMBEDDER
_LONGEST = 256  # Word pieces, marks included: the model's own limit.
_TEXTS = 512  # Whose word pieces are in memory at a time.


class MiniLMEmbedder(LocalEmbedder):
    """all-MiniLM-L6-v2, as it comes with this package. Loads on first use, safe across threads.

    The matrices are held in 8 bits in the package and in float32 in memory. Vectors have a cosine of .9998 to
    those of the original weights, so that stores made with either can be used with both. Texts beyond 254
    word pieces are embedded by their beginning.

    Examples:
        >>> embedder = MiniLMEmbedder()
        >>> embedder.embed_documents(["The ferry leaves at seven.", "Bees fly."]).shape
        (2, 384)

    Raises:
        ModelError: On first use, where the weights are missing or damaged.
    """

    max_tokens = _LONGEST - 2
    """Most tokens of a text that the model reads, marks at its ends not counted."""

    counter = PieceCounter()
    """Counts what the model reads."""

    @property
    def name(self) -> str:
        """The model's name, whatever its weights are held in."""
        return DEFAULT_EMBEDDER

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _load(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
        tokenizer.enable_truncation(_LONGEST)
        return tokenizer, load_encoder(WEIGHTS).encoder

    def _encode(self, texts: Sequence[str], *, question: bool) -> NDArray[np.float32]:
        tokenizer, encoder = self._loaded()
        vectors = np.empty((len(texts), encoder.size), np.float32)
        # By length in characters first, so that portions hold texts of like length.
        order = np.argsort([len(text) for text in texts], kind="stable")
        for at in range(0, len(order), _TEXTS):
            portion = order[at : at + _TEXTS]
            encoded = tokenizer.encode_batch(
                [without_lone_surrogates(without_rules(texts[i])) for i in portion]
            )
            for rows, states, starts in encoder.passes([one.ids for one in encoded]):
                vectors[portion[rows]] = mean_of_texts(states, starts)
        return unit_rows(vectors)
