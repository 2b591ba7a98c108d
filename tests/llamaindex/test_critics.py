"""Who may grade: evaluators of LlamaIndex, judges of the core, LLMs; and what holds where they break."""

import json
import logging
import math
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.response.schema import AsyncStreamingResponse
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
from llama_index.core.utils import get_tokenizer
from pydantic import ValidationError, create_model

from sage_core.errors import InputError
from sage_core.feedback import FeedbackResult, Verdict
from sage_core.llm.usage import NO_USAGE
from sage_core.selection import Gradient, SelectionConfig
from sage_llamaindex import SageNodeParser, SageNodePostprocessor, SageQueryEngine
from tests.fakes.doors import at_door
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM, grade, trace_of


def engine(critic: Any, answers: Sequence[str] = ("one", "two", "three"), **options: Any) -> SageQueryEngine:
    sage = SageNodePostprocessor(selection=SelectionConfig(min_k=2, rule=Gradient(0.99)), scale="probability")
    return SageQueryEngine.from_args(
        FixedRetriever(0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2),
        llm=options.pop("llm", None) or ScriptedLLM.of(list(answers)),
        node_postprocessors=[sage],
        critic=critic,
        # The answers say nothing that the nodes could support; here it is the critics' grades that count.
        **at_door(**{"veto": "off", **options}),
    )


async def traces(made: SageQueryEngine) -> list[FeedbackResult]:
    return [trace_of(made.query("Why?")), trace_of(await made.aquery("Why?"))]


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
        for trace in await traces(engine(FixedEvaluator(result))):
            assert (trace.score, trace.stop_reason) == (score, stop)

    def test_it_sees_question_answer_and_context(self) -> None:
        evaluator = FixedEvaluator(EvaluationResult(score=0.2), EvaluationResult(passing=True))
        engine(evaluator).query("Why?")
        (question, answer, context), (_, second, wider) = evaluator.asked
        assert (question, answer, context) == ("Why?", "one", ["text 0", "text 1"])
        assert second == "two" and len(wider) > 2

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
        for trace in await traces(engine(kind(llm=ScriptedLLM.of([reply])))):
            assert (trace.stop_reason == "accepted") is accepted
            assert trace.usage_by_role["judge"].calls == len(trace.rounds)

    def test_its_prompts_can_be_seen_and_changed(self) -> None:
        found = engine(FaithfulnessEvaluator(llm=ScriptedLLM.of(["YES"])))
        names = [name for name in found.get_prompts() if name.startswith("critic:")]
        assert set(names) == {"critic:eval_template", "critic:refine_template"}
        template = PromptTemplate("mine {context_str} {query_str}")
        found.update_prompts({"critic:eval_template": template})
        assert found.get_prompts()["critic:eval_template"].get_template() == template.get_template()


class TestOthers:
    async def test_a_judge_of_the_core(self) -> None:
        class Judge:
            def __init__(self) -> None:
                self.asked: list[tuple[str, list[str], str]] = []

            def judge(self, question: str, context: Sequence[str], answer: str) -> Any:
                self.asked.append((question, list(context), answer))
                return Verdict(9.5, source="heuristic"), NO_USAGE

            async def ajudge(self, *parts: Any) -> Any:
                return self.judge(*parts)

        judge = Judge()
        for trace in await traces(engine(judge)):
            assert (trace.score, trace.verdict.source) == (9.5, "heuristic")
            assert trace.usage_by_role["judge"] == NO_USAGE
        assert judge.asked[0] == ("Why?", ["text 0", "text 1"], "one")

    @pytest.mark.parametrize("chat", [False, True])
    async def test_llms_that_complete_and_llms_that_chat(self, chat: bool) -> None:
        for trace in await traces(engine(ScriptedLLM.of(grades=[grade(9)], chats=chat))):
            # A chat that completes is one call, not two.
            assert trace.score == 9 and {usage.calls for usage in trace.usage_by_role.values()} == {1}


def by_engine(critic: Any, **options: Any) -> SageQueryEngine:
    stock = RetrieverQueryEngine.from_args(FixedRetriever(0.9, 0.8), llm=ScriptedLLM.of())
    return SageQueryEngine.from_query_engine(stock, critic=critic, **at_door(**options))


