"""Printed figures recomputed from the papers' own tables (`benchmarks/claims.py`)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sage_eval.experiment import experiment_names

from sage_core.errors import InputError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from claims import Claim, check, checked_claims, evaluate


def claim(name: str, says: str) -> tuple[float, bool]:
    """The recomputed figure of the claim that begins so, and whether it holds."""
    (found,) = [c for c in checked_claims(name) if c.claim.says.startswith(says)]
    return round(found.recomputed, 2), found.holds


def test_every_claim_can_be_recomputed() -> None:
    assert sum(len(checked_claims(name)) for name in experiment_names()) == 95


def test_the_impossible_pair_of_table_seven() -> None:
    assert claim("table7", "accuracy of SAGE on the questions that are not hard") == (103.83, False)
    assert claim("table7", "the same for RAPTOR") == (88.97, True)
    assert claim("table7", "average improvement of the abstract") == (61.11, False)
    assert claim("table7", "SAGE+GPT-4 over DPR+DeBERTaV3-large, hard") == (111.36, False)


def test_cost_efficiency_of_table_eleven() -> None:
    assert claim("table11", "SAGE over BM25") == (54.8, False)
    assert claim("table11", "SAGE over DPR") == (45.14, True)
    assert claim("table11", "SAGE over SBERT") == (49.25, True)
    assert claim("table11", "mean gain in cost efficiency") == (49.73, False)
    assert claim("table11", "relative cost efficiency of BM25") == (0.65, True)


def test_gains_of_tables_two_three_four_five_and_six_follow_from_them() -> None:
    for name in ("table2", "table3", "table4", "table5", "table6"):
        assert all(c.holds for c in checked_claims(name)), name


def test_memory_and_corpus_of_tables_eight_and_nine() -> None:
    assert claim("table8", "more host memory") == (40.62, False)
    assert claim("table9", "more host memory") == (31.18, False)
    assert claim("table8", "tokens segmented for SAGE") == (11636.25, False)
    assert claim("table8", "tokens segmented for BM25 + SAGE") == (3265.08, False)


def test_figures_of_table_twelve_and_of_figure_seven() -> None:
    assert claim("table12", "GPT-4o-mini over GPT-3.5, BM25") == (17.22, False)
    assert claim("table12", "GPT-4o-mini over GPT-3.5, DPR") == (20.86, True)
    assert claim("fig7", "tokens/s that the time saved on quality") == (373.76, False)


def test_figures_of_the_chronicles() -> None:
    assert claim("chronicles-table6", "improvement in MRR@10") == (62.65, False)
    assert claim("chronicles-table6", "the same as a difference in points") == (35.4, True)
    assert claim("chronicles-table2", "degradation of no context with gpt-4,") == (-29.14, True)
    assert claim("chronicles-table2", "degradation of no context with Gemini Pro") == (-49.34, False)
    assert claim("chronicles-table2", "baseline of the abstract") == (64.36, False)
    assert claim("chronicles-table8", "final score of the abstract") == (98.54, True)


def test_a_claim_with_a_limit_is_about_what_is_possible() -> None:
    assert not check(Claim("share", "2 * 60", limit=100), {}).holds
    assert check(Claim("share", "2 * 50", limit=100), {}).holds


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("1 + 2 * 3", 7),
        ("mean([1, 2, 6])", 3),
        ("max([1, cell('a', 'x')])", 4),
        ("gain('a', 'b', 'x')", 100),
        ("-2 ** 2", -4),
    ],
)
def test_formulas(formula: str, value: float) -> None:
    assert evaluate(formula, {("a", "x"): 4.0, ("b", "x"): 2.0}) == value


@pytest.mark.parametrize(
    "formula",
    [
        "__import__('os')",
        "cell('a')",
        "cell('a', 'y')",
        "1 / 0",
        "'a'",
        "1 +",
        "[1]",
        "x",
        "mean([])",
        "().a",
    ],
)
def test_formulas_that_are_refused(formula: str) -> None:
    with pytest.raises(InputError):
        evaluate(formula, {("a", "x"): 4.0})
