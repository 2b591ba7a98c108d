"""What the local judge knows: AUROC, calibration, abstention and time, with 95% bootstrap intervals.

    python benchmarks/judge.py                # some minutes on two cores
    python benchmarks/judge.py --words        # without the model: counts of words, numbers and names only
    python benchmarks/judge.py --limit 100    # fewer questions of each set

Support: claims of wice_dev against their cited page; half of the pages were fitted on, the other half is
shown by itself. Beside it, the share of the stems of the claim.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import os
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.feedback import Verdict
from sage_core.text.keywords import stem_list
from sage_core.verify import LocalJudge, settled, support

SEED = 7
DECIDED_FROM = 0.5
"""From here on a claim counts as supported."""
WICE_SEED = 5
"""Order in which the claims of wice_dev were dealt: the first 175 were fitted on."""


def read(data: Path, name: str) -> list[dict[str, Any]]:
    """The objects of a development file."""
    with gzip.open(data / "dev" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def auroc(labels: Sequence[bool], scores: Sequence[float]) -> float:
    """Chance that a positive scores above a negative; ties count half."""
    right, values = np.asarray(labels, bool), np.asarray(scores, float)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    n, m = int(right.sum()), int((~right).sum())
    return float((ranks[right].sum() - n * (n + 1) / 2) / max(1, n * m))


def with_interval(labels: Sequence[bool], scores: Sequence[float]) -> str:
    """AUROC and its 95% bootstrap interval."""
    rng = np.random.default_rng(SEED)
    right, values = np.asarray(labels, bool), np.asarray(scores, float)
    draws = []
    for _ in range(1000):
        rows = rng.integers(0, len(right), len(right))
        if 0 < right[rows].sum() < len(rows):
            draws.append(auroc(right[rows].tolist(), values[rows].tolist()))
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{auroc(labels, scores):.3f} ({low:.3f} to {high:.3f})"


def calibration_error(labels: Sequence[bool], probabilities: Sequence[float]) -> float:
    """Expected calibration error over ten equal bins."""
    right, p = np.asarray(labels, float), np.asarray(probabilities, float)
    bins: NDArray[np.int64] = np.minimum((p * 10).astype(int), 9)
    return float(
        sum(
            (bins == b).mean() * abs(right[bins == b].mean() - p[bins == b].mean())
            for b in set(bins.tolist())
        )
    )


def share(text: str, passage: str) -> float:
    """Share of a text's stems that a passage holds."""
    own, other = set(stem_list(text)), set(stem_list(passage))
    return len(own & other) / len(own) if own else 0.0


def claims(judge: LocalJudge, data: Path, limit: int) -> None:
    """Print AUROC of support for the claims that were not fitted on, and for all."""
    rows = read(data, "wice_dev")
    order = list(range(len(rows)))
    random.Random(WICE_SEED).shuffle(order)
    for name, chosen in (("not fitted on", order[175:][:limit]), ("all", order[:limit])):
        some = [rows[i] for i in chosen]
        scores = []
        for row in some:
            probability = support(judge.claims("", row["claim"], row["evidence"]))
            scores.append(0.5 if probability is None else probability)
        plain = [share(r["claim"], " ".join(r["evidence"])) for r in some]
        for label, positive in (
            ("supported", ("supported",)),
            ("at least partly", ("supported", "partially_supported")),
        ):
            labels = [r["label"] in positive for r in some]
            print(
                f"{label}, WiCE claims {name}, n = {len(some)}: AUROC {with_interval(labels, scores)}, "
                f"balanced accuracy at {DECIDED_FROM} {balanced_accuracy(labels, scores)}"
            )
            print(f"  share of stems: {with_interval(labels, plain)}")
        print(
            f"  calibration error {calibration_error([r['label'] == 'supported' for r in some], scores):.3f}"
        )


def balanced_accuracy(labels: Sequence[bool], scores: Sequence[float]) -> str:
    """Mean of the shares of both kinds that are told rightly at `DECIDED_FROM`, and its 95% interval."""
    right, said = np.asarray(labels, bool), np.asarray(scores, float) >= DECIDED_FROM
    rng = np.random.default_rng(SEED)
    draws = [_balanced(right[rows], said[rows]) for rows in rng.integers(0, len(right), (1000, len(right)))]
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return f"{_balanced(right, said):.1%} ({low:.1%} to {high:.1%})"


