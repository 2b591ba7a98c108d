"""A cut with a promise: the promise is kept on further questions, and the cut is the one that `select` makes."""

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sage_app import SageSettings
from sage_app.calibrate.cut import RankedQuestion, _curves, _selection, calibrate, p_value
from sage_core.errors import InputError
from sage_core.selection import FixedK, SelectionConfig
from sage_core.selection.scales import Scale


def _questions(n: int, seed: int) -> list[RankedQuestion]:
    """Ranked lists whose probabilities are about right, and of which some miss evidence altogether."""
    chance = np.random.default_rng(seed)
    found = []
    while len(found) < n:
        p = np.sort(chance.beta(0.3, 2, 25))[::-1]
        relevant = chance.random(25) < p
        needed = relevant.sum() + (chance.random() < 0.05)
        if needed:
            losses = 1 - np.concatenate([[0], np.cumsum(relevant)]) / needed
            tokens = chance.integers(20, 130, 25)
            found.append(RankedQuestion(tuple(p.tolist()), tuple(tokens.tolist()), tuple(losses.tolist())))
    return found


POOL = _questions(1_500, 0)
CURVES = {curve.family: curve for curve in _curves(POOL, "probability")}


def _losses(n: int, limit: float, confidence: float | None, splits: int) -> list[float]:
    """Mean loss on the rest of the pool, of the cut calibrated on ``n`` of it, again and again."""
    found = []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(POOL))
        cut = calibrate([POOL[i] for i in order[:n]], loss=limit, confidence=confidence, seed=seed)
        curve = CURVES[cut.family]
        at = list(curve.parameters).index(cut.parameter) if cut.parameter in curve.parameters else -1
        found.append(float(curve.losses[order[n:], at].mean()))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("n", "limit"), [(30, 0.2), (100, 0.1)])
def test_on_average_no_more_is_lost_than_the_limit(n: int, limit: float) -> None:
    losses = _losses(n, limit, None, 100)
    assert np.mean(losses) <= limit + 2 * np.std(losses) / math.sqrt(len(losses))
    assert np.mean(losses) > limit / 2, "nor is the promise kept by keeping everything"


@pytest.mark.slow
def test_with_confidence_hardly_a_split_loses_more() -> None:
    losses = np.array(_losses(100, 0.15, 0.9, 60))
    assert np.mean(losses <= 0.15) >= 0.9
    assert losses.mean() > 0.15 / 4


def test_confidence_costs_tokens_and_more_questions_make_it_cheaper() -> None:
    few, sure = calibrate(POOL[:100], loss=0.15), calibrate(POOL[:100], loss=0.15, confidence=0.95)
    assert few.tokens < sure.tokens
    assert sure.loss < few.loss <= 0.15
    assert calibrate(POOL[:800], loss=0.15, confidence=0.95).tokens < sure.tokens


@pytest.mark.parametrize("scale", ["probability", "cosine", "logit"])
def test_a_family_cuts_as_the_selection_that_is_saved_does(scale: Scale) -> None:
    to: Callable[[float], float] = (lambda p: math.log(p / (1 - p))) if scale == "logit" else (lambda p: p)
    questions = [
        RankedQuestion((*(round(to(p), 2) for p in q.scores[:12] if p), None), q.tokens[:13], q.losses[:14])
        for q in POOL[:15]
    ]
    for curve in _curves(questions, scale):
        for at in range(0, len(curve.parameters), 7):
            config = _selection(curve.family, curve.parameters[at])
            for row, q in enumerate(questions):
                cut = config.select(q.scores, scale, q.tokens).cut
                assert curve.tokens[row, at] == sum(q.tokens[:cut]), (curve.family, curve.parameters[at])
                assert curve.losses[row, at] == q.losses[cut]
        assert all(np.all(b >= a) for a, b in pairwise(curve.tokens.T)), "each keeps more than the one before"


def test_the_cut_is_saved_and_loaded(tmp_path: Path) -> None:
    for family in CURVES:
        selection = _selection(family, CURVES[family].parameters[5])
        path = SageSettings(selection=selection).save(tmp_path / "settings.json")
        assert SageSettings.load(path).selection == selection


def test_evidence_by_name() -> None:
    question = RankedQuestion.of(
        [0.1, None, 0.8], [5, 6, 7], [{"a"}, {"b"}, {"a", "other"}], {"a", "b", "missing"}
    )
    assert question.scores == (0.8, 0.1, None) and question.tokens == (7, 5, 6)
    assert question.losses == pytest.approx((1, 2 / 3, 2 / 3, 1 / 3))


def test_the_p_value_falls_with_questions_and_rises_with_losses() -> None:
    assert p_value(0.0, 10, 0.1) == pytest.approx(0.9**10)
    assert p_value(0.1, 1000, 0.1) == 1.0
    assert p_value(0.05, 400, 0.1) < p_value(0.05, 100, 0.1) < p_value(0.08, 100, 0.1) <= 1


def test_too_few_questions_say_how_many_are_needed() -> None:
    sure = RankedQuestion((0.9,), (10,), (1.0, 0.0))
    with pytest.raises(InputError, match="42"):
        calibrate([sure] * 20, confidence=0.95)
    calibrate([sure] * 42, confidence=0.95)
    with pytest.raises(InputError, match="13"):
        calibrate([sure] * 5)
    found = calibrate([sure] * 13)
    assert found.selection == SelectionConfig(rule=FixedK(1))


def test_what_the_candidates_do_not_hold_cannot_be_promised() -> None:
    missed = RankedQuestion((0.9,), (10,), (1.0, 0.5))
    with pytest.raises(InputError, match="candidates"):
        calibrate([missed] * 200)


@pytest.mark.parametrize(
    ("scores", "tokens", "losses"),
    [
        ((0.1, 0.9), (1, 1), (1.0, 0.5, 0.0)),
        ((0.9, 0.1), (1,), (1.0, 0.5, 0.0)),
        ((0.9,), (1,), (0.5, 1.0)),
        ((0.9,), (-1,), (1.0, 0.0)),
        ((0.9,), (1,), (1.0, math.nan)),
    ],
)
def test_lists_that_do_not_fit(scores: tuple[float], tokens: tuple[int], losses: tuple[float]) -> None:
    with pytest.raises(InputError):
        RankedQuestion(scores, tokens, losses)
