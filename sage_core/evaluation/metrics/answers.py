"""Is the answer right? Accuracy of a choice, exact match and F1 as the official scorers have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from sage_core.errors import InputError
from sage_core.evaluation.metrics.words import normalise
from sage_core.llm.prompting import is_abstention

UNANSWERABLE = "unanswerable"
"""What QASPER's references say where a paper does not hold the answer; SQuAD 2.0 has the empty text."""


def accuracy(choice: int | None, gold: int) -> float:
    """1 where the option named is the right one, else 0; no option (None) is wrong."""
    return float(choice == gold)


def exact_match(prediction: str, references: Sequence[str], *, language: str = "en") -> float:
    """1 where the answer is one of the references after SQuAD's normalisation, else 0.

    Raises:
        InputError: Without references, or for an unknown language.
    """

    def same(reference: str) -> float:
        if _is_none(reference):
            return float(_says_none(prediction))
        return float(normalise(prediction, language=language) == normalise(reference, language=language))

    return best_of(same, references)


def f1_match(prediction: str, references: Sequence[str], *, language: str = "en") -> float:
    """F1 of shared words after SQuAD's normalisation, with the reference that fits best (paper: F1-Match).

    A reference that says there is no answer (empty, or "Unanswerable") is met by an empty answer, by that
    word, and by the sentence our prompts ask for where the documents do not say.

    Raises:
        InputError: Without references, or for an unknown language.
    """

    def f1(reference: str) -> float:
        if _is_none(reference) and _says_none(prediction):
            return 1.0
        told = normalise(prediction, language=language).split()
        wanted = normalise(reference, language=language).split()
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
    return normalise(reference) in ("", UNANSWERABLE)


def _says_none(prediction: str) -> bool:
    return _is_none(prediction) or is_abstention(prediction)
