"""Fit the model of grounding, counts and rules, on claims that people graded; no GPU, minutes on one core.

    python training/fit_grounding.py --write

Read: ``train/grounding`` (3,500 claims of FEVER, all of BEGIN and SummEdits), half of WiCE's claims
(`WICE_SEED`), and twins: sentences of ``train_expository`` said otherwise, right and changed by one number,
name, word or denial (`judge_examples.py`). Nothing of ``dev`` but that half.

An answer is supported as its claims are, see `sage_core.answering.support`: the fit goes through that mean of
all claims and the weakest one. Sources weigh alike, and in each the supported and the others do. Every
coefficient has the sign that its feature means, and a ridge draws the counts to `PRIOR`, the rules to 0: with
less of it the model is better on its training sources and worse on sources that were left out.

``supported_from`` and ``unsupported_below``: of answers of one claim beyond them 80% are supported, and 85%
not, each judged by a model fitted without its source. Of the answers of dialogue models that people graded
(BEGIN), judged likewise, 0.5% of the supported ones are below ``veto_below``, and 2% of the others reach
``support_at``.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import logging
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import judge_examples as made
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sage_core.answering import judge as parts
from sage_core.answering.claim_features import NAMES
from sage_core.answering.words import stem_list

logger = logging.getLogger(__name__)
Rows = NDArray[np.float64]

SEED = 1
WICE_SEED, WICE_FITTED = 5, 175
FEVER, TWINS = 3_500, 250
RIDGE = 3_000.0
# Share and nearness of words, pairs, numbers missing, names missing, length, intercept: fitted for 0.2.0 on
# half of WiCE's development claims and on claims made by rule.
PRIOR = (1.0387, 1.2927, 0.8866, -1.9519, -1.3707, -0.0741, -1.7402)
POSITIVE = ("verbatim", "word_family_found")
SUPPORTED_SURE, UNSUPPORTED_SURE, VETOED, ACCEPTED = 0.8, 0.85, 0.005, 0.02
CHANGES = (made._wrong_number, made._wrong_name, made._antonym, made._negated, made._exchanged)


@dataclass
class Answer:
    """An answer's claims as features, the claims' sizes, and whether its passages support it."""

    source: str
    rows: Rows
    sizes: Rows
    supported: bool


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a compressed file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def graded(data: Path) -> Iterator[tuple[str, str, list[str], bool]]:
    """Source, answer, passages and label of all training answers."""
    rows = list(lines(data / "train" / "grounding.jsonl.gz"))
    random.Random(SEED).shuffle(rows)
    fever = 0
    for row in rows:
        source = str(row["kind"]).split("_")[0]
        fever += source == "fever"
        if source != "fever" or fever <= FEVER:
            yield source, row["claim"], [row["context"]], row["supported"]
    claims = list(lines(data / "dev" / "wice_dev.jsonl.gz"))
    random.Random(WICE_SEED).shuffle(claims)
    for row in claims[:WICE_FITTED]:
        yield "wice", row["claim"], row["evidence"], row["label"] == "supported"
    yield from twins(data, TWINS, SEED)


def twins(data: Path, count: int, seed: int) -> Iterator[tuple[str, str, list[str], bool]]:
    """Sentences said otherwise, true and false, with their paragraph and two others of the article.

    Args:
        data: The folder of data.
        count: Pairs of each change.
        seed: Of the choice.
    """
    rng = random.Random(seed)
    articles = []
    for document in lines(data / "train" / "train_expository.jsonl.gz"):
        paragraphs = [p for s in document["sections"] for p in s["paragraphs"] if len(p.split()) > 40]
        if len(paragraphs) > 3:
            articles.append(paragraphs)
    rng.shuffle(articles)
    for change in CHANGES:
        pairs = 0
        while pairs < count:
            passages = rng.sample(rng.choice(articles), 3)
            sentences = made.split(passages[0])
            if not sentences:
                continue
            sentence, draw = rng.choice(sentences), rng.random()
            if not 7 <= len(sentence.split()) <= 40:
                continue
            changed = change(sentence, passages[0], " ".join(passages[1:]), rng)
            if changed is None:
                continue
            right, wrong = (made.rephrase(t, random.Random(draw)) for t in (sentence, changed[0]))
            lost = (changed[1] and changed[1] not in right) or (changed[2] and changed[2] not in wrong)
            if right != wrong and not lost:
                rng.shuffle(passages)
                yield "twins", right, passages, True
                yield "twins", wrong, passages, False
                pairs += 1


def features(source: str, answer: str, passages: Sequence[str], supported: bool) -> Answer | None:
    """An answer with the features of its claims; None where it claims nothing."""
    material = parts._material(tuple(passages))
    rows, sizes = [], []
    for span in parts.split_claims(answer):
        text = span.of(answer)
        own = stem_list(text)
        if not own:
            continue
        about = parts._said_of(text, material)
        contradicted = parts._contradicted(text, about) is not None
        verbatim = parts._verbatim(text, material)
        rows.append(parts.support_features(text, own, about, contradicted=contradicted, verbatim=verbatim))
        sizes.append(float(len(text.split())))
    return Answer(source, np.array(rows), np.array(sizes), supported) if rows else None


def log_odds(answer: Answer, fitted: Rows) -> float:
    """As `sage_core.answering.support`, in log-odds."""
    odds = np.clip(answer.rows @ fitted[:-1] + fitted[-1], -4.595, 4.595)
    return float((odds @ answer.sizes / answer.sizes.sum() + odds.min()) / 2)


def fit(answers: Sequence[Answer]) -> Rows:
    """Coefficients of the counts and the rules, and the intercept."""
    counts = len(PRIOR) - 1
    rows = np.concatenate([a.rows for a in answers])
    # The counts are one feature, their old sum: only its weight is fitted.
    columns = np.column_stack([rows[:, counts:], rows[:, :counts] @ PRIOR[:-1] + PRIOR[-1]])
    mean, scale = columns.mean(0), columns.std(0) + 1e-9
    columns = (columns - mean) / scale
    starts = np.cumsum([0] + [len(a.rows) for a in answers])
    labels = np.array([float(a.supported) for a in answers])
    sources = np.array([a.source for a in answers])
    weights = np.zeros(len(answers))
    for source in set(sources):
        for label in (0.0, 1.0):
            chosen = (sources == source) & (labels == label)
            weights[chosen] = 1 / max(1, chosen.sum())
    weights *= len(answers) / weights.sum()
    prior = np.append(np.zeros(len(NAMES)), scale[-1])
    bounds = [(0, None) if name in POSITIVE else (None, 0) for name in NAMES] + [(0, None), (None, None)]
    mean_rows = np.array(
        [
            a.sizes @ columns[i:j] / a.sizes.sum()
            for a, (i, j) in zip(answers, itertools.pairwise(starts), strict=True)
        ]
    )
    found = np.append(prior, 0.0)
    for _ in range(6):  # The weakest claim of each answer is that of the model before.
        odds = columns @ found[:-1]
        weakest = [i + int(np.argmin(odds[i:j])) for i, j in itertools.pairwise(starts)]
        design = np.column_stack([(mean_rows + columns[weakest]) / 2, np.ones(len(answers))])

        def loss(c: Rows, design: Rows = design) -> tuple[float, Rows]:
            z = design @ c
            away = np.append(c[:-1] - prior, 0.0)
            p = 1 / (1 + np.exp(-z))
            value = (weights * (np.logaddexp(0, z) - labels * z)).sum() + RIDGE / 2 * away @ away
            return float(value), design.T @ (weights * (p - labels)) + RIDGE * away

        found = minimize(loss, found, jac=True, method="L-BFGS-B", bounds=bounds).x
    plain = found[:-1] / scale
    shift = found[-1] - plain @ mean + plain[-1] * PRIOR[-1]
    return np.concatenate([plain[-1] * np.array(PRIOR[:-1]), plain[:-1], [shift]])


def surest(scores: Rows, labels: Rows, weights: Rows, share: float) -> float:
    """The lowest score from which on at least this share of the labels is 1."""
    order = np.argsort(-scores)
    right = np.cumsum((labels * weights)[order]) / np.cumsum(weights[order])
    return float(scores[order][np.flatnonzero(right >= share)[-1]])


def thresholds(answers: Sequence[Answer]) -> dict[str, float]:
    """Where a mark says supported, and unsupported."""
    sources = sorted({a.source for a in answers})
    left_out = {s: fit([a for a in answers if a.source != s]) for s in sources}
    scores = np.array([log_odds(a, left_out[a.source]) for a in answers])
    labels = np.array([float(a.supported) for a in answers])
    weights = np.array([1 / sum(b.source == a.source for b in answers) for a in answers])
    for source in sources:
        own = np.array([a.source == source for a in answers])
        higher = scores[own & (labels == 1)][:, None] - scores[own & (labels == 0)][None]
        logger.info(
            "%s, fitted without it: AUROC %.3f, n = %d",
            source,
            ((higher > 0) + 0.5 * (higher == 0)).mean(),
            own.sum(),
        )
    written = np.array([a.source == "begin" for a in answers])
    veto = float(np.quantile(scores[written & (labels == 1)], VETOED))
    accept = float(np.quantile(scores[written & (labels == 0)], 1 - ACCEPTED))
    # A mark stands at one claim; the label of an answer of several says less of each.
    single = np.array([len(a.rows) == 1 for a in answers])
    scores, labels, weights = scores[single], labels[single], weights[single]
    cuts = {
        "supported_from": surest(scores, labels, weights, SUPPORTED_SURE),
        "unsupported_below": -surest(-scores, 1 - labels, weights, UNSUPPORTED_SURE),
        "veto_below": veto,
        "support_at": accept,
    }
    return {name: round(1 / (1 + float(np.exp(-v))), 2) for name, v in cuts.items()}


def main() -> None:
    """Fit, print, and with ``--write`` replace the part of ``judge.json``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SAGE_DATA", "../shared/data")))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    answers = [a for row in graded(arguments.data) if (a := features(*row)) is not None]
    found = fit(answers)
    result = json.loads(parts.COEFFICIENTS.read_text(encoding="utf-8"))
    for old in ("supported_words", "supported"):
        result.pop(old, None)
    result["grounding"] = {"weights": [round(float(v), 4) for v in found]}
    result["thresholds"] |= thresholds(answers)
    names = ("share", "near", "pairs", "numbers", "names", "length", *NAMES, "intercept")
    print(json.dumps(dict(zip(names, result["grounding"]["weights"], strict=True)), indent=1))
    print(result["thresholds"])
    if arguments.write:
        parts.COEFFICIENTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
