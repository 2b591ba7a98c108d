"""Train the boundary model for any language, in English alone, and measure it in others.

    python training/train_grams.py            # report only, some 3 minutes
    python training/train_grams.py --write    # and remake sage_core/segmentation/weights/grams.json

Training text: every eleventh document of `train/train_expository`, with its paragraph breaks withheld, and
paragraphs of different documents joined. Figures: XQuAD's paragraphs (80 in each of five languages, none in
training), those of one article joined ("article"), and ten joined so that neighbors are of different articles
("joined", four random orders). ROC AUC of the gaps; Pk, WindowDiff and F1 of the cuts that `Segmenter` makes
in text without layout, for chunks as long as the paragraphs. Intervals: 95%, paired, bootstrap over texts.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sage_train.metrics import f1, pk, roc_auc, window_diff
from scipy.optimize import minimize

from sage_core import Segmenter
from sage_core.segmentation.models.grams import COEFFICIENTS, beside, features, gram_probabilities
from sage_core.segmentation.models.load import load_model
from sage_core.text.sentences import split_sentences

DATA = Path(os.environ.get("SAGE_DATA", "../shared/data"))
LANGUAGES = ("en", "de", "es", "zh", "hi")
Paragraph = list[str]
EVERY, DOCUMENTS, LONGEST = 11, 640, 30
RIDGE = 30.0


@dataclass(frozen=True)
class Text:
    """Sentences, and which gaps between them part paragraphs."""

    sentences: list[str]
    breaks: NDArray[np.bool_]

    @classmethod
    def of(cls, paragraphs: Sequence[Paragraph]) -> Text:
        """Paragraphs joined."""
        starts = [i == 0 for paragraph in paragraphs for i in range(len(paragraph))]
        return cls([s for paragraph in paragraphs for s in paragraph], np.array(starts[1:], bool))


def _rows(name: str) -> Iterator[dict[str, object]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _sentences(paragraph: str) -> Paragraph:
    return [span.of(paragraph) for span in split_sentences(paragraph)]


def english() -> list[list[Paragraph]]:
    """The first paragraphs of documents of the training text."""
    found = []
    for row in itertools.islice(_rows("train/train_expository"), 0, None, EVERY):
        sections: list[dict[str, list[str]]] = row["sections"]  # type: ignore[assignment]
        paragraphs = [_sentences(text) for section in sections for text in section["paragraphs"]][:LONGEST]
        if len(paragraphs) >= 5:
            found.append(paragraphs)
        if len(found) == DOCUMENTS:
            break
    return found


def articles(language: str) -> list[list[Paragraph]]:
    """XQuAD's articles, five paragraphs each."""
    rows = _rows(f"dev/xquad_{language}_docs")
    return [[_sentences(text) for text in str(row["text"]).split("\n\n") if text.strip()] for row in rows]


def joined(documents: Sequence[Sequence[Paragraph]], orders: int, rng: np.random.Generator) -> list[Text]:
    """Texts of ten paragraphs, neighbors from different documents (but for a few at the end)."""
    every = [(number, paragraph) for number, document in enumerate(documents) for paragraph in document]
    texts = []
    for _ in range(orders):
        order = [every[i] for i in rng.permutation(len(every))]
        for i in range(1, len(order)):
            other = next((j for j in range(i, len(order)) if order[j][0] != order[i - 1][0]), i)
            order[i], order[other] = order[other], order[i]
        paragraphs = [paragraph for _, paragraph in order]
        texts += [Text.of(paragraphs[i : i + 10]) for i in range(0, len(order) - 9, 10)]
    return texts


