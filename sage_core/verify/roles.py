"""Who does what to whom: the verbs of a text with the words on both sides of each. English, by rule."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass
from functools import lru_cache

from sage_core.text.language import COMMON_ENGLISH
from sage_core.verify.words import SURE_PREDICATE, listed, stem_list

# Verbs of one line say the same; those behind the bar with both sides exchanged, as "buy" does of "sell".
# Also forms that have a stem of their own.
_VERBS = """
sell sold | buy bought purchase
lend lent loan | borrow
give gave given grant award donate send sent hand | receive
teach taught | learn learnt
beat beaten defeat | lose lost
precede | follow succeed
lead led
pay paid
write wrote written
build built
make made
choose chose chosen
find found
take took taken
bring brought
tell told
see saw seen
hold held
drive drove driven
steal stole stolen
"""
_SYMMETRIC = frozenset(
    stem_list("meet met marry join cooperate work agree include border differ equal contain")
)
_PRONOUNS = frozenset(listed("i you he she it we they him her them us me who this these those"))
_MODAL = frozenset(listed("will would can could may might must shall should did does do to not"))
# "Their shared costs": no verb stands right behind these.
_OWNED = frozenset(listed("the a an their his her its our my your this that these those of"))
_BE = frozenset(listed("is are was were be been being am"))
_ASIDE = frozenset(listed("also later then first not never always already has have had since still only"))
_LONGEST_CLAUSE = 120  # Words that are read: each verb is compared with all others.
_TOKEN = re.compile(r"[^\W_]+(?:[’'-][^\W_]+)*|[,]")
_OPENS = frozenset(
    listed(
        "because although though while whereas unless until if when after before but whom which that who"
        " where"
    )
)
_ENDS = re.compile(rf"(?<!\b[A-Z])[.;:!?()]+(?:\s|\Z)|,? \b(?:{'|'.join(sorted(_OPENS))})\b")
_BETWEEN = frozenset(listed("the of and , de van von la le"))
_OTHER_PLACE = re.compile(r"by|in|at|on|for|from|with|to|near|as|of|under|during|since")


@dataclass(frozen=True, slots=True)
class Deed:
    """A verb and what stands on both sides of it.

    Attributes:
        verb: The stem, or the first one of its line in `_VERBS`.
        agent: Stems of who does it; of "the baker's son" both words. Empty for nobody and for a pronoun.
        others: Stems of whom or what it is done to, and of all else behind it.
        names: The names that stand right before the verb, or behind "by".
        unnamed: Whether the agent is a pronoun.
        given: Whether a pronoun follows the verb.
        shown: The agent and the verb as written.
    """

    verb: str
    agent: frozenset[str]
    others: frozenset[str]
    names: tuple[str, ...]
    unnamed: bool
    given: bool
    shown: str

    def exchanges(self, other: Deed) -> bool:
        """Whether the same is done with agent and others exchanged."""
        forward, back = self.others & other.agent, self.agent & other.others
        both = forward or (self.given and other.unnamed), back or (self.unnamed and other.given)
        apart = not self.agent & other.agent and not forward & other.others and not back & self.others
        return bool(all(both) and (forward or back) and apart)


@lru_cache(maxsize=1)
def _verbs() -> dict[str, tuple[str, bool]]:
    """The verb of each stem in `_VERBS`, and whether its sides are exchanged."""
    table: dict[str, tuple[str, bool]] = {}
    for line in _VERBS.strip().split("\n"):
        straight, _, exchanged = line.partition("|")
        first, *_ = stem_list(straight)
        table |= dict.fromkeys(stem_list(straight), (first, False)) | dict.fromkeys(
            stem_list(exchanged), (first, True)
        )
    return table


def _verb(word: str) -> tuple[str, bool]:
    stem = next(iter(stem_list(word)), word)
    return _verbs().get(stem, (stem, False))


@lru_cache(maxsize=2048)
def deeds(text: str, known: frozenset[str] = frozenset()) -> tuple[Deed, ...]:
    """What is done in a text.

    Args:
        text: A sentence or more.
        known: Verbs that count though their form alone may be a noun, "claims".

    Returns:
        In order; of a clause those in its first 120 words.
    """
    result: list[Deed] = []
    at = 0
    for end in [*(m.start() for m in _ENDS.finditer(text)), len(text)]:
        if end > at:
            result += _of_clause(text[at:end], known)
        at = end
    return tuple(result)


def _of_clause(text: str, known: Set[str]) -> list[Deed]:
    tokens = _TOKEN.findall(text)[:_LONGEST_CLAUSE]
    lower = [t.lower() for t in tokens]
    verbs = [i for i in range(len(tokens)) if _is_verb(lower, i, tokens[i], known)]
    result = []
    for i in verbs:
        first = i  # Of the verb with what belongs to it: "will not have", "was later".
        while first and (lower[first - 1] in _BE | _MODAL | _ASIDE or lower[first - 1].endswith("ly")):
            first -= 1
        # "Written and directed by": what stands behind the second verb.
        last = i + 2 if lower[i + 1 : i + 2] == ["and"] and i + 2 in verbs else i
        before = max((v + 1 for v in verbs if v < first), default=0)
        if "," in lower[max(before, first - 1) : first]:
            before = 0  # "Tom, hired by Ruth, paid": not what the comma closes alone.
        after = next((v for v in verbs if v > last), len(tokens))
        left, right = tokens[before:first], tokens[last + 1 : after]
        by = lower.index("by", last, after) if "by" in lower[last:after] else after
        # "A film directed by Ann", "rules drafted in 1863 by Ann": no object stands between.
        no_object = by < after and _OTHER_PLACE.fullmatch(lower[last + 1]) is not None
        passive = no_object or (any(w in _BE for w in lower[first:i]) and not lower[i].endswith("ing"))
        verb, exchanged = _verb(lower[i])
        shown = tokens[before : i + 1]
        if passive:
            stop = next((j for j in range(by + 1, after) if _OTHER_PLACE.fullmatch(lower[j])), after)
            left, right = tokens[by + 1 : stop], [*left, *tokens[i + 1 : by], *tokens[stop:after]]
            shown = tokens[i:stop] if by < after else tokens[before : i + 1]
        # "The man she paid": the pronoun does it.
        unnamed = bool(left) and left[-1].lower() in _PRONOUNS
        names = () if unnamed else _names(left, passive)
        if names == (*tokens[:1],) and (first != i or names[0].endswith("s")):
            names = ()  # "Visitors can" begins a sentence.
        agent, others = _stems([] if unnamed else left), _stems([*left, *right] if unnamed else right)
        given = bool(right) and right[0].lower() in _PRONOUNS
        if exchanged:
            agent, others, names, unnamed, given = others, agent, (), given, unnamed
        words = " ".join(shown).replace(" ,", ",")
        result.append(Deed(verb, frozenset(agent), frozenset(others), names, unnamed, given, words))
    return [d for d in result if d.verb not in _SYMMETRIC]


def _is_verb(lower: list[str], i: int, token: str, known: Set[str]) -> bool:
    word = lower[i]
    before = lower[i - 1] if i else ""
    if word in _BE | _MODAL | _ASIDE or token[0].isupper() or not word.isalpha() or before in _OWNED:
        return False
    sure = SURE_PREDICATE.fullmatch(word.removeprefix("re")) or (before in _MODAL and before != "to")
    verb, _ = _verb(word)
    return bool(sure) or verb in known or next(iter(stem_list(word)), "") in _verbs()


def _names(tokens: list[str], behind: bool) -> tuple[str, ...]:
    """The names behind "by" up to a comma, or the run of names that stands right before a verb."""
    run: list[str] = []
    for token in tokens if behind else reversed(tokens):
        word = re.split("['’]", token.lower())[0]
        if token[0].isupper() and len(word) > 1 and word not in COMMON_ENGLISH | _OPENS:
            run.append(token)
        elif token == "," if behind else word not in _BETWEEN:
            break
    return tuple(run if behind else reversed(run))


def _stems(tokens: list[str]) -> set[str]:
    return set(stem_list(" ".join(tokens)))
