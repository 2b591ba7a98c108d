"""Questions whose evidence stands in several places: what finds the second place, at equal tokens?

    python benchmarks/multihop.py                                      # hotpot_sample, 100 questions
    python benchmarks/multihop.py --sets onestopqa cuad_leval squad2_dev16     # does it harm single places?

Nothing here asks an LLM. Each remedy orders the chunks; whole chunks are taken in that order up to a budget
of tokens (at least one), as a budget of context would. "Complete" is the share of questions with every
evidence span covered by at least half. A remedy's strength is chosen on four fifths of the questions and
judged on the rest; intervals are of the paired difference to plain reranking, over resampled questions, each
remedy by itself: of nine, one is likely to look better than it is.

Scores are the offline reranker's, fitted without the set in question.

Outcome on hotpot_sample (100 questions, fitted on onestopqa and cuad_leval): complete within 500 tokens is
0.66 for plain reranking and 0.56 for cosine alone. No remedy's gain is beyond chance for nine comparisons:
the best, 60 candidates with a bonus for names that the best chunks mention, gives +0.04 [0.00, +0.09], a
second query with the best sentence's words +0.03 [-0.02, +0.08]; MMR loses. So none is an option of the
library yet. On sets with one place of evidence the second query does no harm: recall within 500 tokens +0.01
on onestopqa, as 60 candidates give too, and +0.09 [+0.02, +0.18] on the 44 questions of cuad_leval.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from calibrate_reranker import examples, fit
from hops import REMEDIES, Bench, Floats, Ints, Remedy, plain
from ranking_data import SETS, DevSet, Question

from sage_core.embedding.sentence_transformer import SentenceTransformerEmbedder
from sage_core.selection.cut import select

BUDGETS = (250, 500, 1000)
FOLDS = 5
RESAMPLES = 5000


@dataclass(frozen=True)
class Figures:
    """Per question: recall of evidence characters and completeness at each budget, and at seven chunks."""

    recall: Floats
    complete: Floats


def figures(bench: Bench, remedy: Remedy, strength: float) -> Figures:
    """Judge a remedy on every question."""
    rows = []
    for question, vector in zip(bench.dev.questions, bench.dev.query_vectors, strict=True):
        order = remedy(bench, question, vector, strength)
        tokens = np.cumsum([bench.dev.chunks[i].tokens for i in order])
        cuts = [max(int(np.searchsorted(tokens, b, side="right")), 1) for b in BUDGETS] + [7]
        rows.append([_found(bench.dev, question, order[:cut]) for cut in cuts])
    both = np.array(rows)
    return Figures(both[:, :, 0], both[:, :, 1])


def _found(dev: DevSet, question: Question, chunks: Ints) -> tuple[float, float]:
    """Share of evidence characters, and whether half of every evidence span is there."""
    spans = [dev.chunks[i].span for i in chunks if dev.chunks[i].doc_id == question.doc_id]
    got = [sum(max(0, min(s.end, e.end) - max(s.start, e.start)) for s in spans) for e in question.evidence]
    whole = [e.end - e.start for e in question.evidence]
    return sum(got) / sum(whole), float(all(2 * g >= w for g, w in zip(got, whole, strict=True)))


def held_out(bench: Bench, remedy: Remedy, strengths: Sequence[float]) -> Figures:
    """`figures`, every question under the strength that does best on the questions of the other folds."""
    tried = [figures(bench, remedy, s) for s in strengths]
    fold = np.random.default_rng(0).permutation(len(bench.dev.questions)) % FOLDS
    best = [int(np.argmax([t.recall[fold != f, 1].mean() for t in tried])) for f in range(FOLDS)]
    pick = [best[f] for f in fold]
    return Figures(
        np.stack([tried[p].recall[i] for i, p in enumerate(pick)]),
        np.stack([tried[p].complete[i] for i, p in enumerate(pick)]),
    )


def interval(delta: Floats) -> str:
    """Mean difference and its 95% interval over resampled questions."""
    picks = np.random.default_rng(0).integers(0, len(delta), (RESAMPLES, len(delta)))
    low, high = np.percentile(delta[picks].mean(axis=1), [2.5, 97.5])
    return f"{delta.mean():+.3f} [{low:+.3f}, {high:+.3f}]"


def report(bench: Bench) -> None:
    """Print the table of one set."""
    print(f"\n### {bench.dev.name}: {len(bench.dev.questions)} questions, {len(bench.dev.chunks)} chunks\n")
    heads = [f"R within {b}" for b in BUDGETS] + [f"complete within {b}" for b in BUDGETS] + ["complete, k=7"]
    print(
        f"| order | {' | '.join(heads)} | R within 500, against plain | complete within 500, against plain |"
    )
    print("|---" * (len(heads) + 3) + "|")
    base = figures(bench, plain, 30)
    for name, (remedy, strengths) in {"plain reranking": (plain, (30,)), **REMEDIES}.items():
        f = held_out(bench, remedy, strengths)
        values = [*f.recall[:, :3].mean(axis=0), *f.complete.mean(axis=0)]
        deltas = [
            interval(f.recall[:, 1] - base.recall[:, 1]),
            interval(f.complete[:, 1] - base.complete[:, 1]),
        ]
        print(
            f"| {name} | " + " | ".join(f"{v:.3f}" for v in values) + f" | {' | '.join(deltas)} |", flush=True
        )


def report_cut(bench: Bench) -> None:
    """Print what reranking could find at most, and what the default rule leaves of it."""
    kept, whole = [], []
    for question, vector in zip(bench.dev.questions, bench.dev.query_vectors, strict=True):
        chunks = bench.search(vector, question, 60)
        whole.append([_found(bench.dev, question, chunks[:n])[1] for n in (30, 60)])
        order = plain(bench, question, vector, 30)
        scores = bench.probability(question.text, vector, order)
        cut = select([float(s) for s in scores], scale="probability").cut
        tokens = sum(bench.dev.chunks[i].tokens for i in order[:cut])
        kept.append([tokens, _found(bench.dev, question, order[:cut])[1]])
    (in_30, in_60), (tokens, complete) = np.mean(whole, axis=0), np.mean(kept, axis=0)
    print(
        f"\nComplete among 30 candidates: {in_30:.3f}, among 60: {in_60:.3f}. The default rule keeps "
        f"{tokens:.0f} tokens of 30 candidates and is complete for {complete:.3f}.",
        flush=True,
    )


def main() -> None:
    """Run the comparison and print it as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sets", nargs="+", default=["hotpot_sample"], choices=SETS, metavar="SET", help=f"of {SETS}"
    )
    parser.add_argument("--fit-on", nargs="+", default=list(SETS), choices=SETS, metavar="SET")
    arguments = parser.parse_args()
    embedder = SentenceTransformerEmbedder()
    names = dict.fromkeys([*arguments.sets, *arguments.fit_on])
    dev = {name: DevSet(name, embedder) for name in names}
    fitted = {name: examples(dev[name]) for name in arguments.fit_on}
    for name in arguments.sets:
        bench = Bench(dev[name], fit([e for other, e in fitted.items() if other != name]))
        report(bench)
        report_cut(bench)


if __name__ == "__main__":
    main()
