"""An answer is never lost to a grade that breaks; budgets and wrong settings still end the question."""

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from llama_index.core.base.response.schema import AsyncStreamingResponse
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.evaluation import CorrectnessEvaluator, EvaluationResult, GuidelineEvaluator
from llama_index.core.utils import get_tokenizer
from pydantic import BaseModel, ValidationError

from sage_core.errors import InputError
from sage_core.feedback import FeedbackResult
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM, grade, trace_of
from tests.llamaindex.test_critics import FixedEvaluator

NONSENSE = "I like turtles"


def engine(critic: Any, **options: Any) -> SageQueryEngine:
    return SageQueryEngine.from_args(
        FixedRetriever(0.9, 0.8, 0.7, 0.6),
        llm=options.pop("llm", None) or ScriptedLLM.of(["kept"]),
        node_postprocessors=[SageNodePostprocessor(min_k=2, scale="probability")],
        critic=critic,
        **options,
    )


async def answers(critic: Any) -> AsyncIterator[tuple[str, FeedbackResult]]:
    """Texts and traces of all ways to ask."""
    for feedback in ("before_stream", "after_stream"):
        for streaming in (False, True):
            found = engine(critic, feedback=feedback, streaming=streaming)
            for response in (found.query("q"), await found.aquery("q")):
                if isinstance(response, AsyncStreamingResponse):
                    text = "".join([token async for token in response.response_gen])
                else:
                    text = str(response)
                trace = trace_of(response)
                yield text, trace


def _invalid() -> ValidationError:
    class Model(BaseModel):
        score: int

    with pytest.raises(ValidationError) as caught:
        Model.model_validate({"score": "high"})
    return caught.value


ERRORS = [
    RuntimeError("loop is closed"),
    ValueError("bad reply"),
    KeyError("score"),
    TypeError("bug"),
    json.JSONDecodeError("Expecting value", "x", 0),
    _invalid(),
]


class TestTheAnswerIsKept:
    @pytest.mark.parametrize("kind", [CorrectnessEvaluator, GuidelineEvaluator])
    async def test_stock_evaluators_that_read_nonsense(
        self, kind: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        async for text, trace in answers(kind(llm=ScriptedLLM.of([NONSENSE]))):
            assert (text, trace.stop_reason, trace.score) == ("kept", "critic_failed", None)
            assert trace.verdict is not None
            assert trace.verdict.reason
            assert trace.usage_by_role["judge"].total > 0  # the reply was paid for
        assert "the answer is kept" in caplog.text

    @pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
    async def test_errors_of_the_critics_llm_and_of_evaluators(
        self, error: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        for critic in (ScriptedLLM.of(grades=[error]), FixedEvaluator(error)):
            caplog.clear()
            async for text, trace in answers(critic):
                assert (text, trace.stop_reason) == ("kept", "critic_failed")
                assert type(error).__name__ in json.dumps(trace.to_dict())
            assert [r.levelno for r in caplog.records].count(logging.WARNING) == 8

    @pytest.mark.parametrize("score", [float("nan"), float("inf")])
    async def test_scores_that_are_no_numbers(self, score: float) -> None:
        critic = FixedEvaluator(EvaluationResult(score=score, passing=True))
        async for text, trace in answers(critic):
            assert (text, trace.stop_reason) == ("kept", "critic_failed")
            assert str(score) in trace.verdict.reason  # type: ignore[union-attr]

    async def test_an_evaluator_that_returns_nothing(self) -> None:
        async for text, trace in answers(FixedEvaluator(None)):
            assert (text, trace.stop_reason) == ("kept", "critic_failed")
            assert "None" in trace.verdict.reason  # type: ignore[union-attr]


class TestWhatStillEndsTheQuestion:
    async def test_a_wrong_setting(self) -> None:
        for found in (
            engine(ScriptedLLM.of(grades=[InputError("wrong")])),
            engine(FixedEvaluator(InputError("wrong"))),
        ):
            with pytest.raises(InputError):
                found.query("q")
            with pytest.raises(InputError):
                await found.aquery("q")

    @pytest.mark.parametrize("evaluator", [False, True])
    async def test_a_token_budget_used_up_by_the_grade(self, evaluator: bool) -> None:
        def found() -> SageQueryEngine:
            # Room for the answer; the critic's own call goes over it.
            counter = TokenCountingHandler(tokenizer=get_tokenizer())
            if not hasattr(counter, "token_budget"):
                pytest.skip("this version of LlamaIndex has no token budget")
            counter.token_budget = 60
            critic = ScriptedLLM.of(["NO " * 100], [grade(2, 1)])
            llm = ScriptedLLM.of(["kept"])
            manager = llm.callback_manager = critic.callback_manager = CallbackManager([counter])
            chosen = CorrectnessEvaluator(llm=critic) if evaluator else critic
            return engine(chosen, llm=llm, callback_manager=manager)

        with pytest.raises(ValueError, match=r"[Bb]udget"):
            found().query("q")
        with pytest.raises(ValueError, match=r"[Bb]udget"):
            await found().aquery("q")
