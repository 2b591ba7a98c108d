"""Named documents join the candidates: a good chunk that names one vouches for that document's chunks.

Evidence in several places often hangs together by names: the first passage says who directed the film, and
the document of that title says when she was born. The question's words do not lead there, but the name does.
So the documents that the best chunks name are looked up by title, and their chunks are scored as all others;
then who named them vouches for them, as neighbors do (`sage_core.ranking.vouch`). It takes no model, no LLM.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sage_core.ranking.neighbors import vouched_score
from sage_core.selection.scales import Scale, plain_scores, rank_order
from sage_core.text.keywords import index_terms
from sage_core.text.links import Mention, NameTable, document_names, find_mentions

if TYPE_CHECKING:
    from sage_core.word_index.search import Limits, WordSearch
    from sage_core.word_index.words import WordIndex

T = TypeVar("T")

SOURCES = 8
"""Chunks whose mentions are followed, of highest score."""

FIRST_CHUNKS = 6
"""Chunks of a named document that join the candidates."""

MAX_DOCUMENTS = 40
"""Named documents whose chunks join the candidates, those of the largest share and the best chunks first."""

MAX_NAMESAKES = 5
"""Where more documents have one name, it says nothing."""

MAX_CHUNKS = 30
"""Chunks of named documents that join the candidates, all first ones before any second."""

FIRST_WEIGHT, QUESTION_WEIGHT, WEIGHT = 0.4, 0.6, 0.2
"""How much a mention counts: for a document's first chunk, the same where the question mentions the document,
and for its other chunks."""

# A name whose rarest word stands in a larger share of the chunks, and in more than so many, says too little.
_COMMON, _COMMON_LEAST = 0.01, 20
# The same where nothing is known but the candidates, which have much in common.
_COMMON_LEAST_CANDIDATES = 3


WordCounter = Callable[[Sequence[str]], tuple[Mapping[str, int], int]]


class NamedLink(NamedTuple):
    """A chunk, or the question, names a document.

    Attributes:
        source: Position of the chunk among the candidates; None for the question.
        document: The document.
        name: The name as it is written there.
        share: 1 over the number of documents of that name.
    """

    source: int | None
    document: str
    name: str
    share: float = 1.0


class Edge(NamedTuple):
    """Who vouches for whom.

    Examples:
        >>> link_edges([NamedLink(0, "holt.md", "Mara Holt")], {"holt.md": [(7, 0)]})
        [Edge(source=0, target=7, weight=0.4)]

    Attributes:
        source: Position of the candidate that vouches; None for the question.
        target: Position of the candidate that is vouched for.
        weight: From 0, no effect, to 1.
    """

    source: int | None
    target: int
    weight: float


def named_links(
    question: str,
    texts: Sequence[str],
    documents: Sequence[str],
    scores: Sequence[Any],
    names: NameTable,
) -> list[NamedLink]:
    """The documents that the question and the best chunks name.

    Args:
        question: The question.
        texts: Of the candidates.
        documents: Which document each is a chunk of; none names itself.
        scores: Of the candidates, on any scale; those without one name nobody.
        names: Where documents are looked up.

    Returns:
        Each pair of a source and a document once, at most `MAX_DOCUMENTS` documents: those of the largest
        share first, of equal ones those of the question, then of the best chunks.

    Examples:
        >>> names = NameIndex({"holt": ["mara holt"]})
        >>> named_links("Who?", ["The Petrel belonged to Mara Holt."], ["petrel"], [0.6], names)
        [NamedLink(source=0, document='holt', name='Mara Holt', share=1.0)]
    """
    best = [i for i in rank_order(scores)[:SOURCES] if scores[i] is not None and not math.isnan(scores[i])]
    read = [question, *(texts[i] for i in best)]
    # All texts at once: the store is asked twice per question, whatever the number of mentions.
    mentions = find_mentions(read, names)
    keys = list(dict.fromkeys(m.key for some in mentions for m in some))
    terms = {key: own for key in keys if (own := index_terms(key))}
    counts, total = names.counts([term for own in terms.values() for term in own]) if terms else ({}, 0)
    most = max(_COMMON_LEAST, _COMMON * total)
    rare = [key for key, own in terms.items() if min(counts.get(term, 0) for term in own) <= most]
    # One more than allowed tells "too many" without listing them all.
    documents_of = names.named(rare, MAX_NAMESAKES + 1) if rare else {}
    links: dict[tuple[int | None, str], NamedLink] = {}
    for source, text, some in zip([None, *best], read, mentions, strict=True):
        for x in _named(source, text, some, documents_of):
            if source is not None and documents[source] == x.document:  # it does not vouch for itself
                continue
            known = links.setdefault((source, x.document), x)
            if known.share < x.share:
                links[source, x.document] = known._replace(share=x.share)
    surest = sorted(links.values(), key=lambda x: -x.share)
    followed = {*list(dict.fromkeys(x.document for x in surest))[:MAX_DOCUMENTS]}
    return [x for x in surest if x.document in followed]


def _named(
    source: int | None, text: str, mentions: Sequence[Mention], documents: Mapping[str, Sequence[str]]
) -> Iterator[NamedLink]:
    """What one text names, where not too many documents have the name."""
    for mention in mentions:
        targets = documents.get(mention.key, ())
        if len(targets) <= MAX_NAMESAKES:
            for target in targets:
                yield NamedLink(source, target, text[mention.start : mention.end], 1 / len(targets))


def link_edges(links: Iterable[NamedLink], positions: Mapping[str, Sequence[tuple[int, int]]]) -> list[Edge]:
    """Who vouches for which candidates.

    Args:
        links: From `named_links`.
        positions: For each named document, where its chunks are among the candidates, with their number in
            the document.
    """
    return [
        Edge(link.source, at, _weight(link, number) * link.share)
        for link in links
        for at, number in positions.get(link.document, ())
        if number < FIRST_CHUNKS and at != link.source
    ]


def _weight(link: NamedLink, number: int) -> float:
    if number:
        return WEIGHT
    return QUESTION_WEIGHT if link.source is None else FIRST_WEIGHT


def vouch_named(scores: Sequence[Any], edges: Sequence[Edge], scale: Scale) -> list[float | None]:
    """Let those who name a document vouch for its chunks; without an edge a score stays as it is.

    On probabilities ``1 - (1-s) * product(1 - w * s_source)``, on other scales as `sage_core.ranking.vouch`;
    but a score is never lowered. The question vouches as a chunk of probability 1; on scales without a
    highest value, as the best candidate.

    Args:
        scores: One per candidate; None and NaN stay what they are and vouch for nobody.
        edges: From `link_edges`.
        scale: What the scores are.

    Returns:
        Scores on the same scale. None for None and NaN.

    Examples:
        >>> [round(s, 2) for s in vouch_named([0.5, 0.2], [Edge(0, 1, 0.4)], "probability")]
        [0.5, 0.36]
    """
    known = [None if s is None or math.isnan(s) else s for s in plain_scores(scores)]
    highest = max((s for s in known if s is not None and s != math.inf), default=0.0)
    # Somebody asked for it by name: nothing is surer, so the weight alone limits what it adds.
    question = {"probability": 1.0, "logit": math.inf}.get(scale, highest)
    beside: dict[int, list[tuple[float, float]]] = {}
    for source, target, weight in edges:
        voucher = question if source is None else known[source]
        # -inf is no evidence; weighed in, it would be -inf or NaN for whoever is named.
        if voucher is not None and voucher != -math.inf:
            beside.setdefault(target, []).append((voucher, weight))
    return [
        score if score is None or i not in beside else max(score, vouched_score(score, beside[i], scale))
        for i, score in enumerate(known)
    ]


class NameIndex:
    """Documents by their names, in memory.

    Examples:
        >>> index = NameIndex({"films/7": document_names("Get Low (song)")})
        >>> index.named(["get low"], 5)
        {'get low': ['films/7']}

    Args:
        names: Keys of names (`sage_core.text.links.document_names`) of each document.
        count: Given index terms, in how many chunks each stands, and how many chunks there are; None if that
            is not known: then no name is too common.
    """

    def __init__(self, names: Mapping[str, Iterable[str]], *, count: WordCounter | None = None) -> None:
        self.counts: WordCounter = count if count is not None else lambda terms: ({}, 0)
        self._documents: dict[str, list[str]] = {}
        for document, keys in names.items():
            for key in dict.fromkeys(keys):
                self._documents.setdefault(key, []).append(document)
        words = [key.split(" ") for key in self._documents]
        self._beginnings = {" ".join(some[:n]) for some in words for n in range(2, len(some) + 1)}

    def known(self, keys: Sequence[str]) -> set[str]:
        """Those of ``keys`` that are names."""
        return {key for key in keys if key in self._documents}

    def beginnings(self, keys: Sequence[str]) -> set[str]:
        """Those of ``keys``, of two words or more, with which a name begins or that are one."""
        return {key for key in keys if key in self._beginnings}

    def named(self, keys: Sequence[str], limit: int) -> dict[str, list[str]]:
        """For each key up to ``limit`` documents of that name."""
        return {key: self._documents[key][:limit] for key in keys if key in self._documents}


class Titled(NamedTuple):
    """A candidate of somebody else's search, as far as its metadata say what it is.

    Examples:
        >>> Titled("She was born in Ulm.", "holt.md", "Mara Holt").first
        True

    Attributes:
        text: Its text.
        document: Which document it is a chunk of; None if that is not known.
        title: The title of that document.
        source: Its path or address.
        first: Whether it is the document's first chunk.
        told: What `names` are, if something else than the text tells them.
    """

    text: str
    document: str | None = None
    title: str | None = None
    source: str = ""
    first: bool = True
    told: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Keys of the names of its document, as far as it tells them."""
        if self.told is not None:
            return self.told
        return document_names(self.title, self.source, self.text if self.first else "")


