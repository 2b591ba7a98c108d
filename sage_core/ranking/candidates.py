"""Which chunks the reranker is shown: by meaning, with their neighbors' support, and by words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sage_core.ranking.features import scores_or_order
from sage_core.ranking.links import Titled, named_chunks
from sage_core.ranking.neighbors import Links, vouch
from sage_core.selection.scales import rank_order

if TYPE_CHECKING:
    from sage_core.word_index.words import WordIndex

T = TypeVar("T")
_MARKS = re.compile(r"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)  # of a quotation

CANDIDATES = 60
"""Chunks found by vector search that a reranker is shown (paper: N)."""

RUNNERS_UP = 40
"""Fetched beyond the candidates: neighbors lift some of them among those."""


def words_of(candidates: int) -> int:
    """How many chunks the keyword search may give beside so many found by vector search."""
    return max(candidates // 2, 1)


def distinct(
    texts: Sequence[str], ids: Sequence[str | None], scores: Sequence[float | None] | None = None
) -> list[int]:
    """Positions of the candidates without repetitions, which would use up the selection.

    Candidates repeat one another if their texts are equal but for white space and the marks of a quotation
    (``>``). Those without text, such as pictures, go by their ids; without an id each stands for itself.

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
    # Best first, so that of equal texts the best is the one that stays.
    for i in order:
        first.setdefault(_identity(texts[i], ids[i]) or i, i)
    return sorted(first.values())


def _identity(text: str, own_id: str | None) -> object:
    """What two candidates that are the same have in common; None for one that is like no other."""
    # A tuple, so that no id is taken for a text.
    return " ".join((_MARKS.sub("", text) if ">" in text else text).split()) or (own_id and (own_id,)) or None


@dataclass(frozen=True, slots=True)
class Hit(Generic[T]):
    """A result of a search.

    Attributes:
        item: What the search gave, in the form of whoever searched.
        text: Its text, without a header.
        id: Its id; None if it has none.
        score: What the vector search gives it, on the search's own scale; None if that is not known.
        similarity: The same, higher is nearer; None if that is not known.
    """

    item: T
    text: str
    id: str | None = None
    score: float | None = None
    similarity: float | None = None

    @property
    def identity(self) -> object:
        """What repetitions of it have in common."""
        return _identity(self.text, self.id) or id(self.item)


def merge(
    near: Sequence[Hit[T]],
    by_words: Sequence[Hit[T]],
    n: int,
    *,
    links: Callable[[Sequence[T]], Sequence[Links]],
    scores: Callable[[Sequence[T]], Sequence[float | None]] | None = None,
    similarities: Callable[[Sequence[float | None]], Sequence[float | None]] = list,
) -> list[Hit[T]]:
    """The candidates of a question, each text once: ``n`` of the vector search, and all of a keyword search.

    Args:
        near: What the vector search gave, nearest first.
        by_words: What the keyword search gave, best first.
        n: How many from the vector search.
        links: Of each candidate to its neighbors among them, from `sage_core.ranking.link`; they vouch for
            each other before the nearest are counted.
        scores: What the vector search would give those that it did not return, None for "not known";
            None leaves them their own.
        similarities: From the search's scores, in its order, to what rises with nearness.

    Returns:
        In the order in which the vector search lists them, as far as it knows them; then the others in
        the order of the keyword search.

    Examples:
        >>> near = [Hit("a", "At seven.", score=0.9), Hit("b", "At nine.", score=0.5)]
        >>> by_words = [Hit("c", "At ten.", score=0.1), Hit("d", "At  seven.")]
        >>> merged = merge(near, by_words, 1, links=lambda items: [Links() for _ in items])
        >>> [(hit.item, hit.similarity) for hit in merged]
        [('a', 0.9), ('c', 0.1)]
    """
    listed, words = _first_of_each(near), _first_of_each(by_words)
    near, ids, word_ids = list(listed.values()), {*_ids(near)}, {*_ids(by_words)}
    new = [hit for identity, hit in words.items() if identity not in listed and hit.id not in ids]
    if scores is not None and new:
        known = scores([hit.item for hit in new])
        new = [replace(hit, score=score) for hit, score in zip(new, known, strict=True)]
    # Behind the nearest, as the vector search would have listed them had more been asked for.
    new = [new[i] for i in rank_order([_falling(hit.score, near) for hit in new])]
    merged = [*near, *new]
    read = similarities([hit.score for hit in merged])
    merged = [replace(hit, similarity=value) for hit, value in zip(merged, read, strict=True)]
    # A search without scores has an order, which says how near each is.
    nearness = scores_or_order([hit.similarity for hit in merged[: len(near)]])
    nearness += [hit.similarity for hit in merged[len(near) :]]
    lifted = vouch(nearness, links([hit.item for hit in merged]), "cosine")
    best = {*rank_order(lifted)[:n]}
    return [hit for i, hit in enumerate(merged) if i in best or hit.identity in words or hit.id in word_ids]


def join_named(
    question: str,
    hits: Sequence[Hit[T]],
    index: WordIndex,
    *,
    titled: Callable[[T], Titled],
    links: Callable[[Sequence[T]], Sequence[Links]],
    fetch: Callable[[Sequence[str]], Sequence[Hit[T]]],
    scores: Callable[[Sequence[T]], Sequence[float | None]],
) -> list[Hit[T]]:
    """The candidates, and behind them the first chunks of documents that the question or the best ones name.

    Args:
        question: The question.
        hits: From `merge`. Neighbors vouch for each other before it is said which are the best.
        index: Where documents are looked up by their names.
        titled: What a candidate's metadata say of its document.
        links: As for `merge`.
        fetch: Given ids of the index, the chunks that may be shown.
        scores: As for `merge`.
    """
    items = [hit.item for hit in hits]
    lifted = vouch([hit.similarity for hit in hits], links(items), "cosine")
    ids = named_chunks(question, [hit.id or "" for hit in hits], [titled(i) for i in items], lifted, index)
    # By text as well as id: a copy of a shown chunk under another id adds nothing.
    known = {hit.identity for hit in hits}
    new = [hit for identity, hit in _first_of_each(fetch(ids)).items() if identity not in known]
    new_scores = scores([hit.item for hit in new]) if new else ()
    return [*hits, *(replace(hit, score=s) for hit, s in zip(new, new_scores, strict=True))]


def _first_of_each(hits: Sequence[Hit[T]]) -> dict[object, Hit[T]]:
    first: dict[object, Hit[T]] = {}
    for hit in hits:
        first.setdefault(hit.identity, hit)
    return first


def _ids(hits: Sequence[Hit[Any]]) -> Iterator[str]:
    return (hit.id for hit in hits if hit.id)


def _falling(score: float | None, near: Sequence[Hit[Any]]) -> float | None:
    """A score that falls along the search's results: of one that lists distances the negative."""
    known = [hit.score for hit in near if hit.score is not None]
    return -score if score is not None and known and known[0] < known[-1] else score
