"""Lists of English words that several rooms read, and what is left of a word without its ending."""

from __future__ import annotations

import re
from collections.abc import Set
from functools import lru_cache


def word_set(words: str, *others: Set[str]) -> frozenset[str]:
    """Words with blanks between, and those of other sets."""
    return frozenset(words.split()).union(*others)


PROSE_WORDS = word_set(
    "the and of to that with this from which are were their have has been they his its by for not but is it "
    "as"
)
"""What English prose is full of and other languages written in Latin letters hardly have."""

COMMON_ENGLISH = word_set(
    "at be can did does he her how our she we what when where who you your", PROSE_WORDS - {"but"}
)
"""Small words by which a text shows that it is English."""

STOP_WORDS = word_set(
    "a about all also am an any being both could do doing had having hers him i if in into itself many "
    "may me might much must my no nor on or shall should so some such than them then there these those too "
    "us was while whom whose why will would",
    PROSE_WORDS,
    COMMON_ENGLISH,
)
"""What a search leaves out of a question."""

EMPTY_WORDS = word_set(
    "after before between done each get give given here just kind more most off once one only other out over "
    "own per s same say says t tell through type under until up use used very",
    STOP_WORDS,
)
"""What a statement leaves out: besides, words that say how, and no matter."""

_MONTHS = "january february march april may june july august september october november december"
MONTHS = tuple(_MONTHS.split())
WEEKDAYS = word_set("monday tuesday wednesday thursday friday saturday sunday")

_BELOW_20 = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {
    **{word: float(n) for n, word in enumerate(_BELOW_20.split())},
    **{word: 10.0 * n for n, word in enumerate(_TENS.split(), 2)},
    "twice": 2.0,
}
"""Numbers in words, and what they mean."""

DATES = word_set(
    "noon midnight hundred thousand million billion", {*MONTHS}, WEEKDAYS, {f"{d}s" for d in WEEKDAYS}
)
"""Words of dates, times of day and numbers, which are no names."""

# "Not only" denies nothing of what follows.
DENIAL = re.compile(
    r"(?i)\b(?:not|never|no|none|nobody|neither|nor|without|cannot|hardly|scarcely|\w+n['’]t)\b"
    r"(?!\W+(?:only|just|merely|simply|necessarily|doubt|matter)\b)"
)
"""A word that denies what stands beside it."""
CLAUSES = re.compile(r"[,;:] (?!\d{4}\b)|,? (?:and|but|while|whereas) ")
"""What parts the clauses of a sentence; a comma before a year parts a date."""
_NAME = re.compile(r"\b[A-Z][\w’'-]*")

_ENDINGS = re.findall(r"\w+", "ations ation ingly edly ings ing ies ied ers er es ed ly s e y")


def singular(word: str) -> str:
    """Harman's s-stemmer: countries -> country, towns -> town; glass and thus stay."""
    if len(word) > 4 and word.endswith("ies") and word[-4] not in "ae":
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and word[-2] not in "us":
        return word[:-1]
    return word


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """The word without common English endings, so that "built" stays and "bridges" meets "bridge"."""
    word = re.sub(r"['’]s?$", "", word)
    for ending in _ENDINGS:
        # Three letters stay, or "sing" and "red" would lose all; "glass" is no plural.
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


def names(text: str) -> list[str]:
    """The words of an English text with a capital that begins no sentence, but for dates and small words."""
    # Not the first letter: every sentence has a capital there.
    found = (m[0] for m in _NAME.finditer(text, 1))
    return [name for name in found if name.lower() not in COMMON_ENGLISH | DATES]
