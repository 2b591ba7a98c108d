"""`sage-rag train-support`: what counts and the entailment model weigh, fitted on claims.

Read: ``train/grounding`` (3,500 claims of FEVER, all of BEGIN and SummEdits) and half of WiCE's claims
(`WICE_SEED`). Nothing of ``dev`` but that half.

An answer is supported as its claims are, see `sage_core.verify.support`: the fit goes through that mean of
all claims and the weakest one. Sources weigh alike, and in each the supported and the others do. The counts
are one feature, their sum by `PRIOR`, of which the weight is fitted: with more freedom the model is better on
its training sources and worse on sources that were left out.

Beside the counts stands the logit of the entailment model. Its weight, one number, is fitted on answers of
kinds that this model did not learn of (`JUDGED`).

``supported_from``: of answers of one claim above it that no rule bounds 85% are supported, where both kinds
are equally frequent; each is judged by counts fitted without its source.
"""

from __future__ import annotations

import gzip
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
from sage_core.verify.judge import COEFFICIENTS, MOST_LOGIT, Entailment, score_claim, split_claims
from sage_core.verify.passages import parse_passages

logger = logging.getLogger(__name__)
app = typer.Typer()
Rows = NDArray[np.float64]

SEED = 1
WICE_SEED, WICE_FITTED = 5, 175
FEVER = 3_500
JUDGED = ("begin", "wice")  # Of which the weight of the entailment model is fitted: it learned of neither.
# Share and nearness of words, pairs, numbers missing, names missing, length, intercept: fitted for 0.2.0 on
# half of WiCE's development claims and on claims made by rule.
PRIOR = (1.0387, 1.2927, 0.8866, -1.9519, -1.3707, -0.0741, -1.7402)
SUPPORTED_SURE = 0.85


@dataclass
class Answer:
    """An answer's claims as features, the claims' sizes, and whether its passages support it.

    ``logits`` are those of the entailment model, ``fresh`` says that it was not trained on the answer,
    ``open`` that no rule bounds a claim.
    """

    source: str
    rows: Rows
    sizes: Rows
    supported: bool
    logits: Rows
    fresh: bool
    open: bool


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
            free = all(c.least == 0 and c.most == 1 for c in claims)
            answers.append(Answer(source, counts, np.array(sizes), supported, bounded, fresh, free))
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
    """Coefficients of the counts, and the intercept."""
    from scipy.optimize import minimize

    sums = [a.rows @ PRIOR[:-1] for a in answers]
    # The weakest claim of an answer is that of the smallest sum, whatever the weight.
    features = np.array(
        [(s @ a.sizes / a.sizes.sum() + s.min()) / 2 for s, a in zip(sums, answers, strict=True)]
    )
    weights, labels = balanced(answers), np.array([float(a.supported) for a in answers])

    def loss(c: Rows) -> float:
        z = c[0] * features + c[1]
        return float((weights * (np.logaddexp(0, z) - labels * z)).sum())

    scale, intercept = minimize(loss, np.array([1.0, PRIOR[-1]]), bounds=[(0, None), (None, None)]).x
    return np.append(scale * np.array(PRIOR[:-1]), intercept)


def surest(scores: Rows, labels: Rows, weights: Rows, share: float) -> float:
    """The lowest score from which on at least this share of the labels is 1."""
    order = np.argsort(-scores)
    right = np.cumsum((labels * weights)[order]) / np.cumsum(weights[order])
    return float(scores[order][np.flatnonzero(right >= share)[-1]])


def threshold(answers: Sequence[Answer], share: float) -> float:
    """Where a mark says supported."""
    # A mark stands at one claim; the label of an answer of several says less of each.
    single = [a for a in answers if a.fresh and a.open and len(a.rows) == 1]
    labels = np.array([float(a.supported) for a in single])
    scores = np.zeros(len(single))
    for source in sorted({a.source for a in single}):
        counts = fit([a for a in answers if a.source != source])
        own = np.array([a.source == source for a in single])
        scores[own] = [log_odds(a, counts, share) for a in single if a.source == source]
        higher = scores[own & (labels == 1)][:, None] - scores[own & (labels == 0)][None]
        area = ((higher > 0) + 0.5 * (higher == 0)).mean()
        logger.info("%s, counts fitted without it: AUROC %.3f, n = %d", source, area, own.sum())
    return round(1 / (1 + float(np.exp(-surest(scores, labels, balanced(single), SUPPORTED_SURE)))), 2)


@app.command()
def train_support(
    data: Annotated[Path, typer.Argument(help="Folder with train/ and dev/.", parser=path_argument)],
    model: Annotated[Path | None, typer.Option(help="Folder of the entailment model.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Replace the part of judge.json.")] = False,
) -> None:
    """Fit the coefficients and thresholds of support on one core, in minutes."""
    answers = features(Entailment(model) if model else Entailment(), list(graded(data)))
    weights = fit(answers)
    share = fit_share(answers, weights)
    support = [round(float(v), 4) for v in (*weights[:-1], share, weights[-1])]
    result = {"supported_from": threshold(answers, share), "support": support}
    print_json(result)
    if write:
        COEFFICIENTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
