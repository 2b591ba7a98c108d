"""How good is an answer? Accuracy, exact match and F1 as official scorers have them; ROUGE, BLEU, METEOR."""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from sage_core.errors import InputError, MissingExtraError
from sage_core.llm.prompting import is_abstention

ARTICLES = {
    "en": frozenset(("a", "an", "the")),
    "pt": frozenset(("o", "a", "os", "as", "um", "uma", "uns", "umas")),
}
"""Articles that are not compared, by language."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Written without spaces: a character is a word.
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


def check_language(language: str) -> str:
    """The language, where its articles are known.

    Raises:
        InputError: Where they are not.
    """
    if language not in ARTICLES:
        raise InputError(f"no articles are known for language {language!r}: use one of {', '.join(ARTICLES)}")
    return language


def normalize(text: str, *, language: str = "en") -> str:
    """A text as SQuAD's official scorer compares it: lower case, no punctuation, no articles, single spaces.

    In English only ASCII punctuation is taken out, as there; in other languages all of Unicode's.
    """
    articles = ARTICLES[check_language(language)]
    text = text.lower()
    if language == "en":
        text = text.translate(_PUNCTUATION)
        # The official scorer takes articles out at word boundaries, before it splits at spaces.
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())
    text = "".join(c for c in text if not unicodedata.category(c).startswith("P"))
    return " ".join(word for word in text.split() if word not in articles)


def words(text: str) -> list[str]:
    """Words in lower case without punctuation.

    For ASCII text the same as the tokens of rouge-score. Letters of other alphabets keep their accents and
    marks; Chinese characters and kana are a word each.
    """
    text = unicodedata.normalize("NFC", text.lower())
    text = "".join(c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in text)
    return _UNSPACED.sub(r" \g<0> ", text).split()


UNANSWERABLE = "unanswerable"
"""What QASPER's references say where a paper does not hold the answer; SQuAD 2.0 has the empty text."""


def accuracy(choice: int | None, gold: int) -> float:
    """1 where the option named is the right one, else 0; no option (None) is wrong."""
    return float(choice == gold)


def exact_match(prediction: str, references: Sequence[str], *, language: str = "en") -> float:
    """1 where the answer is one of the references after SQuAD's normalization, else 0.

    Raises:
        InputError: Without references, or for an unknown language.
    """

    def same(reference: str) -> float:
        if _is_none(reference):
            return float(_says_none(prediction))
        return float(normalize(prediction, language=language) == normalize(reference, language=language))

    return best_of(same, references)


def f1_match(prediction: str, references: Sequence[str], *, language: str = "en") -> float:
    """F1 of shared words after SQuAD's normalization, with the reference that fits best (paper: F1-Match).

    A reference that says there is no answer (empty, or "Unanswerable") is met by an empty answer, by that
    word, and by the sentence our prompts ask for where the documents do not say.

    Raises:
        InputError: Without references, or for an unknown language.
    """

    def f1(reference: str) -> float:
        if _is_none(reference) and _says_none(prediction):
            return 1.0
        told = normalize(prediction, language=language).split()
        wanted = normalize(reference, language=language).split()
        shared = (Counter(told) & Counter(wanted)).total()
        return 2 * shared / (len(told) + len(wanted)) if shared else 0.0

    return best_of(f1, references)


def best_of(metric: Callable[[str], float], references: Sequence[str]) -> float:
    """The highest score over the references.

    Raises:
        InputError: Where there are none.
    """
    if isinstance(references, str) or not references:
        raise InputError("give the reference answers as a list of at least one text")
    return max(map(metric, references))


def _is_none(reference: str) -> bool:
    return normalize(reference) in ("", UNANSWERABLE)


def _says_none(prediction: str) -> bool:
    return _is_none(prediction) or is_abstention(prediction)


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
