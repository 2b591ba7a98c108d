"""Ranked lists of the development questions, and what keeping the first k of each would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from calibrate_reranker import Example
from numpy.typing import NDArray

from sage_core.selection import Scale

Floats = NDArray[np.float64]
RESAMPLES = 2000
MOST_TOKENS = 1000
STEP = 0.005  # Recall that a place on the front must add.


@dataclass(frozen=True)
class Lists:
    """Ranked lists of one score source; arrays are per question and number kept, ``(questions, N + 1)``."""

    name: str
    scale: Scale
    scores: list[list[float]]
    recall: Floats
    tokens: Floats
    characters: Floats
    covered: Floats
    evidence: Floats
    weight: Floats

    @cached_property
    def oracle(self) -> tuple[Floats, Floats]:
        """Mean tokens, ``(points,)``, and recall of every question's best k, ``(points, questions)``."""
        points = []
        for price in np.geomspace(1e-1, 1e-7, 200):
            k = 1 + np.argmax(self.recall[:, 1:] - price * self.tokens[:, 1:], axis=1)
            points.append((self.mean(self.at(self.tokens, k)), self.at(self.recall, k)))
        tokens, recall = zip(*points, strict=True)
        return np.array(tokens), np.stack(recall)

    def at(self, values: Floats, k: NDArray[np.int64]) -> Floats:
        """The value of each question at its own k."""
        picked: Floats = values[np.arange(len(k)), k]
        return picked

    def mean(self, values: Floats) -> float:
        """Weighted mean over questions: every set weighs the same."""
        return float(values @ self.weight)


@dataclass(frozen=True)
class Result:
    """What one setting kept, per question."""

    family: str
    setting: str
    k: NDArray[np.int64]
    tokens: float
    recall: float


def build(name: str, scale: Scale, sets: dict[str, list[Example]], scores: dict[str, list[Floats]]) -> Lists:
    """Sort every list by its scores and accumulate what each number kept would give."""
    width = max(len(s) for rows in scores.values() for s in rows) + 1
    columns: dict[str, list[Floats]] = {"recall": [], "tokens": [], "characters": [], "covered": []}
    evidence, weight, kept = [], [], []
    for set_name, questions in sets.items():
        for example, score in zip(questions, scores[set_name], strict=True):
            order = np.argsort(-score, kind="stable")
            found = _prefix(example.covered[order], width)
            columns["covered"].append(found)
            columns["recall"].append(found / example.evidence)
            columns["tokens"].append(_prefix(example.tokens[order], width))
            columns["characters"].append(_prefix(example.characters[order], width))
            evidence.append(float(example.evidence))
            weight.append(1 / len(sets) / len(questions))
            kept.append([float(s) for s in score])
    arrays = {key: np.stack(rows) for key, rows in columns.items()}
    return Lists(name, scale, kept, **arrays, evidence=np.array(evidence), weight=np.array(weight))


def _prefix(values: NDArray[np.int64], width: int) -> Floats:
    """0 and the running sums, held at the last where the list is shorter."""
    sums = np.concatenate([[0], np.cumsum(values)]).astype(float)
    return np.pad(sums, (0, width - len(sums)), mode="edge")


def fixed_at(lists: Lists, tokens: float) -> Floats:
    """Recall of each question under fixed k, interpolated between k to the given mean tokens."""
    means = lists.weight @ lists.tokens / lists.weight.sum()
    upper = int(np.clip(np.searchsorted(means, tokens), 1, len(means) - 1))
    share = float(np.clip((tokens - means[upper - 1]) / max(means[upper] - means[upper - 1], 1e-9), 0, 1))
    mixed: Floats = (1 - share) * lists.recall[:, upper - 1] + share * lists.recall[:, upper]
    return mixed


def oracle_at(lists: Lists, tokens: float) -> Floats:
    """Recall of each question under its best k (at least 1), interpolated to the given mean tokens."""
    means, recall = lists.oracle
    upper = int(np.clip(np.searchsorted(means, tokens), 1, len(means) - 1))
    share = float(np.clip((tokens - means[upper - 1]) / max(means[upper] - means[upper - 1], 1e-9), 0, 1))
    mixed: Floats = (1 - share) * recall[upper - 1] + share * recall[upper]
    return mixed


def bootstrap(delta: Floats, weight: Floats) -> tuple[float, float]:
    """95% interval of the weighted mean difference, over resampled questions."""
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(delta), (RESAMPLES, len(delta)))
    means = (delta * weight)[picks].sum(axis=1) / weight[picks].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def gap_closed(lists: Lists, recall: Floats, tokens: float) -> tuple[float, float, float]:
    """(rule - fixed k) / (oracle - fixed k) at the same mean tokens, and its 95% interval; NaN for no gap.

    Questions are resampled together, so that both differences vary as they do.
    """
    fixed, oracle = fixed_at(lists, tokens), oracle_at(lists, tokens)
    part, whole = (recall - fixed) * lists.weight, (oracle - fixed) * lists.weight
    if whole.sum() <= 1e-6:
        return (float("nan"),) * 3
    picks = np.random.default_rng(0).integers(0, len(part), (RESAMPLES, len(part)))
    low, high = np.percentile(
        part[picks].sum(axis=1) / np.maximum(whole[picks].sum(axis=1), 1e-9), [2.5, 97.5]
    )
    return float(part.sum() / whole.sum()), float(low), float(high)


def quality(lists: Lists, k: NDArray[np.int64]) -> tuple[float, float]:
    """Pooled precision (all covered over all retrieved characters) and mean IoU."""
    covered, characters = lists.at(lists.covered, k), lists.at(lists.characters, k)
    iou = covered / (characters + lists.evidence - covered)
    return lists.mean(covered) / lists.mean(characters), lists.mean(iou)


def shuffled(lists: Lists, k: NDArray[np.int64]) -> tuple[float, float]:
    """`quality` of the same k's dealt to random questions, mean of 20 deals."""
    rng = np.random.default_rng(0)
    precision, iou = np.mean([quality(lists, rng.permutation(k)) for _ in range(20)], axis=0)
    return float(precision), float(iou)


def front(results: Sequence[Result]) -> list[Result]:
    """The settings that no other beats in both, from sparing to lavish, by steps of half a point."""
    kept: list[Result] = []
    for result in sorted(results, key=lambda r: (r.tokens, -r.recall)):
        if result.tokens <= MOST_TOKENS and (not kept or result.recall >= kept[-1].recall + STEP):
            kept.append(result)
    return kept


def table(lists: Lists, results: Sequence[Result]) -> list[str]:
    """The front as lines of a Markdown table."""
    rows = [
        "| rule | setting | tokens | recall | fixed k | oracle | gap closed [95%] "
        "| pooled P (shuffled) | IoU (shuffled) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in front(results):
        fixed = lists.mean(fixed_at(lists, r.tokens))
        oracle = lists.mean(oracle_at(lists, r.tokens))
        closed = share(*gap_closed(lists, lists.at(lists.recall, r.k), r.tokens))
        (precision, iou), (precision_0, iou_0) = quality(lists, r.k), shuffled(lists, r.k)
        rows.append(
            f"| {r.family} | {r.setting} | {r.tokens:.0f} | {r.recall:.3f} | {fixed:.3f} | {oracle:.3f} | "
            f"{closed} | {precision:.3f} ({precision_0:.3f}) | {iou:.3f} ({iou_0:.3f}) |"
        )
    return rows


def share(value: float, low: float, high: float) -> str:
    """A share of the gap with its interval; a dash where there is no gap."""
    return "-" if np.isnan(value) else f"{value:+.0%} [{low:+.0%}, {high:+.0%}]"