def vouch_titled(
    question: str, candidates: Sequence[Titled], scores: Sequence[Any], scale: Scale
) -> list[float | None]:
    """Let the question and the best candidates vouch for the candidates of documents that they name.

    For chunks in any store: nothing but the candidates is looked at. A name whose rarest word stands in more
    than a fifth of the candidates is taken for a common word.

    Args:
        question: The question.
        candidates: The candidates.
        scores: Of each; None and NaN stay what they are and vouch for nobody.
        scale: What the scores are.

    Examples:
        >>> petrel = Titled("The Petrel belonged to Mara Holt.", "petrel.md", "Petrel")
        >>> holt = Titled("Born in Ulm.", "holt.md", "Mara Holt")
        >>> vouched = vouch_titled("Where was the owner born?", [petrel, holt], [0.5, 0.1], "probability")
        >>> [round(score, 2) for score in vouched if score is not None]
        [0.5, 0.28]
    """
    names: dict[str, set[str]] = {}
    positions: dict[str, list[tuple[int, int]]] = {}
    for i, candidate in sorted(enumerate(candidates), key=lambda x: not x[1].first):
        if candidate.document is not None:
            positions.setdefault(candidate.document, []).append((i, 0 if candidate.first else 1))
            known = names.setdefault(candidate.document, own := {*candidate.names})
            if candidate.first:  # A document begins once: what one of several says is a section's heading.
                known &= own
    texts = [c.text for c in candidates]
    index = NameIndex(names, count=lambda terms: _counts(terms, texts))
    documents = [c.document if c.document is not None else f"\0{i}" for i, c in enumerate(candidates)]
    named = named_links(question, texts, documents, scores, index) if any(names.values()) else []
    return vouch_named(scores, link_edges(named, positions), scale)


