"""The claims of ``benchmarks/feedback_cost.py``, on a small sample."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sage_core.feedback import FeedbackConfig
from sage_core.selection import SelectionConfig

pytest.importorskip("bm25s")


@pytest.mark.slow
@pytest.mark.parametrize("critic_errors", [0.0, 0.1])
def test_more_right_answers_for_fewer_calls_and_tokens(
    sage_data: Path, monkeypatch: pytest.MonkeyPatch, critic_errors: float
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    bench = importlib.import_module("feedback_cost")
    cases = bench.load(sage_data, "clapnq_dev", 300, seed=7)
    fitted = bench.calibrate(cases[::2])
    measured = [
        replace(c, scores=tuple(float(s) for s in 1 / (1 + np.exp(-bench.features(c) @ fitted))))
        for c in cases[1::2]
    ]
    oracle = bench.Oracle(abstains=0.5, critic_errors=critic_errors, seed=7)
    arms = {
        a.name: a
        for a in bench.arms(FeedbackConfig(selection=SelectionConfig(rule=bench.TopP(0.9), min_k=3)))
    }
    none, paper, ours = (
        bench.run_arm(arms[name], measured, oracle) for name in ("no feedback", "paper, literal ±1", "ours")
    )
    assert sum(ours.right) > sum(none.right)
    assert sum(ours.right) >= sum(paper.right)
    assert sum(ours.calls) < sum(paper.calls)
    assert sum(ours.tokens) < sum(paper.tokens)
    assert all(now or not first for first, now in zip(ours.first_right, ours.right, strict=True))
    assert ours.repeated == 0 < paper.repeated
