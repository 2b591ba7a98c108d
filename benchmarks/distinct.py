"""Is a selection that is no prefix better? Drop what repeats or does not help, keep a lower chunk instead.

    python benchmarks/distinct.py                                # all eight sets, 100 questions of each
    python benchmarks/distinct.py --sets hotpot_pool 2wiki_pool --questions 500
    python benchmarks/distinct.py --judge 40                     # the local judge too, on 40 questions a set

The ranked lists are those of `benchmarks/selection.py`: candidates of `Sage`, the offline reranker fitted
without the set in question. Each rule reorders or thins out a list, which is then read up to as many tokens
as the default selection keeps of this question ("auto"), or to 500 or 1,000; the last chunk counts by the
share that fits, so both sides have the same tokens. Figures are points of evidence (characters) and of
questions with all their evidence (at least half of every piece), less those of the prefix; 95 % intervals are
a paired bootstrap within the sets, 2,000 resamples, seed 0. "Chosen elsewhere" takes, for each set, the
setting of a family that did best on the other sets.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from calibrate_reranker import Example, examples, fit, predict
from numpy.typing import NDArray
from ranking_data import SETS, Candidates, DevSet

from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.selection.cut import select
from sage_core.text.keywords import index_terms
from sage_core.verify.judge import LocalJudge

RESAMPLES = 2000
BUDGETS = ("auto", 500, 1000)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ranked:
    """One question's candidates, best first.

    Attributes:
        scores: Probabilities, falling.
        tokens: Of each chunk.
        covered: Characters of evidence in each, by piece: ``(chunks, pieces)``.
        wanted: Characters of each piece.
        texts: Of the chunks.
        vectors: Unit rows.
        question: Its text.
    """

    scores: Floats
    tokens: NDArray[np.int64]
    covered: NDArray[np.int64]
    wanted: NDArray[np.int64]
    texts: list[str]
    vectors: NDArray[np.float32]
    question: str

    @cached_property
    def terms(self) -> list[frozenset[str]]:
        """Stems of each chunk."""
        return [frozenset(index_terms(text)) for text in self.texts]

    @cached_property
    def answers(self) -> Floats:
        """The local judge's probability that a chunk alone answers; 1 where it cannot say."""
        found = [JUDGE.answerable(self.question, [text]) for text in self.texts[:JUDGED_CHUNKS]]
        return np.array([1.0 if p is None else p for p in found] + [1.0] * (len(self.texts) - len(found)))


JUDGE = LocalJudge()
JUDGED_CHUNKS = 15  # As many as the default selection keeps at most; it takes long.

Order = Callable[[Ranked], Sequence[int]]


def prefix(ranked: Ranked) -> Sequence[int]:
    """As ranked."""
    return range(len(ranked.scores))


def _without(ranked: Ranked, repeats: Callable[[int, list[int]], bool]) -> Sequence[int]:
    """The first, and every later one that does not repeat those kept; what was dropped comes last."""
    kept: list[int] = []
    dropped: list[int] = []
    for i in range(len(ranked.scores)):
        (dropped if kept and repeats(i, kept) else kept).append(i)
    return [*kept, *dropped]


def by_cosine(ranked: Ranked, most: float) -> Sequence[int]:
    """Dropped where the cosine with a kept chunk is as high as ``most``."""
    near = ranked.vectors @ ranked.vectors.T
    return _without(ranked, lambda i, kept: bool(near[i, kept].max() >= most))


def by_words(ranked: Ranked, most: float) -> Sequence[int]:
    """Dropped where so large a share of its stems stands in one kept chunk."""

    def repeats(i: int, kept: list[int]) -> bool:
        own = ranked.terms[i]
        return bool(own) and max(len(own & ranked.terms[j]) for j in kept) >= most * len(own)

    return _without(ranked, repeats)


def by_all_words(ranked: Ranked, most: float) -> Sequence[int]:
    """Dropped where so large a share of its stems stands in the kept chunks together."""

    def repeats(i: int, kept: list[int]) -> bool:
        own = ranked.terms[i]
        return bool(own) and len(own & frozenset().union(*(ranked.terms[j] for j in kept))) >= most * len(own)

    return _without(ranked, repeats)


def mmr(ranked: Ranked, weight: float) -> Sequence[int]:
    """Maximal marginal relevance: score as a share of the best, less ``weight`` times the nearest cosine."""
    near = ranked.vectors @ ranked.vectors.T
    relevance = ranked.scores / ranked.scores[0]
    kept, left = [0], list(range(1, len(relevance)))
    while left:
        best = max(left, key=lambda i: float(relevance[i] - weight * near[i, kept].max()))
        kept.append(best)
        left.remove(best)
    return kept


def adds(ranked: Ranked, weight: float) -> Sequence[int]:
    """Score as a share of the best, plus ``weight`` times the share of the question's stems that are new."""
    asked = frozenset(index_terms(ranked.question)) or frozenset([""])
    relevance = ranked.scores / ranked.scores[0]
    kept, left = [0], list(range(1, len(relevance)))
    seen = ranked.terms[0] & asked
    while left:
        best = max(
            left,
            key=lambda i: float(relevance[i] + weight * len((ranked.terms[i] & asked) - seen) / len(asked)),
        )
        kept.append(best)
        left.remove(best)
        seen |= ranked.terms[best] & asked
    return kept


def judged(ranked: Ranked, least: float) -> Sequence[int]:
    """Dropped where the local judge finds less than ``least`` that the chunk answers; the first stays."""
    return _without(ranked, lambda i, kept: bool(ranked.answers[i] < least))


