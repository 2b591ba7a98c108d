"""Small stand-ins for the LlamaIndex tests: a boundary model, texts, scripted LLMs. All by rule, no chance."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_WORDS = re.compile(r"\w+")


class OverlapModel:
    """P(same) from shared words: 0.9 where two sentences share a word of five letters or more, else 0.1."""

    def __init__(self, salt: str = "") -> None:
        self.salt = salt
        self.calls: list[int] = []

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"overlap{self.salt}".encode()).hexdigest()

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        self.calls.append(len(documents))
        found = []
        for sentences in documents:
            words = [{w for w in _WORDS.findall(s.lower()) if len(w) >= 5} for s in sentences]
            same = [0.9 if a & b else 0.1 for a, b in zip(words, words[1:], strict=False)]
            found.append(np.array(same, dtype=np.float32))
        return found


TOPICS = [
    "The lighthouse stands on the northern cliff. Its lighthouse keeper climbs the stairs at dusk. "
    "The lighthouse lamp turns once in nine seconds.",
    "Bread rises slowly in a cold kitchen. A warm kitchen shortens the wait to an hour. "
    "The kitchen oven must be hot before the loaf goes in.",
    "The orchestra rehearses on Tuesdays. A rehearsal of the orchestra lasts three hours. "
    "Visitors may hear the orchestra from the gallery.",
    "Glaciers carry stones for many miles. The stones that glaciers leave behind are scratched. "
    "Farmers build walls from glaciers' stones.",
    "The ferry crosses the strait at noon. In winter the ferry waits for calm water. "
    "Tickets for the ferry are sold on the quay.",
]


def story(topics: Sequence[int] = (0, 1, 2, 3, 4)) -> str:
    """A text that goes from topic to topic."""
    return "\n\n".join(TOPICS[i] for i in topics)
