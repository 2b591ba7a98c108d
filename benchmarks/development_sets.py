"""Samples of the development questions with marked evidence, small enough to embed on a CPU."""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sage_core.text.spans import Span

DATA = Path(os.environ.get("SAGE_DATA", "../shared/data")) / "dev"

# name: (documents, questions, longest document in characters, whether each is searched by itself)
SAMPLES = {
    "squad2_dev16": (6, 1000, 60_000, False),
    "clapnq_dev": (200, 300, 10_000, False),
    "onestopqa": (30, 500, 10_000, False),
    "cuad_leval": (6, 60, 60_000, True),
}
MORE_SAMPLES = {
    "fairytaleqa": (8, 500, 30_000, True),
    "hotpot_sample": (60, 60, 10_000, False),
    "hotpot_pool": (500, 143, 10_000, False),
    "2wiki_pool": (500, 200, 10_000, False),
    "nq_leval": (10, 33, 60_000, True),
    "qasper_leval": (12, 17, 30_000, True),
    "covidqa": (47, 300, 60_000, True),
}
"""The other sets with evidence; in the pools it lies in several documents; nq and qasper are small."""


@dataclass(frozen=True)
class Question:
    """A question about one document of a corpus, and where its evidence stands.

    Attributes:
        text: The question.
        document: The document; where the evidence lies in several, that of the first piece.
        evidence: Pieces of evidence.
        others: The document of each piece, where it lies in several.
        row: The question as the file has it.
    """

    text: str
    document: int
    evidence: list[Span]
    others: tuple[int, ...] = ()
    row: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def documents(self) -> tuple[int, ...]:
        """The document of each piece of evidence."""
        return self.others or (self.document,) * len(self.evidence)


@dataclass(frozen=True)
class Corpus:
    """Documents, and questions about them.

    Attributes:
        texts: The documents.
        titles: Their titles; "" where there is none.
        questions: Questions with evidence.
        separate: Whether a question is searched in its own document only.
    """

    texts: list[str]
    titles: list[str]
    questions: list[Question]
    separate: bool


def corpora(
    seed: int, names: Collection[str] = tuple(SAMPLES), questions: int | None = None
) -> dict[str, Corpus]:
    """The samples by name, with as many questions as the table says, or ``questions``.

    Exits with a hint where the data is not found.
    """
    if not DATA.is_dir():
        sys.exit(f"no {DATA}: set SAGE_DATA to the folder that holds dev/")
    samples = {**SAMPLES, **MORE_SAMPLES}
    result: dict[str, Corpus] = {}
    for name in names:
        documents, usual, longest, separate = samples[name]
        result[name] = _corpus(name, documents, questions or usual, longest, separate, seed)
    return result


def _corpus(name: str, documents: int, questions: int, longest: int, separate: bool, seed: int) -> Corpus:
    rng = random.Random(seed)
    asked = [q for q in _read(f"{name}_questions") if q["evidence"]]
    if "doc_id" not in asked[0]:
        return _pool(name, documents, questions, seed)
    about = {q["doc_id"] for q in asked}
    candidates = [d for d in _read(f"{name}_docs") if len(d["text"]) <= longest]
    rng.shuffle(candidates)
    candidates.sort(key=lambda d: d["doc_id"] not in about)  # documents with questions first, others fill up
    with_questions = [d for d in candidates if d["doc_id"] in about][
        : max(documents // 2, min(documents, 30))
    ]
    rest = [d for d in candidates if d not in with_questions]
    chosen = (with_questions + rest)[:documents]
    index = {d["doc_id"]: i for i, d in enumerate(chosen)}
    mine = [q for q in asked if q["doc_id"] in index]
    rng.shuffle(mine)
    return Corpus(
        [d["text"] for d in chosen],
        [d.get("title") or "" for d in chosen],
        [
            Question(
                q["question"], index[q["doc_id"]], [Span(e["start"], e["end"]) for e in q["evidence"]], row=q
            )
            for q in mine[:questions]
        ],
        separate,
    )


def _pool(name: str, documents: int, questions: int, seed: int) -> Corpus:
    """Questions whose evidence lies in several documents: all of those, and others up to ``documents``."""
    rng = random.Random(seed)
    mine = [q for q in _read(f"{name}_questions") if q["evidence"]]
    rng.shuffle(mine)
    mine = mine[:questions]
    needed = {e["doc_id"] for q in mine for e in q["evidence"]}
    read = _read(f"{name}_docs")
    others = [d for d in read if d["doc_id"] not in needed]
    rng.shuffle(others)
    chosen = [d for d in read if d["doc_id"] in needed] + others[: max(documents - len(needed), 0)]
    index = {d["doc_id"]: i for i, d in enumerate(chosen)}
    made = []
    for q in mine:
        places = tuple(index[e["doc_id"]] for e in q["evidence"])
        pieces = [Span(e["start"], e["end"]) for e in q["evidence"]]
        made.append(Question(q["question"], places[0], pieces, places, q))
    return Corpus([d["text"] for d in chosen], [d.get("title") or "" for d in chosen], made, False)


def _read(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