FAMILIES: dict[str, tuple[Callable[..., Sequence[int]], tuple[float, ...]]] = {
    "repeats by cosine": (by_cosine, (0.95, 0.9, 0.85, 0.8, 0.75)),
    "repeats one by words": (by_words, (0.9, 0.8, 0.7, 0.6, 0.5)),
    "repeats all by words": (by_all_words, (0.95, 0.9, 0.8, 0.7)),
    "MMR": (mmr, (0.1, 0.2, 0.4)),
    "adds words of the question": (adds, (0.1, 0.25, 0.5)),
}
JUDGED = {"useless by the judge": (judged, (0.01, 0.02, 0.05, 0.1, 0.2))}


def figures(ranked: Ranked, order: Sequence[int], budget: float) -> tuple[float, float]:
    """Share of the evidence within ``budget`` tokens, and whether all of it is."""
    rows = np.asarray(order, dtype=np.int64)
    tokens = np.concatenate([[0], np.cumsum(ranked.tokens[rows])])
    covered = np.concatenate([np.zeros((1, len(ranked.wanted))), np.cumsum(ranked.covered[rows], axis=0)])
    found = np.array([np.interp(budget, tokens, column) for column in covered.T])
    return float(found.sum() / ranked.wanted.sum()), float((2 * found >= ranked.wanted).all())


def lists(names: Sequence[str], most: int) -> dict[str, list[Ranked]]:
    """The ranked lists of each set."""
    embedder = MiniLMEmbedder()
    # The fit of a held-out set needs the others, whichever sets are shown.
    dev = {name: DevSet(name, embedder, max_questions=most) for name in SETS}
    sets = {name: examples(d) for name, d in dev.items()}
    found = {}
    for name in names:
        scores = predict(fit([q for other, q in sets.items() if other != name]), sets[name])
        found[name] = [
            _ranked(dev[name], candidates, example, score)
            for candidates, example, score in zip(dev[name].candidates, sets[name], scores, strict=True)
        ]
    return found


def _ranked(dev: DevSet, candidates: Candidates, example: Example, score: Floats) -> Ranked:
    order = np.argsort(-score, kind="stable")
    rows = candidates.chunks[order]
    return Ranked(
        np.maximum(score[order], 1e-12),
        example.tokens[order],
        candidates.covered[order],
        np.array([e.span.end - e.span.start for e in candidates.question.evidence]),
        [dev.chunks[int(i)].text for i in rows],
        dev.chunk_vectors[rows],
        candidates.question.text,
    )


def _measured(found: dict[str, list[Ranked]], order: Order) -> dict[str, Floats]:
    """By set ``(questions, budgets, 2)``."""
    table = {}
    for name, questions in found.items():
        rows = []
        for ranked in questions:
            kept = select(ranked.scores.tolist(), scale="probability").cut
            budgets = [float(ranked.tokens[:kept].sum()) if b == "auto" else float(b) for b in BUDGETS]
            chosen = order(ranked)
            rows.append([figures(ranked, chosen, b) for b in budgets])
        table[name] = np.array(rows)
    return table


def _cells(delta: dict[str, Floats]) -> Iterator[str]:
    """For each budget and figure the mean of the sets in points, and its interval."""
    rng = np.random.default_rng(0)
    points = np.mean([d.mean(axis=0) for d in delta.values()], axis=0)
    draws = [d[rng.integers(0, len(d), (RESAMPLES, len(d)))].mean(axis=1) for d in delta.values()]
    low, high = np.percentile(np.mean(draws, axis=0), [2.5, 97.5], axis=0)
    for b in range(len(BUDGETS)):
        for f in range(2):
            yield f"{100 * points[b, f]:+.1f} [{100 * low[b, f]:+.1f}, {100 * high[b, f]:+.1f}]"


def main() -> None:
    """Measure and print Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS, metavar="SET")
    parser.add_argument("--questions", type=int, default=100, help="of each set, at most, for the fit too")
    parser.add_argument(
        "--judge", type=int, metavar="N", help="only what the judge finds useless; N questions"
    )
    arguments = parser.parse_args()
    found = lists(arguments.sets, arguments.questions)
    if arguments.judge:
        found = {name: rows[:: -(-len(rows) // arguments.judge)] for name, rows in found.items()}
    families = JUDGED if arguments.judge else FAMILIES
    base = _measured(found, prefix)
    print(", ".join(f"{name} {len(questions)}" for name, questions in found.items()))
    heads = [f"{what}, {b}" for b in BUDGETS for what in ("evidence", "all")]
    print(f"\n| rule | {' | '.join(heads)} |\n|---" + "|---" * len(heads) + "|")
    means = np.mean([b.mean(axis=0) for b in base.values()], axis=0).ravel()
    print(f"| prefix | {' | '.join(f'{100 * m:.1f}' for m in means)} |", flush=True)
    chosen = {}
    for family, (rule, values) in families.items():
        tried = []
        for value in values:
            rows = _measured(found, lambda r, v=value, rule=rule: rule(r, v))
            delta = {name: rows[name] - base[name] for name in found}
            tried.append(delta)
            print(f"| {family}, {value:g} | {' | '.join(_cells(delta))} |", flush=True)
        if len(found) > 1:
            elsewhere = {}
            for name in found:
                scores = [np.mean([d[n][:, :, 0].mean() for n in found if n != name]) for d in tried]
                elsewhere[name] = tried[int(np.argmax(scores))][name]
            chosen[family] = elsewhere
            print(f"| {family}, chosen elsewhere | {' | '.join(_cells(elsewhere))} |", flush=True)
    print(
        f"\nEvidence at the default's tokens, by set:\n\n| rule | {' | '.join(found)} |\n|---"
        + "|---" * len(found)
        + "|"
    )
    for family, delta in chosen.items():
        cells = [next(_cells({name: delta[name]})) for name in found]
        print(f"| {family}, chosen elsewhere | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
