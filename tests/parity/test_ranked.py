"""Texts with the scores of a search, reranked and selected: the same in the core, by nodes and by documents."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode

from sage_core.errors import InputError
from sage_core.ranking import HybridReranker, Place, link, vouch
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


def hybrid(scores: Sequence[float] | None = None, texts: Sequence[str] = TEXTS) -> dict[str, float]:
    return dict(zip(texts, HybridReranker().score(QUERY, texts, scores), strict=True))


EXPECTED, WORDS_ONLY = hybrid(SCORES), hybrid()
# Two documents of two chunks, one blank line between those of the first.
PLACES = [Place("a", 0, 23), Place("a", 25, 56), Place("b", 0, 14), Place("b", 500, 520)]

Ranked = dict[str, float | None]


def by_nodes(
    scores: Sequence[Any],
    texts: Sequence[str] = TEXTS,
    places: Sequence[Place] = (),
    awaited: bool = False,
    related: bool = False,
    key: str = "",
    **settings: Any,
) -> Ranked:
    """By their places in their documents, or if ``related`` by their relationships alone."""
    nodes = [NodeWithScore(node=TextNode(text=t), score=s) for t, s in zip(texts, scores, strict=True)]
    for found, place in zip(nodes, places, strict=False):
        found.node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=str(place.document))
        if not related:
            found.node.start_char_idx, found.node.end_char_idx = place.start, place.end
    if related:
        nodes[0].node.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id=nodes[1].node_id)
        nodes[1].node.relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id=nodes[0].node_id)
    sage = SageNodePostprocessor(**at_door(**{"min_k": len(texts), **settings}))
    kept = (
        asyncio.run(sage.apostprocess_nodes(nodes, query_str=QUERY))
        if awaited
        else sage.postprocess_nodes(nodes, query_str=QUERY)
    )
    assert [n.score for n in nodes] == list(scores), "the caller's own are never changed"
    return {n.node.get_content(): n.score for n in kept}


def by_documents(
    scores: Sequence[Any],
    texts: Sequence[str] = TEXTS,
    places: Sequence[Place] = (),
    awaited: bool = False,
    key: str = "score",
    **settings: Any,
) -> Ranked:
    documents = [Document(t, metadata={key: s}) for t, s in zip(texts, scores, strict=True)]
    for document, place in zip(documents, places, strict=False):
        document.metadata |= {"source": place.document, "start_index": place.start}
    if settings.get("reranker", "") is None:
        settings = {**settings, "score_key": key}
    sage = SageCompressor(**at_door(**{"min_k": len(texts), **settings}))
    kept = (
        asyncio.run(sage.acompress_documents(documents, QUERY))
        if awaited
        else sage.compress_documents(documents, QUERY)
    )
    return {d.page_content: d.metadata["relevance_score"] for d in kept}


BOTH = pytest.mark.parametrize("ranked", [by_nodes, by_documents])


class Looked:
    """Scores that are looked up."""

    name, scale = "looked up", "probability"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [SCORES[TEXTS.index(text)] for text in texts]


def test_scores_matter() -> None:
    assert EXPECTED[TEXTS[0]] > WORDS_ONLY[TEXTS[0]] and pytest.approx(WORDS_ONLY) != EXPECTED


@BOTH
@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (SCORES, EXPECTED),
        ([100 * s - 60 for s in SCORES], EXPECTED),
        ([s / 50 for s in SCORES], EXPECTED),
        ([0.5] * 4, WORDS_ONLY),
        ([None] * 4, hybrid([-math.log(place) for place in (1, 2, 3, 4)])),
    ],
    ids=["as they are", "stretched", "small", "equal ones say nothing", "the order stands for none"],
)
def test_any_rising_line_gives_the_same(ranked: Any, awaited: bool, scores: Any, expected: Any) -> None:
    assert ranked(scores, awaited=awaited) == pytest.approx(expected)


@BOTH
def test_five_that_rise_are_told_for_distances(ranked: Any) -> None:
    texts, likeness = [*TEXTS, "The lamp of the lighthouse is lit at dusk."], [*SCORES, 0.7]
    assert ranked([1 - s for s in likeness], texts=texts) == pytest.approx(hybrid(likeness, texts))
    if ranked is by_nodes:
        assert ranked([1 - s for s in SCORES], scale="distance") == pytest.approx(EXPECTED)


@pytest.mark.parametrize("scores", [[4.5, 2.0, 1.0, 5.0], ["A", "B", "C", "D"]])
def test_a_score_of_something_else_is_not_taken_for_that_of_a_search(scores: Any) -> None:
    assert by_documents(scores) == pytest.approx(WORDS_ONLY)


def test_a_named_key_is_taken_at_its_word() -> None:
    named = {"key": "near", "search_score_key": "near"}
    assert by_documents(SCORES[::-1], **named) == pytest.approx(hybrid(SCORES[::-1]))
    with pytest.raises(InputError, match="near"):
        by_documents([0.1, "far", 0.2, 0.3], **named)


def test_a_vector_store_s_scores_reach_the_hybrid() -> None:
    store = InMemoryVectorStore.from_texts(TEXTS, WordEmbeddings())
    found = {d.page_content: s for d, s in store.similarity_search_with_score(QUERY, k=4)}
    kept = SageRetriever.from_vectorstore(store, **at_door(min_k=4)).invoke(QUERY)
    scores = {d.page_content: d.metadata["relevance_score"] for d in kept}
    assert scores == pytest.approx(hybrid([found[t] for t in TEXTS]))


@BOTH
def test_equal_texts_do_not_use_up_the_selection(ranked: Any) -> None:
    texts, scores = ["At seven.", "At  seven.", "At nine.", "By boat.", "On foot."], [0.5, 0.9, 0.4, 0.3, 0.2]
    assert [*ranked(scores, texts, reranker=None, scale="probability", min_k=4, max_k=4)] == texts[1:]


@BOTH
@pytest.mark.parametrize(
    ("settings", "n"), [({"min_k": None}, 1), ({"min_k": 3}, 3), ({"min_k": None, "empty_below": 0.95}, 0)]
)
def test_one_stock_node_is_enough(ranked: Any, settings: dict[str, Any], n: int) -> None:
    texts = [f"{t} " + "More is said here. " * 120 for t in TEXTS]
    kept = ranked([0.9, 0.1, 0.1, 0.1], texts, reranker=None, scale="probability", **settings)
    assert len(kept) == n


@BOTH
@pytest.mark.parametrize("reranker", [None, "none"])
def test_without_a_reranker_the_scores_that_are_there_are_selected_on(ranked: Any, reranker: Any) -> None:
    kept = ranked([0.9, 0.85, 0.2, 0.1], reranker=reranker, min_k=1, rule="gradient")
    assert kept == {TEXTS[0]: 0.9, TEXTS[1]: 0.85}


def test_both_rerank_unless_told_not_to() -> None:
    assert SageNodePostprocessor().reranker == SageCompressor().reranker == "hybrid"
    assert SageNodePostprocessor(reranker=None).reranker is SageCompressor(reranker=None).reranker is None
    # After a reranker of LlamaIndex's the engine selects on its scores.
    for given, expected in (([LLMRerank(llm=ScriptedLLM.of([]), top_n=5)], None), ([], "hybrid")):
        engine = SageQueryEngine.from_args(
            FixedRetriever(0.9, 0.8), llm=ScriptedLLM.of([]), node_postprocessors=given
        )
        assert engine._node_postprocessors[-1].reranker == expected


LINKED = dict(zip(TEXTS, vouch(SCORES, link(PLACES), "probability"), strict=True))


@pytest.mark.parametrize("how", [{}, {"related": True}, None], ids=["places", "relationships", "documents"])
def test_neighbors_vouch_for_each_other(how: Any) -> None:
    assert LINKED[TEXTS[1]] > SCORES[1] and LINKED[TEXTS[2]] == SCORES[2]
    ranked = by_documents if how is None else by_nodes
    reranked = ranked(SCORES, places=PLACES, reranker=Looked(), **(how or {}))
    assert reranked == pytest.approx(LINKED)
    kept = ranked(SCORES, places=PLACES, reranker=None, scale="probability", **(how or {}))
    assert kept == pytest.approx(dict(zip(TEXTS, SCORES, strict=True))), "scores that were there stay"


def test_documents_without_text_or_number_are_kept() -> None:
    empty = [Document("", metadata={"score": s}) for s in (0.9, 0.8)]
    assert len(SageCompressor(score_key="score", top_n=2).compress_documents(empty, QUERY)) == 2
    order = hybrid([-math.log(place) for place in (1, 2, 3, 4)])
    assert by_documents([math.nan] * 4) == pytest.approx(order)
