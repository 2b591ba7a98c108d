"""Which rule knows best where to stop? Every rule on the same ranked lists of the development questions.

    python benchmarks/selection.py                         # all sets, each weighing the same
    python benchmarks/selection.py --sets hotpot_sample    # evidence in two places
    python benchmarks/selection.py --cross-encoder PATH    # a third source of scores

Two score sources: chunk cosines, and the offline reranker fitted without the set in question. A rule
is judged by recall of evidence characters at equal mean tokens. The reference at those tokens is fixed k,
interpolated question by question between the two nearest k; the oracle picks the best k of every question
under the same mean tokens. "Gap closed" is (rule - fixed) / (oracle - fixed). A family's parameter is chosen
on four fifths of the questions and judged on the rest. Shuffled k: the same k's dealt to random questions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from calibrate_reranker import Example, examples, fit, predict
from numpy.typing import NDArray
from ranking_data import SETS, DevSet

from sage_core.embedding import SentenceTransformerEmbedder
from sage_core.ranking import CrossEncoderReranker
from sage_core.selection import Gradient, Rule, Scale, select
from sage_core.selection_rules import (
    Autocut,
    ExpectedF,
    FixedK,
    Knee,
    LargestGap,
    RelativeToTop,
    Threshold,
    TopP,
    default_rule,
)

Floats = NDArray[np.float64]
MIN_K = (1, 2, 3, 5, 7)
BANDS = (250.0, 500.0)
FOLDS = 5
RESAMPLES = 2000


@dataclass(frozen=True)
class Lists:
    """Ranked lists of one score source; arrays are per question and number kept, ``(questions, N + 1)``."""

    name: str
    scale: Scale
    scores: list[list[float]]
    recall: Floats
    tokens: Floats
    characters: Floats
    covered: Floats
    evidence: Floats
    weight: Floats

    def at(self, values: Floats, k: NDArray[np.int64]) -> Floats:
        """The value of each question at its own k."""
        picked: Floats = values[np.arange(len(k)), k]
        return picked

    def mean(self, values: Floats) -> float:
        """Weighted mean over questions: every set weighs the same."""
        return float(values @ self.weight)


@dataclass(frozen=True)
class Result:
    """What one setting kept, per question."""

    family: str
    setting: str
    k: NDArray[np.int64]
    tokens: float
    recall: float


def settings(scale: Scale, scores: list[list[float]]) -> Iterator[tuple[str, str, Rule, int]]:
    """Family, label, rule and min_k of everything that is compared."""
    for k in range(1, 21):
        yield "fixed k", f"k={k}", FixedK(k), 1
    pooled = np.concatenate([np.asarray(s) for s in scores])
    families: dict[str, list[tuple[str, Rule]]] = {
        "auto": [("", default_rule(scale))],
        "gradient": [(f"g={g:.2g}", Gradient(g)) for g in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)],
        "relative to top": [(f"share={s:.2g}", RelativeToTop(s)) for s in np.arange(0.05, 0.96, 0.05)],
        "largest gap": [(f"buffer={b}", LargestGap(b)) for b in range(7)],
        "autocut": [(f"jumps={j}", Autocut(j)) for j in (1, 2, 3)],
        "knee": [("", Knee())],
        "top-p": [(f"p={p:.2g}", TopP(p)) for p in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)],
        "threshold": [
            (f"t={t:.3g}", Threshold(float(t)))
            for t in np.quantile(pooled, [0.7, 0.75, 0.8, 0.83, 0.86, 0.88, 0.9, 0.92, 0.94, 0.96, 0.98])
        ],
    }
    if scale == "probability":
        families["expected F"] = [(f"beta={b:g}", ExpectedF(b)) for b in (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8)]
    for family, rules in families.items():
        for label, rule in rules:
            for min_k in MIN_K:
                yield family, f"{label} min_k={min_k}".strip(), rule, min_k


def build(name: str, scale: Scale, sets: dict[str, list[Example]], scores: dict[str, list[Floats]]) -> Lists:
    """Sort every list by its scores and accumulate what each number kept would give."""
    width = max(len(s) for rows in scores.values() for s in rows) + 1
    columns: dict[str, list[Floats]] = {"recall": [], "tokens": [], "characters": [], "covered": []}
    evidence, weight, kept = [], [], []
    for set_name, questions in sets.items():
        for example, score in zip(questions, scores[set_name], strict=True):
            order = np.argsort(-score, kind="stable")
            found = _prefix(example.covered[order], width)
            columns["covered"].append(found)
            columns["recall"].append(found / example.evidence)
            columns["tokens"].append(_prefix(example.tokens[order], width))
            columns["characters"].append(_prefix(example.characters[order], width))
            evidence.append(float(example.evidence))
            weight.append(1 / len(sets) / len(questions))
            kept.append([float(s) for s in score])
    arrays = {key: np.stack(rows) for key, rows in columns.items()}
    return Lists(name, scale, kept, **arrays, evidence=np.array(evidence), weight=np.array(weight))


def _prefix(values: NDArray[np.int64], width: int) -> Floats:
    """0 and the running sums, held at the last where the list is shorter."""
    sums = np.concatenate([[0], np.cumsum(values)]).astype(float)
    return np.pad(sums, (0, width - len(sums)), mode="edge")


def run(lists: Lists) -> list[Result]:
    """Apply every setting to every list."""
    results = []
    for family, label, rule, min_k in settings(lists.scale, lists.scores):
        k = np.array([select(s, scale=lists.scale, rule=rule, min_k=min_k).cut for s in lists.scores])
        tokens, recall = lists.mean(lists.at(lists.tokens, k)), lists.mean(lists.at(lists.recall, k))
        results.append(Result(family, label, k, tokens, recall))
    return results


def fixed_at(lists: Lists, tokens: float) -> Floats:
    """Recall of each question under fixed k, interpolated between k to the given mean tokens."""
    means = lists.weight @ lists.tokens / lists.weight.sum()
    upper = int(np.clip(np.searchsorted(means, tokens), 1, len(means) - 1))
    share = float(np.clip((tokens - means[upper - 1]) / max(means[upper] - means[upper - 1], 1e-9), 0, 1))
    mixed: Floats = (1 - share) * lists.recall[:, upper - 1] + share * lists.recall[:, upper]
    return mixed


def oracle_curve(lists: Lists) -> tuple[Floats, Floats]:
    """Mean tokens and recall of the best k of every question (at least 1), from sparing to lavish."""
    points = []
    for price in np.geomspace(1e-1, 1e-7, 200):
        k = 1 + np.argmax(lists.recall[:, 1:] - price * lists.tokens[:, 1:], axis=1)
        points.append((lists.mean(lists.at(lists.tokens, k)), lists.mean(lists.at(lists.recall, k))))
    tokens, recall = np.array(points).T
    return tokens, recall


def bootstrap(delta: Floats, weight: Floats) -> tuple[float, float]:
    """95% interval of the weighted mean difference, over resampled questions."""
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(delta), (RESAMPLES, len(delta)))
    means = (delta * weight)[picks].sum(axis=1) / weight[picks].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def quality(lists: Lists, k: NDArray[np.int64]) -> tuple[float, float]:
    """Pooled precision (all covered over all retrieved characters) and mean IoU."""
    covered, characters = lists.at(lists.covered, k), lists.at(lists.characters, k)
    iou = covered / (characters + lists.evidence - covered)
    return lists.mean(covered) / lists.mean(characters), lists.mean(iou)


def shuffled(lists: Lists, k: NDArray[np.int64]) -> tuple[float, float]:
    """`quality` of the same k's dealt to random questions, mean of 20 deals."""
    rng = np.random.default_rng(0)
    precision, iou = np.mean([quality(lists, rng.permutation(k)) for _ in range(20)], axis=0)
    return float(precision), float(iou)


