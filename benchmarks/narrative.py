"""Do the boundary models find the sections that people made of tales (FairytaleQA)?

    python benchmarks/narrative.py

Gold: where a hand-made section begins, among the sentence boundaries at which the model was asked. For each
bundled model: area under the ROC curve of 1 - P(same) (ties count half), and F1 of the k boundaries with the
least P(same) in each tale, k being its true number; k boundaries drawn by chance have the base rate.
Intervals are a bootstrap over tales. Dialogue and pronouns make narrative the hardest kind of text here; the
SAGE paper's own examples are of this kind.
"""

from __future__ import annotations

import gzip
import json

import numpy as np
from sage_eval.datasets.load import dev_folder
from sage_eval.metrics import Interval, bootstrap_mean

from sage_core.segmentation import Segmenter


def auc(scores: np.ndarray, gold: np.ndarray) -> float:
    """Probability that a true boundary scores above another; ties count half."""
    right, wrong = scores[gold], scores[~gold]
    return float((right[:, None] > wrong).mean() + 0.5 * (right[:, None] == wrong).mean())


def shown(found: Interval) -> str:
    """A mean with its interval."""
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"


def main() -> None:
    """Print a row for each model."""
    with gzip.open(dev_folder() / "fairytaleqa_docs.jsonl.gz", "rt", encoding="utf-8") as file:
        tales = [json.loads(line) for line in file]
    print(f"{len(tales)} tales\n\n| model | AUC | F1 at the true number | base rate |\n|---|---:|---:|---:|")
    for name in ("default", "pair"):
        segmenter = Segmenter(name)
        areas, f1s, rates = [], [], []
        for tale in tales:
            starts = np.array([start for start, _ in tale["sections"][1:]])
            asked = segmenter.boundaries(tale["text"])
            places = np.array([boundary.position for boundary in asked])
            scores = 1 - np.array([boundary.probability for boundary in asked])
            gold = np.zeros(len(places), dtype=bool)
            # A section begins at the next sentence, where its start is no sentence's own.
            gold[np.unique(np.searchsorted(places, starts).clip(max=len(places) - 1))] = True
            areas.append(auc(scores, gold))
            best = np.argsort(-scores, kind="stable")[: gold.sum()]
            f1s.append(float(gold[best].mean()))  # as many cut as true: precision, recall and F1 are one
            rates.append(float(gold.mean()))
        cells = [shown(bootstrap_mean(areas)), shown(bootstrap_mean(f1s)), f"{np.mean(rates):.3f}"]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
