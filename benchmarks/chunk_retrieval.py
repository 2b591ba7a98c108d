"""Which chunks let retrieval find the evidence: recall within a token budget, all-MiniLM cosines alone.

    python benchmarks/chunk_retrieval.py [--chunkers sage,li_sentence_100,...] [--against li_sentence_100]
    python benchmarks/chunk_retrieval.py --rerank --chunkers semchunk_100,semchunk_120,sage,sage_65

Documents of a set are searched as one corpus (contracts each by itself: "the agreement" names only one).
Chunks are taken in order of cosine while they fit into the budget, at least one. Recall is the share of the
evidence's characters they hold, IoU those over all characters retrieved or wanted. Sets are samples that a
CPU can embed; each weighs the same in the mean. Intervals: paired bootstrap over questions within the sets,
2,000 resamples. With ``--rerank`` the cosines, the neighbors' included, only choose candidates of 3,000
tokens together, whatever their number; the offline reranker scores them, and neighbors vouch for each other
once more: the same for every chunker. Vectors are cached in ``SAGE_CACHE`` (default
``~/.cache/sage-rag-benchmarks``). The data is found through ``SAGE_DATA``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from chunkers import CHUNKERS, Chunker, Embed
from development_sets import Corpus, corpora
from numpy.typing import NDArray

from sage_core.ranking import HybridReranker, Place, link, vouch
from sage_core.text.spans import Span
from sage_core.text.tokens import get_counter

MINILM = os.environ.get("SAGE_MINILM", "sentence-transformers/all-MiniLM-L6-v2")
"""The original all-MiniLM-L6-v2: a folder, or a name to download."""

CACHE = Path(os.environ.get("SAGE_CACHE", Path.home() / ".cache" / "sage-rag-benchmarks"))
BUDGETS = (250, 500, 1000)
CANDIDATE_TOKENS = 3000
RESAMPLES = 2000

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Result:
    """Figures of one chunker: a row a question, a column a budget."""

    recall: NDArray[np.float64]
    iou: NDArray[np.float64]
    sizes: NDArray[np.int64]


class CachedEmbedder:
    """all-MiniLM-L6-v2 unit vectors; a text is embedded once, whatever the run. An `Embedder` too."""

    name = "all-MiniLM-L6-v2"

    def __init__(self, half: bool) -> None:
        self._half = half
        self._file = CACHE / f"minilm-{'bf16' if half else 'f32'}.npz"
        self._model: Any = None
        self._known: dict[bytes, Floats] = {}
        if self._file.is_file():
            with np.load(self._file) as stored:
                self._known = dict(zip(map(bytes, stored["keys"]), stored["vectors"], strict=True))

    def __call__(self, texts: Sequence[str]) -> Floats:
        """(n, 384) unit rows."""
        keys = [hashlib.sha256(text.encode()).digest() for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if missing:
            for key, row in zip(missing, self._embed(list(missing.values())), strict=True):
                self._known[key] = row
            self._file.parent.mkdir(parents=True, exist_ok=True)
            stored = np.frombuffer(b"".join(self._known), np.uint8).reshape(-1, 32)
            np.savez(self._file, keys=stored, vectors=np.stack(list(self._known.values())))
        return np.stack([self._known[key] for key in keys])

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        """As calling it."""
        return self(texts)

    def embed_query(self, text: str) -> Floats:
        """The row of one text."""
        return self([text])[0]

    def _embed(self, texts: list[str]) -> Floats:
        import torch

        if self._model is None:
            from sentence_transformers import SentenceTransformer

            self._model = SentenceTransformer(MINILM)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self._half):
            vectors = self._model.encode(texts, batch_size=16, normalize_embeddings=True)
        return np.asarray(vectors, np.float32)


def main() -> None:
    """Embed, rank, compare, print Markdown tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunkers", default="li_sentence_100,li_sentence_200,semchunk_100,sage")
    parser.add_argument("--against", default="", help="compare with this chunker (default: the first)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample of questions and of the bootstrap")
    parser.add_argument("--rerank", action="store_true", help="candidates, offline reranker, neighbors")
    parser.add_argument("--bf16", action="store_true", help="embed in bfloat16: faster, for trying things")
    options = parser.parse_args()
    names = options.chunkers.split(",")
    embed = CachedEmbedder(options.bf16)
    reranker = HybridReranker(cache_size=200_000) if options.rerank else None
    sets = corpora(options.seed)
    precision = "bfloat16" if options.bf16 else "float32"
    print(f"seed {options.seed}; cosines of all-MiniLM-L6-v2 in {precision}; tokens by our counter 'bert'\n")
    for name, corpus in sets.items():
        size = sum(map(len, corpus.texts))
        print(
            f"- {name}: {len(corpus.texts)} documents, {size:,} characters, {len(corpus.questions)} questions"
        )
    print(
        "\n| chunker | tokens a chunk: mean (most) | "
        + header()
        + "\n"
        + "|---" * (2 + 2 * len(BUDGETS))
        + "|"
    )
    results: dict[str, dict[str, Result]] = {}
    for name in names:
        found = {key: evaluate(corpus, CHUNKERS[name], embed, reranker) for key, corpus in sets.items()}
        results[name] = found
        print(row(name, found), flush=True)
    against = options.against or names[0]
    print(f"\nDifference of recall from {against}, points, 95% interval:\n")
    print("| chunker | set | " + " | ".join(f"{b} tokens" for b in BUDGETS) + " |\n" + "|---" * 5 + "|")
    for name in names:
        if name != against:
            print_differences(name, results[name], results[against], options.seed)


