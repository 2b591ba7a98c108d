"""`sage-rag train-support`: what counts, rules and the entailment model weigh, fitted on claims.

Read: ``train/grounding`` (3,500 claims of FEVER, all of BEGIN and SummEdits) and half of WiCE's claims
(`WICE_SEED`). Nothing of ``dev`` but that half.

An answer is supported as its claims are, see `sage_core.verify.support`: the fit goes through that mean of
all claims and the weakest one. Sources weigh alike, and in each the supported and the others do. Every
coefficient has the sign that its feature means, and a ridge draws the counts to `PRIOR`, the rules to 0: with
less of it the model is better on its training sources and worse on sources that were left out.

Beside the counts stands the logit of the entailment model. Its
weight, one number, is fitted on answers of kinds that this model did not learn of (`JUDGED`).

``supported_from``: of answers of one claim above it 80% are supported, each judged by a model fitted without
its source, where both kinds are equally frequent. Of the answers
of dialogue models that people graded (BEGIN), judged likewise, 2% of those that are not supported reach
``support_at``.
"""

from __future__ import annotations

import gzip
import itertools
import json
import logging
import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from sage_app.cli.options import path_argument, print_json
from sage_core.verify.claims import split_claims
from sage_core.verify.coefficients import COEFFICIENTS
from sage_core.verify.judge import Entailment
from sage_core.verify.passages import parse_passages
from sage_core.verify.scoring import MOST_LOGIT, NAMES, score_claim

logger = logging.getLogger(__name__)
app = typer.Typer()
Rows = NDArray[np.float64]

SEED = 1
WICE_SEED, WICE_FITTED = 5, 175
FEVER = 3_500
JUDGED = ("begin", "wice")  # Of which the weight of the entailment model is fitted: it learned of neither.
RIDGE = 3_000.0
# Share and nearness of words, pairs, numbers missing, names missing, length, intercept: fitted for 0.2.0 on
# half of WiCE's development claims and on claims made by rule.
PRIOR = (1.0387, 1.2927, 0.8866, -1.9519, -1.3707, -0.0741, -1.7402)
POSITIVE = ("verbatim",)
SUPPORTED_SURE, ACCEPTED = 0.8, 0.02


@dataclass
class Answer:
    """An answer's claims as features, the claims' sizes, and whether its passages support it.

    ``logits`` are those of the entailment model, ``fresh`` says that it was not trained on the answer.
    """

    source: str
    rows: Rows
    sizes: Rows
    supported: bool
    logits: Rows
    fresh: bool


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a compressed file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def held_out(group: str) -> bool:
    """Whether a group of FEVER or SummEdits follows the training of the entailment model."""
    return zlib.crc32(group.encode()) % 12 == 0


def graded(data: Path) -> Iterator[tuple[str, str, list[str], bool, bool]]:
    """Source, answer, passages, label, and whether the entailment model never saw it, of all answers."""
    rows = list(lines(data / "train" / "grounding.jsonl.gz"))
    random.Random(SEED).shuffle(rows)
    fever = 0
    for row in rows:
        source = str(row["kind"]).split("_")[0]
        fever += source == "fever"
        if source != "fever" or fever <= FEVER:
            fresh = source == "begin" or held_out(str(row["group"]))
            yield source, row["claim"], [row["context"]], row["supported"], fresh
    claims = list(lines(data / "dev" / "wice_dev.jsonl.gz"))
    random.Random(WICE_SEED).shuffle(claims)
    for row in claims[:WICE_FITTED]:
        yield "wice", row["claim"], row["evidence"], row["label"] == "supported", True


def features(model: Entailment, rows: Sequence[tuple[str, str, list[str], bool, bool]]) -> list[Answer]:
    """The answers with the features of their claims, but for those that claim nothing."""
    answers = []
    for source, answer, passages, supported, fresh in rows:
        material = parse_passages(tuple(passages))
        spans = split_claims(answer)
        claims = [c for s in spans if (c := score_claim(s, s.of(answer), material)) is not None]
        if claims:
            unread = [(c.claim.text, c.evidence) for c in claims if c.logit is None]
            read = iter([float(v) for v in model.logits(unread)] if fresh else [])
            logits = [next(read, 0.0) if c.logit is None else c.logit for c in claims]
            sizes = [float(len(c.claim.text.split())) for c in claims]
            counts = np.array([c.values for c in claims])
            bounded = np.clip(logits, -MOST_LOGIT, MOST_LOGIT)
            answers.append(Answer(source, counts, np.array(sizes), supported, bounded, fresh))
    return answers


