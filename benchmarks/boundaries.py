"""Paragraph boundaries found by our models and by fixed sizes, on the same held-out sentences.

    python benchmarks/boundaries.py

Data: `$SAGE_DATA/dev/seg_*` (default ../shared/data), and the hand-made sections of the tales of
`dev/fairytaleqa`. Paragraph breaks are withheld. Each sentence gap is a
boundary or not; F1 is of boundaries over all gaps of a set, Pk and WindowDiff are means over documents. The
threshold of our models is the one stored with them, found on held-out *training* documents. Intervals: 95 %,
bootstrap over documents; "F1 behind" is the paired difference to the default model.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sage_train.corpus import read_corpus
from sage_train.metrics import pk, roc_auc, window_diff

from sage_core.segmentation.models.load import bundled_models, load_model
from sage_core.text.sentences import split_sentences
from sage_core.text.tokens import get_counter

DATA = Path(os.environ.get("SAGE_DATA", "../shared/data"))
SETS = ("seg_wikipedia_valid", "seg_openstax_philosophy", "seg_gum", "fairytaleqa")
DRAWS = 2000


@dataclass(frozen=True)
class Gold:
    """A document: its sentences, and which gaps are paragraph breaks."""

    sentences: list[str]
    breaks: NDArray[np.bool_]


@dataclass(frozen=True)
class Row:
    """Predictions of one method for every document of a set; scores of a break where it gives them."""

    name: str
    found: list[NDArray[np.bool_]]
    scores: list[NDArray[np.float32]] | None = None


def read_set(name: str, limit: int | None) -> list[Gold]:
    """Documents of a set; with a limit, evenly spaced ones."""
    documents = read_tales() if name == "fairytaleqa" else []
    for document in [] if documents else read_corpus(DATA / "dev" / f"{name}.jsonl.gz"):
        sentences = [s for paragraph in document.paragraphs for s in paragraph]
        starts = [i == 0 for paragraph in document.paragraphs for i in range(len(paragraph))]
        documents.append(Gold(sentences, np.array(starts[1:], bool)))
    if limit and limit < len(documents):
        documents = [documents[i] for i in np.linspace(0, len(documents) - 1, limit).astype(int)]
    return documents


def read_tales() -> list[Gold]:
    """Tales in hand-made sections; a boundary is where a section starts."""
    found = []
    with gzip.open(DATA / "dev" / "fairytaleqa_docs.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            text = row["text"]
            spans = split_sentences(text)
            starts = {start for start, _ in row["sections"]}
            found.append(
                Gold([span.of(text) for span in spans], np.array([s.start in starts for s in spans[1:]]))
            )
    return found


def our_rows(documents: Sequence[Gold]) -> list[Row]:
    """Every bundled model, at its own threshold."""
    rows = []
    for name in sorted(bundled_models()):
        model = load_model(name)
        same = model.probabilities([d.sentences for d in documents])
        threshold = float(getattr(model, "config")["threshold"])  # noqa: B009 - not part of the protocol
        rows.append(Row(f"sage-rag, {name}", [p <= threshold for p in same], [-p for p in same]))
    return rows


def plain_rows(documents: Sequence[Gold]) -> list[Row]:
    """Whole sentences packed up to 128 tokens, and a break at every gap."""
    packed = [_packed(document.sentences, 128) for document in documents]
    every = [np.ones(len(document.breaks), bool) for document in documents]
    return [Row("fixed size, 128 tokens", packed), Row("every gap", every)]


def _packed(sentences: Sequence[str], tokens: int) -> NDArray[np.bool_]:
    found = np.zeros(max(len(sentences) - 1, 0), bool)
    room = tokens
    for i, (_, size) in enumerate(pairwise(get_counter("bert").count_many(sentences))):
        room -= size
        if room < size:
            found[i], room = True, tokens
    return found


def counts(documents: Sequence[Gold], row: Row) -> NDArray[np.int64]:
    """(documents, 3): boundaries found rightly, found, and there."""
    return np.array(
        [
            (int((f & d.breaks).sum()), int(f.sum()), int(d.breaks.sum()))
            for f, d in zip(row.found, documents, strict=True)
        ]
    )


def f1_of(total: NDArray[np.int64]) -> NDArray[np.float64]:
    """F1 from summed counts, over the last axis."""
    result: NDArray[np.float64] = 2.0 * total[..., 0] / np.maximum(1, total[..., 1] + total[..., 2])
    return result


def report(name: str, documents: Sequence[Gold], rows: Sequence[Row], best: str) -> None:
    """Print one set's table."""
    gaps = sum(len(d.breaks) for d in documents)
    rate = sum(int(d.breaks.sum()) for d in documents) / gaps
    print(f"\n### {name}: {len(documents)} documents, {gaps:,} gaps, base rate {rate:.3f}\n")
    print("| splitter | ROC AUC | P | R | F1 [95 %] | F1 behind [95 %] | Pk | WindowDiff |")
    print("|---|---|---|---|---|---|---|---|")
    draws = np.random.default_rng(0).integers(0, len(documents), (DRAWS, len(documents)))
    sampled = {row.name: f1_of(counts(documents, row)[draws].sum(1)) for row in rows}
    truth = np.concatenate([d.breaks for d in documents])
    for row in rows:
        right, found, there = counts(documents, row).sum(0).tolist()
        low, high = np.percentile(sampled[row.name], [2.5, 97.5])
        behind = sampled[best] - sampled[row.name]
        gap = (
            ""
            if row.name == best
            else f"{behind.mean():.3f} [{', '.join(f'{v:.3f}' for v in _interval(behind))}]"
        )
        auc = f"{roc_auc(truth, np.concatenate(row.scores)):.3f}" if row.scores else ""
        errors = [
            float(
                np.mean(
                    [measure(d.breaks, f) for d, f in zip(documents, row.found, strict=True) if len(f) > 2]
                )
            )
            for measure in (pk, window_diff)
        ]
        print(
            f"| {row.name} | {auc} | {right / max(1, found):.3f} | {right / max(1, there):.3f} "
            f"| {2 * right / max(1, found + there):.3f} [{low:.3f}, {high:.3f}] | {gap} "
            f"| {errors[0]:.3f} | {errors[1]:.3f} |"
        )


def _interval(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=None, help="only so many documents of each set")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    arguments = parser.parse_args()
    pooled: list[tuple[list[Gold], list[Row]]] = []
    for name in arguments.sets:
        documents = read_set(name, arguments.documents)
        rows = our_rows(documents) + plain_rows(documents)
        best = "sage-rag, context" if any(r.name == "sage-rag, context" for r in rows) else rows[0].name
        report(name, documents, rows, best)
        if name not in ("seg_gum", "fairytaleqa"):
            pooled.append((documents, our_rows(documents)))
    if len(pooled) > 1:
        documents = [d for part, _ in pooled for d in part]
        joined = [
            Row(a.name, a.found + b.found, (a.scores or []) + (b.scores or []))
            for a, b in zip(pooled[0][1], pooled[1][1], strict=True)
        ]
        report("Wikipedia and textbook together", documents, joined, joined[0].name)


if __name__ == "__main__":
    main()
