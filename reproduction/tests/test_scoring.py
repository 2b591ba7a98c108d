"""What a run writes down about a question: metrics by name, the hard part, and an LLM's score."""

from __future__ import annotations

from sage_eval.metrics.registry import Scorer
from sage_eval.records import EvalQuestion, MethodResult

from sage_app.models import OpenAIChat
from tests.fakes.llm_server import LLMServer

QUESTION = EvalQuestion("q", "d", "Where is the mill?", answers=("by the weir",))
RESULT = MethodResult("at the weir", None, ())


def test_a_judge_scores_or_is_unreadable_but_never_low():
    with LLMServer(['{"score": 10}', "no score", "8"]) as running:
        chat = OpenAIChat("test", base_url=running.base_url, api_key="sk-test", max_retries=0)
        scorer = Scorer(["f1", "judge_score"], judge_model=chat)
        found = [scorer(QUESTION, RESULT, {}) for _ in range(3)]
    assert [f["judge_score"] for f in found] == [10, None, None]
    assert all(0 < f["f1"] < 1 for f in found)


def test_without_a_judge_or_references_there_is_no_score():
    assert "judge_score" not in Scorer(["f1", "judge_score"])(QUESTION, RESULT, {})
    with LLMServer(["10"]) as running:
        chat = OpenAIChat("test", base_url=running.base_url, api_key="sk-test")
        assert Scorer(["judge_score"], judge_model=chat)(EvalQuestion("q", "d", "?"), RESULT, {}) == {}
        assert not running.requests


def test_hard_accuracy_is_of_the_hard_part_only():
    scorer = Scorer(["accuracy", "accuracy_hard"])
    result = MethodResult("b", 1, ())
    hard = EvalQuestion("q", "d", "?", options=("a", "b"), gold=1, hard=True)
    easy = EvalQuestion("q", "d", "?", options=("a", "b"), gold=0, hard=False)
    assert scorer(hard, result, {}) == {"accuracy": 1, "accuracy_hard": 1}
    assert scorer(easy, result, {}) == {"accuracy": 0}
