"""The rule that maximizes the expected F-measure, against brute force."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.selection.cut import select
from sage_core.selection.rules import ExpectedF

PROBABILITIES = st.lists(st.floats(0, 1, allow_nan=False), min_size=1, max_size=30)


def keep(scores, beta=1.0, **bounds):
    return select(scores, scale="probability", rule=ExpectedF(beta), min_k=1, **bounds).cut


def test_sure_scores_are_kept_and_hopeless_ones_are_not():
    assert keep([1.0, 1.0, 0.0, 1.0, 0.0]) == 3
    assert keep([0.9, 0.8, 0.02, 0.01]) == 2
    assert keep([0.95] + [0.01] * 29) == 1


def test_unsure_questions_get_more():
    assert keep([0.2] * 10, beta=2) == 10
    assert keep([0.4, 0.3, 0.3, 0.2, 0.1], beta=2) > keep([0.9, 0.3, 0.1, 0.05, 0.02], beta=2)


@given(PROBABILITIES, st.floats(0.25, 8))
def test_no_other_number_is_expected_to_do_better(scores, beta):
    ranked, total = sorted(scores, reverse=True), sum(scores)
    square = beta * beta

    def expected(k):
        return (1 + square) * sum(ranked[:k]) / (k + square * total)

    if total > 0:
        assert expected(keep(scores, beta)) >= max(map(expected, range(1, len(ranked) + 1))) - 1e-9


@given(PROBABILITIES)
def test_a_larger_beta_never_keeps_fewer(scores):
    if sum(scores) > 1e-9:
        cuts = [keep(scores, beta) for beta in (0.5, 1, 2, 4)]
        assert cuts == sorted(cuts)


def test_no_evidence_and_bad_arguments():
    assert keep([0.0, 0.0]) == 2
    assert keep([0.2] * 10, beta=3, max_k=4) == 4
    for beta in (0, -1, 1000):
        with pytest.raises(InputError):
            ExpectedF(beta)
