"""Training groups for the bundled cross-encoder: a question, a passage that answers it, and hard negatives.

    python training/reranker_groups.py groups.jsonl

Negatives come from the same document and from BM25 over all passages. Passages are cut to runs of sentences
as long as the chunks that the library makes, positives around the sentence that shares most with the
question.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bm25s

from sage_core.text.keywords import words
from sage_core.text.sentences import split_sentences

DATA = Path(os.environ.get("SAGE_DATA", "../shared/data")) / "train"
SEED = 0
NEGATIVES = 4
DEPTH = 40  # BM25 results that negatives are drawn from.
ALIKE = 0.6  # Share of common words above which a passage counts as a copy of the positive.

# Groups by kind of pair, and how often a question of the kind is used (with other negatives each time).
QUOTA = {
    "clapnq_train": (1855, 3),
    "medquad": (5000, 1),
    "openstax_term_q": (3500, 1),
    "openstax_term": (4000, 1),
    "openstax_exercise": (4500, 1),
    "wiki_heading": (2500, 1),
}


@dataclass
class Pool:
    """Every passage, by position, with those of each document."""

    texts: list[str] = field(default_factory=list)
    of_document: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    section: list[tuple[str, int]] = field(default_factory=list)
    position: dict[str, int] = field(default_factory=dict)

    def add(self, text: str, document: str, section: int) -> None:
        """Add a passage once."""
        if text not in self.position:
            self.position[text] = len(self.texts)
            self.of_document[document].append(len(self.texts))
            self.section.append((document, section))
            self.texts.append(text)


def read(name: str) -> Iterator[dict[str, Any]]:
    """The objects of a gzipped JSON-lines file of the training data."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def choose(rng: random.Random) -> list[dict[str, Any]]:
    """The pairs that are used, by `QUOTA`."""
    kinds = defaultdict(list)
    for pair in read("rerank_pairs"):
        kinds[pair["kind"]].append(pair)
    chosen = []
    for kind, (count, times) in QUOTA.items():
        chosen += rng.sample(kinds[kind], min(count, len(kinds[kind]))) * times
    rng.shuffle(chosen)
    return chosen


def make_pool(pairs: Sequence[dict[str, Any]]) -> Pool:
    """The passages of the pairs and the paragraphs of their documents."""
    pool = Pool()
    wanted = {p["doc_id"] for p in pairs}
    for document in read("train_expository"):
        if document["doc_id"] in wanted:
            for i, section in enumerate(document["sections"]):
                for paragraph in section["paragraphs"]:
                    pool.add(paragraph, document["doc_id"], i)
    for i, pair in enumerate(pairs):
        pool.add(pair["passage"], pair["doc_id"], -1 - i)
    return pool


def window(text: str, asked: set[str], rng: random.Random, best: bool) -> str:
    """A run of sentences of 20 to 85 words; around the one that shares most with ``asked`` where ``best``."""
    spans = split_sentences(text)
    limit = rng.randint(20, 85)
    if len(text.split()) <= limit or len(spans) < 2:
        return " ".join(text.split()[:110])
    found = [set(words(s.of(text))) for s in spans]
    centre = max(range(len(spans)), key=lambda i: (len(found[i] & asked), rng.random()))
    if not best:
        centre = rng.randrange(len(spans))
    first = last = centre
    while True:
        grow = [(first - 1, last)] * (first > 0) + [(first, last + 1)] * (last + 1 < len(spans))
        grow = [(a, b) for a, b in grow if len(text[spans[a].start : spans[b].end].split()) <= limit]
        if not grow:
            return " ".join(text[spans[first].start : spans[last].end].split()[:110])
        first, last = rng.choice(grow)


def negatives(pair: dict[str, Any], found: Sequence[int], pool: Pool, rng: random.Random) -> list[int]:
    """Positions of passages that do not answer: half from the document, the rest from BM25, else any."""
    right = pool.position[pair["passage"]]
    answer = set(words(pair["passage"]))

    def usable(i: int) -> bool:
        if i == right or (pair["kind"] == "wiki_heading" and pool.section[i] == pool.section[right]):
            return False
        other = set(words(pool.texts[i]))
        return len(answer & other) < ALIKE * max(1, min(len(answer), len(other)))

    near = [i for i in found if usable(i)]
    rank = {i: n for n, i in enumerate(near)}
    same = sorted(pool.of_document[pair["doc_id"]], key=lambda i: (rank.get(i, DEPTH), rng.random()))
    same = [i for i in same if usable(i)][:6]
    chosen = rng.sample(same, min(2, len(same)))
    # The very best hits of another document are often right answers that nobody marked.
    others = [i for i in near[2:] if i not in chosen]
    chosen += rng.sample(others, min(NEGATIVES - len(chosen), len(others)))
    while len(chosen) < NEGATIVES:
        i = rng.randrange(len(pool.texts))
        if i not in chosen and usable(i):
            chosen.append(i)
    return chosen


def main() -> None:
    """Write the groups."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    output: Path = parser.parse_args().output
    rng = random.Random(SEED)
    pairs = choose(rng)
    pool = make_pool(pairs)
    index = bm25s.BM25()
    index.index([words(t) for t in pool.texts], show_progress=True)
    asked = [words(p["question"]) for p in pairs]
    hits, _ = index.retrieve(asked, k=DEPTH, show_progress=True)
    with output.open("w", encoding="utf-8") as file:
        for pair, terms, found in zip(pairs, asked, hits, strict=True):
            wrong = negatives(pair, [int(i) for i in found], pool, rng)
            passages = [window(pair["passage"], set(terms), rng, best=True)]
            passages += [window(pool.texts[i], set(terms), rng, best=rng.random() < 0.6) for i in wrong]
            group = {"kind": pair["kind"], "question": pair["question"], "passages": passages}
            file.write(json.dumps(group, ensure_ascii=False) + "\n")
    print(f"{len(pairs)} groups, {len(pool.texts)} passages")


if __name__ == "__main__":
    main()
