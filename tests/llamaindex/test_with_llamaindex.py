"""Our parts inside LlamaIndex's own: tools, agents, chat engines, wrappers, retrievers, rerankers."""

from typing import Any

import pytest
from llama_index.core import MockEmbedding, SummaryIndex, VectorStoreIndex
from llama_index.core.agent import ReActAgent
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine import (
    CondenseQuestionChatEngine,
)
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.query_engine import CitationQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever, RecursiveRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import IndexNode, QueryBundle, TextNode
from llama_index.core.tools import QueryEngineTool

from sage_core.segmentation import Segmenter
from sage_core.selection import SelectionConfig
from sage_llamaindex import SageNodeParser, SageNodePostprocessor, SageQueryEngine, feedback_of
from tests.fakes.llamaindex import TOPICS, FixedRetriever, OverlapModel, ScriptedLLM, grade, story
from tests.llamaindex.engines import engine


def tool(found: SageQueryEngine) -> QueryEngineTool:
    return QueryEngineTool.from_defaults(found, name="docs", description="The documents.")


class TestToolsAndAgents:
    @pytest.mark.parametrize("streaming", [False, True])
    async def test_query_engine_tool(self, streaming: bool) -> None:
        llm = ScriptedLLM.of(["first", "second"], [grade(2, 1), grade(9)])
        found = tool(engine(llm, streaming=streaming))
        output = found.call("Why?")
        assert output.content == "second"
        assert feedback_of(output.raw_output) is not None
        assert (await found.acall("Why?")).content == "second"

    async def test_an_agent_asks_it(self) -> None:
        inner = ScriptedLLM.of(["It crosses at noon."])
        outer = ScriptedLLM.of(
            [
                'Thought: I must look.\nAction: docs\nAction Input: {"input": "When?"}\n',
                "Thought: I can answer without using any more tools.\nAnswer: At noon.",
            ],
            chats=True,
        )
        response = await ReActAgent(tools=[tool(engine(inner))], llm=outer).run("When does the ferry cross?")
        assert "At noon." in str(response)
        assert len(inner.asked("answer")) == len(inner.asked("critic")) == 1
        assert "It crosses at noon." in outer.asked("answer")[1]


class TestChat:
    async def test_condense_question(self) -> None:
        llm = ScriptedLLM.of(["spoken"])
        found = engine(llm)
        chat = CondenseQuestionChatEngine.from_defaults(query_engine=found, llm=llm)
        assert str(found.as_chat_engine().chat("Why?")) == "spoken"
        assert str(chat.chat("Why?")) == "spoken"
        assert str(await chat.achat("Why?")) == "spoken"
        assert "".join(chat.stream_chat("Why?").response_gen) == "spoken"
        response = await chat.astream_chat("Why?")
        assert "".join([token async for token in response.async_response_gen()]) == "spoken"
        assert found._response_synthesizer._streaming is False
        assert len(llm.asked("critic")) == 5


class TestWrappers:
    async def test_citations_cut_and_selected_by_ours(self) -> None:
        llm = ScriptedLLM.of(["At noon [1]."])
        parser = SageNodeParser(segmenter=Segmenter(OverlapModel(), min_tokens=0))
        nodes = [TextNode(text=story((0, 1))), TextNode(text=story((4,)))]
        retriever = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4)).as_retriever()
        found = CitationQueryEngine.from_args(
            VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4)),
            llm=llm,
            retriever=retriever,
            text_splitter=parser,
            node_postprocessors=[SageNodePostprocessor(reranker=None, selection=SelectionConfig(min_k=2))],
        )
        for response in (found.query("When?"), await found.aquery("When?")):
            texts = [n.node.get_content() for n in response.source_nodes]
            assert sorted(t.partition(":\n")[2].strip() for t in texts) == sorted(
                [TOPICS[i] for i in (0, 1, 4)]
            )

    async def test_an_engine_behind_an_index_node(self) -> None:
        inner = engine(ScriptedLLM.of(["from inside"]))
        pointer = IndexNode(text="docs", index_id="docs", obj=inner)
        index = VectorStoreIndex(objects=[pointer], embed_model=MockEmbedding(embed_dim=4))
        for nodes in (index.as_retriever().retrieve("Why?"), await index.as_retriever().aretrieve("Why?")):
            assert [n.get_content() for n in nodes] == ["from inside"]
        plain = SummaryIndex([IndexNode(text="docs", index_id="docs")])
        recursive = RecursiveRetriever(
            "root", retriever_dict={"root": plain.as_retriever()}, query_engine_dict={"docs": inner}
        )
        assert [n.get_content() for n in recursive.retrieve("Why?")] == ["Query: Why?\nResponse: from inside"]


class TestScoresOfOthers:
    @pytest.mark.parametrize("mode", [None, *FUSION_MODES])
    async def test_behind_bm25_and_fusion(self, mode: FUSION_MODES | None) -> None:
        """BM25 scores have no bounds, and are 0 for what shares no word."""
        retriever: BaseRetriever = FixedRetriever(6.2, 0.31, 0.0, 0.0, 0.0)
        if mode is not None:
            both: Any = [retriever, FixedRetriever(5.1, 0.4, 0.0)]
            settings: Any = {"mode": mode, "num_queries": 1, "similarity_top_k": 5, "use_async": False}
            retriever = QueryFusionRetriever(both, llm=ScriptedLLM.of(), **settings)
        ours = SageNodePostprocessor(reranker=None, selection=SelectionConfig(min_k=1))
        found = SageQueryEngine.from_args(retriever, llm=ScriptedLLM.of(), node_postprocessors=[ours])
        for response in (found.query("ferry"), await found.aquery("ferry")):
            assert response.source_nodes[0].node_id == "n0" and type(response.source_nodes[0].score) is float
            assert len(response.source_nodes) == 1 if mode is None else len(response.source_nodes) <= 5

    async def test_llm_rerank_as_the_reranker(self) -> None:
        reply = "Doc: 1, Relevance: 2\nDoc: 2, Relevance: 9\nDoc: 3, Relevance: 8\n"
        nodes = FixedRetriever(0.5, 0.4, 0.3, 0.2).retrieve("q")
        for run in ("sync", "async"):
            rerank = LLMRerank(llm=ScriptedLLM.of([reply]), top_n=1, choice_batch_size=5)
            sage = SageNodePostprocessor(reranker=rerank, selection=SelectionConfig(min_k=1))
            kept = (
                sage.postprocess_nodes(nodes, query_str="q")
                if run == "sync"
                else await sage.apostprocess_nodes(nodes, query_str="q")
            )
            # Its top_n of 1 does not cut; the node it said nothing of has no score and is no evidence.
            assert [(n.node_id, n.score) for n in kept] == [("n1", 9.0), ("n2", 8.0)]
            assert rerank.top_n == 1 and nodes[0].score == 0.5
            ranking = sage.rerank(nodes, QueryBundle("q")) if run == "sync" else None
            assert ranking is None or ranking.scale == "unbounded"
