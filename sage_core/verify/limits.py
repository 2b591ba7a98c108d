"""Whether a claim says as much as its evidence does: quoted whole, limited alike, in the same order."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Sequence, Set
from functools import lru_cache

from sage_core.text.keywords import stem_list
from sage_core.text.lexicon import CLAUSES, DATES, DENIAL, EMPTY_WORDS, NUMBER_WORDS, word_set
from sage_core.verify.passages import ParsedPassages, Sentence
from sage_core.verify.quantities import quantities

# A word, or a number with what changes it: sign, comparator, currency, decimal mark, range, percent, scale.
# A dash after a word or a number is a hyphen or a range; " - 5" after a word is taken for a sign. Repetitions
# are bounded, so that a run of marks takes linear time.
_EXACT = re.compile(
    r"(?:[<>≤≥≈~±]\s{0,3}|[$€£¥₹]\s{0,3}|(?<![\w)%°])[-+]|(?<=[^\W\d] )- ){0,3}(?:(?<!\w)[.,])?"
    r"\d\w*(?:[.,:/·'’-]\d\w*)*"
    r"(?:\s{0,3}(?:[%‰°$€£¥₹]|(?:percent|per cent|hundred|thousand|million|billion|trillion)\b)){0,3}"
    r"|\w+"
)
_DASHES = str.maketrans("‐‑‒–—−", "------")
_QUOTE_WORDS = 3  # Fewer between quotation marks are a title or a word spoken of.
_QUOTED_WORDS = 3  # Fewer stand word for word in many passages by chance. By hand.
_MAX_PLACES = 20  # In one passage, at which a claim is looked for.
QUOTED = re.compile(r"[“\"]([^”\"]{3,2000})[”\"]")
"""A quotation."""
# Words that hold no place between two others: "Ann is the oldest" is "the oldest is Ann".
_NO_PLACE = word_set("a an the and or is are was were")
_NUMBER = "#"
_BEHIND = 4  # Words, a limiter's own among them, that it may limit. By hand.
_REACH = 8  # Words between which and the next ones an exchange is looked for. By hand.
# Around a quotation: where a clause begins and where it ends.
_BEGINS = re.compile(r"(?:\A[^\w]*|[,;:>(–—]\W*|\b(?:and|but|while|whereas)\s+)\Z")
_ENDS = re.compile(r"[\"”’'*_)]*(?:\W*\Z|[,;:(–—]|[.!?]|\s+(?:and|but|while|whereas)\b)")
# Verbs of saying and supposing: what stands behind them is not said itself.
_SAID = re.compile(
    r"\b(?:according|myth|rumou?r\w*|false\w*|untrue|(?:sa(?:y|id)|claim|argu|suggest|think|thought|believ"
    r"|report|hope|expect|propos|assum|fear|warn)\w*)\b"
)
# A number or a date, of which "over", "before" and the like are bounds.
_AMOUNT = rf"(?:the )?(?:\W?\d|(?:{'|'.join([*NUMBER_WORDS, *DATES])}|may)\b)"
# What the evidence limits, the claim must limit, and the other way round.
_LIMITERS = {
    "not": DENIAL,
    "except": re.compile(r"(?i)\b(?:except|excluding|unless|apart from|other than)\b"),
    "if": re.compile(
        r"(?i)\A\W*(?:had|were|should)\b"
        r"|\b(?:if|unless|provided|whether|in case|with (?:\w+ )?(?:consent|permission))\b"
    ),
    "only": re.compile(r"(?i)\b(?:only|solely|exclusively)\b"),
    "until": re.compile(r"(?i)\b(?:until|till)\b"),
    "at most": re.compile(
        rf"(?i)\b(?:less than|fewer than|at most|up to|under|below|maximum(?: of)?) {_AMOUNT}|[<≤]=?\s?\d"
    ),
    "at least": re.compile(
        rf"(?i)(?<!no )\b(?:more than|at least|over|above|minimum(?: of)?|exceed\w*) {_AMOUNT}|[>≥]=?\s?\d"
    ),
    "before": re.compile(rf"(?i)\b(?:before|prior to) {_AMOUNT}"),
    "after": re.compile(rf"(?i)\b(?:after|since|following) {_AMOUNT}"),
    "supposed": re.compile(r"(?i)\b(?:alleg|suppos|reject|den(?:y|ied)|doubt|wrong)\w*|\?\W*\Z"),
    "some": re.compile(
        r"\b(?i:(?:some|most)(?! \d)|mostly|partly|usually|often|generally|typically|sometimes|might|could"
        r"|likely|possibly|perhaps)\b|\bmay\b"
    ),
    "all": re.compile(r"(?i)\b(?:all|every\w*|each|always|entirely|completely|any\w*)\b"),
}
_WEAKER, _STRONGER = ("some",), ("all",)  # Only the sentence may not limit so, only the claim.
_WHOLE = ("except", "if", "only", "until", "supposed")  # Of the whole sentence; the others of a clause.


# -- quoted whole --------------------------------------------------------------------------------------------


def misquoted(text: str, material: ParsedPassages) -> bool:
    """Whether a claim quotes what the passages do not hold."""
    texts = [*material.passages, *(s.text for s in material.sentences if s.cells)]
    return any(
        len(q.split()) >= _QUOTE_WORDS and not any(f" {q} " in exact_tokens(t)[0] for t in texts)
        for q in map(exact_words, QUOTED.findall(text))
    )


def quoted_whole(text: str, material: ParsedPassages, *, marked: bool = False) -> bool:
    """Whether a claim fills sentences, or a clause whose rest takes nothing back, of one passage or row.

    Args:
        text: The claim.
        material: The passages.
        marked: Whether it stands between quotation marks, where two words will do.
    """
    claim = exact_words(text)
    if not marked and len(claim.split()) < _QUOTED_WORDS:
        return False
    if any(f" {claim} " in f" {exact_words(s.text)} " for s in material.sentences if s.cells):
        return True
    return any(_fills(claim, i, own, material, marked) for i, own in enumerate(material.passages))


def _fills(claim: str, number: int, passage: str, material: ParsedPassages, marked: bool) -> bool:
    joined, spans = exact_tokens(passage)
    at, count = -1, len(claim.split())
    for _ in range(_MAX_PLACES):
        at = joined.find(f" {claim} ", at + 1)
        if at < 0:
            return False
        first = joined.count(" ", 0, at)
        start, end = spans[first][0], spans[first + count - 1][1]
        if _is_clause(passage, number, start, end, material, marked):
            return True
    return False


def _is_clause(
    passage: str, number: int, start: int, end: int, material: ParsedPassages, marked: bool
) -> bool:
    own = [s for s in material.sentences if s.passage == number and s.span.start < end and start < s.span.end]
    if not own or (len(own) > 1 and not marked):
        return False
    before, after = passage[own[0].span.start : start], passage[end : own[-1].span.end]
    clause = _BEGINS.search(before) and _ENDS.match(after)
    rest = f"{before} {after}".lower()
    taken_back = any(_LIMITERS[name].search(rest) for name in ("not", *_WHOLE))
    return bool(clause) and not taken_back and _SAID.search(rest) is None


def exact_words(text: str) -> str:
    """Words and numbers, lower case, one space between; "-5", "€ 50" and "40 million" are one number each."""
    return exact_tokens(text)[0].strip()


@lru_cache(maxsize=512)
def exact_tokens(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """`exact_words` with a space at both ends, and where each of them stands in the text."""
    lower = text.replace("İ", "i").lower().translate(_DASHES)  # The one letter that grows: places stay.
    found = list(_EXACT.finditer(lower))
    return f" {' '.join(''.join(m[0].split()) for m in found)} ", tuple(m.span() for m in found)


# -- limited alike -------------------------------------------------------------------------------------------


def unlike(text: str, own: Sequence[str], evidence: Sequence[Sentence], material: ParsedPassages) -> str:
    """Why a claim may say more, less or something else than its evidence, in words; empty if it does not.

    Args:
        text: The claim.
        own: Its content words, stemmed.
        evidence: The sentences that hold many of its words.
        material: The passages.
    """
    words, claimed = set(own), quantities(text)
    # A sentence that lacks the claim's number limits another one.
    with_it = [s for s in evidence if all(any(map(c.agrees, quantities(s.text))) for c in claimed)]
    evidence = with_it or evidence
    most = max((len(words & s.words) for s in evidence), default=0)
    nearest = [s for s in evidence if len(words & s.words) == most]
    if most == len(words):
        evidence = nearest  # Beside a sentence with all of its words the others are about something else.
    for sentence in evidence:
        clauses = [c for c in CLAUSES.split(sentence.text) if not words.isdisjoint(stem_list(c))]
        shared = " ; ".join(clauses)
        for name, pattern in _LIMITERS.items():
            whole = name in _WHOLE and pattern.search(sentence.text)
            there = whole or any(_limited(shared[m.start() :], words) for m in pattern.finditer(shared))
            limits = name not in _STRONGER and (name not in _WEAKER or sentence in nearest)
            if there and limits and not pattern.search(text):
                return f"its sentence limits it (“{name}”)"
    if any(_exchanged(text, s.text) for s in nearest if not s.cells):
        return "the same words stand in another order"
    held = words & material.words
    if scattered := min((held - _with_those_before(s, material) for s in nearest), key=len, default=set()):
        return f"its words stand in different sentences (“{min(scattered)}”)"
    said = " ".join(s.text for s in evidence)
    for name, pattern in _LIMITERS.items():
        if name not in _WEAKER and pattern.search(text) and not pattern.search(said):
            return f"it limits what its sentence does not (“{name}”)"
    return ""


def _limited(rest: str, words: Set[str]) -> bool:
    """Whether a limiter stands close before one of a claim's words: it limits what is behind it."""
    return not words.isdisjoint(stem_list(" ".join(rest.split(maxsplit=_BEHIND)[:_BEHIND])))


