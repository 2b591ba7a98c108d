"""The reader: a small BERT that finds the words of a passage that answer a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.encoder import MINILM
from sage_core.embedding.pairs import PairEncoder
from sage_core.text.spans import Span

FOLDER = MINILM.with_name("sage-reader")

_QUESTION = 400  # Characters of a question that are read.
_ANSWER = 30  # Most word pieces of an answer.


@dataclass(frozen=True, slots=True)
class Answer:
    """Where an answer stands.

    Attributes:
        span: Characters of the text.
        probability: That the answer begins and ends there, if the text holds it.
        margin: Logits of its first and last word piece, less those of the pair's first position, where the
            model that the reader was trained from points for "no answer". Comparable between texts.
    """

    span: Span
    probability: float
    margin: float


class Reader(PairEncoder):
    """Finds the words that answer a question. English; no LLM; safe across threads.

    Trained by ``training/train_reader.py``; see the model card in its folder.

    Args:
        folder: A model's folder.

    Raises:
        ModelError: Where the files are missing or damaged.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        super().__init__(folder, "span", 2)

    def read(
        self, question: str, texts: Sequence[str], hints: Sequence[NDArray[np.float64]] = ()
    ) -> list[Answer | None]:
        """The likeliest answer in each text.

        Args:
            question: The question; what stands beyond 400 characters is not read.
            texts: Passages of about 1,000 characters at most: what stands beyond 256 word pieces, the
                question's included, is not read.
            hints: For each text what else is known: log-odds that an answer begins at, and that it ends with,
                each character, shape ``(len(text), 2)``.

        Returns:
            One for each text; None if there is nothing to read.
        """
        answers: list[Answer | None] = [None] * len(texts)
        pairs = [(question[:_QUESTION], text) for text in texts]
        for i, encoded, logits in self.token_logits(pairs):
            inside = (np.array(encoded.type_ids) == 1) & (np.array(encoded.special_tokens_mask) == 0)
            count = int(inside.sum())
            if not count:
                continue
            first = int(inside.argmax())
            margins = logits[first : first + count] - logits[0]
            odds = margins.astype(np.float64)
            places = encoded.offsets[first : first + count]
            if hints:
                odds[:, 0] += hints[i][[start for start, _ in places], 0]
                odds[:, 1] += hints[i][[end - 1 for _, end in places], 1]
            odds -= odds.max(0)
            odds -= np.log(np.exp(odds).sum(0))
            joint = odds[:, None, 0] + odds[None, :, 1]
            allowed = np.triu(np.ones_like(joint)) - np.triu(np.ones_like(joint), _ANSWER)
            joint[allowed == 0] = -np.inf
            start, end = divmod(int(joint.argmax()), count)
            span = Span(places[start][0], places[end][1])
            margin = float(margins[start, 0] + margins[end, 1])
            answers[i] = Answer(span, float(np.exp(joint[start, end])), margin)
        return answers
