"""What the offline reranker sees of a question and its candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sage_core.ranking.neighbors import Links
from sage_core.selection.scales import plain_scores, rank_order
from sage_core.text.keywords import bm25_share, gram_codes, gram_share, words

MEANING = ("meaning", "stands_out")
"""A score of the search in standard deviations from the mean of its list, and how far it exceeds two."""

WORDS = ("bm25", "grams", "of_best")
"""Shares of the question's words and their parts that a candidate has; their sum over the list's highest."""

_LITTLE = 0.5
"""A highest sum below this is little: where nothing fits, the best of the list is no answer. With 0, 16% of
the lists of questions about other documents were told from answerable ones, with .5 it is 70%."""

_STANDS_OUT = 2.0

_FEWEST_PLACES, _SAME = 4, 1e-3
_FEWEST_READ, _READ = 4, 0.8
"""So many neighbors, and this share of them, are in the order of reading, as in one of 804 searches."""

# Scores of equal candidates may differ by rounding.
_FLAT = 1e-9


def standardized(scores: Iterable[Any]) -> NDArray[np.float64] | None:
    """A retriever's scores in standard deviations from the mean of their own list.

    Invariant under positive affine maps of the scores, so that it does not matter whose embedding model they
    are from.

    Args:
        scores: One per candidate, higher is nearer. None, NaN and -inf are not known: such a candidate, as
            of a keyword search, stands with the last of the others, since the search that gave the scores
            did not return it. +inf is as good as the best.

    Returns:
        As many numbers; None if the scores tell no candidates apart: fewer than two are known, or all are
        equal.

    Raises:
        InputError: For what is no number.
    """
    values = np.array([np.nan if s is None else s for s in plain_scores(scores)], dtype=np.float64)
    finite = np.isfinite(values)
    if finite.sum() < 2:
        return None
    # An infinite score says "best", not how far above: the mean must stay finite.
    values[values == np.inf] = values[finite].max()
    known = np.isfinite(values)
    # Scaled first: the sum of very large scores would not be finite.
    values /= max(float(np.abs(values[known]).max()), np.finfo(np.float64).tiny)
    spread = float(values[known].std())
    if spread <= _FLAT:
        return None
    values = (values - values[known].mean()) / spread
    # After standardizing, so that guesses do not move the mean and the spread.
    values[~known] = values[known].min()
    return np.asarray(values)


def scores_or_order(
    scores: Sequence[float | None], links: Callable[[], Sequence[Links]] = tuple
) -> list[float | None]:
    """A search's scores; if it gave none, or mere places, what stands for them: its order, best first.

    The logarithm of the place falls as cosines of a search do: fast at first, then ever more slowly.

    Args:
        scores: One per candidate, in the search's order; None if it gave none.
        links: Of the candidates. If nearly all have the next one of their document behind them, nobody
            searched: the order is that of reading, and says nothing.

    Examples:
        >>> [round(score, 2) for score in scores_or_order([None, None, None])]
        [0.0, -0.69, -1.1]
    """
    # Neither unit nor offset matters, since the list is standardized before it is used.
    if all(score is None for score in scores):
        following = [link.next == i + 1 for i, link in enumerate(links()) if link.next is not None]
        if len(following) >= _FEWEST_READ and sum(following) >= _READ * len(following):
            return list(scores)
        return [-math.log(place) for place in range(1, len(scores) + 1)]
    if not are_places(scores):
        return list(scores)
    places = {i: place for place, i in enumerate(rank_order(scores), 1)}
    return [None if score is None else -math.log(places[i]) for i, score in enumerate(scores)]


def are_places(scores: Sequence[float | None]) -> bool:
    """Whether scores say no more than places: equal steps, or reciprocals of those (rank fusion).

    Examples:
        >>> are_places([1.0, 0.75, 0.5, 0.25]), are_places([1 / 61, 1 / 62, 1 / 63, 1 / 64])
        (True, True)
    """
    known = np.sort(np.array([s for s in scores if s is not None], dtype=float))
    # Three cosines may have equal steps.
    if len(known) < _FEWEST_PLACES or not np.isfinite(known).all():
        return False
    steps = [np.diff(values) for values in ([known, 1 / known] if known[0] > 0 else [known])]
    return any(np.ptp(s) + abs(s.mean()) > 0 and np.ptp(s) <= _SAME * abs(s.mean()) for s in steps)


def meaning_matrix(standard_scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a search says of its candidates.

    A good embedding model puts few candidates far above the others, a bad one many a little: what exceeds
    two standard deviations is worth more than the steps below it.

    Args:
        standard_scores: From `standardized`.

    Returns:
        Shape ``(n, len(MEANING))``.
    """
    # A hinge: the second column is what exceeds two deviations, so its weight is an added slope.
    return np.column_stack([standard_scores, np.maximum(standard_scores - _STANDS_OUT, 0.0)])


class Compared(NamedTuple):
    """What is compared of a text: its `words` and their `gram_codes`."""

    words: Sequence[str]
    grams: NDArray[np.uint16]

    @classmethod
    def of(cls, text: str) -> Compared:
        """Of all of a text."""
        found = tuple(words(text))
        return cls(found, gram_codes(found))

    def before(self, text_words: Sequence[str], text_grams: NDArray[np.uint16]) -> Compared:
        """This, and behind it a text."""
        return Compared((*self.words, *text_words), np.concatenate([self.grams, text_grams]))


def word_matrix(
    query: str,
    text_words: Sequence[Sequence[str]],
    text_grams: Sequence[NDArray[np.uint16]] | None = None,
    headers: Sequence[Compared | None] = (),
) -> NDArray[np.float64]:
    """What question and candidates share in words (`bm25_share`) and parts of words (`gram_share`).

    Words that few candidates have weigh more, so the shares depend on the list. Of a long question every
    candidate has little: by the shares alone the search would decide. So there is also what a candidate has
    beside the best of its list.

    A header counts half: shares are the mean of those without headers and with them. Counted in full,
    all chunks of the document that a question names would crowd out others.

    Args:
        query: The question.
        text_words: `words` of each candidate, at least one.
        text_grams: `gram_codes` of each, where known.
        headers: What stands before each candidate: title and headings. None for nothing; empty for no header.

    Returns:
        Shape ``(len(text_words), len(WORDS))``, each from 0 to 1.
    """
    question = words(query)
    shares = _shares(question, text_words, text_grams)
    if any(headers):
        grams = text_grams or [gram_codes(text) for text in text_words]
        joined = [
            Compared(text, codes) if header is None else header.before(text, codes)
            for header, text, codes in zip(headers, text_words, grams, strict=True)
        ]
        shares = (shares + _shares(question, [j.words for j in joined], [j.grams for j in joined])) / 2
    both = shares.sum(axis=1)
    # Floored, so that the best of a list where nothing fits does not count as a full match.
    return np.column_stack([shares, both / max(float(both.max(initial=0.0)), _LITTLE)])


def _shares(
    question: Sequence[str],
    text_words: Sequence[Sequence[str]],
    text_grams: Sequence[NDArray[np.uint16]] | None,
) -> NDArray[np.float64]:
    return np.stack((bm25_share(question, text_words), gram_share(question, text_words, text_grams)), axis=1)
