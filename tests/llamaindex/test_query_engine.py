"""The engine: what it is and what it is made from."""

import inspect
from typing import Any

import pytest
from llama_index.core import MockEmbedding, Settings, VectorStoreIndex
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import QueryBundle

from sage_core.feedback import FeedbackConfig
from sage_core.selection import SelectionConfig
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine, SageRetriever
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM, grade, scored
from tests.llamaindex.engines import LADDER, engine


class TestMaking:
    def test_from_args_takes_all_that_the_stock_engine_takes(self) -> None:
        stock = inspect.signature(RetrieverQueryEngine.from_args).parameters
        ours = {"kwargs", "retriever", "llm", "response_synthesizer"}
        defaults = {name: parameter.default for name, parameter in stock.items() if name not in ours}
        made = SageQueryEngine.from_args(FixedRetriever(1.0), llm=ScriptedLLM.of(["yes"]), **defaults)
        assert isinstance(made, RetrieverQueryEngine) and str(made.query("q")) == "yes"

    def test_typing_errors_are_told(self) -> None:
        retriever, synthesizer = FixedRetriever(1.0), get_response_synthesizer(llm=ScriptedLLM.of())
        with pytest.raises(TypeError, match="similarity_top"):
            SageQueryEngine(retriever, synthesizer, similarity_top=1)
        with pytest.raises(TypeError, match="streaming"):
            SageQueryEngine.from_args(retriever, response_synthesizer=synthesizer, streaming=True)

    @pytest.mark.parametrize(
        ("bad", "named"),
        [
            ({"critic": object()}, "critic is an LLM"),
            ({"node_postprocessors": [SageNodePostprocessor(), SageNodePostprocessor()]}, "one Sage"),
            ({"critics": None}, "critics"),
        ],
    )
    def test_settings_out_of_range_are_told_at_once(self, bad: dict[str, Any], named: str) -> None:
        with pytest.raises((ValueError, TypeError), match=named):
            engine(ScriptedLLM.of(), **bad)

    def test_from_index_passes_candidates(self) -> None:
        Settings.llm = ScriptedLLM.of()
        index = VectorStoreIndex([n.node for n in scored(*[None] * 40)], embed_model=MockEmbedding(4))
        made = SageQueryEngine.from_index(index)
        assert isinstance(made.retriever, SageRetriever) and len(made.retriever.retrieve("q")) == 40
        assert len(SageQueryEngine.from_index(index, candidates=3).retrieve(QueryBundle("q"))) == 3
        with pytest.raises(TypeError, match="filter"):
            SageQueryEngine.from_index(index, filter=None)

    def test_from_query_engine_leaves_the_old_one_alone(self) -> None:
        similar = SimilarityPostprocessor(similarity_cutoff=0.75)
        old = RetrieverQueryEngine.from_args(
            FixedRetriever(*LADDER), llm=ScriptedLLM.of(["new"]), node_postprocessors=[similar]
        )
        assert (
            len(
                SageQueryEngine.from_query_engine(old, loop=FeedbackConfig(max_rounds=2))
                .query("q")
                .source_nodes
            )
            == 2
        )
        assert old._node_postprocessors == [similar]
        sage = SageNodePostprocessor(selection=SelectionConfig(min_k=1, max_k=1))
        ours = RetrieverQueryEngine.from_args(
            FixedRetriever(*LADDER), llm=ScriptedLLM.of(["new"]), node_postprocessors=[sage]
        )
        made = SageQueryEngine.from_query_engine(ours)
        assert made._node_postprocessors == [sage] and len(made.query("q").source_nodes) == 1
        with pytest.raises(TypeError, match="max_round"):
            SageQueryEngine.from_query_engine(old, max_round=1)
        with pytest.raises(ValueError, match="RetrieverQueryEngine"):
            SageQueryEngine.from_query_engine(object())  # type: ignore[arg-type]

    def test_prompts_of_a_derived_engine_are_its_own(self) -> None:
        def texts(made: RetrieverQueryEngine) -> dict[str, str]:
            return {name: prompt.get_template() for name, prompt in made.get_prompts().items()}

        stock = RetrieverQueryEngine.from_args(FixedRetriever(*LADDER), llm=ScriptedLLM.of())
        ours = engine(ScriptedLLM.of())
        template = PromptTemplate("mine {question}{context}{answer}{query_str}{context_str}")
        for old, made in (
            (stock, SageQueryEngine.from_query_engine(stock)),
            (ours, SageQueryEngine.from_query_engine(ours)),
            (ours, ours.with_retriever(FixedRetriever(0.5))),
        ):
            before = texts(old)
            made.update_prompts(dict.fromkeys(made.get_prompts(), template))
            assert texts(old) == before and {*texts(made).values()} == {template.get_template()}

    def test_with_retriever_keeps_class_options_and_prompts(self) -> None:
        critic = ScriptedLLM.of(grades=[grade(3), grade(9)])
        made = engine(ScriptedLLM.of(["a", "b"]), critic=critic, accept_score=4)
        template = PromptTemplate("You grade an answer {question} {context} {answer} MINE")
        made.update_prompts({"critic:critic_template": template})
        for other in (made.with_retriever(FixedRetriever(0.5)), SageQueryEngine.from_query_engine(made)):
            assert type(other) is SageQueryEngine and other._loop.accept_score == 4
            assert other.query("q").metadata["sage"]["candidates"] == len(other.retriever.scores)
        assert all(prompt.endswith("MINE") for prompt in critic.asked("critic"))
