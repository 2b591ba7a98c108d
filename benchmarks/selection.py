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

import numpy as np
from calibrate_reranker import Example, examples, fit, predict
from numpy.typing import NDArray
from ranked_lists import Floats, Lists, Result, bootstrap, build, fixed_at, gap_closed, share, table
from ranking_data import SETS, DevSet

from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.ranking import CrossEncoderReranker
from sage_core.selection import Gradient, Rule, Scale, select
from sage_core.selection.rules import (
    ExpectedF,
    FixedK,
    RelativeToTop,
    Threshold,
    TopP,
    default_rule,
)

MIN_K = (1, 2, 3, 5, 7)
BANDS = (250.0, 500.0)
FOLDS = 5


def settings(scale: Scale, scores: list[list[float]]) -> Iterator[tuple[str, str, Rule, int]]:
    """Family, label, rule and min_k of everything that is compared."""
    for k in range(1, 21):
        yield "fixed k", f"k={k}", FixedK(k), 1
    pooled = np.concatenate([np.asarray(s) for s in scores])
    families: dict[str, list[tuple[str, Rule]]] = {
        "auto": [("", default_rule(scale))],
        "gradient": [(f"g={g:.2g}", Gradient(g)) for g in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)],
        "relative to top": [(f"share={s:.2g}", RelativeToTop(s)) for s in np.arange(0.05, 0.96, 0.05)],
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


def run(lists: Lists) -> list[Result]:
    """Apply every setting to every list."""
    results = []
    for family, label, rule, min_k in settings(lists.scale, lists.scores):
        k = np.array([select(s, scale=lists.scale, rule=rule, min_k=min_k).cut for s in lists.scores])
        tokens, recall = lists.mean(lists.at(lists.tokens, k)), lists.mean(lists.at(lists.recall, k))
        results.append(Result(family, label, k, tokens, recall))
    return results


def held_out(lists: Lists, results: list[Result]) -> None:
    """Print each family at two budgets, its parameter chosen on other questions."""
    print(f"\n### {lists.name}: families, parameter chosen on other questions\n")
    print(
        "| family | budget | tokens | recall - fixed k at equal tokens | gap closed [95%] |\n"
        "|---|---|---|---|---|"
    )
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
            closed = share(*gap_closed(lists, lists.at(lists.recall, k), tokens))
            gain = lists.mean(delta)
            print(
                f"| {family} | {band:.0f} | {tokens:.0f} | "
                f"{100 * gain:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] | {closed} |"
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
    embedder = MiniLMEmbedder()
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
        print(f"\n### {lists.name}: Pareto front\n")
        print("\n".join(table(lists, results)))
        held_out(lists, results)
        defaults(lists, results)


if __name__ == "__main__":
    main()
