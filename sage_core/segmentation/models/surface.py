"""What a sentence looks like: a few numbers that an uncased bag of words cannot hold."""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p

import numpy as np
from numpy.typing import NDArray

SURFACE_SIZE = 8
_OPENERS = frozenset("\"'“‘«([")
_MARKS = frozenset("-*•–—·+#|>")


def surface_features(sentences: Sequence[str]) -> NDArray[np.float32]:
    """Surface features of sentences.

    Args:
        sentences: Any strings.

    Returns:
        (n, ``SURFACE_SIZE``) float32: log length; share of words with a capital (the first left out); and
        whether the first character is lower case, a digit, a quote or bracket, or a list mark; whether the
        last one is a colon, or a question or exclamation mark. A first character that is neither cased nor
        any of these leaves all of them 0.
    """
    rows = [_features(text) for text in sentences]
    return np.array(rows, np.float32).reshape(len(rows), SURFACE_SIZE)


def _features(text: str) -> tuple[float, ...]:
    words = text.split()
    if not words:
        return (0.0,) * SURFACE_SIZE
    first, last = words[0][0], words[-1][-1]
    capitals = len([word for word in words if word[0].isupper()]) - first.isupper()
    return (
        log1p(len(words)) / 4,
        capitals / len(words),
        first.islower(),
        first.isdigit(),
        first in _OPENERS,
        first in _MARKS,
        last == ":",
        last in "?!",
    )
