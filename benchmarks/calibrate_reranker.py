"""Fit the offline reranker's probability on the development questions, and say how good it is.

    python benchmarks/calibrate_reranker.py            # report only
    python benchmarks/calibrate_reranker.py --write    # and remake sage_core/ranking/calibration.json
    python benchmarks/calibrate_reranker.py --cross-encoder sage-minilm   # with a cross-encoder's logit

Every set is there twice, with titles and without (with a cross-encoder, which takes long, only with titles),
and weighs the same in the fit, whatever its number of questions. Fitted is the probability after neighbors
have vouched (`sage_core.ranking.vouch`). "Held out" means that the set was not in the fit in either form;
"cross-validated" means that the question was not (five folds). Recall is the share of evidence characters
within a budget of tokens: whole chunks in rank order, at least one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ranking_data import SETS, Candidates, DevSet
from scipy.optimize import minimize

import sage_core.ranking as ranking_package
from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.ranking import CrossEncoderReranker, Links, vouch
from sage_core.ranking.calibration import CROSSED, CROSSED_FILE, FILE
from sage_core.ranking.features import FEATURES, feature_matrix
from sage_core.ranking.neighbors import WEIGHT
from sage_core.ranking.packed import BUNDLED, BUNDLED_FOLDER
from sage_core.text.keywords import words

PACKAGE = Path(ranking_package.__file__).parent
BUDGETS = (250, 500, 1000)
FOLDS = 5
RIDGE = 1.0


@dataclass(frozen=True)
class Example:
    """One question: its candidates' features, whether each is relevant, and what recall needs."""

    features: NDArray[np.float64]
    relevant: NDArray[np.bool_]
    covered: NDArray[np.int64]
    tokens: NDArray[np.int64]
    characters: NDArray[np.int64]
    evidence: int
    links: tuple[Links, ...] = ()


def examples(dev: DevSet, shown: Sequence[Candidates] | None = None) -> list[Example]:
    """The questions of a set with the features that the library itself computes.

    Args:
        dev: The set.
        shown: Candidates of each question; None for those of `Sage`.
    """
    found: dict[int, list[str]] = {}

    def example(candidates: Candidates) -> Example:
        for i in candidates.chunks:
            if int(i) not in found:
                found[int(i)] = words(dev.chunks[int(i)].text)
        chunks = [dev.chunks[int(i)] for i in candidates.chunks]
        features = feature_matrix(
            candidates.question.text,
            [c.text for c in chunks],
            candidates.cosine.tolist(),
            [found[int(i)] for i in candidates.chunks],
        )
        return Example(
            features,
            candidates.relevant,
            candidates.covered.sum(axis=1),
            np.array([c.tokens for c in chunks]),
            np.array([len(c.text) for c in chunks]),
            sum(e.span.end - e.span.start for e in candidates.question.evidence),
            tuple(candidates.links),
        )

    return [example(c) for c in (dev.candidates if shown is None else shown)]


def crossed(dev: DevSet, found: Sequence[Example], reranker: CrossEncoderReranker) -> list[Example]:
    """The same questions with the cross-encoder's logit as the last feature."""
    folder = BUNDLED_FOLDER if reranker.name == BUNDLED else Path(reranker.name)
    key = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    return [
        replace(e, features=np.concatenate([e.features, row[:, None].astype(np.float64)], axis=1))
        for e, row in zip(found, dev.logits(reranker, key), strict=True)
    ]


