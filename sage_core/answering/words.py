"""Content words of questions and sentences, and how much of a question a text holds. English, by rule."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from sage_core.text.blocks import line_breaks, sentence_kinds
from sage_core.text.sentences import split_sentences

_VERB = (
    "is|are|was|were|be|been|has|have|had|can|could|will|would|may|might|must|do|does|did|"
    "made|took|gave|went|won|wrote|led|ran|held|began|came|became|found|built|said|told|saw|knew|grew|fell|"
    "sent|left|met|lost"
)
_PREDICATE = re.compile(rf"\b(?:{_VERB}|\w{{3,}}(?:ed|es|ing|s))\b")
# Without a full stop an ending says too little: "aliases" is a noun.
_SURE_PREDICATE = re.compile(rf"\b(?:{_VERB}|\w{{3,}}ed)\b")
_ENDS = re.compile(r"[.!?:;…][\"'”’)\]*_]*$")
_MARKS = re.compile(r"^(?:[-*+•]|\(?\d{1,3}[.)])\s|\||\]\s*[\[(]")

# Stands for "a number or a date" among the words of a question that asks for one.
NUMBER = "<number>"
_ASKS_NUMBER = re.compile(
    r"\b(?:when|how (?:many|much|long|old|far|tall|high|deep|often|fast)|what (?:year|date|time))\b"
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_STOP = frozenset(
    _listed(
        "a about after all also am an and any are as at be been before being between both but by can "
        "could did do does doing done each for from get give given had has have having he her here hers "
        "him his how i if in into is it its itself just kind many may me might more most much must my no "
        "nor not of off on once one only or other our out over own s same say says shall she should so "
        "some such t tell than that the their them then there these they this those through to too type "
        "under until up us use used very was we were what when where which while who whom whose why will "
        "with would you your"
    )
)
_DATES = frozenset(
    _listed(
        "january february march april june july august september october november december monday tuesday "
        "wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays "
        "sundays"
    )
)
_ENDINGS = _listed("ations ation ingly edly ings ing ies ied ers er es ed ly s e y")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its content words; ``heading``: also a row of a table or bare words."""

    text: str
    words: frozenset[str]
    heading: bool = False


def question_words(question: str) -> frozenset[str]:
    """Content words of a question, stemmed; `NUMBER` among them where it asks for a date or an amount."""
    wants = {NUMBER} if _ASKS_NUMBER.search(question.lower()) else set()
    return frozenset((stems(question) - {NUMBER}) | wants)


def stems(text: str) -> frozenset[str]:
    """Content words of a text, stemmed; `NUMBER` where it has a digit, a month or a weekday."""
    plain = [w for w in _WORD.findall(text.lower()) if w not in _STOP]
    dated = any(w in _DATES or any(c.isdigit() for c in w) for w in plain)
    return frozenset({_stem(w) for w in plain} | ({NUMBER} if dated else set()))


def stem_list(text: str) -> list[str]:
    """Content words of a text in order, stemmed; unlike `stems`, digits stand for themselves only."""
    return [_stem(w) for w in _WORD.findall(text.lower()) if w not in _STOP]


def _stem(word: str) -> str:
    """The word without common English endings, so that "built" stays and "bridges" meets "bridge"."""
    word = re.sub(r"['’]s?$", "", word)
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


def sentences_of(context: Sequence[str]) -> list[Sentence]:
    """The passages' sentences, each text once, in order."""
    seen: dict[str, Sentence] = {}
    for passage in context:
        spans = split_sentences(passage)
        kinds = sentence_kinds(passage, spans, line_breaks(passage, spans))
        for span, kind in zip(spans, kinds, strict=True):
            text = " ".join(span.of(passage).split())
            heading = kind in ("heading", "table") or (
                (kind == "item" or _MARKS.search(text) is not None) and not says_something(text)
            )
            if text and text not in seen:
                seen[text] = Sentence(text, stems(text), heading)
    return list(seen.values())


def says_something(text: str) -> bool:
    """Whether an English sentence has a predicate, and is no row of a table or list of bare words."""
    if len(text.split()) < 3 or text.count("|") > 2:
        return False
    return (_PREDICATE if _ENDS.search(text) else _SURE_PREDICATE).search(text) is not None


def weigh(words: frozenset[str], sentences: Sequence[Sentence]) -> dict[str, float]:
    """Rarity of each word among the sentences: ``log(1 + n / (1 + df))``, sorted for determinism."""
    n = max(len(sentences), 1)
    return {w: math.log1p(n / (1 + sum(w in s.words for s in sentences))) for w in sorted(words)}


def share(weights: Mapping[str, float], words: Set[str]) -> float:
    """Weighted share of the weighted words found; 0 where there are none."""
    total = sum(weights.values())
    return sum(v for w, v in weights.items() if w in words) / total if total else 0.0


def all_words(sentences: Iterable[Sentence]) -> frozenset[str]:
    """Every content word of the sentences."""
    return frozenset().union(*(s.words for s in sentences))
