"""Which chunks the reranker is shown: by meaning, with their neighbors' support, and by words."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sage_core.ranking.neighbors import Links, vouch
from sage_core.selection.scales import rank_order

CANDIDATES = 60
"""Chunks found by meaning that a reranker is shown (paper: N)."""

RUNNERS_UP = 40
"""Fetched beyond the candidates: neighbors lift some of them among those."""


def words_of(candidates: int) -> int:
    """How many chunks the search by words may give beside so many found by meaning."""
    return max(candidates // 2, 1)


def distinct(
    texts: Sequence[str], ids: Sequence[str | None], scores: Sequence[float | None] | None = None
) -> list[int]:
    """Positions of the candidates without repetitions, which would use up the selection.

    Candidates repeat one another where their texts are equal but for white space. Those without text, such as
    pictures, go by their ids; without an id each stands for itself.

    Args:
        texts: Of the candidates, without headers.
        ids: Of the candidates.
        scores: Higher is better; of equal candidates the best stays, else the first.

    Examples:
        >>> distinct(["At seven.", "At nine.", "At  seven."], [None] * 3, [0.2, 0.1, 0.9])
        [1, 2]
    """
    order: Sequence[int] = range(len(texts)) if scores is None else rank_order(scores)
    first: dict[object, int] = {}
    for i in order:
        first.setdefault(" ".join(texts[i].split()) or (ids[i] or i,), i)
    return sorted(first.values())


def choose_candidates(
    similarities: Sequence[float | None],
    by_words: Collection[int],
    links: Sequence[Links],
    n: int,
) -> list[int]:
    """The ``n`` most similar to the question, neighbors having vouched, and all that have its words.

    Args:
        similarities: Of the question and each chunk, higher is nearer; None where it is not known.
        by_words: Positions of the chunks that a search by words gave.
        links: Of each chunk, from `sage_core.ranking.link`.
        n: How many by meaning.

    Returns:
        Positions, in the order that they came in.

    Examples:
        >>> choose_candidates([0.9, 0.5, 0.1], {2}, [Links(), Links(), Links()], 1)
        [0, 2]
    """
    vouched = vouch(similarities, links, "cosine")
    best = {i for i in rank_order(vouched)[:n] if similarities[i] is not None}
    return [i for i in range(len(similarities)) if i in best or i in by_words]
