"""The offline default: what the search says and the words shared, joined into one calibrated probability."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sage_core.errors import InputError
from sage_core.ranking.calibration import Calibration
from sage_core.ranking.features import Compared, meaning_matrix, standardized, word_matrix
from sage_core.ranking.protocol import check_request
from sage_core.selection import Scale
from sage_core.selection.rules import EMPTY_BELOW
from sage_core.selection.scales import plain_scores
from sage_core.text.cache import LRUCache
from sage_core.text.keywords import words
from sage_core.text.language import is_english
from sage_core.text.sentences import split_sentences
from sage_core.text.tokens import BertCounter

_COUNTER = BertCounter()
_WINDOW = 700
"""Characters of a window, some 150 tokens: chunks of our own have one, a node of 1,024 tokens seven."""
_WINDOW_TOKENS = 160
"""Where a character says more, as in Chinese, a window has fewer."""


# Candidates whose language stands for that of all.
_SAMPLE = 8


def _windows(text: str) -> list[Compared]:
    """Whole sentences of a text, as many as a window has room for, at least one."""
    starts, window = [0], _WINDOW
    if not text.isascii():
        # Scaled by the characters per token of this text; ASCII is taken to have English ones.
        window = min(window, _WINDOW_TOKENS * len(text) // max(1, _COUNTER.count(text)))
    if len(text) > window:
        for sentence in split_sentences(text):
            # A window ends between sentences: words torn apart would match nothing.
            if sentence.end - starts[-1] > window and sentence.start > starts[-1]:
                starts.append(sentence.start)
    return [Compared.of(text[start:end]) for start, end in pairwise([*starts, len(text)])]


class HybridReranker:
    """Scores without a model of its own: the default of the library.

    A logistic model joins the scores that a search gave the candidates, standardized within the list, the
    words that question and candidate share (BM25 over the candidates), and parts of words. The scores may be
    of any embedding model and on any scale that rises with likeness: a positive affine map of them changes
    nothing. Without scores, or where they are all the same, a model of its own judges by the words alone.
    A text much longer than our own chunks is judged by the window of its sentences that matches best.

    Calibrated on development questions together with the neighbors that vouch (`sage_core.ranking.vouch`):
    after that a score is the probability that the chunk holds evidence. However similar a chunk is, its own
    probability stays below a ceiling: not every chunk that matches in every way holds evidence. A blank text
    scores 0. Where words cannot be compared, as of a blank question or one in another language, the best
    is not below `sage_core.selection.rules.EMPTY_BELOW`.

    Safe across threads; pickles without its cache.

    Examples:
        >>> texts = ["It leaves at seven.", "Bees fly."]
        >>> scores = HybridReranker().score("When does the ferry leave?", texts, [0.83, 0.71])
        >>> scores[0] > scores[1], 0 <= min(scores) <= max(scores) <= 1
        (True, True)

    Args:
        calibration: A file made by ``benchmarks/calibrate_reranker.py``; None for the package's.
        cache_size: Most texts whose words are cached, about 2 KB for 100 tokens.

    Raises:
        InputError: For a negative cache size.
        ModelError: For a calibration that cannot be used.
    """

    scale: Scale = "probability"
    name = "hybrid"
    takes_scores = True
    takes_headers = True

    def __init__(self, *, calibration: Path | str | None = None, cache_size: int = 4_096) -> None:
        self._calibration = Calibration.load(Path(calibration) if calibration is not None else None)
        self._words: LRUCache[list[Compared]] = LRUCache(cache_size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def score(
        self,
        query: str,
        texts: Sequence[str],
        scores: Sequence[Any] | None = None,
        headers: Sequence[str] | None = None,
    ) -> list[float]:
        """Probability that each text holds evidence; see `Reranker`.

        Args:
            query: The question.
            texts: The candidates.
            scores: Of the search that found them, higher is nearer, on any scale; distances by their
                negatives. A candidate without one (None, NaN) stands with the last of the others.
            headers: Title and headings of each, where it has any: a chunk rarely says what it is about. Their
                words count half.

        Raises:
            InputError: Where there is not one score, or one header, per text.
        """
        check_request(query, texts)
        if headers is not None and len(headers) != len(texts):
            raise InputError(f"{len(headers)} headers for {len(texts)} texts")
        search_scores = None if scores is None else plain_scores(scores)
        if search_scores is not None and len(search_scores) != len(texts):
            raise InputError(f"{len(search_scores)} scores of the search for {len(texts)} texts")
        probabilities = [0.0] * len(texts)
        filled = [i for i, text in enumerate(texts) if text.strip()]
        if not query.strip():  # a picture, say, or a vector: words deny nothing
            return [EMPTY_BELOW if text.strip() else 0.0 for text in texts]
        if not filled:
            return probabilities
        listed = [texts[i] for i in filled]
        read = self._words.get_many(dict.fromkeys(listed), lambda new: [_windows(text) for text in new])
        windows = [window for text in listed for window in read[text]]
        sizes = [len(read[text]) for text in listed]
        features = word_matrix(
            query,
            [w.words for w in windows],
            [w.grams for w in windows],
            self._headers([headers[i][:_WINDOW] for i in filled], sizes) if headers is not None else (),
        )
        model = self._calibration.words_only
        meaning = None if search_scores is None else standardized(search_scores)
        if meaning is not None:
            features = np.hstack([meaning_matrix(np.repeat(meaning[filled], sizes)), features])
            model = self._calibration.with_scores
        firsts = np.cumsum([0, *sizes[:-1]])
        best = np.maximum.reduceat(model.probability(features), firsts)
        if not comparable(query, listed) and 0 < best.max() < EMPTY_BELOW:
            # Nothing is called irrelevant. In proportion: by what is added neighbors would vouch, all alike.
            best *= EMPTY_BELOW / best.max()
        for i, value in zip(filled, best, strict=True):
            probabilities[i] = float(value)
        return probabilities

    def _headers(self, headers: Sequence[str], sizes: Sequence[int]) -> list[Compared | None]:
        """The header before each window."""
        named = dict.fromkeys(header for header in headers if header.strip())
        read = self._words.get_many(named, lambda new: [[Compared.of(header)] for header in new])
        return [
            read[header][0] if header in read else None
            for header, size in zip(headers, sizes, strict=True)
            for _ in range(size)
        ]


def comparable(question: str, texts: Sequence[str]) -> bool:
    """Whether words that are missing mean anything: the question has some, and not in another language."""
    sample = "\n".join(text[:_WINDOW] for text in texts[:_SAMPLE])
    # Of questions of three words or more in English, German and Spanish, small words show the language
    # of 100, 90 and 93%.
    return bool(words(question)) and is_english(question, 3) == is_english(sample, 12)
