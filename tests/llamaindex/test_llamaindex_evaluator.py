"""The local judge as LlamaIndex evaluators."""

import pytest
from llama_index.core.evaluation import BaseEvaluator

from sage_core.answering import LocalJudge
from sage_core.errors import InputError
from sage_llamaindex import LocalContextRelevancyEvaluator, LocalFaithfulnessEvaluator, feedback_of
from tests.fakes.llamaindex import ScriptedLLM, grade
from tests.fakes.llamaindex_engines import both, engine

CONTEXTS = ["The Kestrel Bridge was opened in 1932 by Jack Lang. It carries eight lanes of traffic."]
JUDGE = LocalJudge(model=False)


async def test_a_supported_response_passes_and_another_does_not():
    evaluator = LocalFaithfulnessEvaluator(JUDGE)
    assert isinstance(evaluator, BaseEvaluator)
    good = await evaluator.aevaluate(
        "Who opened it?", "Jack Lang opened the Kestrel Bridge in 1932.", CONTEXTS
    )
    bad = await evaluator.aevaluate(
        "Who opened it?", "Emperors hunted boars around Vienna in 1571.", CONTEXTS
    )
    assert good.passing and not bad.passing
    assert good.score > bad.score
    assert "Jack Lang" in good.feedback


async def test_unsure_is_invalid_not_wrong():
    result = await LocalFaithfulnessEvaluator(JUDGE).aevaluate(None, "この橋は1932年に開通した。", CONTEXTS)
    assert result.invalid_result and result.passing is None and result.score is None


async def test_relevancy_looks_at_the_contexts():
    evaluator = LocalContextRelevancyEvaluator(JUDGE)
    good = await evaluator.aevaluate("When was the Kestrel Bridge opened?", contexts=CONTEXTS)
    bad = await evaluator.aevaluate("When was the Kestrel Bridge opened?", contexts=["Seals sleep on rocks."])
    none = await evaluator.aevaluate("When was the Kestrel Bridge opened?", contexts=[])
    assert good.passing and not bad.passing
    assert "1932" in good.feedback
    assert none.score == 0.0


def test_what_is_missing_is_told():
    with pytest.raises(InputError, match="contexts"):
        LocalFaithfulnessEvaluator(JUDGE).evaluate(response="It opened.")
    with pytest.raises(InputError, match="query"):
        LocalContextRelevancyEvaluator(JUDGE).evaluate(contexts=CONTEXTS)
    with pytest.raises(InputError, match="threshold"):
        LocalFaithfulnessEvaluator(JUDGE, threshold=2)
    with pytest.raises(InputError, match="prompts"):
        LocalFaithfulnessEvaluator(JUDGE)._update_prompts({"x": None})
    assert LocalFaithfulnessEvaluator(JUDGE).get_prompts() == {}


# Grades without a call, in the engine


async def test_local_grades_without_a_call_and_says_so():
    llm = ScriptedLLM.of(["text 0 and text 1 say so"], [grade(9)])
    for response in await both(engine(llm, critic="local", max_rounds=1)):
        result = feedback_of(response)
        assert result.verdict.source == "local judge"
        assert result.usage_by_role["judge"].calls == 0
    assert llm.asked("critic") == []


async def test_auto_asks_the_llm_where_the_judge_is_unsure():
    llm = ScriptedLLM.of(["この橋は1932年に開通した。"], [grade(9)])
    (response, _) = await both(engine(llm, critic="auto", max_rounds=1))
    assert feedback_of(response).verdict.source in ("critic", "local judge")
    with pytest.raises(InputError, match="auto"):
        engine(llm, critic="nobody")
