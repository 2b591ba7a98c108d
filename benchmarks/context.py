"""What each part of the context brings: recall of evidence within 250, 500 and 1,000 tokens.

    python benchmarks/context.py
    python benchmarks/context.py --sets hotpot_pool 2wiki_pool
    python benchmarks/context.py --against semchunk_100  # another splitter's chunks, all else the same

"Before" is the search by cosine of plain texts, and over its thirty best the offline reranker without
neighbors. Then one part at a time, and all together as `Sage` does by default. Rerankers are fitted without
the set that they are judged on. Chunks are those of the bundled segmenter, taken whole in rank order, one at
least. "All evidence" is the share of questions with at least half of every piece of it within 1,000 tokens.
Intervals: paired bootstrap over questions within the sets, 2,000 resamples, seed 0.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
from calibrate_reranker import Example, Fit, examples, fit, predict
from chunkers import CHUNKERS
from numpy.typing import NDArray
from ranking_data import NEAR, SETS, Candidates, DevSet

from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.ranking import Calibration, vouch
from sage_core.text.spans import Span

BUDGETS = (250, 500, 1000)
RESAMPLES = 2000

Floats = NDArray[np.float64]


def figures(dev: DevSet, shown: Sequence[Candidates], scores: Sequence[Floats]) -> Floats:
    """Recall within each budget, then whether all evidence is within the last: ``(questions, 4)``."""
    rows = []
    for candidates, score in zip(shown, scores, strict=True):
        order = np.argsort(-score, kind="stable")
        tokens = np.cumsum([dev.chunks[int(i)].tokens for i in candidates.chunks[order]])
        covered = np.cumsum(candidates.covered[order], axis=0)
        wanted = np.array([e.span.end - e.span.start for e in candidates.question.evidence])
        lasts = [max(int(np.searchsorted(tokens, b, side="right")), 1) - 1 for b in BUDGETS]
        rows.append(
            [covered[i].sum() / wanted.sum() for i in lasts] + [(2 * covered[lasts[-1]] >= wanted).all()]
        )
    return np.array(rows, dtype=float)


def cosines(dev: DevSet, *, neighbors: bool) -> Floats:
    """Of cosines alone, over the hundred best."""
    shown = [dev.shown(i, dev.near(i, NEAR)) for i in range(len(dev.questions))]
    scores = [np.asarray(c.cosine, dtype=float) for c in shown]
    if neighbors:
        scores = [
            np.array(vouch(s, c.links, "cosine"), dtype=float) for s, c in zip(scores, shown, strict=True)
        ]
    return figures(dev, shown, scores)


def own(found: Fit, questions: Sequence[Example]) -> list[Floats]:
    """Probabilities without neighbors."""
    return [found(e.features) for e in questions]


def measure(names: Sequence[str]) -> dict[str, dict[str, Floats]]:
    """Figures by what is compared and by set."""
    embedder = MiniLMEmbedder()
    plain = {n: DevSet(n, embedder, titles=False) for n in SETS}
    titled = {n: DevSet(n, embedder) for n in SETS}
    few = {n: examples(d, d.first_thirty) for n, d in plain.items()}
    bare = {n: examples(d) for n, d in plain.items()}
    full = {n: examples(d) for n, d in titled.items()}
    found: dict[str, dict[str, Floats]] = {}
    for n in names:
        rest = [m for m in SETS if m != n]
        joined = fit([bare[m] for m in rest] + [full[m] for m in rest])
        alone = fit([[_unlinked(e) for e in few[m]] for m in rest])
        thirty, all_plain, all_titled = plain[n].first_thirty, plain[n].candidates, titled[n].candidates
        rows = {
            "cosine": cosines(plain[n], neighbors=False),
            "cosine + neighbors": cosines(plain[n], neighbors=True),
            "cosine + titles": cosines(titled[n], neighbors=False),
            "cosine + titles + neighbors": cosines(titled[n], neighbors=True),
            "reranker": figures(plain[n], thirty, own(alone, few[n])),
            "reranker + candidates": figures(plain[n], all_plain, own(joined, bare[n])),
            "reranker + neighbors": figures(plain[n], thirty, predict(joined, few[n])),
            "reranker + candidates + neighbors": figures(plain[n], all_plain, predict(joined, bare[n])),
            "reranker + titles + candidates": figures(titled[n], all_titled, own(joined, full[n])),
            "reranker, all (the default)": figures(titled[n], all_titled, predict(joined, full[n])),
        }
        for label, row in rows.items():
            found.setdefault(label, {})[n] = row
    return found


def _unlinked(example: Example) -> Example:
    return Example(
        example.features,
        example.relevant,
        example.covered,
        example.tokens,
        example.characters,
        example.evidence,
    )


def compare(names: Sequence[str], splitter: str) -> dict[str, dict[str, Floats]]:
    """Figures of the default pipeline, context included, over another splitter's chunks and over ours."""
    embedder, calibration = MiniLMEmbedder(), Calibration.load()

    def other(texts: Sequence[str]) -> list[list[Span]]:
        return [CHUNKERS[splitter](text, embedder.embed_documents) for text in texts]

    found: dict[str, dict[str, Floats]] = {splitter: {}, "ours": {}}
    for n in names:
        for label, chunker in ((splitter, other), ("ours", None)):
            dev = DevSet(n, embedder, chunker=chunker)
            scores = [
                np.array(
                    vouch(calibration.with_scores.probability(e.features).tolist(), e.links, "probability"),
                    float,
                )
                for e in examples(dev)
            ]
            found[label][n] = figures(dev, dev.candidates, scores)
    return found


