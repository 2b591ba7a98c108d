"""Which passages of what was retrieved bear on the question."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.passages import Node, Passage, PassageCutter
from sage_core.ranking.candidates import distinct
from sage_core.ranking.features import standardized
from sage_core.ranking.hybrid import HybridReranker, comparable
from sage_core.ranking.neighbors import Links, link
from sage_core.selection.scales import rank_order
from sage_core.text.cache import Kept, LRUCache
from sage_core.text.language import is_english

PASSAGES = 64
"""Most passages that are ranked, and so most that a question embeds."""
_CHARACTERS = 60_000  # Of the nodes that are cut, the best first: some fifteen of 1,024 tokens.
_CHOSEN_BY = 0.5
_PRIOR = 0.15
"""Weights of the log-odds of a passage's node, beside 1 for the passage's own: where passages are chosen by
words, and where they are ranked. Against 0, .15 gains on tales what it loses on contracts."""
_HEAD = 1_000  # Characters, which the encoder reads whole.
_VECTORS = 16_384  # of 1.5 KB each


class RankedPassages(NamedTuple):
    """Passages in the order of their nodes, the probability of each, and its neighbors among them."""

    passages: list[Passage]
    probabilities: list[float]
    links: list[Links]


class PassageRanker:
    """Cuts the best of the nodes that a search gave, and ranks their passages.

    How well a node stands is known; it is the prior of its passages. Words and prior choose `PASSAGES` of
    them, which then are compared with the question by the vectors of the bundled encoder too. Vectors are
    kept, so that a node that comes again costs nothing. Safe across threads.

    Examples:
        >>> text = "The ferry leaves at seven. " + "Bees need flowers all summer. " * 60
        >>> ranked = PassageRanker().rank("When does the ferry leave?", [Node(text)], [0.5])
        >>> ranked.probabilities[0] == max(ranked.probabilities)
        True

    Args:
        reranker: Compares words; its probabilities are the result.
    """

    def __init__(self, reranker: HybridReranker | None = None) -> None:
        self.reranker = reranker or HybridReranker()

    def cuts(self, question: str, texts: Sequence[str]) -> bool:
        """Whether any of these nodes is more than one passage, and in the question's language."""
        return comparable(question, texts) and _SHARED.cutter.cuts([Node(text) for text in texts])

    def rank(self, question: str, nodes: Sequence[Node], priors: Sequence[float | None]) -> RankedPassages:
        """The passages that are worth ranking, with their probabilities; neighbors have not vouched yet.

        Args:
            question: The question.
            nodes: What was retrieved.
            priors: The probability of each node; None for one without.
        """
        chosen: list[int] = []
        characters = 0
        # Of copies, as fusion gives them, the best; a quotation only if nobody else says it.
        different = set(distinct([n.text for n in nodes], [None] * len(nodes), priors))
        for i in (i for i in rank_order(priors) if i in different):
            if not chosen or characters + len(nodes[i].text) <= _CHARACTERS:
                chosen.append(i)
                characters += len(nodes[i].text)
        chosen.sort()
        at: dict[int | None, int] = {i: n for n, i in enumerate(chosen)}
        some = [replace(nodes[i], previous=at.get(nodes[i].previous)) for i in chosen]
        passages = _SHARED.cutter.cut(some)
        standing = np.array([max(priors[chosen[n]] or 0.0 for n in p.holders) for p in passages])
        prior = _log_odds(standing)
        texts = [some[p.node].text[p.start : p.end] for p in passages]
        headers = [p.header for p in passages]
        by_words = _log_odds(np.array(self.reranker.score(question, texts, headers=headers)))
        order = np.argsort(-(by_words + _CHOSEN_BY * prior), kind="stable")[:PASSAGES]
        kept = sorted(order.tolist())
        texts, headers, prior = [texts[i] for i in kept], [headers[i] for i in kept], prior[kept]
        passages = [passages[i] for i in kept]
        cosines = self._cosines(question, texts) if _read(question, texts) else None
        own = _log_odds(np.array(self.reranker.score(question, texts, cosines, headers)))
        final = 1 / (1 + np.exp(-(own + _PRIOR * (prior - prior.mean()))))
        return RankedPassages(
            [p._replace(node=chosen[p.node]) for p in passages],
            final.tolist(),
            link([p.place for p in passages]),
        )

    def likeness(self, question: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers, by words and meaning, whatever a search said; 0 if nobody can tell."""
        if not question.strip():
            return [0.0] * len(texts)
        heads = [text[:_HEAD] for text in texts]
        told = [standardized(_log_odds(np.array(self.reranker.score(question, texts))))]
        if _read(question, heads):
            told.append(standardized(self._cosines(question, heads)))
        known = [t for t in told if t is not None]
        return [float(sum(t[i] for t in known)) for i in range(len(texts))]

    def _cosines(self, question: str, texts: Sequence[str]) -> list[float]:
        shared, embed = _SHARED, _SHARED.embedder
        with shared.embedding:
            vectors = shared.vectors.get_many(texts, lambda new: list(embed.embed_documents(new)))
        query = embed.embed_query(question)
        return [float(np.dot(vectors[text], query)) for text in texts]


class _Shared:
    """What all rankers of a process share: nodes are cut, and passages embedded, once."""

    def __init__(self) -> None:
        self.cutter = PassageCutter()
        self.embedder = MiniLMEmbedder()
        kept = Kept("vectors", np.ndarray.tobytes, lambda data: np.frombuffer(data, np.float32))
        self.vectors: LRUCache[NDArray[np.float32]] = LRUCache(_VECTORS, kept)
        self.embedding = threading.Lock()


_SHARED = _Shared()


def _read(question: str, texts: Sequence[str]) -> bool:
    """Whether the bundled encoder knows the language."""
    return is_english(question, 3) and is_english("\n".join(text[:200] for text in texts[:8]), 12)


def _log_odds(p: NDArray[np.float64]) -> NDArray[np.float64]:
    clipped = np.clip(p, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(clipped / (1 - clipped)))
