"""Words, and parts of words, that a question and its candidates share, as shares of the best possible."""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.errors import MissingExtraError

_WORD = re.compile(r"\w+")
_STOP_WORDS = """
    a about all also am an and any are as at be been being both but by can could did do does doing for
    from had has have having he her hers him his how i if in into is it its itself many may me might much
    must my no nor not of on or our shall she should so some such than that the their them then there these
    they this those to too us was we were what when where which while who whom whose why will with would
    you your
    """
_STOPPED = frozenset(_STOP_WORDS.split())


def words(text: str) -> list[str]:
    """Lower-cased words without English stop words and plural endings. Numbers are words."""
    return [_singular(w) for w in _WORD.findall(text.lower()) if w not in _STOPPED]


def _singular(word: str) -> str:
    """Harman's s-stemmer: countries -> country, towns -> town; glass and thus stay."""
    if len(word) > 4 and word.endswith("ies") and word[-4] not in "ae":
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and word[-2] not in "us":
        return word[:-1]
    return word


def bm25_share(query: Sequence[str], documents: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """BM25 (Lucene's form, k1 1.5, b 0.75) of each document over the most that any document could have.

    Word weights come from the given documents alone, so a score depends on its list, but not much on
    the length of the list: it is divided by the sum of the query's weights, in which a word that no document
    has counts in full. 1 is every word of the query without end, 0 is no word.

    Args:
        query: Words of the question, as `words` gives them.
        documents: Words of each candidate.

    Returns:
        As many numbers, 0 to 1; all 0 for a query without words.

    Raises:
        MissingExtraError: Where bm25s is not installed.
    """
    shares = np.zeros(len(documents))
    terms = list(dict.fromkeys(query))
    filled = [i for i, document in enumerate(documents) if document]
    if not terms or not filled:
        return shares
    index = _bm25()
    index.index([list(documents[i]) for i in filled], show_progress=False)
    shares[filled] = index.get_scores(terms)
    weights = idf(terms, [documents[i] for i in filled])
    return np.clip(shares / sum(weights.values()), 0.0, 1.0)


def _bm25() -> Any:
    """A new index of bm25s."""
    try:
        import bm25s
    except ImportError as error:
        raise MissingExtraError("the offline reranker", "models,local") from error
    library_logger = logging.getLogger("bm25s")
    if library_logger.level == logging.DEBUG:
        # Its import asks for debug output, which every root handler would show at every question.
        library_logger.setLevel(logging.INFO)
    return bm25s.BM25(method="lucene", k1=1.5, b=0.75)


def gram_share(query: Sequence[str], documents: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Weight of the query's letter sequences that each document has, over the weight of all of them.

    Finds what whole words miss: "govern" and "governing", a misspelt name, scripts without spaces.

    Args:
        query: Words of the question, as `words` gives them.
        documents: Words of each candidate.

    Returns:
        As many numbers, 0 to 1; all 0 for a query without words.
    """
    wanted = list(_grams(query))
    if not wanted:
        return np.zeros(len(documents))
    grams = [_grams(document) for document in documents]
    weights = idf(wanted, grams)
    total = sum(weights.values())
    return np.array([sum(weights[g] for g in wanted if g in found) / total for found in grams])


def _grams(listed: Sequence[str]) -> dict[str, None]:
    """Runs of four characters, a space at either end of each word; ordered, so that sums are repeatable."""
    text = f" {' '.join(listed)} " if listed else ""
    return dict.fromkeys(text[i : i + 4] for i in range(max(len(text) - 3, min(len(text), 1))))


def idf(terms: Sequence[str], documents: Sequence[Collection[str]]) -> dict[str, float]:
    """Lucene's inverse document frequency of each term over ``documents``; always positive."""
    asked = set(terms)
    counts = Counter(word for document in documents for word in asked.intersection(document))
    n = len(documents)
    return {t: math.log(1 + (n - counts[t] + 0.5) / (counts[t] + 0.5)) for t in terms}
