"""Whether a text says yes to a question or supports a claim: a small BERT with one logit."""

from __future__ import annotations

from pathlib import Path

from sage_core.embedding.encoder import MINILM
from sage_core.embedding.pairs import PairEncoder

FOLDER = MINILM.with_name("sage-entailment")


class Entailment(PairEncoder):
    """Reads a claim, or a question for yes or no, beside a text: a logit above 0 where the text supports it.

    English; no LLM; safe across threads. See the model card in its folder.

    Args:
        folder: A model's folder.

    Raises:
        ModelError: Where the files are missing or damaged.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        super().__init__(folder, "affirms")
