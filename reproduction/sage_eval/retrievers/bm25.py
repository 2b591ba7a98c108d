"""BM25 over pieces, with bm25s."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sage_core.errors import InputError, MissingExtraError
from sage_core.selection import Scale
from sage_core.text.keywords import words
from sage_eval.records import Hit, Piece
from sage_eval.retrievers.dense import best_positions, check_k

_WORD = re.compile(r"\w+")
PLAIN = "plain"
STEMMERS = {"pt": "portuguese"}
"""Snowball's stemmers by language code: what `sage_eval.metrics.answers` knows beside English."""


class BM25Index:
    """Lucene's form of BM25. Scores are unbounded; a piece without any of the question's words is no hit.

    Args:
        k1: How fast repetitions of a word stop counting.
        b: How much the length of a piece counts, 0 to 1.
        language: What words are: ``"en"`` leaves out English stop words and plural endings
            (`sage_core.text.keywords.words`); another code of `STEMMERS` takes Snowball's stems; ``"plain"``
            takes lower-cased words as they are.

    Raises:
        InputError: For values out of range, or an unknown language.
        MissingExtraError: Where a stemmer's library is not installed.
    """

    scale: Scale = "unbounded"

    def __init__(self, *, k1: float = 1.5, b: float = 0.75, language: str = "en") -> None:
        if not k1 >= 0 or not 0 <= b <= 1:
            raise InputError(f"BM25 takes k1 of at least 0 and b from 0 to 1, not {k1} and {b}")
        self._k1, self._b = k1, b
        self._language = language
        self._stem = None if language in ("en", PLAIN) else _stemmer(language)
        self._pieces: list[Piece] = []
        self._index: Any = None

    @property
    def name(self) -> str:
        """BM25 and its parameters."""
        words = {"en": "", PLAIN: ", plain words"}.get(self._language, f", {self._language} stems")
        return f"bm25(k1={self._k1:g}, b={self._b:g}{words})"

    def build(self, pieces: Sequence[Piece]) -> None:
        tokens = [self._words(piece.text) for piece in pieces]
        # A piece without words can never be found, and bm25s refuses an empty vocabulary.
        self._pieces = [piece for piece, found in zip(pieces, tokens, strict=True) if found]
        self._index = None
        if self._pieces:
            self._index = _bm25s(self._k1, self._b)
            self._index.index([found for found in tokens if found], show_progress=False)

    def search(self, question: str, k: int) -> list[Hit]:
        check_k(k)
        if self._index is None:
            return []
        asked = [word for word in self._words(question) if word in self._index.vocab_dict]
        if not asked:
            return []
        scores = np.asarray(self._index.get_scores(asked), dtype=np.float64)
        return [Hit(self._pieces[i], float(scores[i])) for i in best_positions(scores, k) if scores[i] > 0]

    def _words(self, text: str) -> list[str]:
        if self._language == "en":
            return words(text)
        found = _WORD.findall(text.lower())
        return found if self._stem is None else [self._stem(word) for word in found]


def _stemmer(language: str) -> Callable[[str], str]:
    if language not in STEMMERS:
        known = ", ".join([PLAIN, "en", *STEMMERS])
        raise InputError(f"no word stems are known for language {language!r}: one of {known}")
    try:
        from nltk.stem.snowball import SnowballStemmer
    except ImportError as error:
        raise MissingExtraError("word stems of other languages", "eval") from error
    # The same words come again and again.
    stem: Callable[[str], str] = lru_cache(100_000)(SnowballStemmer(STEMMERS[language]).stem)
    return stem


def _bm25s(k1: float, b: float) -> Any:
    try:
        import bm25s
    except ImportError as error:
        raise MissingExtraError("the BM25 index", "eval") from error
    library_logger = logging.getLogger("bm25s")
    if library_logger.level == logging.DEBUG:
        library_logger.setLevel(logging.INFO)  # its import asks for debug output at every search
    return bm25s.BM25(method="lucene", k1=k1, b=b)
