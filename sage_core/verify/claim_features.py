"""What rules see in a claim beside its words: quantities, names and what is said of them, denial, opposites.

Features for the logistic model of grounding, which ``training/fit_grounding.py`` fits on claims that people
graded.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sage_core.text.blocks import points_back
from sage_core.text.lexicon import COMMON_ENGLISH
from sage_core.text.spans import Span
from sage_core.verify.passages import ParsedPassages, Sentence
from sage_core.verify.quantities import missing, quantities
from sage_core.verify.words import DENIAL, stem_list

NAMES = (
    "quantities_missing",
    "any_quantity_missing",
    "contradicted",
    "verbatim",
    "denied_here_only",
    "name_replaced",
    "names_exchanged",
    "word_family_found",
)
"""The features of `rule_features`, in order."""

_NAME = re.compile(r"\b[A-Z][\w’'-]*")
# All chosen by hand; the weights of the features are fitted by ``training/fit_grounding.py``.
_NEIGHBORS = 3  # Content words on each side that say what a name did.
_SAME_REST = 0.9  # Of the best sentence's share: another one about the same.
_ABOUT = 0.75  # Weighted share of a claim's other words in a sentence about the same.
_FAMILY = 5  # Letters that words of one family share at their beginning.
_WINDOW = 3  # Sentences in a row that may support a claim together.
_LONGER = 0.03  # Share that each further sentence has to add.


@dataclass(frozen=True, slots=True)
class _Named:
    """A name in a text and the content words around it."""

    stem: str
    near: frozenset[str]


def rule_features(
    text: str,
    own: Sequence[str],
    passages: ParsedPassages,
    *,
    contradicted: bool,
    verbatim: bool,
) -> list[float]:
    """The features `NAMES` of a claim, each from 0 to 1.

    Args:
        text: The claim.
        own: Its content words in order, stemmed; at least one.
        passages: The passages.
        contradicted: Whether a sentence about the same says something else.
        verbatim: Whether the passages hold the claim word for word.
    """
    sentences = passages.sentences
    window = _best_window(frozenset(own), passages)
    claimed = quantities(text)
    everywhere = [q for s in sentences for q in quantities(s.text)]
    absent = missing(claimed, everywhere)
    denied_there = any(DENIAL.search(s.text) for s in window)
    known = {w for s in sentences for w in s.stems}
    families = {w[:_FAMILY] for w in known if len(w) >= _FAMILY}
    unknown = {w for w in own if w not in known}
    related = sum(w[:_FAMILY] in families for w in unknown if len(w) >= _FAMILY)
    named = names(text)
    replaced, exchanged = _names_elsewhere(named, frozenset(own), passages)
    return [
        absent / max(1, len(claimed)),
        float(absent > 0),
        float(contradicted),
        float(verbatim),
        float(DENIAL.search(text) is not None and not denied_there),
        replaced,
        exchanged,
        related / len(set(own)),
    ]


@lru_cache(maxsize=2048)
def names(text: str) -> tuple[_Named, ...]:
    """Capitalized words that do not merely begin a sentence, each with the content words around it."""
    stems = stem_list(text)
    name_stems = []
    for match in _NAME.finditer(text):
        if match[0].lower() in COMMON_ENGLISH or match.start() == 0:
            continue
        own = stem_list(match[0])
        if own:
            name_stems.append(own[0])
    if (first := _NAME.match(text)) and (own := stem_list(first[0])) and own[0] in stems[1:]:
        name_stems.append(own[0])
    named = set(name_stems)
    result = []
    for stem in dict.fromkeys(name_stems):
        at = stems.index(stem) if stem in stems else 0
        near = stems[max(0, at - _NEIGHBORS) : at] + stems[at + 1 : at + 1 + _NEIGHBORS]
        result.append(_Named(stem, frozenset(w for w in near if w not in named)))
    return tuple(result)


def _best_window(own: frozenset[str], passages: ParsedPassages) -> Sequence[Sentence]:
    """The one to three neighboring sentences of a passage with most of a claim's words; short ones first."""
    best, chosen, sentences = 0.0, (0, 0), passages.sentences
    for i, sentence in enumerate(sentences):
        held: set[str] = set()
        for j in range(i, min(i + _WINDOW, len(sentences))):
            if sentences[j].passage != sentence.passage:
                break
            held.update(own.intersection(sentences[j].stems))
            value = passages.share(own, held) - _LONGER * (j - i)
            if value > best + 1e-12:  # of sums in another order
                best, chosen = value, (i, j + 1)
    return sentences[chosen[0] : chosen[1]]


def _names_elsewhere(
    named: Sequence[_Named],
    own: frozenset[str],
    passages: ParsedPassages,
) -> tuple[float, float]:
    """Whether the sentence about the rest of a claim has other names instead, or exchanges them."""
    if not named:
        return 0.0, 0.0
    stems = {n.stem for n in named}
    rest = own - stems
    sentences = passages.sentences
    shares = [passages.share(rest, s.words) for s in sentences]
    best = max(shares, default=0.0)
    if best < _ABOUT:
        return 0.0, 0.0
    replaced, exchanged = 1.0, 1.0
    for i, share in enumerate(shares):
        if share < _SAME_REST * best:
            continue
        sentence = sentences[i]
        held = set(sentence.stems)
        follows = i > 0 and sentences[i - 1].passage == sentence.passage
        if follows and points_back(sentence.text, Span(0, len(sentence.text))):
            held.update(sentences[i - 1].stems)  # "He" is whom the sentence before names.
        others = {n.stem for n in names(sentence.text)} - own
        absent = [n for n in named if n.stem not in held]
        replaced = min(replaced, best * len(absent) / len(named) if others else 0.0)
        exchanged = min(exchanged, _exchanged(named, names(sentence.text)))
    return replaced, exchanged


def _exchanged(claim: Sequence[_Named], sentence: Sequence[_Named]) -> float:
    """1 where the words around one name stand around another one in the sentence, and the other way round."""
    there = {n.stem: n.near for n in sentence}
    both = [n for n in claim if n.stem in there]
    for one, other in itertools.combinations(both, 2):
        straight = len(one.near & there[one.stem]) + len(other.near & there[other.stem])
        crossed = len(one.near & there[other.stem]) + len(other.near & there[one.stem])
        if crossed > straight:
            return 1.0
    return 0.0


def log_odds(probability: float) -> float:
    """Log-odds of a probability, cut to 1% and 99%."""
    p = min(0.99, max(0.01, probability))
    return math.log(p / (1 - p))