def log_odds(answer: Answer, fitted: Rows, share: float) -> float:
    """As `sage_core.verify.support`, in log-odds."""
    odds = answer.rows @ fitted[:-1] + fitted[-1] + share * answer.logits
    odds = np.clip(odds, -4.595, 4.595)
    return float((odds @ answer.sizes / answer.sizes.sum() + odds.min()) / 2)


def fit_share(answers: Sequence[Answer], fitted: Rows) -> float:
    """Weight of the entailment model's logit beside the counts' log-odds."""
    own = [a for a in answers if a.source in JUDGED]
    weights, labels = balanced(own), np.array([float(a.supported) for a in own])

    def loss(share: float) -> float:
        z = np.array([log_odds(a, fitted, share) for a in own])
        return float((weights * (np.logaddexp(0, z) - labels * z)).sum())

    from scipy.optimize import minimize_scalar

    return float(minimize_scalar(loss, bounds=(0, 1), method="bounded").x)


def balanced(answers: Sequence[Answer]) -> Rows:
    """Weights with which sources weigh alike, and in each the supported answers and the others do."""
    labels = np.array([a.supported for a in answers])
    sources = np.array([a.source for a in answers])
    weights = np.zeros(len(answers))
    for source in set(sources):
        for label in (False, True):
            chosen = (sources == source) & (labels == label)
            weights[chosen] = 1 / max(1, chosen.sum())
    result: Rows = weights * len(answers) / weights.sum()
    return result


def fit(answers: Sequence[Answer]) -> Rows:
    """Coefficients of the counts and the rules, and the intercept."""
    from scipy.optimize import minimize

    counts = len(PRIOR) - 1
    rows = np.concatenate([a.rows for a in answers])
    # The counts are one feature, their old sum: only its weight is fitted.
    columns = np.column_stack([rows[:, counts:], rows[:, :counts] @ PRIOR[:-1] + PRIOR[-1]])
    mean, scale = columns.mean(0), columns.std(0) + 1e-9
    columns = (columns - mean) / scale
    starts = np.cumsum([0] + [len(a.rows) for a in answers])
    labels = np.array([float(a.supported) for a in answers])
    weights = balanced(answers)
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
    """Where a mark says supported."""
    sources = sorted({a.source for a in answers})
    left_out = {}
    for source in sources:
        rest = [a for a in answers if a.source != source]
        counts = fit(rest)
        left_out[source] = counts, fit_share(rest, counts)
        logger.info("without %s: %.3f", source, left_out[source][1])
    answers = [a for a in answers if a.fresh]
    scores = np.array([log_odds(a, *left_out[a.source]) for a in answers])
    labels = np.array([float(a.supported) for a in answers])
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
    accept = float(np.quantile(scores[written & (labels == 0)], 1 - ACCEPTED))
    # A mark stands at one claim; the label of an answer of several says less of each.
    single = np.array([len(a.rows) == 1 for a in answers])
    scores, labels = scores[single], labels[single]
    weights = balanced([a for a in answers if len(a.rows) == 1])
    cuts = {
        "supported_from": surest(scores, labels, weights, SUPPORTED_SURE),
        "support_at": accept,
    }
    return {name: round(1 / (1 + float(np.exp(-v))), 2) for name, v in cuts.items()}


@app.command()
def train_support(
    data: Annotated[Path, typer.Argument(help="Folder with train/ and dev/.", parser=path_argument)],
    model: Annotated[Path | None, typer.Option(help="Folder of the entailment model.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Replace the part of judge.json.")] = False,
) -> None:
    """Fit the coefficients and thresholds of support on one core, in minutes."""
    answers = features(Entailment(model) if model else Entailment(), list(graded(data)))
    weights = fit(answers)
    result = json.loads(COEFFICIENTS.read_text(encoding="utf-8"))
    result["grounding"] = {"weights": [round(float(v), 4) for v in weights]}
    result["entailed"] = {"weights": [round(fit_share(answers, weights), 4), 0.0]}
    result["thresholds"] |= thresholds(answers)
    print_json(result)
    if write:
        COEFFICIENTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
