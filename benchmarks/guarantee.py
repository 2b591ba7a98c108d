"""Does `sage_app.calibrate` keep its promise, and what does it cost in tokens?

    python benchmarks/guarantee.py                                   # eight sets, 200 splits
    python benchmarks/guarantee.py --sets fairytaleqa --keep 0.8 0.9

Each set's questions are split again and again: 100 calibrate, or half of them where they are fewer than 200,
and the rest test. Shown for each promise: the
mean loss on the rest, the share of splits in which it is within the limit, the mean tokens on the rest, which
families were chosen, and how often a calibration was refused. Beside it two cuts by a fixed k found on the
same 100: the smallest whose loss on them is within the limit, which promises nothing, and the one with the
same promise as all families together. The scores are the hybrid's, with the package's calibration, which was
fitted on these sets, and of three searches alone: the cosine of all-MiniLM, of LSA, of hashed words. The
promise does not rest on the scores being right.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np
from calibrate_reranker import Example, examples
from ranking_data import SETS, DevSet, searched_by

from sage_app.calibrate.cut import RankedQuestion, _crc_limit, _Curve, _curves, _tested, calibrate
from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.errors import InputError
from sage_core.ranking import vouch
from sage_core.ranking.calibration import Calibration
from sage_core.selection import Scale

SCORES: dict[str, tuple[str, Scale]] = {
    "hybrid": ("all-MiniLM", "probability"),
    "all-MiniLM": ("all-MiniLM", "cosine"),
    "LSA": ("LSA", "cosine"),
    "hashed words": ("hashed words", "cosine"),
}
"""The search of each kind of scores, and their scale."""


def ranked(questions: list[Example], scale: Scale) -> list[RankedQuestion]:
    """The questions as the hybrid ranks their candidates; on the cosine scale, as the search does."""
    model = Calibration.load().with_scores
    found = []
    for e in questions:
        scores = e.features[:, 0]
        if scale == "probability":
            scores = np.asarray(vouch(model.probability(e.features), e.links, "probability"), dtype=float)
        order = np.argsort(-scores, kind="stable")
        losses = 1 - np.concatenate([[0], np.cumsum(e.covered[order])]) / e.evidence
        found.append(
            RankedQuestion(
                tuple(scores[order].tolist()),
                tuple(e.tokens[order].tolist()),
                tuple(np.clip(losses, 0, 1).tolist()),
            )
        )
    return found


def fixed(curve: _Curve, limit: float, confidence: float | None) -> tuple[int | None, int | None]:
    """Positions of the fixed k without a promise and of the one with it; None for none."""
    n = len(curve.losses)
    if confidence is None:
        return curve.first(limit), curve.first(_crc_limit(limit, n))
    return curve.first(limit), _tested(curve, n, limit, 1 - confidence)


def row(
    questions: list[RankedQuestion],
    scale: Scale,
    limit: float,
    confidence: float | None,
    splits: int,
    n: int,
) -> str:
    """One promise on one set, as a row of Markdown."""
    curves = {c.family: c for c in _curves(questions, scale)}
    whole = curves["fixed k"]
    losses, tokens, chosen = [], [], Counter[str]()
    others: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(questions))
        first, rest = order[:n], order[n:]
        for column, at in zip(others, fixed(whole.rows(first), limit, confidence), strict=True):
            if at is not None:
                column.append((whole.losses[rest, at].mean(), whole.tokens[rest, at].mean()))
        try:
            chosen_from = [questions[i] for i in first]
            cut = calibrate(chosen_from, loss=limit, confidence=confidence, scale=scale, seed=seed)
        except InputError:
            chosen["refused"] += 1
            continue
        curve = curves[cut.family]
        at = list(curve.parameters).index(cut.parameter)
        losses.append(curve.losses[rest, at].mean())
        tokens.append(curve.tokens[rest, at].mean())
        chosen[cut.family] += 1
    kept = f"{np.mean(losses):.3f} | {np.mean(np.array(losses) <= limit):.3f} | {np.mean(tokens):.0f}"
    beside = [
        f"{np.mean([t for _, t in c]):.0f} ({np.mean([v for v, _ in c]):.3f})" if c else "none"
        for c in others
    ]
    families = ", ".join(f"{name} {count}" for name, count in chosen.most_common())
    how = "on average" if confidence is None else f"{confidence:g}"
    return (
        f"{limit:.2g} | {how} | {kept if losses else 'none | | '} | {beside[0]} | {beside[1]} | {families} |"
    )


def main() -> None:
    """Run the splits and print them as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS, metavar="SET", help=f"of {SETS}")
    parser.add_argument("--keep", nargs="+", type=float, default=[0.9], help="shares of the evidence")
    parser.add_argument("--scores", nargs="+", default=list(SCORES), choices=SCORES)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--questions", type=int, default=100, help="that calibrate")
    arguments = parser.parse_args()
    print(
        "| set | limit | promised | loss | splits within | tokens | fixed k, no promise: tokens (loss) |",
        end="",
    )
    print(" fixed k, promised | chosen |\n|---|---|---|---|---|---|---|---|---|")
    embedder = MiniLMEmbedder()
    for name in arguments.sets:
        dev = DevSet(name, embedder)
        for kind in arguments.scores:
            source, scale = SCORES[kind]
            questions = ranked(examples(searched_by(dev, source)), scale)
            n = min(arguments.questions, len(questions) // 2)
            for keep in arguments.keep:
                for confidence in (None, 0.95):
                    found = row(questions, scale, 1 - keep, confidence, arguments.splits, n)
                    print(f"| {name} ({n} of {len(questions)}), {kind} | {found}", flush=True)


if __name__ == "__main__":
    main()
