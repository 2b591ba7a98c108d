"""Fit the logistic models of the local judge, from the counts and the logits of its model.

    python scripts/fit_judge.py sage_core/ranking/weights/sage-minilm --write

Support: claims made by ``judge_examples.py`` and WiCE's development claims against their whole page, weighted
alike. The counts are fitted first; the model's logit is added with a fixed weight of `LOGIT`, and both are
scaled together on claims that the model was not trained on. (A fitted weight trusts the model too much: it is
better on claims made by us than on those of people.) Answerability: the model's logit of the best window
alone; questions of ClapNQ's training part and SQuAD, with their passage, without its answer, and with others
that are alike.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from judge_examples import Maker, keyset, make_bundle, neighbors
from numpy.typing import NDArray
from train_judge import claims_to_train_on

from sage_core.answering import judge as parts
from sage_core.answering.pair_model import ANSWERABLE, SUPPORTED, PairModel
from sage_core.answering.words import question_words, stem_list

Rows = NDArray[np.float64]

LOGIT = 0.3
MADE = 600
QUESTIONS = 200
SEED = 777
COUNTS = 6  # Features of a claim before the model's logit.


def logistic(x: Rows, y: Rows, weights: Rows, ridge: float = 1.0) -> Rows:
    """Coefficients and, last, the intercept; by Newton's method with a ridge."""
    x = np.column_stack([x, np.ones(len(x))])
    found = np.zeros(x.shape[1])
    penalty = ridge * np.eye(len(found))
    penalty[-1, -1] = 1e-6
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ found))
        hessian = x.T @ (x * (weights * p * (1 - p))[:, None]) + penalty
        found += np.linalg.solve(hessian, x.T @ (weights * (y - p)) - penalty @ found)
    return found


def claim_rows(model: PairModel, claims: Sequence[tuple[str, Sequence[str]]]) -> Rows:
    """Counts and the model's logit of each claim."""
    counts, pairs = [], []
    for claim, passages in claims:
        material, own = parts._material(tuple(passages)), stem_list(claim)
        evidence = sorted(parts._evidence(own, material), key=lambda s: (s.passage, s.span.start))
        counts.append(parts.support_features(claim, own, material))
        pairs.append((claim, " ".join(s.text for s in evidence)))
    return np.column_stack([np.array(counts), model.logits(pairs)[:, SUPPORTED]])


def fit_support(model: PairModel, maker: Maker, bundle: dict[str, Any]) -> dict[str, Rows]:
    """Models of support, with the network and without it."""
    made = []
    while len(made) < MADE:
        for kind in (maker.claims, maker.answer_claims, maker.term_claims):
            made += [(e.first, [e.passage], e.supported) for e in kind() if stem_list(e.first)]
    people = [
        (claim, evidence, float(label == "supported")) for _, claim, label, evidence, _ in bundle["wice"]
    ]
    rows = claim_rows(model, [(c, p) for c, p, _ in [*made, *people]])
    labels = np.array([y for *_, y in [*made, *people]], dtype=float)
    weights = np.concatenate([np.ones(len(made)), np.full(len(people), len(made) / len(people))]) / 2
    words = logistic(rows[:, :COUNTS], labels, weights)
    both = np.column_stack([rows[:, :COUNTS], np.ones(len(rows))]) @ words + LOGIT * rows[:, COUNTS]
    unseen = np.ones(len(rows), bool)
    unseen[[len(made) + i for i in claims_to_train_on(bundle)]] = False
    scale, shift = logistic(both[unseen, None], labels[unseen], weights[unseen], ridge=1e-3)
    joint = np.concatenate([scale * words[:-1], [scale * LOGIT, scale * words[-1] + shift]])
    return {"supported_words": words, "supported": joint}


def questions(maker: Maker, bundle: dict[str, Any]) -> list[tuple[str, str, float]]:
    """Question, passage, and whether it answers."""
    rng = random.Random(SEED)
    rows: list[tuple[str, str, float]] = []
    some = [i for i, p in enumerate(bundle["pairs"]) if p[0] == "clapnq_train"]
    for i in rng.sample(some, QUESTIONS):
        question, passage = bundle["pairs"][i][1], " ".join(bundle["pairs"][i][3])
        rows.append((question, passage, 1.0))
        other = " ".join(maker.pool[rng.choice(list(maker.near["p", i][2:14]))][1])
        if len(keyset(passage) & keyset(other)) < 0.5 * len(keyset(passage)):
            rows.append((question, other, 0.0))
    for i in rng.sample(maker.reader_kinds["squad1"] + maker.reader_kinds["squad2"], QUESTIONS):
        question, at, spans, answerable = bundle["reader"][i]
        sentences = bundle["passages"][at][2]
        rows.append((question, " ".join(sentences), float(answerable)))
        rest = [s for s in sentences if not any(a in s for _, a in spans)]
        if answerable and len(rest) > 1:
            rows.append((question, " ".join(rest), 0.0))
    return rows


def fit_answerability(model: PairModel, rows: Sequence[tuple[str, str, float]]) -> dict[str, Rows]:
    """Models of answerability, with the network and without it."""
    counts, logits, labels = [], [], []
    for question, passage, label in rows:
        material, asked = parts._material((passage,)), question_words(question)
        windows = parts._windows(material, asked)
        if not asked or not windows:
            continue
        held = [parts._asked_share(material, asked, w) for w in windows]
        counts.append(max(held))
        pairs = [(question, " ".join(s.text for s in w)) for w in windows]
        logits.append(float(model.logits(pairs)[:, ANSWERABLE].max()))
        labels.append(label)
    y, weights = np.array(labels), np.ones(len(labels))
    slope, intercept = logistic(np.array(logits)[:, None], y, weights)
    return {
        "answerable_words": logistic(np.array(counts), y, weights),
        "answerable": np.array([0.0, 0.0, 0.0, slope, 0.0, intercept]),
    }


def main() -> None:
    """Fit, print, and with ``--write`` replace ``judge.json``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SAGE_DATA", "../shared/data")))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    bundle = make_bundle(arguments.data)
    maker = Maker(bundle, SEED, near=neighbors(bundle))
    model = PairModel(arguments.model)
    fitted = fit_support(model, maker, bundle) | fit_answerability(model, questions(maker, bundle))
    text = json.dumps({n: {"weights": [round(float(v), 4) for v in w]} for n, w in fitted.items()}, indent=1)
    print(text)
    if arguments.write:
        Path(parts.__file__).with_name("judge.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
