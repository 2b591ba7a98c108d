"""Development questions as candidate lists, for `calibrate_reranker.py`, `light.py` and `links.py`.

Documents are cut by the bundled segmenter and searched as `Sage` does: by vector and by words, title before
the text, neighbors vouching among what the vectors find. Vectors are cached as .npz files, for a slow CPU.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from e5 import E5
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.preprocessing import normalize

from sage_core.embedding.protocol import Embedder
from sage_core.ranking import Links, Place, link, vouch
from sage_core.segmentation import Segmenter
from sage_core.text.header import header_parts, make_headers, with_header
from sage_core.text.keywords import index_terms
from sage_core.text.spans import Span
from sage_core.text.tokens import get_counter

DATA = Path(os.environ.get("SAGE_DATA", "../shared/data"))
CACHE = Path(os.environ.get("SAGE_CACHE", Path.home() / ".cache" / "sage-rag-benchmarks" / "ranking"))
BUDGETS = (250, 500, 1000)

Floats = NDArray[np.float64]

SETS = (
    "clapnq_dev",
    "onestopqa",
    "squad2_dev16",
    "fairytaleqa",
    "cuad_leval",
    "hotpot_sample",
    "hotpot_pool",
    "2wiki_pool",
)
# Searched document by document: their questions only make sense there ("What is the governing law?").
SEPARATE = {"cuad_leval", "fairytaleqa"}
# Ten paragraphs each, titled with the names of the two that hold evidence: no document has such a title.
UNTITLED = {"hotpot_sample"}
LONGEST_DOCUMENT = 70_000  # Characters of a contract; longer ones would take most of the time.
PAPERS = 16  # Of 47: all would take as long as three other sets.
# Documents of a pool: all that hold evidence, and as many others as make this number.
POOLS = {"hotpot_pool": 1_300, "2wiki_pool": 1_600}
MOST_QUESTIONS = 600
NEAR, CANDIDATES, WORDS = 100, 60, 30


@dataclass(frozen=True)
class Chunk:
    """A piece of one document. ``tokens`` is counted by the bundled WordPiece tokenizer."""

    doc_id: str
    span: Span
    text: str
    tokens: int
    position: int = 0
    header: str = ""

    @property
    def text_for_models(self) -> str:
        """The header and the text."""
        return with_header(self.header, self.text)


@dataclass(frozen=True)
class Evidence:
    """A span of a document that answers a question, or part of one."""

    doc_id: str
    span: Span


@dataclass(frozen=True)
class Question:
    """A question and what answers it. ``doc_id`` is empty where evidence lies in several documents."""

    qid: str
    doc_id: str
    text: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class Candidates:
    """The chunks retrieved for a question, best first.

    Attributes:
        chunks: Positions in `DevSet.chunks`.
        cosine: Of the question and each.
        covered: Characters of evidence in each, by piece of evidence: shape ``(chunks, pieces)``.
        relevant: Whether each holds at least half of one evidence span, or is half evidence.
        links: Neighbors among the candidates.
    """

    question: Question
    chunks: NDArray[np.int64]
    cosine: NDArray[np.float32]
    covered: NDArray[np.int64]
    relevant: NDArray[np.bool_]
    links: list[Links]


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a gzipped JSON-lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


class DevSet:
    """One development set: documents cut into chunks, questions with evidence, vectors, candidates.

    Args:
        name: One of `SETS`.
        embedder: Embeds chunks and questions.
        titles: Whether chunks know their document's title, where it has one.
        max_questions: Most questions; every second, third or so of more.
        chunker: Cuts texts; None for the bundled segmenter.
    """

    def __init__(
        self,
        name: str,
        embedder: Embedder,
        *,
        titles: bool = True,
        max_questions: int = MOST_QUESTIONS,
        chunker: Callable[[Sequence[str]], list[list[Span]]] | None = None,
    ) -> None:
        self.name = name
        self.embedder = embedder
        self.separate = name in SEPARATE
        documents, questions = _read(name)
        step = max(-(-len(questions) // max_questions), 1)
        self.questions = questions[::step]
        spans = (chunker or Segmenter().segment_many)([d["text"] for d in documents])
        texts = [s.of(d["text"]) for d, part in zip(documents, spans, strict=True) for s in part]
        counter = get_counter("bert")
        tokens = iter(counter.count_many(texts))
        owners = [d for d, part in zip(documents, spans, strict=True) for _ in part]
        parts = [
            header_parts(t, d["title"] if titles and name not in UNTITLED else None)
            for t, d in zip(texts, owners, strict=True)
        ]
        headers = iter(make_headers(texts, parts, counter=counter, window=254))
        self.chunks = [
            Chunk(d["doc_id"], s, s.of(d["text"]), next(tokens), i, next(headers))
            for d, part in zip(documents, spans, strict=True)
            for i, s in enumerate(part)
        ]

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings of ``texts``, from the cache where they are there."""
        key = hashlib.sha256("\0".join([self.embedder.name, *texts]).encode()).hexdigest()[:16]
        path = CACHE / f"{self.name}-{key}.npz"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, vectors=self.embedder.embed_documents(texts))
        return np.asarray(np.load(path)["vectors"], dtype=np.float32)

    @cached_property
    def chunk_vectors(self) -> NDArray[np.float32]:
        """One row per chunk, its header and text."""
        return self.vectors([c.text_for_models for c in self.chunks])

    @cached_property
    def query_vectors(self) -> NDArray[np.float32]:
        """One row per question."""
        return self.vectors([q.text for q in self.questions])

    @cached_property
    def similarity(self) -> NDArray[np.float32]:
        """Cosines, questions by chunks; -inf outside the document of a question that has one."""
        rows = self.query_vectors @ self.chunk_vectors.T
        if self.separate:
            owners = np.array([c.doc_id for c in self.chunks])
            rows = np.stack(
                [
                    np.where(owners == q.doc_id, row, -np.inf)
                    for q, row in zip(self.questions, rows, strict=True)
                ]
            )
        return np.asarray(rows, dtype=np.float32)

    def near(self, question: int, n: int) -> NDArray[np.int64]:
        """The ``n`` chunks of highest cosine, best first."""
        row = self.similarity[question]
        best = np.argsort(-row, kind="stable")[:n]
        return best[np.isfinite(row[best])]

    @cached_property
    def by_words(self) -> list[NDArray[np.int64]]:
        """For each question the chunks of highest BM25 over header and text, best first."""
        connection = sqlite3.connect(":memory:")
        connection.execute(
            "CREATE VIRTUAL TABLE words USING fts5(terms, document UNINDEXED,"
            " tokenize = \"unicode61 remove_diacritics 2 tokenchars '_'\")"
        )
        connection.executemany(
            "INSERT INTO words (rowid, terms, document) VALUES (?, ?, ?)",
            [(i, " ".join(index_terms(c.text_for_models)), c.doc_id) for i, c in enumerate(self.chunks)],
        )
        found = []
        for question in self.questions:
            terms = " OR ".join(f'"{t}"' for t in dict.fromkeys(index_terms(question.text)))
            rows = connection.execute(
                "SELECT rowid, document FROM words WHERE words MATCH ? ORDER BY rank", (terms,)
            )
            mine = (row for row, owner in rows if not self.separate or owner == question.doc_id)
            found.append(np.array([row for row, _ in zip(mine, range(WORDS), strict=False)], dtype=np.int64))
        return found

    def places(self, chunks: Sequence[int]) -> list[Place]:
        """Where chunks stand, by number in their document."""
        return [Place(c.doc_id, c.position, c.position + 1) for c in (self.chunks[int(i)] for i in chunks)]

    @cached_property
    def candidates(self) -> list[Candidates]:
        """What `Sage` shows to the reranker, by default."""
        return [self.shown(i, self._pool(i)) for i in range(len(self.questions))]

    @cached_property
    def first_thirty(self) -> list[Candidates]:
        """The thirty chunks of highest cosine."""
        return [self.shown(i, self.near(i, 30)) for i in range(len(self.questions))]

    def _pool(self, question: int) -> NDArray[np.int64]:
        near, row = self.near(question, NEAR), self.similarity[question]
        vouched = vouch(row[near], link(self.places(near), longest_gap=0), "cosine")
        best = near[np.argsort(-np.array(vouched, dtype=float), kind="stable")[:CANDIDATES]]
        return np.array(list(dict.fromkeys([*best.tolist(), *self.by_words[question].tolist()])))

    def shown(self, question: int, chunks: NDArray[np.int64]) -> Candidates:
        """These chunks as candidates of a question."""
        asked = self.questions[question]
        of_chunks = [self.chunks[int(i)] for i in chunks]
        shared = np.array([[_overlap(c, e) for e in asked.evidence] for c in of_chunks], dtype=np.int64)
        wanted = np.array([e.span.end - e.span.start for e in asked.evidence])
        sizes = np.array([len(c.text) for c in of_chunks])
        return Candidates(
            asked,
            chunks.astype(np.int64),
            self.similarity[question][chunks],
            shared,
            (2 * shared >= wanted).any(axis=1) | (2 * shared.sum(axis=1) >= sizes),
            link(self.places(chunks), longest_gap=0),
        )


