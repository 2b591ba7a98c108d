"""Content words of questions and sentences, and how much of a question a text holds. English, by rule."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sage_core.text.keywords import MARKS, pairs_of
from sage_core.verify.quantities import has_minus

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


def listed(words: str) -> tuple[str, ...]:
    """Words with blanks between."""
    return tuple(words.split())


_STOP = frozenset(
    listed(
        "a about after all also am an and any are as at be been before being between both but by can "
        "could did do does doing done each for from get give given had has have having he her here hers "
        "him his how i if in into is it its itself just kind many may me might more most much must my no "
        "nor not of off on once one only or other our out over own per s same say says shall she should so "
        "some such t tell than that the their them then there these they this those through to too type "
        "under until up us use used very was we were what when where which while who whom whose why will "
        "with would you your"
    )
)
DATES = frozenset(
    listed(
        "january february march april june july august september october november december monday tuesday "
        "wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays "
        "sundays noon midnight hundred thousand million billion"
    )
)
_ENDINGS = listed("ations ation ingly edly ings ing ies ied ers er es ed ly s e y")

# Words that exclude each other, one side or another; every form that has a stem of its own.
_CONTRARIES = """
rise rose risen increase grow grew grown climb / fall fell fallen decrease decline drop dropped shrink shrank
gain / lose lost
raise / lower reduce cut
more / less fewer
most / least fewest
high highest upper maximum above / low lower lowest minimum below
tall tallest / short shortest
long longest / brief short shortest
large largest big bigger biggest great greatest / small smallest little lesser
early earliest before / late latest after
start began begin begun / end finish stop stopped
open / close shut
arrive enter join / leave left depart
win won victory / lose lost defeat
accept approve allow permit / reject refuse forbid forbade forbidden ban banned prohibit prevent
approve allow grant can / refuse deny forbid forbade forbidden prohibit
legal / illegal
agree support / disagree oppose
include / exclude
add / remove
create build built construct / destroy demolish
appoint hire / dismiss fire
import / export
often frequent common usual / rare seldom
inside indoor internal / outside outdoor external
left / right
hot hotter hottest warm / cold coldest cool
fast fastest quick / slow slowest
strong strongest / weak weakest
heavy heaviest / light lightest
wet / dry
full / empty
wide widest / narrow
deep deepest / shallow
thick / thin thinner
rich richest / poor poorest
new newest modern / old oldest ancient
young youngest / old oldest
good better best / bad worse worst
easy simple / difficult hard complex
safe / dangerous
public / private
domestic / foreign
natural / artificial
major / minor
positive / negative
possible able / impossible unable
likely / unlikely
required mandatory compulsory / optional voluntary
direct / indirect
complete / incomplete
regular / irregular
permanent / temporary
male man men boy / female woman women girl
husband / wife
father / mother / son / daughter
brother / sister
king / queen
love / hate
friend ally / enemy
success successful succeed / failure fail unsuccessful
majority / minority
true correct right / false incorrect wrong
north northern / south southern / east eastern / west western
first / second / third / fourth / fifth / sixth / last
spring / summer / autumn / winter
january / february / march / april / june / july / august / september / october / november / december
monday / tuesday / wednesday / thursday / friday / saturday / sunday
hundred / thousand / million / billion / trillion
"""
_CONTRARY_WORDS = frozenset(_CONTRARIES.split()) - {"/"}
_NUMBERS = {
    w: str(n)
    for n, w in enumerate(listed("one two three four five six seven eight nine ten eleven twelve"), 1)
}
_TOKEN = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?|[^\W\d_]+(?:['’][^\W\d_]+)?|[.,;:!?()%]")
_NOT = re.compile(r"(?:not|never|no|none|nobody|neither|nor|without|cannot|hardly|scarcely|\w+n['’]t)\Z")
# "Not only" denies nothing of what follows, and "not before May" neither denies nor says it.
_NOT_DENIED = re.compile(r"\W+(?:only|just|merely|simply|necessarily|doubt|matter|\d)\b")
_EXCEPTED = re.compile(r"[^.,;:!?]{0,60}\b(?:until|till|unless|except|but|before|if)\b")
# What stands between a "not" and the word that it denies.
_PASSED = frozenset(
    listed("now still yet even ever always often currently quite giving having needing using")
)


def question_words(question: str) -> frozenset[str]:
    """Content words of a question, stemmed; `NUMBER` among them where it asks for a date or an amount."""
    wants = {NUMBER} if _ASKS_NUMBER.search(question.lower()) else set()
    return frozenset((stems(question) - {NUMBER}) | wants)


def stems(text: str) -> frozenset[str]:
    """Content words of a text, stemmed; `NUMBER` where it has a number, a month or a weekday."""
    plain = _content_words(text)
    dated = any(w in DATES or w in _NUMBERS or any(c.isdecimal() for c in w) for w in plain)
    return frozenset({_stem(w) for w in plain} | ({NUMBER} if dated else set()))


def stem_list(text: str) -> list[str]:
    """Content words of a text in order, stemmed; unlike `stems`, digits stand for themselves only."""
    return [_stem(w) for w in _content_words(text)]


def _content_words(text: str) -> list[str]:
    """Words without stop words; pairs of characters in scripts without spaces."""
    found = [w for w in _WORD.findall(text.lower()) if w not in _STOP]
    return found if text.isascii() else [part for w in found for part in pairs_of(w)]


def _stem(word: str) -> str:
    """The word without common English endings, so that "built" stays and "bridges" meets "bridge"."""
    word = re.sub(r"['’]s?$", "", word)
    for ending in _ENDINGS:
        # Three letters stay, or "sing" and "red" would lose all; "glass" is no plural.
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


@dataclass(frozen=True, slots=True)
class Term:
    """A content word or number as a text says it.

    Attributes:
        word: As written, lower case.
        stem: Its stem; for a number its digits, with a minus where it has one.
        sign: -1 where it is denied ("not open"), 0 where it is with an exception, else 1.
        sides: On which side it stands of lines of contrary words, by the number of the line.
        near: Stems of the two terms before it and after it.
        number: Whether it is one.
    """

    word: str
    stem: str
    sign: int
    sides: Mapping[int, int]
    near: frozenset[str]
    number: bool

    @property
    def shown(self) -> str:
        """The word, with what denies it."""
        return f"not {self.word}" if self.sign < 0 else self.word


@lru_cache(maxsize=512)
def terms(text: str) -> tuple[Term, ...]:
    """Content words and numbers of a text in order, with what is denied and what has a contrary."""
    # "May not" is a denial, "may" what "can" is, and "May" a month; "one more" is one.
    lower = re.sub(r"\b(?:no longer|can ?not|can['’]t)\b", "not", re.sub(r"\bmay\b", "can", text).lower())
    lower = re.sub(r"\b(one|two|three|\d+) more\b(?! than)", r"\1", lower)
    parsed: list[tuple[str, str, int, bool]] = []
    next_sign = 1
    for match in _TOKEN.finditer(lower):
        word = match[0]
        if not word[0].isalnum():
            next_sign = 1
        elif _NOT.match(word):
            # "Without a ticket you pay" says for whom.
            first = word == "without" and not lower[: match.start()].strip()
            plain = first or _NOT_DENIED.match(lower, match.end()) is not None
            next_sign = 1 if plain else 0 if _EXCEPTED.match(lower, match.end()) else -1
        elif word[0].isdecimal() or word in _NUMBERS:
            value = _NUMBERS.get(word, word.replace(",", ""))
            sign = "-" if has_minus(lower, match.start()) else ""
            parsed.append((sign + word, sign + value, 1, True))
        elif word not in _STOP or word in _CONTRARY_WORDS:
            # "Not yet open": what stands between does not end the denial.
            parsed.append((word, _stem(word), next_sign, False))
            next_sign = next_sign if word in _PASSED or word.endswith("ly") else 1
    stems_ = [stem for _, stem, _, _ in parsed]
    return tuple(
        Term(
            word,
            stem,
            sign,
            {} if number else _taken(stem, sign),
            frozenset(stems_[max(0, i - 2) : i] + stems_[i + 1 : i + 3]),
            number,
        )
        for i, (word, stem, sign, number) in enumerate(parsed)
    )


@lru_cache(maxsize=1)
def _sides() -> dict[str, dict[int, int]]:
    """Per stem the lines of contrary words it stands in, and its side: 1 or -1 of two; of more 2, 3, ..."""
    table: dict[str, dict[int, int]] = {}
    for number, line in enumerate(_CONTRARIES.strip().split("\n")):
        sides = line.split(" / ")
        for side, words in enumerate(sides):
            place = 1 - 2 * side if len(sides) == 2 else 2 + side
            for word in words.split():
                for form in (word, f"{word}s"):  # "Sunday" loses its y, "Sundays" does not.
                    table.setdefault(_stem(form), {})[number] = place
    return table


def _taken(stem: str, sign: int) -> dict[int, int]:
    """The sides that a word takes: denied, the other one of two, and of more none."""
    sides = _sides().get(stem, {}).items()
    return {line: side * sign for line, side in sides if sign > 0 or (sign and abs(side) == 1)}


def contrary(
    claim: Sequence[Term], sentence: Sequence[Term]
) -> tuple[dict[str, tuple[str, str]], frozenset[str]]:
    """What a sentence says otherwise than a claim about the same thing, and in what it agrees.

    Returns:
        Per stem of the claim what the claim says and what the sentence says in its place: a word that
        excludes it, or the word denied or not denied; and the stems that it says likewise.
    """
    own = {term.stem for term in claim}
    # A sentence may both say and deny a word: it agrees with either.
    signs: dict[str, set[int]] = {}
    for term in sentence:
        signs.setdefault(term.stem, set()).add(term.sign)
    agreed = {t.stem for t in claim if t.stem in signs and (not t.sign or {t.sign, 0} & signs[t.stem])}
    denied = [t for t in claim if t.stem in signs and t.stem not in agreed]
    other: dict[str, tuple[str, str]] = {}
    # "Eats nectar, not pollen" and "does not eat pollen": two differences make none.
    if len(denied) % 2:
        term = denied[0]
        other[term.stem] = (term.shown, next(f.shown for f in sentence if f.stem == term.stem))
    for term in (t for t in claim if t.stem not in signs):
        for said_term in (f for f in sentence if f.stem not in own):
            if any(said_term.sides.get(line) == side for line, side in term.sides.items()):
                agreed.add(term.stem)
            elif _excluded(term, said_term):
                other[term.stem] = (term.shown, said_term.shown)
    return {w: said for w, said in other.items() if w not in agreed}, frozenset(agreed)


def _excluded(term: Term, other: Term) -> bool:
    """Whether two words exclude each other and stand beside a like word."""
    if term.number or other.number:
        return False
    longer, shorter = sorted((term.stem, other.stem), key=len, reverse=True)
    if len(shorter) >= 4 and longer in (f"un{shorter}", f"non{shorter}"):
        return term.sign == other.sign
    opposed = any(other.sides.get(line, side) != side for line, side in term.sides.items())
    return opposed and not term.near.isdisjoint(other.near)


def says_something(text: str) -> bool:
    """Whether an English sentence has a predicate, and is no row of a table or list of bare words."""
    if len(text.split()) < 3 or text.count("|") > 2:
        return False
    return (_PREDICATE if _ENDS.search(text) else SURE_PREDICATE).search(text) is not None
