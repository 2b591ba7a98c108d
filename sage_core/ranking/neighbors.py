"""Neighbors vouch: a chunk beside a good one is better than its own words say.

A short chunk rarely names its subject, and evidence rarely ends at a chunk's border. So the score of a
candidate takes in those of the chunks before and after it in the same document, as far as they are candidates
too. That needs nothing but where each candidate stands, so it works over any vector store.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from sage_core._checks import check_float
from sage_core.errors import InputError
from sage_core.passages import Place
from sage_core.selection.scales import Scale, check_scale, plain_scores

WEIGHT = 0.3
"""How much a neighbor's score counts, beside 1 for the chunk's own; each step further counts half of that."""
STEPS = 3
"""So far away a neighbor may be."""

# Characters between two chunks that are still neighbors: blank lines, not a paragraph.
LONGEST_GAP = 16


class Links(NamedTuple):
    """Positions in the list of candidates of a chunk's neighbors; None if there is none among them.

    Examples:
        >>> link([Place("a.txt", 11, 20), Place("a.txt", 0, 10)])[0].previous
        1
    """

    previous: int | None = None
    next: int | None = None


def link(places: Sequence[Place | None], *, longest_gap: int = LONGEST_GAP) -> list[Links]:
    """Find the neighbors of every candidate among the others.

    Two candidates are neighbors where one follows the other in its document with at most ``longest_gap``
    characters between them. They may overlap. Of several that start at one place the longest is linked to
    those around it.

    Args:
        places: One per candidate, in any order; None if it is not known.
        longest_gap: Most characters between neighbors; 0 where places are numbers.

    Returns:
        As many links.
    """
    previous: list[int | None] = [None] * len(places)
    following: list[int | None] = [None] * len(places)
    documents: dict[Hashable, list[tuple[int, int, int]]] = {}
    for i, place in enumerate(places):
        if place is not None:
            documents.setdefault(place.document, []).append((place.start, -place.end, i))
    for rows in documents.values():
        rows.sort()
        last: tuple[int, int, int] | None = None
        for row in rows:
            if last is not None:
                if row[0] == last[0]:
                    continue  # the same place, or the beginning of it
                # So many characters at most lie between two chunks of one cut; more is text that is missing.
                if row[0] + last[1] <= longest_gap:  # last[1] is minus its end
                    previous[row[2]], following[last[2]] = last[2], row[2]
            last = row
    return [Links(p, n) for p, n in zip(previous, following, strict=True)]


def link_ids(
    ids: Sequence[str],
    previous: Sequence[str | None],
    following: Sequence[str | None],
    places: Sequence[Place | None] | None = None,
) -> list[Links]:
    """`link` for candidates that name their neighbors.

    Args:
        ids: Of each candidate.
        previous: Id of the chunk before each; None if it is not known.
        following: Id of the chunk after each.
        places: Of each candidate. They say who is beside a candidate that names nobody and that nobody names;
            names are surer, since parsers with windows make offsets overlap.
    """
    at = {name: i for i, name in enumerate(ids)}
    before = [None if p is None else at.get(p) for p in previous]
    after = [None if n is None else at.get(n) for n in following]
    # Parsers that run one after the other leave links of which one side knows nothing.
    for i in range(len(ids)):
        if (p := before[i]) is not None and after[p] is None:
            after[p] = i
        if (n := after[i]) is not None and before[n] is None:
            before[n] = i
    links = [Links(p, n) for p, n in zip(before, after, strict=True)]
    by_place = links if places is None else link(places)
    return [
        b if a == Links() and p is None and n is None else a
        for a, b, p, n in zip(links, by_place, previous, following, strict=True)
    ]


def vouch(
    scores: Sequence[Any], links: Sequence[Links], scale: Scale, *, weight: float = WEIGHT
) -> list[float | None]:
    """Let neighbors vouch for each other; a chunk without neighbors among the candidates keeps its score.

    The chunks before and after it count, and those up to three steps away: what a story tells in one place is
    asked for in words of another. What is right depends on what a score is; ``w`` is the weight, which halves
    with each step, ``p`` and ``n`` are the neighbors:

    - ``probability``: ``1 - (1-s)(1-w*p)(1-w*n)``, the probability that the chunk is relevant for itself or
      for the sake of a neighbor (a noisy or). Never below ``s``, never above 1.
    - ``logit``: the same on the sigmoids, turned back into a logit, so that a chunk far below 0 is lifted
      by a good neighbor and one far above is left where it is.
    - ``cosine``: the mean of all with weights 1, w and w, over those that are there. A sum would favor
      chunks in the middle of documents, because cosines have no 0 that means "nothing".
    - ``unbounded``: ``s + w*(p + n)``, of neighbors above 0.

    Args:
        scores: One per candidate; None and NaN stay what they are and vouch for nobody.
        links: From `link`.
        scale: What the scores are.
        weight: Of the chunks beside it; from 0, no effect, to 1.

    Returns:
        Scores on the same scale. None for None and NaN.

    Raises:
        InputError: For scores that are no numbers, another number of links, an unknown scale, or a weight out
            of range.

    Example:
        >>> links = link([Place("a", 0, 40), Place("b", 0, 30), Place("a", 41, 90)])
        >>> [round(s, 2) for s in vouch([0.8, 0.3, 0.2], links, "probability")]
        [0.81, 0.3, 0.39]
    """
    check_scale(scale)
    check_float("weight", weight, minimum=0, maximum=1)
    known = [None if s is None or math.isnan(s) else s for s in plain_scores(scores)]
    if len(links) != len(known):
        raise InputError(f"{len(known)} scores, but links of {len(links)} candidates")

    def near(i: int) -> list[tuple[float, float]]:
        scored = ((known[other], share) for other, share in beside(i, links))
        return [(s, weight * share) for s, share in scored if s is not None and s != -math.inf]

    return [None if score is None else vouched_score(score, near(i), scale) for i, score in enumerate(known)]


def beside(i: int, links: Sequence[Links]) -> Iterator[tuple[int, float]]:
    """The positions of those that vouch for a candidate, with the share of the weight that each has."""
    for side in range(2):  # before it, after it
        other = links[i][side]
        for step in range(STEPS):
            if other is None or other == i:  # a ring: nobody vouches for itself
                break
            yield other, 0.5**step
            other = links[other][side]


def vouched_score(score: float, vouchers: Sequence[tuple[float, float]], scale: Scale) -> float:
    """A score with those of others that vouch for it, each with its weight; see `vouch`."""
    # log1p(-0 * s) is 0, but 0 * inf would be NaN.
    vouchers = [(s, weight) for s, weight in vouchers if weight]
    if not vouchers or math.isinf(score):
        return score
    if scale == "unbounded":
        return score + sum(weight * max(s, 0.0) for s, weight in vouchers)
    if scale == "cosine":
        weights = sum(weight for _, weight in vouchers)
        return (score + sum(weight * s for s, weight in vouchers)) / (1 + weights)
    if scale == "probability":
        # Products of doubts: independent reasons to be relevant, each of which suffices.
        doubt = 1 - min(max(score, 0.0), 1.0)
        for s, weight in vouchers:
            doubt *= 1 - weight * min(max(s, 0.0), 1.0)
        return 1 - doubt
    # log(odds), with 1 - sigmoid(s) = sigmoid(-s): exact where 1 - p is too small for a float.
    log_doubt = -_softplus(score)
    for s, weight in vouchers:
        log_doubt += math.log1p(-weight * _sigmoid(s)) if weight * _sigmoid(s) < 1 else -_softplus(s)
    # Rounding may give a little less than the score itself; vouching never lowers.
    return max(score, _log_expm1(-log_doubt))


def _sigmoid(x: float) -> float:
    return 0.5 * (1 + math.tanh(0.5 * x))


def _softplus(x: float) -> float:
    """log(1 + exp(x))."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _log_expm1(x: float) -> float:
    """log(exp(x) - 1), for x > 0; -inf at 0."""
    if x <= 0:
        return -math.inf
    # Two forms: expm1 overflows above 709, log1p loses all digits near 0.
    return x + math.log1p(-math.exp(-x)) if x > 1 else math.log(math.expm1(x))
