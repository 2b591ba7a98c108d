"""Fit the logistic models and the thresholds of the local judge, from counts and what its reader says.

    python training/fit_judge.py --write

Nothing that ``benchmarks/judge.py`` measures is read. The model of support is that of ``fit_grounding.py``.
Articles and tales are those that ``train_reader.py`` holds out, one in twenty; it reads no ClapNQ.

Answerability: questions of ClapNQ, SQuAD 1.1 and FairytaleQA (training parts), with one to seven passages;
with the answer, and without it (other passages of the article or alike to the question, the passage less
the sentence with the answer, the question with a name or number changed), or one sentence alone. A first
model scores the windows of the passages, a second one turns the best score and the number of windows into a
probability.

Thresholds: from ``min_probability`` on a quotation is likelier right than not; below ``widen_below`` lie 3%
of the questions with an answer; from ``accept_at`` on lies one in ten of the wrong answers, each the answer
to another question about the same passage. All questions fit the models; how good they are is printed for
models that half of the questions fitted, on the other half.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from judge_examples import Maker, corrupt, keyset, prepared, statement
from numpy.typing import NDArray

from sage_core.verify import LocalJudge, coefficients
from sage_core.verify import answerability as parts
from sage_core.verify.passages import parse_passages
from sage_core.verify.words import question_words

logger = logging.getLogger(__name__)

Rows = NDArray[np.float64]

QUESTIONS = {"clapnq": 180, "squad1": 110, "fairytaleqa": 60}  # At most.
SEED = 777
HELD_OUT = 20  # As in `train_reader.py`, which needs torch.
LOST, WRONG = 0.03, 0.1
# Of the training questions below 0.25 one in ten has its answer there; of questions over a firm's files five
# of twelve below 0.15. Hence less.
ABSENT_BELOW = 0.05


@dataclass
class Case:
    """A question and passages, and whether they answer it."""

    question: str
    passages: list[str]
    answered: bool
    holder: int = -1  # Passage with the answer.
    wrong: str = ""  # A wrong answer, as a statement.
    source: str = ""


def logistic(x: Rows, y: Rows, weights: Rows, ridge: float = 1.0, least_zero: Sequence[int] = ()) -> Rows:
    """Coefficients and, last, the intercept; by Newton's method with a ridge.

    ``least_zero`` names coefficients that are set to 0 where they would be below.
    """
    kept = list(range(x.shape[1]))
    while True:
        own = np.column_stack([x[:, kept], np.ones(len(x))])
        found = np.zeros(own.shape[1])
        penalty = ridge * np.eye(len(found))
        penalty[-1, -1] = 1e-6
        for _ in range(50):
            p = 1 / (1 + np.exp(-np.clip(own @ found, -30, 30)))
            hessian = own.T @ (own * (weights * p * (1 - p))[:, None]) + penalty
            found += np.linalg.solve(hessian, own.T @ (weights * (y - p)) - penalty @ found)
        below = [k for k, v in zip(kept, found, strict=False) if k in least_zero and v < 0]
        if not below:
            result = np.zeros(x.shape[1] + 1)
            result[[*kept, -1]] = found
            return result
        kept = [k for k in kept if k not in below]


# -- answerability -------------------------------------------------------------------------------------------


def cases(maker: Maker, bundle: dict[str, Any]) -> list[Case]:
    """Questions with and without their answer, of what was held out."""
    rng = random.Random(SEED)
    made: list[Case] = []
    asked = rng.sample(
        maker.by_kind["clapnq_train"], min(QUESTIONS["clapnq"], len(maker.by_kind["clapnq_train"]))
    )
    for i in asked:
        made += clapnq_cases(maker, bundle, i, rng)
    for kind in ("squad1", "fairytaleqa"):
        own = maker.reader_kinds.get(kind, [])
        for i in rng.sample(own, min(QUESTIONS[kind], len(own))):
            made += reader_cases(maker, bundle, i, kind, rng)
    rng.shuffle(made)
    return made


def clapnq_cases(maker: Maker, bundle: dict[str, Any], at: int, rng: random.Random) -> list[Case]:
    """A question of Natural Questions: the sentences that answer among others alike, and those alone."""
    _, question, _, answer, _ = bundle["pairs"][at]
    near = maker.near_wrong(("p", at), " ".join(answer), 6)
    if len(near) < 2:
        return []
    others = [" ".join(s[:7]) for s in near]
    place = rng.randrange(3)
    fill = near[0][:4]
    text = " ".join([*fill[:place], *answer, *fill[place:]])
    more = rng.choice((0, 0, len(others) - 1))
    passages = [text, *others[1 : 1 + more]]
    rng.shuffle(passages)
    holder = passages.index(text)
    right = Case(question, passages, True, holder, source="clapnq")
    return [right, Case(question, others[: 1 + more], False, source="clapnq")]


def reader_cases(maker: Maker, bundle: dict[str, Any], at: int, kind: str, rng: random.Random) -> list[Case]:
    """A question of a reading test: its passage among others of its article, and three ways to miss it."""
    question, position, spans, answerable = bundle["reader"][at]
    group, _, sentences = bundle["passages"][position]
    text = " ".join(sentences)
    if not answerable or not spans:
        return [Case(question, [text], False, source=kind)]
    answers = [a for _, a in spans]
    key = keyset(question)
    others = [" ".join(bundle["passages"][p][2]) for p in maker.of_group[group] if p != position]
    others = [t for t in others if not any(a.lower() in t.lower() for a in answers)]
    others.sort(key=lambda t: -len(key & keyset(t)))
    more = rng.choice((0, 0, 2, 6))
    passages = [text, *others[:more]]
    rng.shuffle(passages)
    told = [r[2][0][1] for r in (bundle["reader"][j] for j in maker.of_passage[position]) if r[2]]
    wrong = [t for t in told if not any(t in a or a in t for a in answers) and t not in question]
    right = Case(question, passages, True, passages.index(text), source=kind)
    right.wrong = statement(question, rng.choice(wrong)) if wrong else ""
    found = [right]
    if others:
        found.append(Case(question, others[: 1 + more], False, source=kind))
    rest = [s for s in sentences if not any(a.lower() in s.lower() for a in answers)]
    if len(rest) > 1 and rng.random() < 0.6:
        found.append(Case(question, [" ".join(rest), *others[:more]], False, source=kind))
    alone = next((s for s in sentences if answers[0] in s), "")
    if key & keyset(alone) and rng.random() < 0.5:  # A passage of one sentence.
        found.append(Case(question, [alone], True, 0, source=kind))
        found += [Case(question, [s], False, source=kind) for s in rest if len(key & keyset(s)) > 1][:1]
    changed = corrupt(question, text, " ".join(others[:3]), rng)
    if changed is not None and changed[3] and rng.random() < 0.6:
        found.append(Case(changed[0], passages, False, source=kind))
    return found


@dataclass
class Scored:
    """A case with the features of its windows, and the passage of each."""

    case: Case
    rows: Rows
    places: list[int]

    def whole(self, fitted: Rows) -> list[float]:
        """The features of the case, by a model of windows."""
        return parts.case_features((self.rows @ fitted[:-1] + fitted[-1]).tolist())


def features(judge: LocalJudge, made: Sequence[Case]) -> list[Scored]:
    """Features of all windows of all cases; those without windows are left out."""
    result = []
    for case in made:
        material, asked = parse_passages(tuple(case.passages)), question_words(case.question)
        windows = parts.candidate_windows(material, asked)
        if not asked or not windows or not material.readable:
            continue
        read = parts.read_windows(case.question, material, asked, windows, judge.loaded_reader())
        rows = [parts.answer_features(material, asked, w, r) for w, r in zip(windows, read, strict=True)]
        result.append(Scored(case, np.array(rows), [w[0].passage for w in windows]))
    return result


def fit_answerability(scored: Sequence[Scored], name: str) -> dict[str, Rows]:
    """A model of windows, fitted on the best window of each case, and one of cases."""
    width = scored[0].rows.shape[1]
    windows = np.zeros(width + 1)
    windows[3 if width > 3 else 0] = 1.0  # The reader's margin, or the share of words.
    signed = tuple(range(width))  # More of any of them is never evidence against an answer.
    for _ in range(8):
        x, y, weights = [], [], []
        for item in scored:
            odds = item.rows @ windows[:-1]
            own = [i for i, p in enumerate(item.places) if not item.case.answered or p == item.case.holder]
            others = [i for i in range(len(odds)) if i not in own]
            for chosen, label, weight in ((own, float(item.case.answered), 1.0), (others, 0.0, 0.5)):
                if chosen:
                    x.append(item.rows[max(chosen, key=lambda i: odds[i])])
                    y.append(label)
                    weights.append(weight)
        windows = logistic(np.array(x), np.array(y), np.array(weights), least_zero=signed)
    best = [s.whole(windows) for s in scored]
    labels = np.array([float(s.case.answered) for s in scored])
    # Both kinds of question weigh alike.
    balance = np.where(labels == 1, 0.5 / labels.mean(), 0.5 / (1 - labels.mean()))
    return {name: windows, f"{name}_all": logistic(np.array(best), labels, balance)}


def probabilities(scored: Sequence[Scored], fitted: dict[str, Rows], name: str) -> Rows:
    """Probability of each case."""
    windows, whole = fitted[name], fitted[f"{name}_all"]
    x = np.array([s.whole(windows) for s in scored])
    return 1 / (1 + np.exp(-(x @ whole[:-1] + whole[-1])))


# -- thresholds ----------------------------------------------------------------------------------------------


def thresholds(scored: Sequence[Scored], found: Rows, judge: LocalJudge) -> dict[str, float]:
    """The three thresholds by the rules above; of answers, the lower one of both probabilities counts."""
    answered = np.array([s.case.answered for s in scored])
    wrong = []
    for item, p in zip(scored, found, strict=True):
        if item.case.wrong:
            held = judge.supported(item.case.question, item.case.wrong, item.case.passages)
            wrong.append(min(float(p), held if held is not None else 0.0))
    wrong.sort(reverse=True)
    return {
        "absent_below": ABSENT_BELOW,
        "min_probability": 0.5,
        "widen_below": round(float(np.quantile(found[answered], LOST)), 2),
        "accept_at": round(math.floor(100 * wrong[int(WRONG * len(wrong))]) / 100 + 0.01, 2),
    }


def auroc(labels: Rows, scores: Rows) -> float:
    """Chance that a positive scores above a negative; ties count half."""
    higher = scores[labels == 1][:, None] - scores[labels == 0][None]
    return float(((higher > 0) + 0.5 * (higher == 0)).mean())


def calibration_error(labels: Rows, p: Rows) -> float:
    """Expected calibration error over ten equal bins."""
    bins = np.minimum((p * 10).astype(int), 9)
    used = np.unique(bins)
    return float(sum((bins == b).mean() * abs(labels[bins == b].mean() - p[bins == b].mean()) for b in used))


def fit(bundle: dict[str, Any], near: dict[Any, Any]) -> dict[str, Any]:
    """All of ``judge.json``; prints how well it does on the half of the questions that was not fitted on."""
    maker = Maker(bundle, SEED, near=near, held=True)
    for kind, own in maker.reader_kinds.items():  # Held out by `Maker`, and by the reader's training too.
        groups = {i: bundle["passages"][bundle["reader"][i][1]][0] for i in own}
        maker.reader_kinds[kind] = [i for i in own if zlib.crc32(groups[i].encode()) % HELD_OUT == 0]
    made = cases(maker, bundle)
    half = len(made) // 2
    fitted: dict[str, Rows] = {}
    report: dict[str, Any] = {}
    for name, reads in (("answerable_words", False), ("answerable", True)):
        judge = LocalJudge(model=reads)
        scored = features(judge, made)
        first, second = scored[:half], scored[half:]
        found = probabilities(second, fit_answerability(first, name), name)
        labels = np.array([float(s.case.answered) for s in second])
        report[name] = {
            "auroc": round(auroc(labels, found), 3),
            "calibration_error": round(calibration_error(labels, found), 3),
            "questions": len(second),
        }
        for source in QUESTIONS:
            some = np.array([s.case.source == source for s in second])
            if 0 < labels[some].sum() < some.sum():
                report[name][source] = round(auroc(labels[some], found[some]), 3)
        fitted |= fit_answerability(scored, name)
    result: dict[str, Any] = json.loads(coefficients.COEFFICIENTS.read_text(encoding="utf-8"))
    result |= {n: {"weights": [round(float(v), 4) for v in w]} for n, w in fitted.items()}
    with mock.patch.object(coefficients, "coefficients", lambda: result):
        result["thresholds"] |= thresholds(scored, probabilities(scored, fitted, name), judge)
    logger.info("half of the questions, not fitted on: %s", json.dumps(report))
    return result


def main() -> None:
    """Fit, print, and with ``--write`` replace ``judge.json``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SAGE_DATA", "../shared/data")))
    parser.add_argument("--cache", type=Path, help="texts, taken apart; made where missing")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    bundle, near = prepared(arguments.data, arguments.cache)
    text = json.dumps(fit(bundle, near), indent=1)
    print(text)
    if arguments.write:
        coefficients.COEFFICIENTS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
