"""Sentences dropped from kept chunks: recall of evidence against tokens saved.

    python benchmarks/pruning.py                  # the frontier
    python benchmarks/pruning.py --write 0.015    # and remake sage_core/verify/pruning.json

Chunks are what `Sage` keeps by default of what it finds (hybrid reranker, neighbors, titles). Recall is the
share of the characters of evidence that is sent. Every set is judged by coefficients fitted on the other
sets; the threshold is the same for all. Each set weighs the same, in the fit and in the mean. "Whole chunks"
drops the lowest ranked chunks to save as many tokens: what a stricter selection would have lost.
Rows with a "least of a chunk" also leave out whole chunks: those, except the first, with less expected
evidence (the sum of their sentences' probabilities) than that. `SentencePruner` does not: it never empties a
chunk; which chunks are sent is for `SelectionConfig`.
Intervals: paired bootstrap over questions within the sets, 2,000 resamples, seed 0.

A sentence counts as evidence in the fit where at least half of it is marked, or where it holds half of all
that is marked. Left out: fairytaleqa, whose evidence is whole sections, QuALITY (no evidence is marked) and
Qasper (marked for few questions).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ranking_data import DevSet, Evidence
from scipy.optimize import minimize

import sage_core.verify.pruning as pruning
from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.ranking import HybridReranker, vouch
from sage_core.selection import SelectionConfig
from sage_core.text.spans import Span
from sage_core.text.tokens import get_counter
from sage_core.verify.pruning import (
    FEATURES,
    ChunkSentences,
    chunk_sentences,
    keep_sentences,
    sentence_features,
)

SETS = ("onestopqa", "clapnq_dev", "squad2_dev16", "hotpot_sample", "cuad_leval")
THRESHOLDS = (0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1)
CHUNKS_AT = 0.01
LEAST_EVIDENCE = (0.005, 0.01, 0.015, 0.02, 0.03, 0.05)
RESAMPLES = 2000
RIDGE = 1.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A question with the chunks kept for it.

    Attributes:
        chunks: Their sentences.
        features: One row per sentence.
        tokens: Of every chunk, by slices as they are asked for.
        places: Document and offset of every chunk.
        evidence: What answers the question.
        helps: Whether each sentence is evidence.
    """

    chunks: tuple[ChunkSentences, ...]
    features: Floats
    tokens: tuple[int, ...]
    places: tuple[tuple[str, int], ...]
    evidence: tuple[Evidence, ...]
    helps: NDArray[np.bool_]

    @property
    def wanted(self) -> int:
        """Characters of evidence."""
        return sum(e.span.end - e.span.start for e in self.evidence)

    def covered(self, chunk: int, span: Span) -> int:
        """Characters of evidence in a slice of a chunk."""
        document, start = self.places[chunk]
        return sum(
            max(0, min(start + span.end, e.span.end) - max(start + span.start, e.span.start))
            for e in self.evidence
            if e.doc_id == document
        )


def cases(dev: DevSet, reranker: HybridReranker) -> list[Case]:
    """Every question with what the default selection keeps."""
    listed = []
    for found in dev.candidates:
        chunks = [dev.chunks[int(i)] for i in found.chunks]
        scores = reranker.score(
            found.question.text, [c.text for c in chunks], [float(c) for c in found.cosine]
        )
        final = vouch(scores, found.links, "probability")
        kept = SelectionConfig().select(final, "probability").indices
        listed.append((found.question, [chunks[i] for i in kept], [final[i] for i in kept]))
    parts = {c.text: chunk_sentences(c.text) for _, chunks, _ in listed for c in chunks}
    result = []
    for question, chunks, scores in listed:
        own = tuple(parts[c.text] for c in chunks)
        sentences = [span.of(p.text) for p in own for span in p.spans]
        lengths = [len(p.spans) for p in own]
        features = sentence_features(question.text, sentences, lengths, scores, "probability")
        places = tuple((c.doc_id, c.span.start) for c in chunks)
        bare = Case(
            own, features, tuple(c.tokens for c in chunks), places, question.evidence, np.zeros(0, bool)
        )
        held = [(bare.covered(j, s), s.end - s.start) for j, p in enumerate(own) for s in p.spans]
        helps = np.array([2 * c >= n or 2 * c >= bare.wanted for c, n in held])
        result.append(Case(own, features, bare.tokens, places, question.evidence, helps))
    return result


