"""The reader: a small BERT that finds the words of a passage that answer a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.encoder import MINILM, load_encoder
from sage_core.embedding.ops import linear
from sage_core.text.spans import Span
from sage_core.text.wordpiece import TOKENIZER_FILE

FOLDER = MINILM.with_name("sage-reader")
"""Weights of its own in the upper layers; the others are those of the bundled cross-encoder."""

_PIECES = 256  # Word pieces of question and passage, as in training.
_QUESTION = 400  # Characters of a question that are read.
_ANSWER = 30  # Most word pieces of an answer.


@dataclass(frozen=True, slots=True)
class Answer:
    """Where an answer stands.

    Attributes:
        span: Characters of the text.
        probability: That the answer begins and ends there, if the text holds it.
    """

    span: Span
    probability: float


class Reader:
    """Finds the words that answer a question. English; no LLM; safe across threads.

    Trained by ``training/train_reader.py``; see the model card in its folder.

    Args:
        folder: A model's folder.

    Raises:
        ModelError: Where the files are missing or damaged.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        from tokenizers import Tokenizer

        model = load_encoder(folder)
        self._encoder = model.encoder
        self._head = model.head("span", 2)
        self._tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
        self._tokenizer.enable_truncation(_PIECES, strategy="longest_first")

    def read(
        self, question: str, texts: list[str], hints: Sequence[NDArray[np.float64]] = ()
    ) -> list[Answer | None]:
        """The likeliest answer in each text.

        Args:
            question: The question; what stands beyond 400 characters is not read.
            texts: Passages of about 1,000 characters at most: what stands beyond 256 word pieces, the
                question's included, is not read.
            hints: For each text what else is known: log-odds that an answer begins at, and that it ends with,
                each character, shape ``(len(text), 2)``.

        Returns:
            One for each text; None where there is nothing to read.
        """
        encoded = self._tokenizer.encode_batch([(question[:_QUESTION], text) for text in texts])
        answers: list[Answer | None] = [None] * len(texts)
        ids, kinds = [one.ids for one in encoded], [one.type_ids for one in encoded]
        for rows, states, begins in self._encoder.passes(ids, kinds):
            logits = linear(states, self._head, "span")
            for i, begin in zip(rows, begins, strict=True):
                own = logits[begin : begin + len(ids[i])]
                inside = (np.array(kinds[i]) == 1) & (np.array(encoded[i].special_tokens_mask) == 0)
                first = int(inside.argmax())
                count = int(inside.sum())
                if not count:
                    continue
                odds = own[first : first + count].astype(np.float64)
                places = encoded[i].offsets[first : first + count]
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
                answers[i] = Answer(span, float(np.exp(joint[start, end])))
        return answers