@dataclass(frozen=True)
class Fit:
    """A fitted model: ``ceiling * sigmoid(features @ coefficients + intercept)``."""

    coefficients: NDArray[np.float64]
    intercept: float
    ceiling: float

    def __call__(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities before neighbors vouch."""
        return self.ceiling * sigmoid(features @ self.coefficients + self.intercept)


def fit(sets: Sequence[Sequence[Example]]) -> Fit:
    """A logistic model with a ceiling, in which every set weighs the same.

    What is fitted is the probability after neighbors have vouched,
    ``1 - (1 - p) (1 - w p_previous) (1 - w p_next)``, by its likelihood.
    """
    x = np.concatenate([e.features for s in sets for e in s])
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    y = np.concatenate([e.relevant for s in sets for e in s]).astype(float)
    sizes = [sum(len(e.relevant) for e in s) for s in sets]
    weight = np.concatenate([np.full(n, len(y) / len(sets) / n) for n in sizes])
    beside = np.full((2, len(y)), -1)
    start = 0
    for example in (e for s in sets for e in s):
        for i, links in enumerate(example.links):
            for row, other in zip(beside, links, strict=True):
                row[start + i] = -1 if other is None else start + other
        start += len(example.relevant)
    there = beside >= 0

    def loss(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        beta, ceiling = values[:-1], float(sigmoid(values[-1:])[0])
        share = sigmoid(x @ beta)
        own = ceiling * share
        doubt = [np.where(t, 1 - WEIGHT * own[b], 1.0) for b, t in zip(beside, there, strict=True)]
        p = np.clip(1 - (1 - own) * doubt[0] * doubt[1], 1e-9, 1 - 1e-9)
        value = (
            -(weight * (y * np.log(p) + (1 - y) * np.log(1 - p))).sum() + RIDGE / 2 * (beta[:-1] ** 2).sum()
        )
        by_p = -weight * (y / p - (1 - y) / (1 - p))
        by_own = by_p * doubt[0] * doubt[1]
        for side in (0, 1):
            part = (by_p * (1 - own) * doubt[1 - side] * WEIGHT)[there[side]]
            np.add.at(by_own, beside[side][there[side]], part)
        gradient = x.T @ (by_own * own * (1 - share))
        gradient[:-1] += RIDGE * beta[:-1]
        return float(value), np.append(gradient, (by_own * own).sum() * (1 - ceiling))

    start_at = np.concatenate([np.full(x.shape[1] - 1, 2.0), [-6.0, 2.0]])
    result = minimize(loss, start_at, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    if not result.success:
        raise RuntimeError(f"the fit did not converge: {result.message}")
    return Fit(np.asarray(result.x[:-2]), float(result.x[-2]), float(sigmoid(result.x[-1:])[0]))


def names(found: Fit) -> tuple[str, ...]:
    """The features that a fit has coefficients for."""
    return FEATURES if len(found.coefficients) == len(FEATURES) else (*FEATURES, CROSSED)


def sigmoid(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 + exp(-z)) without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(z / 2)))


def predict(found: Fit, questions: Sequence[Example]) -> list[NDArray[np.float64]]:
    """Probabilities for the candidates of each question, neighbors having vouched."""
    own = [found(e.features) for e in questions]
    return [
        np.array(vouch(p, e.links, "probability"), dtype=float) if e.links else p
        for e, p in zip(questions, own, strict=True)
    ]


def recall(questions: Sequence[Example], scores: Sequence[NDArray[np.float64]], budget: int) -> float:
    """Mean share of evidence characters within ``budget`` tokens."""
    shares = []
    for e, s in zip(questions, scores, strict=True):
        order = np.argsort(-s, kind="stable")
        within = np.cumsum(e.tokens[order]) <= budget
        within[0] = True
        shares.append(e.covered[order][within].sum() / e.evidence)
    return float(np.mean(shares))


def reliability(
    probability: NDArray[np.float64], relevant: NDArray[np.bool_]
) -> tuple[float, list[tuple[str, int, float, float]]]:
    """Expected calibration error over ten equal bins; per bin its range, count, mean and share relevant."""
    bins = np.minimum((probability * 10).astype(int), 9)
    rows = []
    error = 0.0
    for b in range(10):
        inside = bins == b
        if n := int(inside.sum()):
            said, seen = float(probability[inside].mean()), float(relevant[inside].mean())
            rows.append((f"{b / 10:.1f}-{(b + 1) / 10:.1f}", n, said, seen))
            error += n / len(bins) * abs(said - seen)
    return error, rows


def auc(scores: NDArray[np.float64], relevant: NDArray[np.bool_]) -> float:
    """Chance that a relevant candidate scores above one that is not (ties count half)."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positive = int(relevant.sum())
    negative = len(relevant) - positive
    return float((ranks[relevant].sum() - positive * (positive + 1) / 2) / (positive * negative))


def line(name: str, questions: Sequence[Example], scores: Sequence[NDArray[np.float64]]) -> str:
    """A row of the report."""
    p = np.concatenate(scores)
    y = np.concatenate([e.relevant for e in questions])
    values = [recall(questions, scores, b) for b in BUDGETS] + [auc(p, y)]
    error = f"{reliability(p, y)[0]:.3f}" if p.min() >= 0 and p.max() <= 1 else "-"
    return f"| {name} | {len(questions)} | " + " | ".join(f"{v:.3f}" for v in values) + f" | {error} |"


def report(sets: dict[str, list[Example]], found: Fit) -> dict[str, float]:
    """Print the tables; returns the figures that the calibration file carries."""
    print("| scores | questions | R within 250 | 500 | 1000 | AUC | ECE |\n|---|---|---|---|---|---|---|")
    held_out: list[NDArray[np.float64]] = []
    for name, questions in sets.items():
        print(line(f"{name}: chunk cosine", questions, [e.features[:, 0] for e in questions]))
        print(line(f"{name}: plain sum", questions, [e.features[:, :3].sum(axis=1) for e in questions]))
        if CROSSED in names(found):
            print(line(f"{name}: cross-encoder", questions, [e.features[:, -1] for e in questions]))
            plain = {n: without_logit(q) for n, q in sets.items()}
            scores = predict(fit(others(plain, name)), plain[name])
            print(line(f"{name}: held out, no cross-encoder", questions, scores))
        scores = predict(fit(others(sets, name)), questions)
        print(line(f"{name}: held out", questions, scores))
        held_out += scores
    everything = [e for questions in sets.values() for e in questions]
    print(line("all: held out", everything, held_out))
    validated = cross_validated(sets)
    print(line("all: cross-validated", everything, validated))
    p, y = np.concatenate(validated), np.concatenate([e.relevant for e in everything])
    error, rows = reliability(p, y)
    print(
        "\nReliability, cross-validated\n\n"
        "| said | candidates | mean probability | share relevant |\n|---|---|---|---|"
    )
    for label, n, said, seen in rows:
        print(f"| {label} | {n} | {said:.3f} | {seen:.3f} |")
    values = [*found.coefficients, found.intercept, found.ceiling]
    labels = [*names(found), "intercept", "ceiling"]
    print("\n" + "\n".join(f"{f}: {b:.4f}" for f, b in zip(labels, values, strict=True)))
    outside, _ = reliability(np.concatenate(held_out), y)
    return {
        "ece_cross_validated": round(error, 4),
        "ece_held_out_sets": round(outside, 4),
        "auc": round(auc(p, y), 4),
    }


def others(sets: dict[str, list[Example]], name: str) -> list[list[Example]]:
    """All sets but one, in either form."""
    return [q for n, q in sets.items() if n.split(",")[0] != name.split(",")[0]]


def without_logit(questions: Sequence[Example]) -> list[Example]:
    """The questions with the features of every text alone."""
    return [replace(e, features=e.features[:, : len(FEATURES)]) for e in questions]


def cross_validated(sets: dict[str, list[Example]]) -> list[NDArray[np.float64]]:
    """Each question scored by a fit on the other four folds, in the order of ``sets``."""
    result: list[NDArray[np.float64]] = []
    fits = [
        fit([[e for i, e in enumerate(q) if i % FOLDS != fold] for q in sets.values()])
        for fold in range(FOLDS)
    ]
    for questions in sets.values():
        result += [predict(fits[i % FOLDS], [e])[0] for i, e in enumerate(questions)]
    return result


def main() -> None:
    """Read the sets, report, and write the calibration where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the calibration into the package")
    parser.add_argument("--questions", type=int, default=600, help="most questions of a set (default 600)")
    parser.add_argument("--cross-encoder", metavar="NAME", help="name or folder of a cross-encoder to add")
    arguments = parser.parse_args()
    embedder = MiniLMEmbedder()
    load = partial(DevSet, embedder=embedder, max_questions=arguments.questions)
    developed = {name: load(name) for name in SETS}
    if not arguments.cross_encoder:  # which takes long
        developed |= {f"{name}, no titles": load(name, titles=False) for name in SETS}
    sets = {name: examples(dev) for name, dev in developed.items()}
    content: dict[str, object] = {"embedder": embedder.name}
    if arguments.cross_encoder:
        reranker = CrossEncoderReranker(arguments.cross_encoder)
        sets = {name: crossed(dev, sets[name], reranker) for name, dev in developed.items()}
        content["cross_encoder"] = reranker.name
    found = fit(list(sets.values()))
    figures = report(sets, found)
    if arguments.write:
        content |= {
            "intercept": round(found.intercept, 4),
            "coefficients": {
                f: round(float(b), 4) for f, b in zip(names(found), found.coefficients, strict=True)
            },
            "ceiling": round(found.ceiling, 4),
            "fitted_on": {name: len(questions) for name, questions in sets.items()},
            "figures": figures,
        }
        target = PACKAGE / (CROSSED_FILE if arguments.cross_encoder else FILE)
        target.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        print(f"\nwrote {target}")


if __name__ == "__main__":
    main()