def names_in(
    passages: Sequence[Titled], search: WordSearch[T], titled: Callable[[T], Titled], limits: Limits
) -> list[dict[str, str]]:
    """The documents that each passage names: for an agent, which then need not search for them.

    Args:
        passages: The passages.
        search: Where documents are looked up.
        titled: What a chunk's metadata say of its document.
        limits: Which chunks may be returned; of the others no document is named.

    Returns:
        For each passage the names in it, each with its document's source or title. Not its own.
    """
    names: list[dict[str, str]] = [{} for _ in passages]
    for begin in range(0, len(passages), SOURCES):
        part = passages[begin : begin + SOURCES]
        texts, documents = [p.text for p in part], [p.document or "" for p in part]
        for link in named_links("", texts, documents, [0.0] * len(part), search.index):
            if link.source is not None:
                names[begin + link.source][link.name] = link.document
    named = list({document for own in names for document in own.values()})
    first = map(titled, search.passing(search.index.chunks_of(named, 1), limits))
    shown = {t.document: t.source or t.title for t in first}
    return [{name: where for name, d in own.items() if (where := shown.get(d))} for own in names]


def _counts(terms: Sequence[str], texts: Sequence[str]) -> tuple[dict[str, int], int]:
    """In how many texts each term stands, so scaled that a fifth of them is the limit of a common word."""
    frequency = Counter(term for text in texts for term in {*index_terms(text)})
    # Candidates share the question's words: a word is common here that is rare in the store.
    limit = max(_COMMON_LEAST_CANDIDATES, len(texts) / 5)
    return {term: 0 if frequency[term] <= limit else _COMMON_LEAST + 1 for term in terms}, 0


def named_chunks(
    question: str, ids: Sequence[str], candidates: Sequence[Titled], scores: Sequence[Any], index: WordIndex
) -> list[str]:
    """Ids of chunks to fetch besides, because the question or the best candidates name their documents.

    The first half of following names over somebody else's store; `vouch_titled` is the second.

    Args:
        question: The question.
        ids: Of the candidates.
        candidates: The candidates.
        scores: Of the candidates, higher is better; those without one name nobody.
        index: Where documents and their chunks are looked up.

    Returns:
        At most `MAX_CHUNKS`, none of them a candidate.
    """
    own = [candidate.document or "" for candidate in candidates]
    named = named_links(question, [candidate.text for candidate in candidates], own, scores, index)
    documents = list(dict.fromkeys(x.document for x in named))
    known = {*ids}
    return [i for i in index.chunks_of(documents, FIRST_CHUNKS) if i not in known][:MAX_CHUNKS]
