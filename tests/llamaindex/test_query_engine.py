"""The engine: what it is and what it is made from."""

import pytest
from llama_index.core import Document, MockEmbedding, Settings, SummaryIndex, VectorStoreIndex
from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation import CorrectnessEvaluator
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import QueryBundle

from sage_llamaindex import SageNodeParser, SageNodePostprocessor, SageQueryEngine, SageRetriever
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM, grade, scored, story
from tests.fakes.llamaindex_engines import LADDER, both, engine


class TestFiveLines:
    """What the README shows."""

    async def test_index_parser_postprocessor_engine(self) -> None:
        Settings.llm = ScriptedLLM.of(["It crosses at noon."])
        Settings.embed_model = MockEmbedding(embed_dim=8)
        index = VectorStoreIndex.from_documents([Document(text=story())], transformations=[SageNodeParser()])
        found = SageQueryEngine.from_index(index, node_postprocessors=[SageNodePostprocessor(min_k=2)])
        for response in await both(found, "When does the ferry cross?"):
            assert type(response) is Response
            assert str(response) == "It crosses at noon."
            assert response.metadata["sage"]["score"] == 10
            assert response.source_nodes
            assert {n.node_id for n in response.source_nodes} <= set(index.docstore.docs)


class TestMaking:
    def test_it_is_a_retriever_query_engine(self) -> None:
        found = engine(ScriptedLLM.of())
        assert isinstance(found, RetrieverQueryEngine)
        assert isinstance(found.retriever, FixedRetriever)

    def test_from_args_takes_all_that_the_stock_engine_takes(self) -> None:
        import inspect

        stock = set(inspect.signature(RetrieverQueryEngine.from_args).parameters) - {"kwargs"}
        defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(RetrieverQueryEngine.from_args).parameters.items()
            if name in stock - {"retriever", "llm", "response_synthesizer"}
        }
        found = SageQueryEngine.from_args(FixedRetriever(1.0), llm=ScriptedLLM.of(["yes"]), **defaults)
        assert str(found.query("q")) == "yes"

    def test_typing_errors_are_told(self) -> None:
        retriever = FixedRetriever(1.0)
        with pytest.raises(TypeError, match="'critic'"):
            SageQueryEngine.from_args(retriever, llm=ScriptedLLM.of(), critics=None)
        with pytest.raises(TypeError, match="similarity_top"):
            SageQueryEngine(retriever, get_response_synthesizer(llm=ScriptedLLM.of()), similarity_top=1)
        with pytest.raises(TypeError, match="streaming"):
            SageQueryEngine.from_args(
                retriever, response_synthesizer=get_response_synthesizer(llm=ScriptedLLM.of()), streaming=True
            )

    def test_settings_out_of_range_are_told_at_once(self) -> None:
        for bad in (
            {"accept_score": 11},
            {"max_rounds": 0},
            {"policy": "bold"},
            {"max_calls": 0},
            {"feedback": "sometimes"},
            {"critic": "gpt"},
            {"critic_template": PromptTemplate("{question}")},
            {"node_postprocessors": [SageNodePostprocessor(), SageNodePostprocessor()]},
        ):
            with pytest.raises(ValueError, match=r"accept|rounds|policy|max_calls|feedback|critic|one Sage"):
                engine(ScriptedLLM.of(), **bad)

    def test_from_index_passes_candidates_and_retriever_arguments(self) -> None:
        index = VectorStoreIndex(
            [n.node for n in scored(*[None] * 40)], embed_model=MockEmbedding(embed_dim=4)
        )
        found = SageQueryEngine.from_index(index, llm=ScriptedLLM.of(), retriever_args={"alpha": 0.5})
        assert isinstance(found.retriever, SageRetriever)
        assert len(found.retriever.retrieve("q")) == 40
        assert found.retriever._retriever._alpha == 0.5  # type: ignore[attr-defined]
        assert (
            len(
                SageQueryEngine.from_index(index, similarity_top_k=3, llm=ScriptedLLM.of()).retrieve(
                    QueryBundle("q")
                )
            )
            == 3
        )

    def test_from_index_with_settings_llm(self) -> None:
        Settings.llm = ScriptedLLM.of(["by settings"])
        index = SummaryIndex([n.node for n in scored(None, None)])
        assert str(SageQueryEngine.from_index(index).query("q")) == "by settings"

    def test_from_query_engine_leaves_the_old_one_alone(self) -> None:
        llm = ScriptedLLM.of(["new"])
        old = RetrieverQueryEngine.from_args(
            FixedRetriever(*LADDER),
            llm=llm,
            node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.75)],
        )
        found = SageQueryEngine.from_query_engine(old, max_rounds=2)
        assert len(found.query("q").source_nodes) == 2
        assert len(old._node_postprocessors) == 1
        with pytest.raises(ValueError, match="RetrieverQueryEngine"):
            SageQueryEngine.from_query_engine(object())  # type: ignore[arg-type]

    def test_from_query_engine_lets_parts_be_replaced(self) -> None:
        old = RetrieverQueryEngine.from_args(FixedRetriever(*LADDER), llm=ScriptedLLM.of())
        sage = SageNodePostprocessor(min_k=1, max_k=1)
        found = SageQueryEngine.from_query_engine(old, node_postprocessors=[sage])
        assert found._node_postprocessors == [sage]
        assert len(found.query("q").source_nodes) == 1
        with pytest.raises(TypeError, match="'max_rounds'"):
            SageQueryEngine.from_query_engine(old, max_round=1)

    def test_from_index_tells_where_retriever_arguments_go(self) -> None:
        index = SummaryIndex([n.node for n in scored(None)])
        with pytest.raises(TypeError, match="retriever_args"):
            SageQueryEngine.from_index(index, llm=ScriptedLLM.of(), filters=None)

    def test_prompts_of_a_derived_engine_are_its_own(self) -> None:
        stock = RetrieverQueryEngine.from_args(FixedRetriever(*LADDER), llm=ScriptedLLM.of())
        ours = engine(ScriptedLLM.of())
        evaluated = engine(ScriptedLLM.of(), critic=CorrectnessEvaluator(llm=ScriptedLLM.of()))
        template = PromptTemplate("mine {question}{context}{answer}{query_str}{context_str}")
        for old, made in (
            (stock, SageQueryEngine.from_query_engine(stock)),
            (ours, SageQueryEngine.from_query_engine(ours)),
            (ours, ours.with_retriever(FixedRetriever(0.5))),
            (evaluated, evaluated.with_retriever(FixedRetriever(0.5))),
        ):
            before = {name: prompt.get_template() for name, prompt in old.get_prompts().items()}
            made.update_prompts(dict.fromkeys(made.get_prompts(), template))
            assert {name: prompt.get_template() for name, prompt in old.get_prompts().items()} == before
            assert {p.get_template() for p in made.get_prompts().values()} == {template.get_template()}

    def test_with_retriever_keeps_class_options_and_prompts(self) -> None:
        critic = ScriptedLLM.of(grades=[grade(3), grade(9)])
        found = engine(ScriptedLLM.of(["a", "b"]), critic=critic, accept_score=4, trace_key="trace")
        template = PromptTemplate("You grade an answer {question} {context} {answer} MINE")
        found.update_prompts({"critic:critic_template": template})
        other = found.with_retriever(FixedRetriever(0.5))
        again = SageQueryEngine.from_query_engine(found)
        for made in (other, again):
            assert type(made) is SageQueryEngine
            assert made._options.loop.accept_score == 4
        assert other.query("q").metadata["trace"]["candidates"] == 1  # type: ignore[index]
        assert critic.asked("critic")[0].endswith("MINE")
