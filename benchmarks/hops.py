"""Ways to find a second place of evidence without an LLM: each orders the chunks for a question."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from calibrate_reranker import sigmoid
from numpy.typing import NDArray
from ranking_data import DevSet, Question

from sage_core.embedding.protocol import unit_rows
from sage_core.ranking.features import feature_matrix
from sage_core.text.keywords import idf, words
from sage_core.text.sentences import split_sentences

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Two capitalised words or more, as in a person's or a place's name.
_NAME = re.compile(r"[A-Z][\w'-]+(?: (?:of |the |de |von )?[A-Z][\w'-]+)+")


class Bench:
    """One set: scores any question against any chunks of it, as the offline reranker does."""

    def __init__(self, dev: DevSet, beta: Floats) -> None:
        self.dev, self.beta = dev, beta
        self.doc_ids = np.array([c.doc_id for c in dev.chunks])

    @cached_property
    def chunk_words(self) -> list[list[str]]:
        """Words of every chunk."""
        return [words(c.text) for c in self.dev.chunks]

    def search(self, vector: NDArray[np.float32], question: Question, n: int) -> Ints:
        """The nearest chunks, out of the corpus or of the question's document."""
        similarity = self.dev.chunk_vectors @ vector
        if not self.dev.pooled:
            similarity = np.where(self.doc_ids == question.doc_id, similarity, -np.inf)
        best = np.argsort(-similarity, kind="stable")[:n]
        return best[np.isfinite(similarity[best])]

    def probability(self, text: str, vector: NDArray[np.float32], chunks: Sequence[int]) -> Floats:
        """The offline reranker's score of each chunk."""
        features = feature_matrix(
            text,
            [self.dev.chunks[i].text for i in chunks],
            (self.dev.chunk_vectors[chunks] @ vector).tolist(),
            [self.chunk_words[i] for i in chunks],
        )
        return sigmoid(features @ self.beta[:-1] + self.beta[-1])

    def best_sentence(self, vector: NDArray[np.float32], chunk: int) -> tuple[str, NDArray[np.float32]]:
        """The sentence of a chunk that is most like the question, and its vector."""
        text = self.dev.chunks[chunk].text
        spans = split_sentences(text)
        rows = np.stack([self.dev.sentence_vectors[s.of(text)] for s in spans])
        best = int(np.argmax(rows @ vector))
        return spans[best].of(text), rows[best]


Remedy = Callable[[Bench, Question, NDArray[np.float32], float], Ints]


def plain(bench: Bench, question: Question, vector: NDArray[np.float32], n: float) -> Ints:
    """The ``n`` nearest chunks, reranked."""
    chunks = bench.search(vector, question, int(n))
    return chunks[np.argsort(-bench.probability(question.text, vector, chunks), kind="stable")]


def cosine(bench: Bench, question: Question, vector: NDArray[np.float32], _: float) -> Ints:
    """No reranking."""
    return bench.search(vector, question, 30)


def _two_hops(
    bench: Bench,
    question: Question,
    vector: NDArray[np.float32],
    second: tuple[str, NDArray[np.float32]],
    share: float,
) -> Ints:
    """Join the candidates of two queries; a chunk is wanted if either wants it, the second counting less."""
    text, other = second
    first = bench.search(vector, question, 30)
    chunks = np.array(list(dict.fromkeys([*first, *bench.search(other, question, 30)])))
    one = bench.probability(question.text, vector, chunks)
    two = bench.probability(text, other, chunks)
    return chunks[np.argsort(-(1 - (1 - one) * (1 - share * two)), kind="stable")]


def hop_vector(bench: Bench, question: Question, vector: NDArray[np.float32], share: float) -> Ints:
    """Second query: the question's vector plus that of the best chunk's best sentence (Rocchio)."""
    best = plain(bench, question, vector, 30)[0]
    _, sentence = bench.best_sentence(vector, best)
    return _two_hops(bench, question, vector, (question.text, unit_rows(vector + sentence)), share)


def hop_text(bench: Bench, question: Question, vector: NDArray[np.float32], share: float) -> Ints:
    """Second query: as `hop_vector`, and its words are those of question and sentence."""
    best = plain(bench, question, vector, 30)[0]
    text, sentence = bench.best_sentence(vector, best)
    second = (f"{question.text} {text}", unit_rows(vector + sentence))
    return _two_hops(bench, question, vector, second, share)


