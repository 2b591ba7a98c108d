"""Binary cross-entropy (our models) against mean squared error (the SAGE paper's loss), else all the same.

    python benchmarks/loss.py                                  # both kinds, all training documents, one seed
    python benchmarks/loss.py --documents 6000 --seeds 0 1 2   # part of them, three seeds

Trained on `$SAGE_DATA/train`, measured on the boundary sets of `benchmarks/boundaries.py`, which training
never sees: area under the ROC curve, F1 at the threshold found on held-out training documents, and the error
of the calibrated probabilities on held-out training documents. A seed draws the held-out documents, the
batches and the pairs, the same for both losses. The difference is MSE less BCE, its interval a bootstrap over
documents.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from sage_eval.metrics import bootstrap_mean
from sage_train.metrics import f1, roc_auc
from sage_train.options import TrainOptions, TrainReport
from sage_train.train import train

from benchmarks.boundaries import DATA, SETS, Gold, read_set
from sage_core.segmentation.models.load import load_model


def training_files(documents: int | None, folder: Path) -> list[Path]:
    """The training files, or one with the first so many of each, in proportion to their sizes."""
    files = [DATA / "train" / f"train_{name}.jsonl.gz" for name in ("expository", "other")]
    if documents is None:
        return files
    counts = []
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            counts.append(sum(1 for _ in lines))
    part = folder / "part.jsonl"
    with part.open("w", encoding="utf-8") as out:
        for file in files:
            with gzip.open(file, "rt", encoding="utf-8") as lines:
                # Evenly spaced: neighbors in the files are of one kind.
                step = max(sum(counts) // documents, 1)
                out.writelines(islice(lines, 0, None, step))
    return [part]


def areas(folder: Path, gold: list[Gold]) -> tuple[NDArray[np.float64], float]:
    """The area of each document that has both kinds of gaps, and F1 over all gaps of the set."""
    model = load_model(folder)
    threshold = float(getattr(model, "config", {}).get("threshold", 0.5))
    found = model.probabilities([document.sentences for document in gold])
    each = [
        roc_auc(document.breaks, -p) if document.breaks.any() and not document.breaks.all() else np.nan
        for document, p in zip(gold, found, strict=True)
    ]
    every, breaks = np.concatenate(found), np.concatenate([document.breaks for document in gold])
    return np.array(each), f1(breaks, every < threshold)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", nargs="+", default=["pair", "context"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--documents", type=int, help="training documents; all where left out")
    parser.add_argument("--test-documents", type=int, default=60, help="of each boundary set")
    parser.add_argument("--epochs", type=float, default=6.0)
    arguments = parser.parse_args()
    gold = {name: read_set(name, arguments.test_documents) for name in SETS}
    with tempfile.TemporaryDirectory() as place:
        files = training_files(arguments.documents, Path(place))
        print("| kind | seed | loss | steps | calibration error | " + " | ".join(SETS) + " |")
        print("|---|---:|---|---:|---:|" + "---:|" * len(SETS), flush=True)
        for kind in arguments.kinds:
            for seed in arguments.seeds:
                by_loss = {}
                for loss in ("bce", "mse"):
                    options = TrainOptions(
                        kind=kind, loss=loss, seed=seed, epochs=arguments.epochs, threads=1
                    )
                    report: TrainReport = train(files, Path(place) / f"{kind}-{loss}-{seed}", options)
                    by_loss[loss] = {name: areas(report.folder, gold[name]) for name in SETS}
                    cells = [f"{np.nanmean(a):.3f}, F1 {f:.3f}" for a, f in by_loss[loss].values()]
                    error = report.figures["calibration_error"]
                    print(
                        f"| {kind} | {seed} | {loss} | {report.steps:,} | {error:.4f} | "
                        f"{' | '.join(cells)} |",
                        flush=True,
                    )
                cells = []
                for name in SETS:
                    difference = by_loss["mse"][name][0] - by_loss["bce"][name][0]
                    found = bootstrap_mean(list(difference[~np.isnan(difference)]))
                    cells.append(f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]")
                print(f"| {kind} | {seed} | difference | | | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
