"""Who may grade: LLMs and objects with `grade`."""

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.utils import get_tokenizer

from sage_core.feedback import FeedbackResult, Verdict
from sage_core.llm.usage import NO_USAGE
from sage_llamaindex import SageQueryEngine
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM, grade, trace_of
from tests.llamaindex.engines import engine


def graded_by(critic: Any, **options: Any) -> SageQueryEngine:
    return engine(ScriptedLLM.of(["one", "two"]), critic=critic, **options)


async def traces(made: SageQueryEngine) -> list[FeedbackResult]:
    return [trace_of(made.query("Why?")), trace_of(await made.aquery("Why?"))]


class Grader:
    """Gives verdicts from a list; remembers what it was asked."""

    def __init__(self, *results: Verdict) -> None:
        self.results = list(results)
        self.asked: list[tuple[str, list[str], str]] = []

    def grade(self, question: str, passages: Sequence[str], answer: str) -> Verdict:
        self.asked.append((question, list(passages), answer))
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]


class TestGraders:
    async def test_an_object_that_grades(self) -> None:
        grader = Grader(Verdict(2, 1), Verdict(9.5, source="mine"))
        trace = trace_of(graded_by(grader).query("Why?"))
        assert [r.verdict.score for r in trace.rounds if r.verdict] == [2, 9.5]
        assert trace.usage_by_role["judge"] == NO_USAGE
        (question, passages, answer), (_, wider, second) = grader.asked
        assert (question, passages, answer, second) == ("Why?", ["text 0", "text 1"], "one", "two")
        assert len(wider) > 2
        assert trace_of(await graded_by(grader).aquery("Why?")).verdict.source == "mine"  # type: ignore[union-attr]

    @pytest.mark.parametrize("chat", [False, True])
    async def test_llms_that_complete_and_llms_that_chat(self, chat: bool) -> None:
        for trace in await traces(graded_by(ScriptedLLM.of(grades=[grade(9)], chats=chat))):
            # A chat that completes is one call, not two.
            assert trace.score == 9 and {usage.calls for usage in trace.usage_by_role.values()} == {1}


async def test_whatever_a_critic_raises_costs_no_answer() -> None:
    for trace in await traces(graded_by(ScriptedLLM.of(grades=[RuntimeError("gone")]))):
        assert trace.answer and trace.stop_reason == "critic_failed"


def by_engine(critic: Any) -> SageQueryEngine:
    stock = RetrieverQueryEngine.from_args(FixedRetriever(0.9, 0.8), llm=ScriptedLLM.of())
    return SageQueryEngine.from_query_engine(stock, critic=critic)


@pytest.mark.parametrize(
    "made", [graded_by, by_engine, lambda c: by_engine(c).with_retriever(FixedRetriever(0.9))]
)
def test_handlers_of_a_critic_stay_unless_a_manager_is_given(made: Any) -> None:
    own, everyones, given = (TokenCountingHandler(tokenizer=get_tokenizer()) for _ in range(3))
    Settings.callback_manager = CallbackManager([everyones])
    llm = ScriptedLLM.of(grades=[grade(9)], callback_manager=CallbackManager([own]))
    made(llm).query("q")
    assert len(own.llm_token_counts) == 1
    if made is graded_by:
        made(llm, callback_manager=CallbackManager([given])).query("q")
        graded = [c for c in given.llm_token_counts if "You grade" in c.prompt]
        assert len(own.llm_token_counts) == len(graded) == 1
