"""Samples of the development questions with marked evidence, small enough to embed on a CPU."""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Question:
    """A question about one document of a corpus, and where its evidence stands."""

    text: str
    document: int
    evidence: list[Span]


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


def corpora(seed: int) -> dict[str, Corpus]:
    """The samples by name; exits with a hint where the data is not found."""
    if not DATA.is_dir():
        sys.exit(f"no {DATA}: set SAGE_DATA to the folder that holds dev/")
    return {name: _corpus(name, *sample, seed) for name, sample in SAMPLES.items()}


def _corpus(name: str, documents: int, questions: int, longest: int, separate: bool, seed: int) -> Corpus:
    rng = random.Random(seed)
    asked = [q for q in _read(f"{name}_questions") if q["evidence"]]
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
            Question(q["question"], index[q["doc_id"]], [Span(e["start"], e["end"]) for e in q["evidence"]])
            for q in mine[:questions]
        ],
        separate,
    )


def _read(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
