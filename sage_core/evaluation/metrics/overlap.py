"""How near is the answer to the references? ROUGE-L, BLEU and METEOR.

All three see words in lower case without punctuation (`sage_core.evaluation.metrics.words`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sage_core.errors import InputError, MissingExtraError
from sage_core.evaluation.metrics.answers import best_of
from sage_core.evaluation.metrics.words import check_language, words


def rouge_l(prediction: str, references: Sequence[str]) -> float:
    """ROUGE-L: F1 of the longest common subsequence of words, with the reference that fits best.

    The arithmetic is rouge-score's, without stemming.

    Raises:
        InputError: Without references.
        MissingExtraError: Without rouge-score.
    """
    scorer = _rouge()
    return best_of(lambda r: float(scorer.score(r, prediction)["rougeL"].fmeasure), references)


def bleu(prediction: str, references: Sequence[str], *, order: int = 4) -> float:
    """BLEU of one answer: n-gram precision up to ``order``, clipped by all references, with brevity penalty.

    Not smoothed: where no n-gram of some order is shared, and so for every answer of fewer than ``order``
    words, it is 0. The parts are NLTK's.

    Raises:
        InputError: Without references, or for an order below 1.
        MissingExtraError: Without nltk.
    """
    if order < 1:
        raise InputError(f"the order of BLEU is at least 1, not {order}")
    if isinstance(references, str) or not references:
        raise InputError("give the reference answers as a list of at least one text")
    nltk = _nltk_bleu()
    told, wanted = words(prediction), [words(r) for r in references]
    if not told:
        return 0.0
    precisions = [float(nltk.modified_precision(wanted, told, n)) for n in range(1, order + 1)]
    if min(precisions) == 0:
        return 0.0
    penalty = nltk.brevity_penalty(nltk.closest_ref_length(wanted, len(told)), len(told))
    return float(penalty * math.exp(sum(map(math.log, precisions)) / order))


def meteor(prediction: str, references: Sequence[str], *, language: str = "en") -> float:
    """METEOR without synonyms, with the reference that fits best.

    Words match where they, or their stems, are equal. The third stage of METEOR, synonyms from WordNet, is
    left out: its data is a download of its own and English only. Figures are therefore somewhat lower than
    those with WordNet, and reports call this METEOR (exact, stem). The arithmetic is NLTK's (alpha 0.9, beta
    3, gamma 0.5); stems are Porter's, or Snowball's for other languages than English.

    Raises:
        InputError: Without references, or for an unknown language.
        MissingExtraError: Without nltk.
    """
    score, stemmer = _nltk_meteor(check_language(language))
    told = words(prediction)
    no_synonyms = _NoSynonyms()
    return best_of(
        lambda r: float(score(words(r), told, stemmer=stemmer, wordnet=no_synonyms)) if told else 0.0,
        references,
    )


class _NoSynonyms:
    """Stands where NLTK expects WordNet."""

    def synsets(self, _word: str) -> list[Any]:
        return []


class _Words:
    """Our words as a tokenizer for rouge-score."""

    def tokenize(self, text: str) -> list[str]:
        return words(text)


@lru_cache(maxsize=1)
def _rouge() -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MissingExtraError("ROUGE-L", "eval") from None
    return RougeScorer(["rougeL"], tokenizer=_Words())


@lru_cache(maxsize=1)
def _nltk_bleu() -> Any:
    try:
        from nltk.translate import bleu_score
    except ImportError:
        raise MissingExtraError("BLEU", "eval") from None
    return bleu_score


@lru_cache(maxsize=4)
def _nltk_meteor(language: str) -> tuple[Any, Any]:
    try:
        from nltk.stem.porter import PorterStemmer
        from nltk.stem.snowball import SnowballStemmer
        from nltk.translate.meteor_score import single_meteor_score
    except ImportError:
        raise MissingExtraError("METEOR", "eval") from None
    return single_meteor_score, PorterStemmer() if language == "en" else SnowballStemmer("portuguese")