def _with_those_before(sentence: Sentence, material: ParsedPassages) -> set[str]:
    """The words of a sentence, of two before it if it points back ("It is"), and of the headings above."""
    at = material.sentences.index(sentence)
    own = [s for s in material.sentences[:at] if s.passage == sentence.passage]
    meant = own[-2:] if sentence.refers else []
    return {w for s in [sentence, *meant, *(s for s in own if s.kind == "heading")] for w in s.words}


def _exchanged(text: str, sentence: str) -> bool:
    """Whether two words change sides around a third: "larger in men than in women", "in women than in men".

    A phrase that stands elsewhere alone, such as "in May" at the end, changes sides with nothing.
    """
    claim, there = _tokens(text), _tokens(sentence)
    here = {word: i for i, word in reversed([*enumerate(claim)])}
    others: dict[str, list[int]] = {}
    for i, word in enumerate(there):
        others.setdefault(word, []).append(i)
    common = [w for w in dict.fromkeys(claim) if w in others and w not in EMPTY_WORDS and w != _NUMBER]
    # "Ben was hired by Ann" is "Ann hired Ben", and not "Ben hired Ann": who did it stands first.
    agents = [_agents(t).intersection(common) for t in (claim, there)]
    if bool(agents[0]) != bool(agents[1]):
        first = min(common, key=lambda w: others[w][0]) if agents[0] else common[0]
        return first not in agents[0] | agents[1]

    def around(one: str, third: str, other: str) -> bool:
        behind = bisect_right(others[third], others[one][0])
        return behind < len(others[third]) and others[third][behind] < others[other][-1]

    for i, a in enumerate(common):
        for b in common[i + 1 : i + _REACH]:
            between = [w for w in claim[here[a] + 1 : here[b]] if w in others]
            if any(around(b, w, a) for w in between) and not any(around(a, w, b) for w in between):
                return True
    return False


def _agents(words: Sequence[str]) -> set[str]:
    """What stands behind the first "by", up to the next small word: "by his daughter Hannah in May"."""
    behind = itertools.dropwhile(EMPTY_WORDS.__contains__, itertools.dropwhile("by".__ne__, words))
    return {*itertools.takewhile(lambda w: w not in EMPTY_WORDS, behind)}


def _tokens(text: str) -> list[str]:
    """The words of a text in order, stemmed but for small ones, with one sign for a number."""
    for q in reversed(quantities(text)):
        text = f"{text[: q.span.start]} {_NUMBER} {text[q.span.end :]}"
    words = re.findall(rf"[^\W_][\w’'-]*|{_NUMBER}", text.lower())
    return [s for w in words if w not in _NO_PLACE and w not in DATES for s in stem_list(w) or [w]]
