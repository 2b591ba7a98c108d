"""Claims with their texts, true and false, by rule: sentences of summaries, and claims of two sentences."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import judge_examples as made

Labelled = tuple[str, list[str], bool]
_OPENED = re.compile(r"^(?:However|Moreover|Also|Thus|Therefore|For example|In addition|But|And|Or)\b,? ?")


def summary_sentences(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, bool, str]]:
    """Sentences of SummEdits' summaries: sentence, text, label, and the group.

    Those of a supported summary are supported. Of one that is not, a sentence that no supported one of the
    same text has is not, if it is the only such one.
    """
    groups = defaultdict(list)
    for row in rows:
        groups[str(row["group"])].append(row)
    for group, own in groups.items():
        right = dict.fromkeys(s for r in own if r["supported"] for s in made.split(r["claim"]))
        wrong = {}
        for row in own:
            other = [s for s in made.split(row["claim"]) if s not in right]
            if not row["supported"] and len(other) == 1:
                wrong[other[0]] = False
        for sentence, label in (*dict.fromkeys(right, True).items(), *wrong.items()):
            yield sentence, own[0]["context"], label, group


def lacking(claim: str, text: str) -> str | None:
    """A text without the sentence that alone says a good part of a claim; None if no sentence does."""
    sentences = made.split(text)
    if len(sentences) < 2:
        return None
    own = made.keyset(claim)
    held = [own & made.keyset(s) for s in sentences]
    alone = [h - set().union(*(x for j, x in enumerate(held) if j != i)) for i, h in enumerate(held)]
    best = max(range(len(sentences)), key=lambda i: len(alone[i]))
    if len(alone[best]) < max(2, 0.25 * len(own)):
        return None
    return " ".join(s for i, s in enumerate(sentences) if i != best)


def _joined(first: str, second: str, rng: random.Random) -> str:
    link = rng.choice((", and ", ", while ", " and ", ", and ", "; ", ". "))
    second = made.cap(second) if link == ". " else made.decap(second)
    return made.cap(first.rstrip(".")) + link + second


def _crossed(
    first: str, second: str, find: Callable[[str], list[str]], rng: random.Random
) -> tuple[str, str] | None:
    """Two sentences with a number or a name of each in the place of the other's."""
    one = [x for x in find(first) if x not in second]
    two = [x for x in find(second) if x not in first]
    pool = [(a, b) for a in one for b in two if bool(made.YEAR.match(a)) == bool(made.YEAR.match(b))]
    if not pool:
        return None
    a, b = rng.choice(pool)
    return made.sub_word(first, a, b), made.sub_word(second, b, a)


def fused(articles: Sequence[Sequence[str]], count: int, rng: random.Random) -> Iterator[Labelled]:
    """Two sentences of a paragraph in one claim: as they are, without one of them, and what they say crossed.

    Args:
        articles: The paragraphs of each.
        count: Examples.
        rng: Of the choice.
    """
    given = 0
    while given < count:
        paragraphs = rng.choice(articles)
        at = rng.randrange(len(paragraphs))
        sentences = [s for s in made.split(paragraphs[at]) if s]
        usable = [
            i
            for i, s in enumerate(sentences)
            if 6 <= len(s.split()) <= 26 and s[-1] == "." and not made.PRONOUN.match(s)
        ]
        if len(usable) < 2 or len(sentences) < 3:
            continue
        i, j = rng.sample(usable, 2)
        first, second = (_OPENED.sub("", sentences[x]) for x in (i, j))
        if len(made.keyset(second) & made.keyset(first)) > 0.5 * len(made.keyset(second)):
            continue
        seed = rng.random()

        def said(a: str, b: str, seed: float = seed) -> str:
            own = random.Random(seed)
            return _joined(made.rephrase(a, own), made.rephrase(b, own), own)

        claim = said(first, second)
        others = rng.sample(paragraphs, min(2, len(paragraphs)))
        rest = [p for p in others if p != paragraphs[at]]
        passages = [paragraphs[at], *rest]
        lost = [" ".join(s for x, s in enumerate(sentences) if x != j), *rest]
        crossed = _crossed(first, second, made.numbers_in, rng) or _crossed(first, second, made.names_in, rng)
        yield claim, passages, True
        yield claim, lost, False
        given += 2
        if crossed is None:
            continue
        wrong = said(*crossed)
        if wrong != claim:
            yield wrong, passages, False
            # A part that stays true keeps the balance.
            yield made.rephrase(rng.choice((first, second)), rng), passages, True
            given += 2