def fit(sets: Sequence[Sequence[Case]]) -> Floats:
    """Coefficients, then the intercept, of a logistic model in which every set weighs the same."""
    x = np.concatenate([c.features for s in sets for c in s])
    y = np.concatenate([c.helps for s in sets for c in s]).astype(float)
    sizes = [sum(len(c.helps) for c in s) for s in sets]
    weight = np.concatenate([np.full(n, 20_000 / len(sets) / n) for n in sizes])
    middle, spread = x.mean(axis=0), x.std(axis=0) + 1e-9
    z = np.concatenate([(x - middle) / spread, np.ones((len(x), 1))], axis=1)

    def loss(beta: Floats) -> tuple[float, Floats]:
        logit = z @ beta
        value = weight @ (np.logaddexp(0, logit) - y * logit) + RIDGE / 2 * (beta[:-1] ** 2).sum()
        gradient = z.T @ (weight * (0.5 * (1 + np.tanh(logit / 2)) - y))
        gradient[:-1] += RIDGE * beta[:-1]
        return float(value), gradient

    found = minimize(loss, np.zeros(z.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    if not found.success:
        raise RuntimeError(f"the fit did not converge: {found.message}")
    weights = found.x[:-1] / spread
    return np.append(weights, found.x[-1] - weights @ middle)


def predict(beta: Floats, questions: Sequence[Case]) -> list[Floats]:
    """Probability of every sentence."""
    return [0.5 * (1 + np.tanh((c.features @ beta[:-1] + beta[-1]) / 2)) for c in questions]


_COUNTED: dict[str, int] = {}


def tokens_of(texts: Sequence[str]) -> int:
    """Tokens of slices, each counted once in a run of the script."""
    new = [t for t in dict.fromkeys(texts) if t not in _COUNTED]
    if new:
        _COUNTED.update(zip(new, get_counter("bert").count_many(new), strict=True))
    return sum(_COUNTED[t] for t in texts)


def figures(
    questions: Sequence[Case], values: Sequence[Floats], threshold: float, least: float = 0.0
) -> Floats:
    """For each question: recall before and after, tokens before and after, recall of whole chunks instead.

    ``least``: expected evidence below which a chunk is left out.
    """
    rows = []
    for case, probability in zip(questions, values, strict=True):
        at, sent, covered, before = 0, 0, 0, 0
        for i, chunk in enumerate(case.chunks):
            own = probability[at : at + len(chunk.spans)].tolist()
            at += len(chunk.spans)
            kept = keep_sentences(chunk, own, threshold).kept if not i or sum(own) >= least else ()
            if len(kept) == 1 and kept[0] == Span(chunk.spans[0].start, chunk.spans[-1].end):
                sent += case.tokens[i]
            else:
                sent += tokens_of([s.of(chunk.text) for s in kept])
            covered += sum(case.covered(i, s) for s in kept)
            before += case.covered(i, Span(0, len(chunk.text)))
        best, spent = 0, 0
        for i, count in enumerate(case.tokens):
            if i and spent + count > sent:
                break
            spent += count
            best += case.covered(i, Span(0, len(case.chunks[i].text)))
        total = case.wanted
        rows.append([before / total, covered / total, sum(case.tokens), sent, best / total])
    return np.array(rows)


def interval(deltas: Sequence[Floats]) -> tuple[float, float]:
    """Of the mean over sets of the mean over questions."""
    rng = np.random.default_rng(0)
    draws = [d[rng.integers(0, len(d), (RESAMPLES, len(d)))].mean(axis=1) for d in deltas]
    low, high = np.percentile(np.mean(draws, axis=0), [2.5, 97.5])
    return float(low), float(high)


def report(sets: dict[str, list[Case]], thresholds: Sequence[float]) -> None:
    """Print the frontier, held out by set."""
    held_out = {
        name: predict(fit([c for n, c in sets.items() if n != name]), questions)
        for name, questions in sets.items()
    }
    cells = " | ".join(f"{n} ({len(q)})" for n, q in sets.items())
    rows = [(threshold, 0.0) for threshold in thresholds]
    rows += [(threshold, least) for threshold in (0.0, CHUNKS_AT) for least in LEAST_EVIDENCE]
    print(f"| threshold | least of a chunk | tokens | recall, points | whole chunks, points | {cells} |")
    print("|---" * (5 + len(sets)) + "|")
    for threshold, least in rows:
        found = {n: figures(q, held_out[n], threshold, least) for n, q in sets.items()}
        lost = [100 * (f[:, 1] - f[:, 0]) for f in found.values()]
        instead = np.mean([100 * (f[:, 4] - f[:, 0]).mean() for f in found.values()])
        saved = [f[:, 3].sum() / f[:, 2].sum() - 1 for f in found.values()]
        low, high = interval(lost)
        own = " | ".join(f"{100 * s:+.0f}%, {d.mean():+.1f}" for s, d in zip(saved, lost, strict=True))
        mean = np.mean([d.mean() for d in lost])
        print(
            f"| {threshold:g} | {least or ''} | {100 * np.mean(saved):+.1f}% "
            f"| {mean:+.2f} [{low:+.2f}, {high:+.2f}] | {instead:+.2f} | {own} |"
        )


def main() -> None:
    """Measure, print, and write the coefficients where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS, metavar="SET")
    parser.add_argument("--questions", type=int, default=150, help="most questions of a set")
    parser.add_argument("--thresholds", nargs="+", type=float, default=list(THRESHOLDS), metavar="P")
    parser.add_argument("--write", type=float, metavar="P", help="write coefficients and this threshold")
    arguments = parser.parse_args()
    embedder = MiniLMEmbedder()
    reranker = HybridReranker()
    sets = {
        name: cases(DevSet(name, embedder, max_questions=arguments.questions), reranker)
        for name in arguments.sets
    }
    report(sets, arguments.thresholds)
    beta = fit(list(sets.values()))
    print("\n" + "\n".join(f"{n}: {b:.4f}" for n, b in zip([*FEATURES, "intercept"], beta, strict=True)))
    if arguments.write is not None:
        content = {
            "features": list(FEATURES),
            "weights": [round(float(b), 4) for b in beta[:-1]],
            "intercept": round(float(beta[-1]), 4),
            "threshold": arguments.write,
            "fitted_on": {name: len(questions) for name, questions in sets.items()},
        }
        path = Path(pruning.__file__).with_name("pruning.json")
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
