"""Whether a claim says as much as its evidence does: quoted whole, limited alike, in the same order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from sage_core.text.keywords import stem_list
from sage_core.text.lexicon import CLAUSES, COMMON_ENGLISH, DATES, DENIAL, NUMBER_WORDS
from sage_core.verify.passages import ParsedPassages, Sentence, exact_tokens, exact_words

_QUOTED_WORDS = 3  # Fewer stand word for word in many passages by chance. By hand.
_MAX_PLACES = 20  # In one passage, at which a claim is looked for.
_NAME = re.compile(r"\b[A-Z][\w’'-]+(?: [A-Z][\w’'-]+)*")
_IS = re.compile(r"\W*(?:is|are|was|were)\W*")
# Around a quotation: where a clause begins and where it ends.
_BEGINS = re.compile(r"(?:\A[^\w]*|[,;:>(–—]\W*|\b(?:and|but|while|whereas)\s+)\Z")
_ENDS = re.compile(r"[\"”’'*_)]*(?:\W*\Z|[,;:(–—]|[.!?]|\s+(?:and|but|while|whereas)\b)")
# What of the rest of a sentence takes back, limits or only supposes what the clause says.
_TAKES_BACK = re.compile(
    rf"{DENIAL.pattern}|\b(?:if|unless|except|excluding|only|until|till|whether|provided|wrong\w*|false\w*|untrue"
    r"|myth|rumou?r\w*|according|(?:sa(?:y|id)|claim|argu|alleg|suggest|think|thought|believ|den[iy]|reject"
    r"|report|hope|expect|propos|doubt|suppos|assum|fear|warn)\w*)\b"
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
    "supposed": re.compile(r"(?i)\b(?:alleg|suppos|reject|den(?:y|ied)|doubt|wrongly)\w*"),
}
_WHOLE = ("except", "if", "only", "until", "supposed")  # Of the whole sentence; the others of a clause.


# -- quoted whole --------------------------------------------------------------------------------------------


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
    row = any(f" {claim} " in f" {exact_words(s.text)} " for s in material.sentences if s.cells)
    return row or any(
        _fills(claim, i, passage, material, marked) for i, passage in enumerate(material.passages)
    )


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
    return bool(clause) and _TAKES_BACK.search(f"{before} {after}".lower()) is None


# -- limited alike -------------------------------------------------------------------------------------------


def unlike(text: str, own: Sequence[str], evidence: Sequence[Sentence]) -> str:
    """Why a claim may say more, less or something else than its evidence, in words; empty if it does not.

    Args:
        text: The claim.
        own: Its content words, stemmed.
        evidence: The sentences that hold many of its words.
    """
    words = set(own)
    for sentence in evidence:
        clauses = [c for c in CLAUSES.split(sentence.text) if not words.isdisjoint(stem_list(c))]
        shared = " ; ".join(clauses)
        for name, pattern in _LIMITERS.items():
            there = pattern.search(sentence.text if name in _WHOLE else shared) is not None
            if there and not pattern.search(text):
                return f"its sentence limits it (“{name}”)"
        if _reordered(text, sentence.text):
            return "the same words stand in another order"
    said = " ".join(s.text for s in evidence)
    for name, pattern in _LIMITERS.items():
        if pattern.search(text) and not pattern.search(said):
            return f"it limits what its sentence does not (“{name}”)"
    return ""


def _reordered(text: str, sentence: str) -> bool:
    """Whether two names, or what stands on both sides of "than", are exchanged."""
    claim, there = _order(text), list(_order(sentence))
    common = [w for w in claim if w in there]
    for one, other in itertools.pairwise(common):
        between = text[claim[one][1] : claim[other][0]]
        # "Ann is Ben" is the same the other way round; "Ann was accused by Ben" is not "Ann accused Ben".
        passive = (" by " in text) != (" by " in sentence)
        if (passive or there.index(one) > there.index(other)) and not _IS.fullmatch(between):
            return True
    return False


def _order(text: str) -> dict[str, tuple[int, int]]:
    """The names of a text, and in a comparison all its content words, in order, with their places."""
    if re.search(r"\bthan\b", text):
        found = ((stem, m) for m in re.finditer(r"\w+", text) for stem in stem_list(m[0]))
    else:
        found = ((m[0].lower(), m) for m in _NAME.finditer(text))
    return {w: m.span() for w, m in found if w not in COMMON_ENGLISH | DATES}
