"""Prompts, events and concurrent use of the engine."""

import asyncio
import re
import subprocess
import sys

import pytest
from llama_index.core import Settings
from llama_index.core.callbacks import (
    CallbackManager,
    CBEventType,
    EventPayload,
    LlamaDebugHandler,
    TokenCountingHandler,
)
from llama_index.core.instrumentation.events.query import QueryEndEvent, QueryStartEvent
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.prompts import PromptTemplate
from llama_index.core.utils import get_tokenizer

from sage_llamaindex.prompts import answer_template
from tests.fakes.llamaindex import Recorder, ScriptedLLM, grade
from tests.llamaindex.engines import both, engine


class TestPrompts:
    def test_changed_prompts_are_used(self) -> None:
        llm, critic = ScriptedLLM.of(), PromptTemplate("You grade an answer: {question}{context}{answer} END")
        made = engine(llm)
        answer = PromptTemplate("QA {query_str} {context_str}")
        made.update_prompts(
            {"critic:critic_template": critic, "response_synthesizer:text_qa_template": answer}
        )
        made.query("Why?")
        assert llm.asked("critic")[-1].endswith("END") and llm.asked("answer")[-1].startswith("QA Why?")
        engine(llm, text_qa_template=answer).query("How?")
        assert llm.asked("answer")[-1].startswith("QA How?")
        assert not [name for name in engine(llm, critic="off").get_prompts() if name.startswith("critic")]

    def test_a_critic_prompt_without_its_fields_is_refused(self) -> None:
        made, key = engine(ScriptedLLM.of()), "critic:critic_template"
        before = made.get_prompts()[key].get_template()
        with pytest.raises(ValueError):
            made.update_prompts({key: PromptTemplate("hello {foo}")})
        assert made.get_prompts()[key].get_template() == before

    async def test_the_cores_answer_prompt_keeps_material_apart(self) -> None:
        llm = ScriptedLLM.of()
        found = engine(llm, text_qa_template=answer_template())
        for response in await both(found, "Why {not}?"):
            assert str(response) == "an answer"
        for prompt in llm.asked("answer"):
            (mark,) = set(re.findall(r"<<(?:BEGIN|END) \w+ (\w+)>>", prompt))
            assert f"<<BEGIN PASSAGES {mark}>>\ntext 0\n\ntext 1\n<<END PASSAGES {mark}>>" in prompt
            assert f"<<BEGIN QUESTION {mark}>>\nWhy {{not}}?\n<<END QUESTION {mark}>>" in prompt
        assert (
            "exactly this sentence"
            in found.get_prompts()["response_synthesizer:text_qa_template"].get_template()
        )


class TestObserving:
    async def test_query_events_and_reranking(self, recorder: Recorder) -> None:
        debug = LlamaDebugHandler(print_trace_on_end=False)
        await both(engine(ScriptedLLM.of(), callback_manager=CallbackManager([debug])))
        for kind in (QueryStartEvent, QueryEndEvent, ReRankStartEvent, ReRankEndEvent):
            assert recorder.names().count(kind.__name__) == 2
        pairs = debug.get_event_pairs(CBEventType.QUERY)
        assert len(pairs) == len(debug.get_event_pairs(CBEventType.RERANKING)) == 2
        for start, end in pairs:
            assert start.payload == {EventPayload.QUERY_STR: "Why?"}
            assert str(end.payload[EventPayload.RESPONSE]) == "an answer"

    @pytest.mark.parametrize("own_critic", [False, True])
    async def test_calls_are_counted_and_their_tokens_estimated(self, own_critic: bool) -> None:
        counter = TokenCountingHandler(tokenizer=get_tokenizer())
        llm = ScriptedLLM.of(["a", "b"], [grade(2, 1), grade(9)])
        critic = ScriptedLLM.of(grades=[grade(2, 1), grade(9)]) if own_critic else None
        # The critic exists before the handler does.
        Settings.callback_manager = CallbackManager([counter])
        llm.callback_manager = Settings.callback_manager
        response = engine(llm, critic=critic).query("q")
        assert len(counter.llm_token_counts) == 4
        summary = response.metadata["sage"]  # type: ignore[index]
        assert summary["llm_calls"] == 4
        # The answer's prompt around question and passages is not in the estimate.
        assert 0.6 <= summary["tokens"] / counter.total_llm_token_count <= 1.1


class TestSharing:
    async def test_questions_side_by_side_count_their_own_calls(self) -> None:
        llm = ScriptedLLM.of(["a"], [grade(2, 1)])
        llm._delay = 0.002
        found = engine(llm, max_rounds=2)
        responses = await asyncio.gather(*[found.aquery(f"q{i}") for i in range(20)])
        assert [r.metadata["sage"]["llm_calls"] for r in responses] == [4] * 20  # type: ignore[index]

    async def test_aquery_lets_the_loop_run(self) -> None:
        llm = ScriptedLLM.of(["a"], [grade(2, 1)])
        llm._gate = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, llm._gate.set)
        assert str(await engine(llm).aquery("q")) == "a"
        assert llm._gate.is_set()


ASKS = """
import logging
from llama_index_instrumentation import get_dispatcher

names = ["openinference.instrumentation.llama_index._handler", "llama_index", "llama_index_instrumentation", ""]

def state():
    root, loggers = get_dispatcher(), [logging.getLogger(name) for name in names]
    kept = [*root.event_handlers], [*root.span_handlers], logging.root.manager.disable
    return kept, [([*log.filters], [*log.handlers], log.level, log.propagate) for log in loggers]

before = state()
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode
from sage_llamaindex import SageQueryEngine
assert state() == before, "the import"
index = VectorStoreIndex([TextNode(text="The ferry leaves at seven.")], embed_model=MockEmbedding(8))
for critic in ("llm", "off"):
    made = SageQueryEngine.from_index(index, llm=MockLLM(), streaming=True, critic=critic)
    print(made.query("When does the ferry leave?"))
    assert state() == before, critic
"""


def test_importing_and_asking_change_nothing_global() -> None:
    subprocess.run([sys.executable, "-c", ASKS], check=True)
