"""Who may grade: evaluators of LlamaIndex, judges of the core, LLMs of any kind of interface."""

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core import Settings, SummaryIndex
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.evaluation import (
    AnswerRelevancyEvaluator,
    BaseEvaluator,
    CorrectnessEvaluator,
    EvaluationResult,
    FaithfulnessEvaluator,
    GuidelineEvaluator,
    RelevancyEvaluator,
)
from llama_index.core.prompts import PromptTemplate
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import TextNode
from llama_index.core.utils import get_tokenizer

from sage_core.feedback import Verdict
from sage_core.llm.usage import NO_USAGE, TokenUsage
from sage_llamaindex import SageNodeParser, SageNodePostprocessor, SageQueryEngine
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM, grade, trace_of


def engine(critic: Any, answers: Sequence[str] = ("one", "two", "three"), **options: Any) -> SageQueryEngine:
    sage = SageNodePostprocessor(min_k=2, gradient=0.99, scale="probability")
    return SageQueryEngine.from_args(
        FixedRetriever(0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2),
        llm=ScriptedLLM.of(list(answers)),
        node_postprocessors=[sage],
        critic=critic,
        **options,
    )


class FixedEvaluator(BaseEvaluator):
    """Gives results from a list, or raises what is an error in it; remembers what it was asked."""

    def __init__(self, *results: EvaluationResult | Exception | None) -> None:
        self.results = list(results)
        self.asked: list[tuple[Any, Any, Any]] = []

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts_dict: PromptDictType) -> None:
        pass

    async def aevaluate(
        self, query: Any = None, response: Any = None, contexts: Any = None, **kwargs: Any
    ) -> EvaluationResult:
        self.asked.append((query, response, contexts))
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, Exception):
            raise result
        return result  # type: ignore[return-value]


class TestEvaluators:
    @pytest.mark.parametrize(
        ("result", "score", "stop"),
        [
            (EvaluationResult(passing=True, score=1.0), 10, "accepted"),
            (EvaluationResult(passing=True, score=0.6), 9, "accepted"),  # its own threshold decides
            (EvaluationResult(passing=True), 10, "accepted"),
            (EvaluationResult(passing=False, score=1.0), 8.5, "max_rounds"),
            (EvaluationResult(passing=False), 1, "max_rounds"),
            (EvaluationResult(score=0.5), 5.5, "max_rounds"),  # passing not set: the score decides
            (EvaluationResult(score=1.0), 10, "accepted"),
            (EvaluationResult(), None, "critic_failed"),
            (EvaluationResult(invalid_result=True, invalid_reason="no"), None, "critic_failed"),
        ],
    )
    async def test_results_become_grades(self, result: EvaluationResult, score: Any, stop: str) -> None:
        found = engine(FixedEvaluator(result))
        for response in (found.query("Why?"), await found.aquery("Why?")):
            trace = trace_of(response)
            assert (trace.score, trace.stop_reason) == (score, stop)

    def test_it_sees_question_answer_and_context(self) -> None:
        evaluator = FixedEvaluator(EvaluationResult(score=0.2), EvaluationResult(passing=True))
        engine(evaluator).query("Why?")
        (question, answer, context), (_, second, wider) = evaluator.asked
        assert (question, answer, context) == ("Why?", "one", ["text 0", "text 1"])
        assert second == "two"
        assert len(wider) > 2

    @pytest.mark.parametrize(
        ("kind", "reply", "accepted"),
        [
            (FaithfulnessEvaluator, "YES", True),
            (FaithfulnessEvaluator, "NO", False),
            (RelevancyEvaluator, "YES", True),
            (AnswerRelevancyEvaluator, "Fine.\n[RESULT] 2", True),
            (AnswerRelevancyEvaluator, "Poor.\n[RESULT] 1", False),
            (CorrectnessEvaluator, "5.0\nright", True),
            (CorrectnessEvaluator, "2.0\nwrong", False),
            (GuidelineEvaluator, '{"passing": true, "feedback": "good"}', True),
        ],
    )
    async def test_those_of_llamaindex(self, kind: Any, reply: str, accepted: bool) -> None:
        Settings.node_parser = SageNodeParser()  # some evaluators cut the context
        evaluator = kind(llm=ScriptedLLM.of([reply]))
        found = engine(evaluator)
        for response in (found.query("Why?"), await found.aquery("Why?")):
            trace = trace_of(response)
            assert (trace.stop_reason == "accepted") is accepted
            assert trace.usage_by_role["judge"].calls == len(trace.rounds)

    def test_its_prompts_can_be_seen_and_changed(self) -> None:
        found = engine(FaithfulnessEvaluator(llm=ScriptedLLM.of(["YES"])))
        names = [name for name in found.get_prompts() if name.startswith("critic:")]
        assert set(names) == {"critic:eval_template", "critic:refine_template"}
        template = PromptTemplate("mine {context_str} {query_str}")
        found.update_prompts({"critic:eval_template": template})
        assert found.get_prompts()["critic:eval_template"].get_template() == template.get_template()

    def test_a_template_for_it_is_refused(self) -> None:
        with pytest.raises(ValueError, match="evaluator"):
            engine(FixedEvaluator(EvaluationResult()), critic_template=PromptTemplate("x"))


