"""Metrics by name, and what is left out where a question lacks something."""

from __future__ import annotations

import pytest
from sage_eval.metrics import METRICS, metric, score_question
from sage_eval.metrics.registry import is_share
from sage_eval.records import EvalQuestion, Evidence, Hit, MethodResult, Piece

from sage_core.errors import InputError
from sage_core.text.spans import Span

QUESTION = EvalQuestion(
    "q",
    "d",
    "What lies on the mat?",
    answers=("the grey cat",),
    evidence=(Evidence("d", Span(0, 10)),),
    options=("a dog", "the grey cat"),
    gold=1,
    hard=True,
)
HIT, MISS = Piece("x" * 10, "d", Span(0, 10)), Piece("y" * 30, "d", Span(50, 80))
RESULT = MethodResult(
    "a grey cat",
    1,
    context=(MISS, HIT),
    ranked=(Hit(MISS, 0.9), Hit(MISS, 0.8), Hit(HIT, 0.7)),
    rounds=2,
)


def test_every_metric_scores_a_full_question():
    found = score_question(QUESTION, RESULT, [*METRICS, "recall@2", "recall@3", "mrr@10"])
    assert found.keys() == {*METRICS, "recall@2", "recall@3", "mrr@10"}
    assert found["accuracy"] == found["em"] == found["f1"] == 1
    assert found["rouge_l"] == pytest.approx(2 / 3)
    assert found["evidence_recall"] == found["all_evidence"] == 1
    assert found["evidence_precision"] == pytest.approx(10 / 40)
    assert (found["recall@2"], found["recall@3"]) == (0, 1)
    assert found["mrr@10"] == pytest.approx(1 / 3)
    assert found["rounds"] == 2


def test_what_a_question_lacks_is_left_out():
    bare = EvalQuestion("q", "d", "Why?")
    assert score_question(bare, RESULT, ["accuracy", "f1", "evidence_recall", "recall@5", "rounds"]) == {
        "rounds": 2
    }


def test_the_context_is_ranked_where_nothing_else_is_known():
    plain = MethodResult("", None, context=(MISS, HIT))
    found = score_question(QUESTION, plain, ["mrr@5", "accuracy", "f1"])
    assert found == {"mrr@5": 0.5, "accuracy": 0, "f1": 0}


def test_the_language_reaches_the_metrics():
    question = EvalQuestion("q", "d", "?", answers=("rio",))
    result = MethodResult("o rio", None, ())
    assert score_question(question, result, ["em"])["em"] == 0
    assert score_question(question, result, ["em"], language="pt")["em"] == 1


@pytest.mark.parametrize("name", ["f2", "recall", "recall@", "recall@0", "recall@x", "f1@3", ""])
def test_unknown_names_say_what_there_is(name):
    with pytest.raises(InputError, match="recall@k"):
        metric(name)


def test_right_on_hard_questions_is_a_share_like_any_accuracy():
    """Its interval is Wilson's and its p McNemar's: a report asks `is_share`."""
    assert all(is_share(name) for name in ("accuracy", "accuracy_hard", "f1", "recall@5"))
    assert not any(is_share(name) for name in ("judge_score", "rounds", "seconds", "calls"))