SOURCES = ("all-MiniLM", "LSA", "hashed words", "noise", "e5")
"""Searches by meaning: the embedder's own, two weaker ones, one that is deliberately bad, and a good one."""


def searched_by(dev: DevSet, source: str) -> DevSet:
    """The set with another search by meaning, which also finds other candidates.

    Args:
        dev: The set.
        source: One of `SOURCES`. ``LSA``: 100 dimensions of tf-idf over the set's own chunks. ``hashed
            words``: counts in 256 buckets. ``noise``: the embedder's cosines, disturbed by twice their
            deviation. ``e5``: multilingual-e5-small.
    """
    if source == SOURCES[0]:
        return dev
    rng = np.random.default_rng(0)
    texts, questions = [c.text_for_models for c in dev.chunks], [q.text for q in dev.questions]
    if source == "noise":
        known = np.where(np.isfinite(dev.similarity), dev.similarity, np.nan)
        rows = dev.similarity + rng.normal(0, 2 * np.nanstd(known, axis=1, keepdims=True), known.shape)
    else:
        if source == "LSA":
            tfidf = TfidfVectorizer(sublinear_tf=True, stop_words="english").fit(texts)
            svd = TruncatedSVD(100, random_state=0).fit(tfidf.transform(texts))
            left, right = (svd.transform(tfidf.transform(x)) for x in (questions, texts))
        elif source == "e5":
            left, right = E5().embed_queries(questions), E5().embed_documents(texts)
        else:
            hashing = HashingVectorizer(n_features=256, alternate_sign=False)
            left, right = (hashing.transform(x).toarray() for x in (questions, texts))
        rows = np.where(np.isfinite(dev.similarity), normalize(left) @ normalize(right).T, -np.inf)
    other = copy.copy(dev)
    for cached in ("candidates", "first_thirty"):
        other.__dict__.pop(cached, None)
    other.__dict__["similarity"] = np.asarray(rows, dtype=np.float32)
    return other


