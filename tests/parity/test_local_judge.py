"""The local judge as evaluator, checker and critic, in both frameworks."""

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from llama_index.core.evaluation import BaseEvaluator

from sage_core import FeedbackConfig
from sage_core.errors import InputError
from sage_core.verify import LocalJudge
from sage_langchain import SageGrounding, create_sage_chain
from sage_llamaindex import LocalFaithfulnessEvaluator
from tests.fakes.doors import at_door
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM, grade, trace_of
from tests.fakes.llamaindex_engines import both, engine

TEXT = "The Kestrel Bridge was opened in 1932 by Jack Lang. It carries eight lanes of traffic."
JUDGE = LocalJudge(model=False)
CHECKER = SageGrounding(JUDGE)


class TestEvaluators:
    async def test_a_supported_response_passes_and_another_does_not(self) -> None:
        evaluator = LocalFaithfulnessEvaluator(JUDGE)
        assert isinstance(evaluator, BaseEvaluator) and evaluator.get_prompts() == {}
        good, bad = [
            await evaluator.aevaluate("Who opened it?", response, [TEXT])
            for response in (
                "Jack Lang opened the Kestrel Bridge in 1932.",
                "Emperors hunted boars around Vienna in 1571.",
            )
        ]
        assert good.passing and not bad.passing and good.score > bad.score
        assert "Jack Lang" in good.feedback

    async def test_unsure_is_invalid_not_wrong(self) -> None:
        result = await LocalFaithfulnessEvaluator(JUDGE).aevaluate(None, "この橋は1932年に開通した。", [TEXT])
        assert result.invalid_result and result.passing is None and result.score is None

    def test_what_is_missing_is_told(self) -> None:
        with pytest.raises(InputError, match="contexts"):
            LocalFaithfulnessEvaluator(JUDGE).evaluate(response="It opened.")
        with pytest.raises(InputError, match="threshold"):
            LocalFaithfulnessEvaluator(JUDGE, threshold=2)
        with pytest.raises(InputError, match="prompts"):
            LocalFaithfulnessEvaluator(JUDGE)._update_prompts({"x": None})


class TestChecker:
    async def test_it_follows_a_chain_and_keeps_its_output(self) -> None:
        answer, question = "It carries eight lanes. Emperors hunted boars.", "How many lanes does it carry?"
        given = {"input": question, "answer": answer, "context": [Document(TEXT)]}
        output = (RunnableLambda(lambda _: given) | CHECKER).invoke(question)
        assert given.items() <= output.items() and await CHECKER.ainvoke(given) == output
        verdict = output["verdict"]
        first, second = [m for m in verdict.marks if m.text.strip()]
        assert first.probability > second.probability
        assert first.span.of(answer) == first.text
        assert 0 < verdict.probability < first.probability

    def test_answers_and_contexts_of_other_kinds(self) -> None:
        message = AIMessage("It opened in 1932.")
        output = CHECKER.invoke({"answer": message, "context": [TEXT]})
        assert output["verdict"].probability > 0.5 and output["answer"] is message
        assert CHECKER.invoke({"answer": "", "context": "text"})["verdict"].marks == ()
        with pytest.raises(InputError, match="answer"):
            CHECKER.invoke({"answer": "It carries eight lanes."})


class TestCritic:
    """Grades without a call."""

    def test_of_what_kind_it_is(self) -> None:
        def chain(**settings: str) -> str:
            return create_sage_chain(
                ScriptedChat(replies=[]), lambda _: [], **at_door(**settings)
            ).loop.critic

        assert (
            chain(critic="auto") == chain(loop=FeedbackConfig(critic="auto")) == "auto" and chain() == "llm"
        )
        for make in (lambda: chain(critic="nobody"), lambda: engine(ScriptedLLM.of(), critic="nobody")):
            with pytest.raises(InputError, match="nobody"):
                make()

    async def test_auto_asks_the_llm_where_the_judge_is_unsure(self) -> None:
        llm = ScriptedLLM.of(["この橋は1932年に開通した。"], [grade(9)])
        for response in await both(engine(llm, critic="auto", max_rounds=1)):
            assert trace_of(response).verdict.source == "critic"