@pytest.mark.parametrize(
    "made", [engine, by_engine, lambda c: by_engine(c).with_retriever(FixedRetriever(0.9))]
)
@pytest.mark.parametrize("evaluator", [False, True])
def test_handlers_of_a_critic_stay_unless_a_manager_is_given(made: Any, evaluator: bool) -> None:
    own, everyones, given = (TokenCountingHandler(tokenizer=get_tokenizer()) for _ in range(3))
    Settings.callback_manager = CallbackManager([everyones])
    llm = ScriptedLLM.of(["Fine.\n[RESULT] 2"], callback_manager=CallbackManager([own]))
    made(AnswerRelevancyEvaluator(llm=llm) if evaluator else llm).query("q")
    assert len(own.llm_token_counts) == 1
    if made is engine and not evaluator:
        made(llm, callback_manager=CallbackManager([given])).query("q")
        assert (
            len(own.llm_token_counts)
            == len([c for c in given.llm_token_counts if "You grade" in c.prompt])
            == 1
        )


# An answer is never lost to a grade that breaks; a wrong setting still ends the question.


async def answers(critic: Any) -> AsyncIterator[tuple[str, FeedbackResult]]:
    """Texts and traces of all ways to ask."""
    for feedback in ("before_stream", "after_stream"):
        for streaming in (False, True):
            made = engine(critic, ["kept"], feedback=feedback, streaming=streaming, max_rounds=1)
            for response in (made.query("q"), await made.aquery("q")):
                if isinstance(response, AsyncStreamingResponse):
                    text = "".join([token async for token in response.response_gen])
                else:
                    text = str(response)
                yield text, trace_of(response)


def invalid() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        create_model("Scored", score=(int, ...)).model_validate({"score": "high"})
    return caught.value


BROKEN = {
    "an LLM that fails": lambda: ScriptedLLM.of(grades=[RuntimeError("loop is closed")]),
    "a client's error": lambda: ScriptedLLM.of(grades=[json.JSONDecodeError("Expecting value", "x", 0)]),
    "an evaluator with a bug": lambda: FixedEvaluator(TypeError("bug")),
    "a schema that does not fit": lambda: FixedEvaluator(invalid()),
    "a score that is no number": lambda: FixedEvaluator(EvaluationResult(score=math.nan, passing=True)),
    "an infinite one": lambda: FixedEvaluator(EvaluationResult(score=math.inf, passing=True)),
    "no result": lambda: FixedEvaluator(None),
    "nonsense that is read": lambda: CorrectnessEvaluator(llm=ScriptedLLM.of(["I like turtles"])),
    "nonsense that is parsed": lambda: GuidelineEvaluator(llm=ScriptedLLM.of(["I like turtles"])),
}


@pytest.mark.parametrize(
    ("critic", "reason"),
    zip(
        BROKEN,
        ["RuntimeError", "JSONDecodeError", "TypeError", "ValidationError", "nan", "inf", "None", "", ""],
        strict=True,
    ),
)
async def test_the_answer_is_kept(critic: str, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    made = BROKEN[critic]()
    async for text, trace in answers(made):
        assert (text, trace.stop_reason, trace.score) == ("kept", "critic_failed", None)
        assert reason in json.dumps(trace.to_dict())
        if "nonsense" in critic:
            assert trace.usage_by_role["judge"].total > 0, "the reply was paid for"
    if reason.endswith("Error"):
        assert [r.levelno for r in caplog.records].count(logging.WARNING) == 8


@pytest.mark.parametrize("evaluator", [False, True])
async def test_a_token_budget_used_up_by_the_grade(evaluator: bool) -> None:
    def made() -> SageQueryEngine:
        # Room for the answer; the critic's own call goes over it.
        counter = TokenCountingHandler(tokenizer=get_tokenizer())
        if not hasattr(counter, "token_budget"):
            pytest.skip("this version of LlamaIndex has no token budget")
        counter.token_budget = 60
        critic, llm = ScriptedLLM.of(["NO " * 100], [grade(2, 1)]), ScriptedLLM.of(["kept"])
        manager = llm.callback_manager = critic.callback_manager = CallbackManager([counter])
        chosen = CorrectnessEvaluator(llm=critic) if evaluator else critic
        return engine(chosen, llm=llm, callback_manager=manager)

    for response in (made().query("q"), await made().aquery("q")):
        assert (str(response), trace_of(response).stop_reason) == ("kept", "critic_failed")


@pytest.mark.parametrize("make", [lambda e: ScriptedLLM.of(grades=[e]), FixedEvaluator])
async def test_a_wrong_setting_still_ends_the_question(make: Any) -> None:
    critic = make(InputError("wrong"))
    with pytest.raises(InputError):
        engine(critic).query("q")
    with pytest.raises(InputError):
        await engine(critic).aquery("q")
