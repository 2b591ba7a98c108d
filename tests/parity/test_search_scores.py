"""The hybrid reranker goes by the scores that the search gave, the same in the core and in both frameworks."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.schema import NodeWithScore, TextNode

from sage_core.errors import InputError
from sage_core.ranking import HybridReranker
from sage_core.selection import SelectionConfig
from sage_langchain import SageCompressor, SageRetriever
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine
from tests.fakes.doors import at_door
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
    scores: Sequence[Any], texts: Sequence[str] = TEXTS, awaited: bool = False, **settings: Any
) -> dict[str, float | None]:
    nodes = [NodeWithScore(node=TextNode(text=t), score=s) for t, s in zip(texts, scores, strict=True)]
    sage = SageNodePostprocessor(**at_door(**{"min_k": len(texts), **settings}))
    kept = (
        asyncio.run(sage.apostprocess_nodes(nodes, query_str=QUERY))
        if awaited
        else sage.postprocess_nodes(nodes, query_str=QUERY)
    )
    assert [n.score for n in nodes] == list(scores), "the caller's own are never changed"
    return {n.node.get_content(): n.score for n in kept}


def by_langchain(
    scores: Sequence[Any],
    texts: Sequence[str] = TEXTS,
    awaited: bool = False,
    key: str = "score",
    **settings: Any,
) -> dict[str, float]:
    documents = [Document(t, metadata={key: s}) for t, s in zip(texts, scores, strict=True)]
    sage = SageCompressor(**at_door(**{"min_k": len(texts), **settings}))
    kept = (
        asyncio.run(sage.acompress_documents(documents, QUERY))
        if awaited
        else sage.compress_documents(documents, QUERY)
    )
    return {d.page_content: d.metadata["relevance_score"] for d in kept}


BOTH = pytest.mark.parametrize("ranked", [by_llamaindex, by_langchain])


def test_scores_matter():
    assert EXPECTED[TEXTS[0]] > WORDS_ONLY[TEXTS[0]] and pytest.approx(WORDS_ONLY) != EXPECTED


@BOTH
@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("line", [lambda s: s, lambda s: 100 * s - 60, lambda s: s / 50])
def test_any_rising_line_gives_the_same(ranked: Any, line: Any, awaited: bool) -> None:
    assert ranked([line(s) for s in SCORES], awaited=awaited) == pytest.approx(EXPECTED)


def test_distances_are_turned_around_first() -> None:
    assert by_llamaindex([1 - s for s in SCORES], scale="distance") == pytest.approx(EXPECTED)
    texts, likeness = [*TEXTS, "The lamp of the lighthouse is lit at dusk."], [*SCORES, 0.7]
    expected = dict(zip(texts, HybridReranker().score(QUERY, texts, likeness), strict=True))
    for ranked in (by_llamaindex, by_langchain):  # five that rise are told for distances
        assert ranked([1 - s for s in likeness], texts=texts) == pytest.approx(expected)


def test_equal_texts_do_not_use_up_the_selection() -> None:
    texts, scores = ["At seven.", "At  seven.", "At nine.", "", ""], [0.5, 0.9, 0.4, 0.3, 0.2]
    nodes = [
        NodeWithScore(node=TextNode(text=t, id_=str(i)), score=s)
        for i, (t, s) in enumerate(zip(texts, scores, strict=True))
    ]
    sage = SageNodePostprocessor(
        reranker=None, scale="probability", selection=SelectionConfig(min_k=4, max_k=4)
    )
    assert [n.node_id for n in sage.postprocess_nodes(nodes, query_str="When?")] == ["1", "2", "3", "4"]
    documents = [
        Document(t, id=str(i), metadata={"score": s})
        for i, (t, s) in enumerate(zip(texts, scores, strict=True))
    ]
    kept = SageCompressor(score_key="score", top_n=4).compress_documents(documents, "When?")
    assert [d.id for d in kept] == ["1", "2", "3", "4"]


@BOTH
def test_equal_scores_say_nothing_so_words_decide(ranked: Any) -> None:
    assert ranked([0.5] * 4) == pytest.approx(WORDS_ONLY)


@BOTH
@pytest.mark.parametrize("nothing", [None, math.nan])
def test_without_scores_the_order_of_the_search_stands_for_them(ranked: Any, nothing: float | None) -> None:
    if nothing is None or ranked is by_langchain:  # nan is not equal to itself, so not the caller's own
        made = HybridReranker().score(QUERY, TEXTS, [-math.log(place) for place in (1, 2, 3, 4)])
        assert ranked([nothing] * 4) == pytest.approx(dict(zip(TEXTS, made, strict=True)))


@pytest.mark.parametrize("scores", [[4.5, 1.0, 5.0, 2.0], ["A", "B", "C", "D"]])
def test_a_score_of_something_else_is_not_taken_for_that_of_a_search(scores):
    assert by_langchain(scores) == pytest.approx(WORDS_ONLY)


def test_a_named_key_is_taken_at_its_word() -> None:
    named = {"key": "near", "search_score_key": "near"}
    expected = HybridReranker().score(QUERY, TEXTS, SCORES[::-1])
    assert by_langchain(SCORES[::-1], **named) == pytest.approx(dict(zip(TEXTS, expected, strict=True)))
    with pytest.raises(InputError, match="near"):
        by_langchain([0.1, "far", 0.2, 0.3], **named)


def test_a_vector_store_s_scores_reach_the_hybrid():
    store = InMemoryVectorStore.from_texts(TEXTS, WordEmbeddings())
    found = {d.page_content: s for d, s in store.similarity_search_with_score(QUERY, k=4)}
    expected = HybridReranker().score(QUERY, TEXTS, [found[t] for t in TEXTS])
    kept = SageRetriever.from_vectorstore(store, selection=SelectionConfig(min_k=4)).invoke(QUERY)
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


def test_on_stock_nodes_one_is_kept_in_both_frameworks() -> None:
    texts, steep = [f"{t} " + "More is said here. " * 120 for t in TEXTS], [0.9, 0.1, 0.1, 0.1]
    mine = {"texts": texts, "reranker": None, "scale": "probability"}
    theirs = {"texts": texts, "score_key": "score"}
    for settings, n in (({"min_k": None}, 1), ({"min_k": 3}, 3), ({"min_k": None, "empty_below": 0.95}, 0)):
        assert len(by_llamaindex(steep, **mine, **settings)) == n
        assert len(by_langchain(steep, **theirs, **settings)) == n


@pytest.mark.parametrize("reranker", [None, "none"])
def test_without_a_reranker_the_scores_that_are_there_are_selected_on(reranker: str | None) -> None:
    scores = [0.9, 0.85, 0.2, 0.1]
    texts = [f"Passage {i} of the harbor." for i in range(4)]
    nodes = [NodeWithScore(node=TextNode(text=t), score=s) for t, s in zip(texts, scores, strict=True)]
    documents = [Document(t, metadata={"score": s}) for t, s in zip(texts, scores, strict=True)]
    settings: dict[str, Any] = {"reranker": reranker, "min_k": 1, "rule": "gradient"}
    mine = SageNodePostprocessor(**at_door(**settings)).postprocess_nodes(nodes, query_str="Where?")
    theirs = SageCompressor(**at_door(**settings)).compress_documents(documents, "Where?")
    assert [n.text for n in mine] == [d.page_content for d in theirs] == texts[:2]
    assert [n.score for n in mine] == [d.metadata["relevance_score"] for d in theirs] == scores[:2]


def test_both_rerank_unless_told_not_to() -> None:
    assert SageNodePostprocessor().reranker == SageCompressor().reranker == "hybrid"
    assert SageNodePostprocessor(reranker=None).reranker is SageCompressor(reranker=None).reranker is None
