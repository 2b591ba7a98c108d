"""What the frameworks hand back has the core's pictures."""

from llama_index.core.schema import NodeWithScore, TextNode

from sage_core import FeedbackResult, selection_view
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine, feedback_of
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM, grade
from tests.langchain.test_chain import TWO_ROUNDS, chain


def test_a_response_of_llamaindex():
    nodes = [NodeWithScore(node=TextNode(text=f"<b>text</b> {i}"), score=0.9 - i / 10) for i in range(6)]
    view = selection_view(
        [n.score for n in nodes], [n.text for n in nodes], scale="cosine", sources=[n.node_id for n in nodes]
    )
    html = view._repr_html_()
    assert "&lt;b&gt;text&lt;/b&gt; 5" in html and nodes[0].node_id in html
    llm = ScriptedLLM.of(["first", "second"], [grade(4, 1), grade(9)])
    engine = SageQueryEngine.from_args(
        FixedRetriever(*(n.score for n in nodes)),
        llm=llm,
        node_postprocessors=[SageNodePostprocessor(reranker=None, min_k=2)],
    )
    result = feedback_of(engine.query("Why?"))
    assert result is not None
    assert "Round 2" in result._repr_html_() and "grade 9 of 10" in result._repr_html_()


def test_the_output_of_a_langchain_chain():
    out = chain(*TWO_ROUNDS).invoke({"input": "bees?"})
    html = FeedbackResult.from_dict(out["sage"])._repr_html_()
    assert "draft one" in html and "draft two" in html and "accepted" in html
