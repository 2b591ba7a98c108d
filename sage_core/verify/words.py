"""Content words of questions and sentences, and how much of a question a text holds. English, by rule."""

from __future__ import annotations

import re

from sage_core.text.keywords import MARKS, pairs_of
from sage_core.text.lexicon import EMPTY_WORDS, MONTHS, WEEKDAYS, stem, word_set

_VERB = (
    "is|are|was|were|be|been|has|have|had|can|could|will|would|may|might|must|do|does|did|"
    "made|took|gave|went|won|wrote|led|ran|held|began|came|became|found|built|said|told|saw|knew|grew|fell|"
    "sent|left|met|lost"
)
_PREDICATE = re.compile(rf"\b(?:{_VERB}|\w{{3,}}(?:ed|es|ing|s))\b")
# Without a full stop an ending says too little: "aliases" is a noun.
SURE_PREDICATE = re.compile(rf"\b(?:{_VERB}|\w{{3,}}ed)\b")
_ENDS = re.compile(r"[.!?:;…][\"'”’)\]*_]*$")

# Stands for "a number or a date" among the words of a question that asks for one.
NUMBER = "<number>"
_ASKS_NUMBER = re.compile(
    r"\b(?:when|how (?:many|much|long|old|far|tall|high|deep|often|fast)|what (?:year|date|time))\b"
)
YES_NO = re.compile(
    r"(?i)\s*(?:is|are|was|were|do|does|did|has|have|had|can|could|may|might|must|should|will|would)\b"
)
_WORD = re.compile(rf"[^\W_](?:[^\W_]|[{MARKS}])*(?:['’][^\W\d_]+)?")

DATES = word_set(
    "noon midnight hundred thousand million billion", MONTHS, WEEKDAYS, {f"{d}s" for d in WEEKDAYS}
)
_NUMBER_WORDS = word_set("one two three four five six seven eight nine ten eleven twelve")

# "Not only" denies nothing of what follows.
DENIAL = re.compile(
    r"(?i)\b(?:not|never|no|none|nobody|neither|nor|without|cannot|hardly|scarcely|\w+n['’]t)\b"
    r"(?!\W+(?:only|just|merely|simply|necessarily|doubt|matter)\b)"
)
"""A word that denies what stands beside it."""


def question_words(question: str) -> frozenset[str]:
    """Content words of a question, stemmed; `NUMBER` among them where it asks for a date or an amount."""
    wants = {NUMBER} if _ASKS_NUMBER.search(question.lower()) else set()
    return frozenset((stems(question) - {NUMBER}) | wants)


def stems(text: str) -> frozenset[str]:
    """Content words of a text, stemmed; `NUMBER` where it has a number, a month or a weekday."""
    plain = _content_words(text)
    dated = any(w in DATES or w in _NUMBER_WORDS or any(c.isdecimal() for c in w) for w in plain)
    return frozenset({stem(w) for w in plain} | ({NUMBER} if dated else set()))


def stem_list(text: str) -> list[str]:
    """Content words of a text in order, stemmed; unlike `stems`, digits stand for themselves only."""
    return [stem(w) for w in _content_words(text)]


def _content_words(text: str) -> list[str]:
    """Words without stop words; pairs of characters in scripts without spaces."""
    found = [w for w in _WORD.findall(text.lower()) if w not in EMPTY_WORDS]
    return found if text.isascii() else [part for w in found for part in pairs_of(w)]


def says_something(text: str) -> bool:
    """Whether an English sentence has a predicate, and is no row of a table or list of bare words."""
    if len(text.split()) < 3 or text.count("|") > 2:
        return False
    return (_PREDICATE if _ENDS.search(text) else SURE_PREDICATE).search(text) is not None