class TestOthers:
    async def test_a_judge_of_the_core(self) -> None:
        class Judge:
            asked: list[tuple[str, list[str], str]] = []  # noqa: RUF012

            def judge(
                self, question: str, context: Sequence[str], answer: str
            ) -> tuple[Verdict, TokenUsage | None]:
                self.asked.append((question, list(context), answer))
                return Verdict(9.5, source="heuristic"), NO_USAGE

            async def ajudge(
                self, question: str, context: Sequence[str], answer: str
            ) -> tuple[Verdict, TokenUsage | None]:
                return self.judge(question, context, answer)

        found = engine(Judge())
        for response in (found.query("Why?"), await found.aquery("Why?")):
            trace = trace_of(response)
            assert (trace.score, trace.verdict.source) == (9.5, "heuristic")  # type: ignore[union-attr]
            assert trace.usage_by_role["judge"] == NO_USAGE
        assert Judge.asked[0] == ("Why?", ["text 0", "text 1"], "one")

    @pytest.mark.parametrize("chat", [False, True])
    async def test_llms_that_complete_and_llms_that_chat(self, chat: bool) -> None:
        critic = ScriptedLLM.of(grades=[grade(9)], chats=chat)
        found = engine(critic)
        for response in (found.query("Why?"), await found.aquery("Why?")):
            trace = trace_of(response)
            assert trace.score == 9
            # A chat that completes is one call, not two.
            assert trace.usage_by_role["judge"].calls == 1
            assert trace.usage_by_role["generate"].calls == 1

    def test_the_template_of_one_engine_is_not_anothers(self) -> None:
        first, second = engine(ScriptedLLM.of()), engine(ScriptedLLM.of())
        first.query("q")
        first.update_prompts({"critic:critic_template": PromptTemplate("{question}{context}{answer}")})
        assert len(second.get_prompts()["critic:critic_template"].get_template()) > 100

    def test_reported_usage_is_taken_where_there_is_some(self) -> None:
        from llama_index.core.base.llms.types import CompletionResponse
        from llama_index.core.llms.callbacks import llm_completion_callback

        class Reporting(ScriptedLLM):
            @llm_completion_callback()
            def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
                usage = {"prompt_tokens": 100, "completion_tokens": 7}
                return CompletionResponse(text=self._reply(prompt), raw={"usage": usage})

        trace = trace_of(engine(Reporting.of(grades=[grade(9)])).query("q"))
        assert trace.usage_by_role["judge"] == TokenUsage(100, 7, 1)
        assert trace.usage_by_role["generate"].estimated


class TestHandlers:
    """Callback handlers of the user's own critic."""

    @staticmethod
    def made(way: str, critic: Any, **options: Any) -> SageQueryEngine:
        stock = RetrieverQueryEngine.from_args(FixedRetriever(0.9, 0.8), llm=ScriptedLLM.of())
        if way == "from_args":
            return SageQueryEngine.from_args(
                FixedRetriever(0.9, 0.8), llm=ScriptedLLM.of(), critic=critic, **options
            )
        if way == "from_index":
            index = SummaryIndex([TextNode(text="text")])
            return SageQueryEngine.from_index(index, llm=ScriptedLLM.of(), critic=critic, **options)
        found = SageQueryEngine.from_query_engine(stock, critic=critic, **options)
        return found if way == "from_query_engine" else found.with_retriever(FixedRetriever(0.9))

    @pytest.mark.parametrize("way", ["from_args", "from_index", "from_query_engine", "with_retriever"])
    @pytest.mark.parametrize("evaluator", [False, True])
    def test_they_stay_unless_a_manager_is_given(self, way: str, evaluator: bool) -> None:
        own, everyones = (TokenCountingHandler(tokenizer=get_tokenizer()) for _ in range(2))
        Settings.callback_manager = CallbackManager([everyones])
        llm = ScriptedLLM.of(["Fine.\n[RESULT] 2"], callback_manager=CallbackManager([own]))
        critic = AnswerRelevancyEvaluator(llm=llm) if evaluator else llm
        self.made(way, critic).query("q")
        assert len(own.llm_token_counts) == 1

    @pytest.mark.parametrize("way", ["from_args", "from_index", "from_query_engine"])
    def test_a_manager_that_is_given_replaces_them(self, way: str) -> None:
        own, given = (TokenCountingHandler(tokenizer=get_tokenizer()) for _ in range(2))
        critic = ScriptedLLM.of(callback_manager=CallbackManager([own]))
        self.made(way, critic, callback_manager=CallbackManager([given])).query("q")
        assert (len(own.llm_token_counts), len(given.llm_token_counts)) == (0, 1)