def _read(name: str) -> tuple[list[dict[str, Any]], list[Question]]:
    """Documents, and a sample of the questions with evidence."""
    documents = list(read_jsonl(DATA / "dev" / f"{name}_docs.jsonl.gz"))
    rows = [q for q in read_jsonl(DATA / "dev" / f"{name}_questions.jsonl.gz") if q["evidence"]]
    if name == "onestopqa":  # Each article is there at three reading levels: take one.
        documents = [d for d in documents if ":Adv:" in d["doc_id"]]
    if name == "cuad_leval":
        documents = [d for d in documents if len(d["text"]) <= LONGEST_DOCUMENT]
    if name == "covidqa":
        documents = documents[:PAPERS]
    known = {d["doc_id"] for d in documents}
    rows = [q for q in rows if q.get("doc_id", "") in known or "doc_id" not in q]
    rng = np.random.default_rng(0)
    if len(rows) > MOST_QUESTIONS:
        rows = [rows[i] for i in sorted(rng.choice(len(rows), MOST_QUESTIONS, replace=False))]
    questions = [
        Question(
            q["qid"],
            q.get("doc_id", ""),
            q["question"],
            tuple(
                Evidence(e.get("doc_id") or q["doc_id"], Span(e["start"], e["end"])) for e in q["evidence"]
            ),
        )
        for q in rows
    ]
    needed = {e.doc_id for q in questions for e in q.evidence}
    if name in SEPARATE:
        documents = [d for d in documents if d["doc_id"] in needed]
    if name in POOLS:
        others = [d["doc_id"] for d in documents if d["doc_id"] not in needed]
        room = max(POOLS[name] - len(needed), 0)
        taken = needed | {others[i] for i in np.random.default_rng(1).permutation(len(others))[:room]}
        documents = [d for d in documents if d["doc_id"] in taken]
    return documents, questions


def _overlap(chunk: Chunk, evidence: Evidence) -> int:
    """Characters of an evidence span that lie in a chunk."""
    if chunk.doc_id != evidence.doc_id:
        return 0
    return max(0, min(chunk.span.end, evidence.span.end) - max(chunk.span.start, evidence.span.start))


def figures(dev: DevSet, shown: Sequence[Candidates], scores: Sequence[Floats]) -> Floats:
    """Recall within each budget, then whether all evidence is within the last: ``(questions, 4)``."""
    rows = []
    for candidates, score in zip(shown, scores, strict=True):
        order = np.argsort(-score, kind="stable")
        tokens = np.cumsum([dev.chunks[int(i)].tokens for i in candidates.chunks[order]])
        covered = np.cumsum(candidates.covered[order], axis=0)
        wanted = np.array([e.span.end - e.span.start for e in candidates.question.evidence])
        lasts = [max(int(np.searchsorted(tokens, b, side="right")), 1) - 1 for b in BUDGETS]
        rows.append(
            [covered[i].sum() / wanted.sum() for i in lasts] + [(2 * covered[lasts[-1]] >= wanted).all()]
        )
    return np.array(rows, dtype=float)


def cosines(dev: DevSet) -> Floats:
    """Of cosines alone, over the hundred best."""
    shown = [dev.shown(i, dev.near(i, NEAR)) for i in range(len(dev.questions))]
    return figures(dev, shown, [np.asarray(c.cosine, dtype=float) for c in shown])