def _balanced(right: NDArray[np.bool_], said: NDArray[np.bool_]) -> float:
    if not 0 < right.sum() < len(right):
        return float("nan")
    return float((said[right].mean() + (~said[~right]).mean()) / 2)


def graded(judge: LocalJudge, data: Path, limit: int) -> None:
    """Print AUROC of support for answers and summaries that models wrote and people graded."""
    for name, rows in answers_graded(data).items():
        odds = [support(judge.claims("", answer, passages)) for answer, passages, _ in rows[:limit]]
        known = [(p, r) for p, r in zip(odds, rows, strict=False) if p is not None]
        labels, scores = [r[2] for _, r in known], [p for p, _ in known]
        print(
            f"{name}, n = {len(known)}: AUROC {with_interval(labels, scores)}, "
            f"balanced accuracy at {DECIDED_FROM} {balanced_accuracy(labels, scores)}"
        )
        print(f"  share of stems: {with_interval(labels, [share(r[0], ' '.join(r[1])) for _, r in known])}")


def vetoes(data: Path, limit: int) -> None:
    """Print how many right and wrong answers lose the grade that a critic gave them."""
    for name, rows in answers_graded(data).items():
        lost = [bool(settled(Verdict(10), "", *row[:2]).vetoed_by) for row in rows[:limit]]
        of = {x: [v for v, r in zip(lost, rows, strict=False) if r[2] is x] for x in (True, False)}
        print(
            f"veto, {name}: {sum(of[True])} of {len(of[True])} right ({np.mean(of[True]):.1%}), "
            f"{sum(of[False])} of {len(of[False])} wrong ({np.mean(of[False]):.1%})"
        )


def answers_graded(data: Path) -> dict[str, list[tuple[str, list[str], bool]]]:
    """Answers and summaries that models wrote, their passages, and whether people found them supported."""
    sets: dict[str, list[tuple[str, list[str], bool]]] = collections.defaultdict(list)
    for row in read(data, "grounding"):
        sets[row["kind"]].append((row["claim"], [row["context"]], row["supported"]))
    for row in read(data, "graded_answers"):
        if row["model"] != "reference":
            label = bool(np.mean(row["faithfulness"]) >= 3.5)
            sets["graded answers"].append((row["answer"], row["contexts"], label))
    return sets


def seconds(judge: LocalJudge, data: Path, repeats: int = 15) -> None:
    """Print the time of an answer of three sentences against seven chunks."""
    text = read(data, "squad2_dev16_docs")[0]["text"]
    sentences = [s for s in re.split(r"(?<=\.) ", " ".join(text.split())) if 8 < len(s.split()) < 30]
    chunks = [" ".join(sentences[i : i + 4]) for i in range(0, 28, 4)]
    # Words of the chunks in another order: nothing is found word for word, so that the model has to read.
    answer = " ".join(
        " ".join(sorted(sentences[i].rstrip(".").split())).capitalize() + "." for i in (1, 9, 17)
    )
    times = []
    for i in range(-2, repeats):
        start, used = time.perf_counter(), time.process_time()
        judge.claims("", answer, [*chunks[:6], f"{chunks[6]} Run {i}."])
        if i >= 0:
            times.append((time.perf_counter() - start, time.process_time() - used))
    wall, processor = 1000 * np.array(times).T
    print(
        f"time, 3 sentences and 7 chunks: median {np.median(wall):.0f} ms, "
        f"best {wall.min():.0f} ms; "
        f"of processor time median {np.median(processor):.0f} ms, best {processor.min():.0f} ms"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SAGE_DATA", "../shared/data")))
    parser.add_argument("--words", action="store_true", help="without the model")
    parser.add_argument("--veto", action="store_true", help="what a veto costs and catches, only")
    parser.add_argument("--limit", type=int, default=1000, help="questions or claims of each set")
    arguments = parser.parse_args()
    if arguments.veto:
        vetoes(arguments.data, arguments.limit)
        return
    judge = LocalJudge(model=False if arguments.words else None)
    claims(judge, arguments.data, arguments.limit)
    graded(judge, arguments.data, arguments.limit)
    seconds(judge, arguments.data)


if __name__ == "__main__":
    main()