def hop_three(bench: Bench, question: Question, vector: NDArray[np.float32], share: float) -> Ints:
    """`hop_text` from each of the three best of 60 candidates."""
    first = bench.search(vector, question, 60)
    one = bench.probability(question.text, vector, first)
    wanted: dict[int, float] = {}
    for seed in first[np.argsort(-one, kind="stable")[:3]]:
        text, sentence = bench.best_sentence(vector, seed)
        other = unit_rows(vector + sentence)
        chunks = np.array(list(dict.fromkeys([*first, *bench.search(other, question, 30)])))
        for i, p in zip(chunks, bench.probability(f"{question.text} {text}", other, chunks), strict=True):
            if i != seed:
                wanted[int(i)] = max(wanted.get(int(i), 0.0), float(p))
    chunks = np.array(list(wanted))
    one = bench.probability(question.text, vector, chunks)
    two = np.array([wanted[int(i)] for i in chunks])
    return chunks[np.argsort(-(1 - (1 - one) * (1 - share * two)), kind="stable")]


def hop_names(bench: Bench, question: Question, vector: NDArray[np.float32], weight: float) -> Ints:
    """More for chunks that begin with a name which the best chunks mention and the question does not."""
    chunks = bench.search(vector, question, 60)
    score = bench.probability(question.text, vector, chunks)
    best = chunks[np.argsort(-score, kind="stable")[:2]]
    asked = set(words(question.text))
    seen = {n for i in best for n in _NAME.findall(bench.dev.chunks[i].text) if not asked >= set(words(n))}
    heads = [bench.dev.chunks[i].text[:80] for i in chunks]
    bridged = np.array(
        [any(n in head for n in seen) and i not in best for i, head in zip(chunks, heads, strict=True)]
    )
    return chunks[np.argsort(-(score + weight * bridged), kind="stable")]


def hop_rest(bench: Bench, question: Question, vector: NDArray[np.float32], share: float) -> Ints:
    """Second query: what the best chunk leaves open. Its direction is taken out, its words too."""
    best = plain(bench, question, vector, 30)[0]
    _, sentence = bench.best_sentence(vector, best)
    rest = unit_rows(vector - 0.5 * float(vector @ sentence) * sentence)
    found = set(bench.chunk_words[best])
    left = " ".join(w for w in words(question.text) if w not in found) or question.text
    return _two_hops(bench, question, vector, (left, rest), share)


def mmr(bench: Bench, question: Question, vector: NDArray[np.float32], weight: float) -> Ints:
    """Maximal marginal relevance: less for what is like a chunk that is already taken."""
    chunks = bench.search(vector, question, 30)
    score = bench.probability(question.text, vector, chunks)
    rows = bench.dev.chunk_vectors[chunks]
    return chunks[_greedy(score, lambda taken: -weight * np.max(rows @ rows[taken].T, axis=1))]


def covering(bench: Bench, question: Question, vector: NDArray[np.float32], weight: float) -> Ints:
    """More for words of the question that no chunk taken so far has."""
    chunks = bench.search(vector, question, 30)
    score = bench.probability(question.text, vector, chunks)
    asked = list(dict.fromkeys(words(question.text)))
    listed = [set(bench.chunk_words[i]) for i in chunks]
    weights = idf(asked, listed)
    has = np.array([[w in found for w in asked] for found in listed], dtype=float)
    value = np.array([weights[w] for w in asked])
    value = value / max(value.sum(), 1e-9)

    def gain(taken: list[int]) -> Floats:
        open_ = value * (has[taken].max(axis=0) == 0)
        return np.asarray(weight * (has @ open_))

    return chunks[_greedy(score, gain)]


def _greedy(score: Floats, extra: Callable[[list[int]], Floats]) -> list[int]:
    """Positions, each next one the best by score and what it adds to those taken."""
    taken = [int(np.argmax(score))]
    while len(taken) < len(score):
        value = score + extra(taken)
        value[taken] = -np.inf
        taken.append(int(np.argmax(value)))
    return taken


REMEDIES: dict[str, tuple[Remedy, tuple[float, ...]]] = {
    "cosine, no reranking": (cosine, (0,)),
    "60 candidates": (plain, (60,)),
    "second hop: + sentence": (hop_vector, (0.25, 0.5, 0.75, 1.0)),
    "second hop: + its words": (hop_text, (0.25, 0.5, 0.75, 1.0)),
    "second hop: + words, 3 seeds": (hop_three, (0.25, 0.5, 0.75, 1.0)),
    "second hop: names": (hop_names, (0.05, 0.1, 0.2, 0.4)),
    "second hop: what is left": (hop_rest, (0.25, 0.5, 0.75, 1.0)),
    "MMR": (mmr, (0.1, 0.2, 0.4, 0.8)),
    "covering the question": (covering, (0.1, 0.2, 0.4, 0.8)),
}
