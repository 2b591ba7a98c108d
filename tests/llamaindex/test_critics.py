"""Who may grade: LLMs and objects with `grade`; and what holds if they break."""

import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.response.schema import AsyncStreamingResponse
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.utils import get_tokenizer

from sage_core.feedback import FeedbackResult, Verdict
from sage_core.llm.usage import NO_USAGE
from sage_core.selection import Gradient, SelectionConfig
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine
from tests.fakes.doors import at_door
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM, grade, trace_of


def engine(critic: Any, answers: Sequence[str] = ("one", "two", "three"), **options: Any) -> SageQueryEngine:
    sage = SageNodePostprocessor(selection=SelectionConfig(min_k=2, rule=Gradient(0.99)), scale="probability")
    return SageQueryEngine.from_args(
        FixedRetriever(0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2),
        llm=options.pop("llm", None) or ScriptedLLM.of(list(answers)),
        node_postprocessors=[sage],
        critic=critic,
        **at_door(**options),
    )


async def traces(made: SageQueryEngine) -> list[FeedbackResult]:
    return [trace_of(made.query("Why?")), trace_of(await made.aquery("Why?"))]


class Grader:
    """Gives verdicts from a list, or raises what is an error in it; remembers what it was asked."""

    def __init__(self, *results: Any) -> None:
        self.results = list(results)
        self.asked: list[tuple[str, list[str], str]] = []

    def grade(self, question: str, passages: Sequence[str], answer: str) -> Verdict:
        self.asked.append((question, list(passages), answer))
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, Exception):
            raise result
        return result


class TestGraders:
    async def test_an_object_that_grades(self) -> None:
        grader = Grader(Verdict(2, 1), Verdict(9.5, source="mine"))
        trace = trace_of(engine(grader).query("Why?"))
        assert [r.verdict.score for r in trace.rounds if r.verdict] == [2, 9.5]
        assert trace.usage_by_role["judge"] == NO_USAGE
        (question, passages, answer), (_, wider, second) = grader.asked
        assert (question, passages, answer, second) == ("Why?", ["text 0", "text 1"], "one", "two")
        assert len(wider) > 2
        assert trace_of(await engine(grader).aquery("Why?")).verdict.source == "mine"  # type: ignore[union-attr]

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
def test_handlers_of_a_critic_stay_unless_a_manager_is_given(made: Any) -> None:
    own, everyones, given = (TokenCountingHandler(tokenizer=get_tokenizer()) for _ in range(3))
    Settings.callback_manager = CallbackManager([everyones])
    llm = ScriptedLLM.of(grades=[grade(9)], callback_manager=CallbackManager([own]))
    made(llm).query("q")
    assert len(own.llm_token_counts) == 1
    if made is engine:
        made(llm, callback_manager=CallbackManager([given])).query("q")
        graded = [c for c in given.llm_token_counts if "You grade" in c.prompt]
        assert len(own.llm_token_counts) == len(graded) == 1


# An answer is never lost to a grade that breaks.


async def answers(critic: Any) -> AsyncIterator[tuple[str, FeedbackResult]]:
    """Texts and traces of all ways to ask."""
    for streaming in (False, True):
        made = engine(critic, ["kept"], streaming=streaming, max_rounds=1)
        for response in (made.query("q"), await made.aquery("q")):
            if isinstance(response, AsyncStreamingResponse):
                text = "".join([token async for token in response.response_gen])
            else:
                text = str(response)
            yield text, trace_of(response)


BROKEN = {
    "RuntimeError": lambda: ScriptedLLM.of(grades=[RuntimeError("RuntimeError")]),
    "Expecting value": lambda: ScriptedLLM.of(grades=[json.JSONDecodeError("Expecting value", "x", 0)]),
    "a bug": lambda: Grader(TypeError("a bug")),
    "turtles": lambda: ScriptedLLM.of(grades=["I like turtles"]),
}


@pytest.mark.parametrize("reason", BROKEN)
async def test_the_answer_is_kept(reason: str, caplog: pytest.LogCaptureFixture) -> None:
    made = BROKEN[reason]()
    async for text, trace in answers(made):
        assert (text, trace.stop_reason, trace.score) == ("kept", "critic_failed", None)
        assert reason in json.dumps(trace.to_dict())
        assert trace.usage_by_role["judge"].total > 0 or reason != "turtles", "the reply was paid for"
    if reason != "turtles":
        assert [r.levelno for r in caplog.records].count(logging.WARNING) == 4