def pareto(lists: Lists, results: list[Result]) -> None:
    """Print the settings that no other beats in both tokens and recall, by steps of half a point."""
    oracle_tokens, oracle_recall = oracle_curve(lists)
    print(f"\n### {lists.name}: Pareto front\n")
    print(
        "| rule | setting | tokens | recall | fixed k | oracle | gap closed "
        "| pooled P (shuffled) | IoU (shuffled) |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    best = -1.0
    for r in sorted(results, key=lambda r: (r.tokens, -r.recall)):
        if r.recall < best + 0.005 or r.tokens > 1000:
            continue
        best = r.recall
        row(lists, r, oracle_tokens, oracle_recall)


def row(lists: Lists, r: Result, oracle_tokens: Floats, oracle_recall: Floats) -> None:
    """Print one line of `pareto`."""
    fixed = lists.mean(fixed_at(lists, r.tokens))
    oracle = float(np.interp(r.tokens, oracle_tokens, oracle_recall))
    (precision, iou), (precision_0, iou_0) = quality(lists, r.k), shuffled(lists, r.k)
    print(
        f"| {r.family} | {r.setting} | {r.tokens:.0f} | {r.recall:.3f} | {fixed:.3f} | {oracle:.3f} | "
        f"{_share(r.recall - fixed, oracle - fixed)} | {precision:.3f} ({precision_0:.3f}) | "
        f"{iou:.3f} ({iou_0:.3f}) |"
    )


def _share(part: float, whole: float) -> str:
    return f"{part / whole:+.0%}" if whole > 1e-6 else "-"


def held_out(lists: Lists, results: list[Result]) -> None:
    """Print each family at two budgets, its parameter chosen on other questions."""
    print(f"\n### {lists.name}: families, parameter chosen on other questions\n")
    print(
        "| family | budget | tokens | recall - fixed k at equal tokens | gap closed |\n|---|---|---|---|---|"
    )
    oracle_tokens, oracle_recall = oracle_curve(lists)
    fold = np.arange(len(lists.weight)) % FOLDS
    for family in dict.fromkeys(r.family for r in results):
        if family == "fixed k":
            continue
        members = [r for r in results if r.family == family]
        for band in BANDS:
            k = _chosen(lists, members, band, fold)
            if k is None:
                print(f"| {family} | {band:.0f} | no setting within 30% | | |")
                continue
            tokens = lists.mean(lists.at(lists.tokens, k))
            delta = lists.at(lists.recall, k) - fixed_at(lists, tokens)
            low, high = bootstrap(delta, lists.weight)
            gap = float(np.interp(tokens, oracle_tokens, oracle_recall)) - lists.mean(fixed_at(lists, tokens))
            gain = lists.mean(delta)
            print(
                f"| {family} | {band:.0f} | {tokens:.0f} | "
                f"{100 * gain:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] | {_share(gain, gap)} |"
            )


def _chosen(
    lists: Lists, members: list[Result], band: float, fold: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """For each question the k of the setting that did best on the other folds near ``band`` tokens."""
    near = [r for r in members if abs(r.tokens - band) <= 0.3 * band]
    if not near:
        return None
    deltas = [lists.at(lists.recall, r.k) - fixed_at(lists, r.tokens) for r in near]
    k = np.zeros(len(fold), dtype=np.int64)
    for f in range(FOLDS):
        others = fold != f
        best = max(range(len(near)), key=lambda i: float(deltas[i][others] @ lists.weight[others]))
        k[~others] = near[best].k[~others]
    return k


def defaults(lists: Lists, results: list[Result]) -> None:
    """Print the default, the paper's rule and fixed k; the last column is questions that lost nothing."""
    print(
        f"\n### {lists.name}: the default, the paper's setting, fixed k\n\n"
        "| rule | setting | tokens | recall | fixed k, same tokens | all evidence |\n"
        "|---|---|---|---|---|---|"
    )
    wanted = {
        (rule, f"{g}min_k={k}") for rule, g in (("auto", ""), ("gradient", "g=0.3 ")) for k in (1, 3, 7)
    }
    wanted |= {("fixed k", f"k={k}") for k in (3, 5, 7, 10)}
    for r in results:
        if (r.family, r.setting) in wanted:
            share = lists.mean((lists.at(lists.recall, r.k) > 0.99).astype(float))
            fixed = lists.mean(fixed_at(lists, r.tokens))
            print(
                f"| {r.family} | {r.setting} | {r.tokens:.0f} | {r.recall:.3f} | {fixed:.3f} | {share:.3f} |"
            )


def sources(names: list[str], cross_encoder: str | None) -> Iterator[Lists]:
    """The score sources that are compared."""
    embedder = SentenceTransformerEmbedder()
    # The fit of a held-out set needs the others, whichever sets are shown.
    dev = {name: DevSet(name, embedder) for name in SETS}
    sets = {name: examples(d) for name, d in dev.items()}
    shown = {name: sets[name] for name in names}
    cosine: Callable[[Example], Floats] = lambda e: e.features[:, 0]  # noqa: E731
    yield build("cosine", "cosine", shown, {n: [cosine(e) for e in q] for n, q in shown.items()})
    hybrid = {n: predict(fit([q for m, q in sets.items() if m != n]), shown[n]) for n in names}
    yield build("hybrid", "probability", shown, hybrid)
    if cross_encoder is not None:
        reranker = CrossEncoderReranker(cross_encoder)
        logits = {
            n: [
                np.array(reranker.score(c.question.text, [dev[n].chunks[i].text for i in c.chunks]))
                for c in dev[n].candidates
            ]
            for n in names
        }
        yield build("cross-encoder", "logit", shown, logits)


def main() -> None:
    """Run the comparison and print it as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sets", nargs="+", default=list(SETS), choices=SETS, metavar="SET", help=f"of {SETS}"
    )
    parser.add_argument("--cross-encoder", help="name or folder of a cross-encoder: a third score source")
    arguments = parser.parse_args()
    for lists in sources(arguments.sets, arguments.cross_encoder):
        results = run(lists)
        pareto(lists, results)
        held_out(lists, results)
        defaults(lists, results)


if __name__ == "__main__":
    main()
