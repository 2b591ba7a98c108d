"""The hybrid reranker goes by the scores that the search gave, the same in the core and in both frameworks."""

import asyncio
import math
from collections.abc import Sequence

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.schema import NodeWithScore, TextNode

from sage_core.errors import InputError
from sage_core.ranking import HybridReranker
from sage_langchain import SageCompressor, SageRetriever
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine
from tests.fakes.langchain import WordEmbeddings
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM

QUERY = "When does the ferry leave?"
TEXTS = [
    "The boat goes at seven.",
    "The ferry leaves from pier two.",
    "Bees are kept.",
    "The mill spins wool.",
]
SCORES = [0.83, 0.81, 0.72, 0.71]
EXPECTED = dict(zip(TEXTS, HybridReranker().score(QUERY, TEXTS, SCORES), strict=True))
WORDS_ONLY = dict(zip(TEXTS, HybridReranker().score(QUERY, TEXTS), strict=True))


def by_llamaindex(
    scores: Sequence[float | None], texts: Sequence[str] = TEXTS, **settings: object
) -> dict[str, float | None]:
    nodes = [
        NodeWithScore(node=TextNode(text=t, id_=str(i)), score=s)
        for i, (t, s) in enumerate(zip(texts, scores, strict=True))
    ]
    kept = SageNodePostprocessor(min_k=len(texts), **settings).postprocess_nodes(nodes, query_str=QUERY)
    assert [n.score for n in nodes] == list(scores), "the caller's own are never changed"
    return {n.node.get_content(): n.score for n in kept}


def by_langchain(
    scores: Sequence[object], texts: Sequence[str] = TEXTS, **settings: object
) -> dict[str, float]:
    documents = [Document(t, metadata={"score": s}) for t, s in zip(texts, scores, strict=True)]
    kept = SageCompressor(min_k=len(texts), **settings).compress_documents(documents, QUERY)
    return {d.page_content: d.metadata["relevance_score"] for d in kept}


def test_scores_matter():
    assert EXPECTED[TEXTS[0]] > WORDS_ONLY[TEXTS[0]] and pytest.approx(WORDS_ONLY) != EXPECTED


@pytest.mark.parametrize("line", [lambda s: s, lambda s: 100 * s - 60, lambda s: s / 50])
def test_any_rising_line_gives_the_same_in_both_frameworks(line):
    moved = [line(s) for s in SCORES]
    assert by_llamaindex(moved) == pytest.approx(EXPECTED)
    assert by_langchain(moved) == pytest.approx(EXPECTED)


def test_distances_are_turned_around_first():
    distances = [1 - s for s in SCORES]
    assert by_llamaindex(distances, scale="distance") == pytest.approx(EXPECTED)
    fifth = "The lamp of the lighthouse is lit at dusk."
    five, likeness = [*TEXTS, fifth], [*SCORES, 0.7]
    expected = dict(zip(five, HybridReranker().score(QUERY, five, likeness), strict=True))
    rising = [1 - s for s in likeness]
    assert by_llamaindex(rising, texts=five) == pytest.approx(expected)
    assert by_langchain(rising, texts=five) == pytest.approx(expected)


def test_equal_texts_do_not_use_up_the_selection() -> None:
    texts, scores = ["At seven.", "At  seven.", "At nine.", "", ""], [0.5, 0.9, 0.4, 0.3, 0.2]
    nodes = [
        NodeWithScore(node=TextNode(text=t, id_=str(i)), score=s)
        for i, (t, s) in enumerate(zip(texts, scores, strict=True))
    ]
    sage = SageNodePostprocessor(reranker=None, scale="probability", min_k=4, max_k=4)
    assert [n.node_id for n in sage.postprocess_nodes(nodes, query_str="When?")] == ["1", "2", "3", "4"]
    documents = [
        Document(t, id=str(i), metadata={"score": s})
        for i, (t, s) in enumerate(zip(texts, scores, strict=True))
    ]
    kept = SageCompressor(score_key="score", top_n=4).compress_documents(documents, "When?")
    assert [d.id for d in kept] == ["1", "2", "3", "4"]


def test_awaited_it_is_the_same():
    nodes = [NodeWithScore(node=TextNode(text=t), score=s) for t, s in zip(TEXTS, SCORES, strict=True)]
    kept = asyncio.run(SageNodePostprocessor(min_k=4).apostprocess_nodes(nodes, query_str=QUERY))
    assert {n.node.get_content(): n.score for n in kept} == pytest.approx(EXPECTED)
    documents = [Document(t, metadata={"score": s}) for t, s in zip(TEXTS, SCORES, strict=True)]
    kept = asyncio.run(SageCompressor(min_k=4).acompress_documents(documents, QUERY))
    assert {d.page_content: d.metadata["relevance_score"] for d in kept} == pytest.approx(EXPECTED)