def report(found: dict[str, dict[str, Floats]]) -> None:
    """Print means over sets, their differences from before, and the sets."""
    heads = " | ".join([*(f"R {b}" for b in BUDGETS), "all evidence, 1000"])
    print(f"| | {heads} | difference at 250 | at 500 | at 1000 | all evidence |\n" + "|---" * 9 + "|")
    for label, sets in found.items():
        before = found.get("cosine" if label.startswith("cosine") else "reranker", next(iter(found.values())))
        mean = np.mean([rows.mean(axis=0) for rows in sets.values()], axis=0)
        cells = " | ".join(f"{v:.3f}" for v in mean)
        print(f"| {label} | {cells} | {' | '.join(_differences(sets, before))} |")
    print(
        "\n| | "
        + " | ".join(next(iter(found.values())))
        + " |\n"
        + "|---" * (len(next(iter(found.values()))) + 1)
        + "|"
    )
    for label, sets in found.items():
        cells = (" / ".join(f"{v:.3f}" for v in rows.mean(axis=0)) for rows in sets.values())
        print(f"| {label} | " + " | ".join(cells) + " |")


def _differences(sets: dict[str, Floats], before: dict[str, Floats]) -> list[str]:
    """Points of the mean over sets, with intervals."""
    rng = np.random.default_rng(0)
    points, draws = [], []
    for name, rows in sets.items():
        delta = 100 * (rows - before[name])
        picks = rng.integers(0, len(delta), (RESAMPLES, len(delta)))
        points.append(delta.mean(axis=0))
        draws.append(delta[picks].mean(axis=1))
    low, high = np.percentile(np.mean(draws, axis=0), [2.5, 97.5], axis=0)
    return [
        f"{p:+.1f} [{a:+.1f}, {b:+.1f}]" for p, a, b in zip(np.mean(points, axis=0), low, high, strict=True)
    ]


def main() -> None:
    """Measure and print Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS, metavar="SET")
    parser.add_argument("--against", choices=CHUNKERS, metavar="SPLITTER", help="of benchmarks/chunkers.py")
    arguments = parser.parse_args()
    began = time.perf_counter()
    names = arguments.sets
    report(compare(names, arguments.against) if arguments.against else measure(names))
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
