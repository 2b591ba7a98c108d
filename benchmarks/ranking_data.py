"""Development questions as candidate lists: what `calibrate_reranker.py` and `selection.py` work on.

Documents are cut into runs of whole sentences of about 100 tokens, so that the figures belong to the
scorer and the rule and not to a segmenter. Vectors are cached as .npz files, for a slow CPU.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.protocol import Embedder
from sage_core.ranking import BatchReranker
from sage_core.text.sentences import split_sentences
from sage_core.text.spans import Span
from sage_core.text.tokens import get_counter

DATA = Path(os.environ.get("SAGE_DATA", "../shared/data"))
CACHE = Path(os.environ.get("SAGE_CACHE", Path.home() / ".cache" / "sage-rag-benchmarks" / "ranking"))
CHUNK_TOKENS = 100

# Sets searched as one corpus; the questions of the others only make sense within their document
# ("What is the governing law?").
POOLED = {"squad2_dev16": True, "clapnq_dev": True, "hotpot_sample": True, "onestopqa": True}
SETS = ("squad2_dev16", "clapnq_dev", "hotpot_sample", "onestopqa", "cuad_leval")
LONGEST_DOCUMENT = 60_000  # Characters; longer ones would take most of the time for few questions.


@dataclass(frozen=True)
class Chunk:
    """A run of sentences of one document. ``tokens`` is counted by the bundled WordPiece tokenizer."""

    doc_id: str
    span: Span
    text: str
    tokens: int


@dataclass(frozen=True)
class Question:
    """A question and the characters that answer it, as spans of one document."""

    qid: str
    doc_id: str
    text: str
    evidence: tuple[Span, ...]


@dataclass(frozen=True)
class Candidates:
    """The chunks retrieved for a question, best cosine first.

    Attributes:
        chunks: Positions in `DevSet.chunks`.
        covered: Characters of evidence in each.
        relevant: Whether each holds at least half of one evidence span, or is half evidence.
    """

    question: Question
    chunks: NDArray[np.int64]
    cosine: NDArray[np.float32]
    covered: NDArray[np.int64]
    relevant: NDArray[np.bool_]


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a gzipped JSON-lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def chunk_document(doc_id: str, text: str, limit: int = CHUNK_TOKENS) -> list[Chunk]:
    """Whole sentences joined up to ``limit`` tokens; a longer sentence is a chunk of its own."""
    sentences = split_sentences(text)
    counts = get_counter("bert").count_many([s.of(text) for s in sentences])
    groups: list[list[int]] = []
    total = 0
    for i, count in enumerate(counts):
        if groups and total + count <= limit:
            groups[-1].append(i)
            total += count
        else:
            groups.append([i])
            total = count
    spans = [Span(sentences[g[0]].start, sentences[g[-1]].end) for g in groups]
    return [
        Chunk(doc_id, span, span.of(text), sum(counts[i] for i in group))
        for span, group in zip(spans, groups, strict=True)
    ]


class DevSet:
    """One development set: documents cut into chunks, questions with evidence, vectors, candidates."""

    def __init__(
        self, name: str, embedder: Embedder, *, max_questions: int = 600, candidates: int = 30
    ) -> None:
        self.name = name
        self.embedder = embedder
        self.pooled = POOLED.get(name, False)
        self.size = candidates
        documents = list(read_jsonl(DATA / "dev" / f"{name}_docs.jsonl.gz"))
        if name == "onestopqa":  # Each article is there at three reading levels: take one.
            documents = [d for d in documents if ":Adv:" in d["doc_id"]]
        if not self.pooled:
            documents = [d for d in documents if len(d["text"]) <= LONGEST_DOCUMENT]
        known = {d["doc_id"] for d in documents}
        rows = [q for q in read_jsonl(DATA / "dev" / f"{name}_questions.jsonl.gz") if q["doc_id"] in known]
        questions = [
            Question(
                q["qid"], q["doc_id"], q["question"], tuple(Span(e["start"], e["end"]) for e in q["evidence"])
            )
            for q in rows
            if q["evidence"]
        ]
        rng = np.random.default_rng(0)
        if len(questions) > max_questions:
            picked = rng.choice(len(questions), max_questions, replace=False)
            questions = [questions[i] for i in sorted(picked)]
        self.questions = questions
        if not self.pooled:
            used = {q.doc_id for q in questions}
            documents = [d for d in documents if d["doc_id"] in used]
        self.chunks = [c for d in documents for c in chunk_document(d["doc_id"], d["text"])]

    def vectors(self, texts: Sequence[str], what: str) -> NDArray[np.float32]:
        """Embeddings of ``texts``, from the cache where they are there."""
        key = hashlib.sha256("\0".join([self.embedder.name, what, *texts]).encode()).hexdigest()[:16]
        path = CACHE / f"{self.name}-{what}-{key}.npz"
        if path.is_file():
            return np.asarray(np.load(path)["vectors"], dtype=np.float32)
        if what == "queries":
            rows = np.stack([self.embedder.embed_query(t) for t in texts])
        else:
            rows = self.embedder.embed_documents(texts)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, vectors=rows)
        return rows

    @cached_property
    def chunk_vectors(self) -> NDArray[np.float32]:
        """One row per chunk."""
        return self.vectors([c.text for c in self.chunks], "chunks")

    @cached_property
    def query_vectors(self) -> NDArray[np.float32]:
        """One row per question."""
        return self.vectors([q.text for q in self.questions], "queries")

    @cached_property
    def sentence_texts(self) -> list[str]:
        """The sentences of all chunks, each text once."""
        texts = dict.fromkeys(s.of(c.text) for c in self.chunks for s in split_sentences(c.text))
        return list(texts)

    @cached_property
    def sentence_vectors(self) -> dict[str, NDArray[np.float32]]:
        """Vector by sentence."""
        rows = self.vectors(self.sentence_texts, "sentences")
        return dict(zip(self.sentence_texts, rows, strict=True))

    @cached_property
    def candidates(self) -> list[Candidates]:
        """The best chunks by cosine for every question, out of the corpus or of its document."""
        doc_ids = np.array([c.doc_id for c in self.chunks])
        similarity = self.query_vectors @ self.chunk_vectors.T
        result = []
        for row, question in zip(similarity, self.questions, strict=True):
            if not self.pooled:
                row = np.where(doc_ids == question.doc_id, row, -np.inf)
            best = np.argsort(-row, kind="stable")[: self.size]
            best = best[np.isfinite(row[best])]
            result.append(self._candidates(question, best, row[best]))
        return result

    def logits(self, reranker: BatchReranker, key: str) -> list[NDArray[np.float32]]:
        """A cross-encoder's scores of every question's candidates, from the cache where ``key`` is there."""
        asked = [(c.question.text, [self.chunks[i].text for i in c.chunks]) for c in self.candidates]
        digest = hashlib.sha256("\0".join([key, *(x for q, t in asked for x in (q, *t))]).encode())
        path = CACHE / f"{self.name}-logits-{digest.hexdigest()[:16]}.npz"
        if not path.is_file():
            rows = [np.asarray(reranker.score(q, texts), dtype=np.float32) for q, texts in asked]
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, logits=np.concatenate(rows))
        flat = np.load(path)["logits"]
        ends = np.cumsum([len(texts) for _, texts in asked])
        return [np.asarray(row, dtype=np.float32) for row in np.split(flat, ends[:-1])]

    def _candidates(self, question: Question, best: NDArray[Any], cosine: NDArray[Any]) -> Candidates:
        chunks = [self.chunks[i] for i in best]
        shared = [[_overlap(c, question, e) for e in question.evidence] for c in chunks]
        relevant = [
            any(2 * n >= e.end - e.start > 0 for n, e in zip(row, question.evidence, strict=True))
            or 2 * sum(row) >= len(c.text)
            for row, c in zip(shared, chunks, strict=True)
        ]
        return Candidates(
            question,
            best.astype(np.int64),
            cosine.astype(np.float32),
            np.array([sum(row) for row in shared], dtype=np.int64),
            np.array(relevant, dtype=bool),
        )


def _overlap(chunk: Chunk, question: Question, evidence: Span) -> int:
    """Characters of an evidence span that lie in a chunk."""
    if chunk.doc_id != question.doc_id:
        return 0
    return max(0, min(chunk.span.end, evidence.end) - max(chunk.span.start, evidence.start))