def fit(texts: Sequence[Text]) -> tuple[NDArray[np.float64], float]:
    """Coefficients of P(same), and the bias."""
    x = np.concatenate([beside(features(text.sentences)) for text in texts]).astype(np.float64)
    y = np.where(np.concatenate([text.breaks for text in texts]), -1.0, 1.0)
    mean, scale = x.mean(0), x.std(0) + 1e-9
    x = np.hstack([(x - mean) / scale, np.ones((len(x), 1))])

    def loss(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = y * (x @ w)
        slope = -y / (1 + np.exp(margin))
        penalty = np.append(w[:-1], 0.0)
        return float(
            np.logaddexp(0, -margin).sum() + RIDGE * penalty @ penalty / 2
        ), x.T @ slope + RIDGE * penalty

    w = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x
    weights = w[:-1] / scale
    return weights, float(w[-1] - weights @ mean)


class Even:
    """Leaves the cuts to sizes."""

    fingerprint = "even"

    def probabilities(self, documents: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """The threshold for every gap."""
        return [np.full(max(len(d) - 1, 0), 0.55, np.float32) for d in documents]


def cut(texts: Sequence[Text], segmenter: Segmenter, between: str) -> list[NDArray[np.bool_]]:
    """Which gaps of each text the segmenter cuts."""
    found = []
    for text in texts:
        starts = np.cumsum([0, *(len(s) + len(between) for s in text.sentences)])[1:-1]
        spans = segmenter.segment(between.join(text.sentences))
        found.append(np.isin(starts, [span.start for span in spans]))
    return found


def interval(differences: Sequence[float]) -> str:
    """Mean and 95% interval over texts."""
    values = np.array(differences)
    rng = np.random.default_rng(0)
    means = values[rng.integers(0, len(values), (2000, len(values)))].mean(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return f"{values.mean():+.3f} [{low:+.3f}, {high:+.3f}]"


def report() -> None:
    """Figures of every language, ours beside the English model and even cuts."""
    models: dict[str, Callable[[Text], NDArray[np.float32]]] = {
        "grams": lambda text: gram_probabilities(text.sentences),
        "English model": lambda text: load_model("context").probabilities([text.sentences])[0],
    }
    for kind, language in itertools.product(("joined", "article"), LANGUAGES):
        own = articles(language)
        rng = np.random.default_rng(0)
        texts = joined(own, 4, rng) if kind == "joined" else [Text.of(paragraphs) for paragraphs in own]
        breaks = np.concatenate([text.breaks for text in texts])
        auc = {n: roc_auc(breaks, -np.concatenate([m(t) for t in texts])) for n, m in models.items()}
        between = "" if language == "zh" else " "
        counter = Segmenter().counter
        whole = [between.join(text.sentences) for text in texts]
        target = sum(counter.count_many(whole)) // (sum(t.breaks.sum() + 1 for t in texts))
        sizes = {"target_tokens": int(target), "max_tokens": 3 * int(target)}
        cuts = {
            "even": cut(texts, Segmenter(Even(), **sizes), between),
            "English model": cut(texts, Segmenter("context", **sizes), between),
            "grams": cut(texts, Segmenter(**sizes), between),
        }
        print(f"\n{language}, {kind}: {len(texts)} texts, {len(breaks)} gaps, {breaks.mean():.3f} breaks")
        print("ROC AUC: " + ", ".join(f"{name} {value:.3f}" for name, value in auc.items()))
        for name, measure in (("F1", f1), ("Pk", pk), ("WindowDiff", window_diff)):
            each = {
                n: [measure(t.breaks, c) for t, c in zip(texts, cs, strict=True)] for n, cs in cuts.items()
            }
            row = ", ".join(f"{n} {np.mean(v):.3f}" for n, v in each.items())
            rivals = (
                f"against {n} {interval(np.subtract(each['grams'], each[n]).tolist())}"
                for n in ("even", "English model")
            )
            print(f"{name}: {row}; {'; '.join(rivals)}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train where asked to, and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="remake grams.json first")
    if parser.parse_args(arguments).write:
        documents = english()
        rng = np.random.default_rng(1)
        short = [[paragraph for paragraph in document if len(paragraph) > 1][:6] for document in documents]
        weights, bias = fit([*(Text.of(document) for document in documents), *joined(short, 1, rng)])
        values = {"coefficients": np.round(weights, 4).tolist(), "bias": round(bias, 4)}
        COEFFICIENTS.write_text(json.dumps(values) + "\n", encoding="utf-8")
    report()


if __name__ == "__main__":
    main()