def evaluate(
    corpus: Corpus, chunker: Chunker, embed: Embed, reranker: HybridReranker | None = None
) -> Result:
    """Chunk, embed and search one set."""
    spans = [chunker(text, embed) for text in corpus.texts]
    texts = [span.of(text) for text, found in zip(corpus.texts, spans, strict=True) for span in found]
    owners = np.array([d for d, found in enumerate(spans) for _ in found])
    flat = [span for found in spans for span in found]
    sizes = np.array(get_counter("bert").count_many(texts))
    scores = embed([question.text for question in corpus.questions]) @ embed(texts).T
    recall = np.zeros((len(corpus.questions), len(BUDGETS)))
    iou = np.zeros_like(recall)
    places = [Place(int(owner), *span) for owner, span in zip(owners, flat, strict=True)]
    links = link(places)
    for index, question in enumerate(corpus.questions):
        near = scores[index]
        if reranker is not None:
            near = np.array(vouch(near.tolist(), links, "cosine"))
        order = np.argsort(-near, kind="stable")
        if corpus.separate:
            order = order[owners[order] == question.document]
        if reranker is not None:
            order = order[: max(1, int(np.searchsorted(np.cumsum(sizes[order]), CANDIDATE_TOKENS, "right")))]
            found = reranker.score(question.text, [texts[i] for i in order], scores[index][order])
            order = order[
                np.argsort(-np.array(vouch(found, link([places[i] for i in order]), "probability")))
            ]
        used = np.cumsum(sizes[order])
        for column, budget in enumerate(BUDGETS):
            chosen = order[: max(1, int(np.searchsorted(used, budget, side="right")))]
            mine = [flat[i] for i in chosen if owners[i] == question.document]
            wanted = sum(span.end - span.start for span in question.evidence)
            covered = overlap(mine, question.evidence)
            retrieved = sum(flat[i].end - flat[i].start for i in chosen)
            recall[index, column] = covered / wanted
            iou[index, column] = covered / (retrieved + wanted - covered)
    return Result(recall, iou, sizes)


def overlap(chunks: Iterable[Span], evidence: Sequence[Span]) -> int:
    """Characters that disjoint chunks and disjoint pieces of evidence share."""
    return sum(max(0, min(a.end, b.end) - max(a.start, b.start)) for a in chunks for b in evidence)


def header() -> str:
    """Column names of the first table."""
    return " | ".join([f"recall {b}" for b in BUDGETS] + [f"IoU {b}" for b in BUDGETS]) + " |"


def row(name: str, found: dict[str, Result]) -> str:
    """A line of the first table: means over sets."""
    sizes = np.concatenate([result.sizes for result in found.values()])
    recall = np.mean([result.recall.mean(0) for result in found.values()], axis=0) * 100
    iou = np.mean([result.iou.mean(0) for result in found.values()], axis=0) * 100
    cells = [f"{sizes.mean():.0f} ({sizes.max()})", *(f"{v:.1f}" for v in (*recall, *iou))]
    return f"| {name} | " + " | ".join(cells) + " |"


def print_differences(name: str, mine: dict[str, Result], other: dict[str, Result], seed: int) -> None:
    """Paired bootstrap of the difference of recall, by set and in the mean of the sets."""
    rng = np.random.default_rng(seed)
    draws: list[NDArray[np.float64]] = []
    points: list[NDArray[np.float64]] = []
    for key in mine:
        difference = (mine[key].recall - other[key].recall) * 100
        picks = rng.integers(0, len(difference), (RESAMPLES, len(difference)))
        draws.append(difference[picks].mean(1))
        points.append(difference.mean(0))
        print(f"| {name} | {key} | {cells(points[-1], draws[-1])} |")
    print(f"| {name} | **mean** | {cells(np.mean(points, axis=0), np.mean(draws, axis=0))} |")


def cells(point: NDArray[np.float64], draws: NDArray[np.float64]) -> str:
    """Point estimates with their intervals."""
    low, high = np.percentile(draws, [2.5, 97.5], axis=0)
    return " | ".join(f"{p:+.1f} [{a:+.1f}, {b:+.1f}]" for p, a, b in zip(point, low, high, strict=True))


if __name__ == "__main__":
    main()