def test_equal_scores_say_nothing_so_words_decide():
    assert by_langchain([0.5] * 4) == pytest.approx(WORDS_ONLY)
    assert by_llamaindex([0.5] * 4) == pytest.approx(WORDS_ONLY)


@pytest.mark.parametrize("scores", [[None] * 4, [math.nan] * 4])
def test_without_scores_the_order_of_the_search_stands_for_them(scores):
    made = HybridReranker().score(QUERY, TEXTS, [-math.log(place) for place in (1, 2, 3, 4)])
    expected = dict(zip(TEXTS, made, strict=True))
    assert by_langchain(scores) == pytest.approx(expected)
    documents = [Document(t) for t in TEXTS]
    kept = SageCompressor(min_k=4).compress_documents(documents, QUERY)
    assert {d.page_content: d.metadata["relevance_score"] for d in kept} == pytest.approx(expected)
    assert by_llamaindex([None if s is None or s != s else s for s in scores]) == pytest.approx(expected)


@pytest.mark.parametrize("scores", [[4.5, 1.0, 5.0, 2.0], ["A", "B", "C", "D"]])
def test_a_score_of_something_else_is_not_taken_for_that_of_a_search(scores):
    assert by_langchain(scores) == pytest.approx(WORDS_ONLY)


def test_a_named_key_is_taken_at_its_word():
    documents = [Document(t, metadata={"near": s}) for t, s in zip(TEXTS, reversed(SCORES), strict=True)]
    sage = SageCompressor(min_k=4, search_score_key="near")
    found = {d.page_content: d.metadata["relevance_score"] for d in sage.compress_documents(documents, QUERY)}
    expected = HybridReranker().score(QUERY, TEXTS, SCORES[::-1])
    assert found == pytest.approx(dict(zip(TEXTS, expected, strict=True)))
    documents[1].metadata["near"] = "far"
    with pytest.raises(InputError, match="near"):
        sage.compress_documents(documents, QUERY)


def test_a_vector_store_s_scores_reach_the_hybrid():
    store = InMemoryVectorStore.from_texts(TEXTS, WordEmbeddings())
    found = {d.page_content: s for d, s in store.similarity_search_with_score(QUERY, k=4)}
    expected = HybridReranker().score(QUERY, TEXTS, [found[t] for t in TEXTS])
    for key in ("score", "near"):
        kept = SageRetriever.from_vectorstore(store, min_k=4, score_key=key).invoke(QUERY)
        scores = {d.page_content: d.metadata["relevance_score"] for d in kept}
        assert scores == pytest.approx(dict(zip(TEXTS, expected, strict=True)))


def test_after_a_reranker_of_llamaindex_s_the_engine_selects_on_its_scores():
    given = [LLMRerank(llm=ScriptedLLM.of([]), top_n=5)]
    engine = SageQueryEngine.from_args(
        FixedRetriever(0.9, 0.8), llm=ScriptedLLM.of([]), node_postprocessors=given
    )
    assert engine._node_postprocessors[-1].reranker is None
    engine = SageQueryEngine.from_args(FixedRetriever(0.9, 0.8), llm=ScriptedLLM.of([]))
    assert engine._node_postprocessors[-1].reranker == "hybrid"


def test_on_stock_nodes_one_is_kept_in_both_frameworks():
    texts = [f"{t} " + "More is said here. " * 120 for t in TEXTS]
    scores = [0.95, 0.5, 0.4, 0.3]
    nodes = [NodeWithScore(node=TextNode(text=t), score=s) for t, s in zip(texts, scores, strict=True)]
    sage = SageNodePostprocessor(reranker=None, scale="probability", rule="auto")
    steep = [NodeWithScore(node=n.node, score=s) for n, s in zip(nodes, [0.9, 0.1, 0.1, 0.1], strict=True)]
    assert len(sage.postprocess_nodes(steep, query_str=QUERY)) == 1
    documents = [Document(t, metadata={"s": n.score}) for t, n in zip(texts, steep, strict=True)]
    assert len(SageCompressor(score_key="s").compress_documents(documents, QUERY)) == 1
    assert len(SageCompressor(score_key="s", min_k=3).compress_documents(documents, QUERY)) == 3
    assert SageCompressor(score_key="s", empty_below=0.95).compress_documents(documents, QUERY) == []
    sage = SageNodePostprocessor(reranker=None, scale="probability", empty_below=0.95)
    assert sage.postprocess_nodes(steep, query_str=QUERY) == []
