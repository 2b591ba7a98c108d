"""Texts with the scores of a search, reranked and selected: the same in the core, by nodes and by documents."""

import asyncio
import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode

from sage_core.ranking import HybridReranker, Place, link, vouch
from sage_core.selection import FixedK, SelectionConfig, Threshold
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
    "The lamp of the lighthouse is lit at dusk.",
]
SCORES = [0.83, 0.81, 0.72, 0.71, 0.7]


def hybrid(scores: Sequence[float] | None = None, n: int = 4) -> dict[str, float]:
    return dict(zip(TEXTS[:n], HybridReranker().score(QUERY, TEXTS[:n], scores), strict=True))


EXPECTED, WORDS_ONLY = hybrid(SCORES[:4]), hybrid()
ORDER = hybrid([-math.log(place) for place in (1, 2, 3, 4)])
# Two documents of two chunks, one blank line between those of the first.
PLACES = [Place("a", 0, 23), Place("a", 25, 56), Place("b", 0, 14), Place("b", 500, 520)]

Ranked = list[tuple[str, float | None]]


def by_nodes(
    scores: Sequence[Any],
    texts: Sequence[str] = TEXTS,
    places: Sequence[Place] = (),
    awaited: bool = False,
    related: bool = False,
    **settings: Any,
) -> Ranked:
    """By their places in their documents, or if ``related`` by their relationships alone."""
    nodes = [NodeWithScore(node=TextNode(text=t), score=s) for t, s in zip(texts, scores, strict=False)]
    for found, place in zip(nodes, places, strict=False):
        found.node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=str(place.document))
        if not related:
            found.node.start_char_idx, found.node.end_char_idx = place.start, place.end
    if related:
        nodes[0].node.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id=nodes[1].node_id)
        nodes[1].node.relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id=nodes[0].node_id)
    sage = SageNodePostprocessor(**at_door(**{"min_k": len(nodes), **settings}))
    kept = (
        asyncio.run(sage.apostprocess_nodes(nodes, query_str=QUERY))
        if awaited
        else sage.postprocess_nodes(nodes, query_str=QUERY)
    )
    assert str([n.score for n in nodes]) == str(list(scores)), "the caller's own are never changed"
    json.dumps([n.to_dict() for n in kept], allow_nan=False)
    return [(n.node.get_content(), n.score) for n in kept]


def by_documents(
    scores: Sequence[Any],
    texts: Sequence[str] = TEXTS,
    places: Sequence[Place] = (),
    awaited: bool = False,
    **settings: Any,
) -> Ranked:
    documents = [Document(t, metadata={"score": s}) for t, s in zip(texts, scores, strict=False)]
    for document, place in zip(documents, places, strict=False):
        document.metadata |= {"source": place.document, "start_index": place.start}
    sage = SageCompressor(**at_door(**{"min_k": len(documents), **settings}))
    kept = (
        asyncio.run(sage.acompress_documents(documents, QUERY))
        if awaited
        else sage.compress_documents(documents, QUERY)
    )
    return [(d.page_content, d.metadata["relevance_score"]) for d in kept]


BOTH = pytest.mark.parametrize("ranked", [by_nodes, by_documents])


@BOTH
@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (SCORES[:4], EXPECTED),
        ([100 * s - 60 for s in SCORES[:4]], EXPECTED),
        ([0.5] * 4, WORDS_ONLY),
        ([None] * 4, ORDER),
        ([1 - s for s in SCORES], hybrid(SCORES, 5)),
    ],
    ids=["as they are", "stretched", "equal ones say nothing", "the order stands for none", "distances"],
)
def test_any_straight_line_gives_the_same(ranked: Any, awaited: bool, scores: Any, expected: Any) -> None:
    assert EXPECTED[TEXTS[0]] > WORDS_ONLY[TEXTS[0]], "scores matter"
    assert dict(ranked(scores, awaited=awaited)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([4.5, 2.0, 1.0, 5.0], WORDS_ONLY),
        (["A", "B", "C", "D"], WORDS_ONLY),
        ([math.nan] * 4, ORDER),
    ],
    ids=["of something else", "no numbers", "not a number"],
)
def test_whose_score_it_is(scores: Any, expected: Any) -> None:
    assert dict(by_documents(scores)) == pytest.approx(expected)


def test_a_vector_store_s_scores_reach_the_hybrid() -> None:
    store = InMemoryVectorStore.from_texts(TEXTS[:4], WordEmbeddings())
    found = {d.page_content: s for d, s in store.similarity_search_with_score(QUERY, k=4)}
    kept = SageRetriever.from_vectorstore(store, **at_door(min_k=4)).invoke(QUERY)
    scores = {d.page_content: d.metadata["relevance_score"] for d in kept}
    assert scores == pytest.approx(hybrid([found[t] for t in TEXTS[:4]]))


LONG = [f"{t} " + "More is said here. " * 120 for t in TEXTS]
TWICE = ["At seven.", "At  seven.", "At nine.", "By boat.", "On foot."]


@BOTH
@pytest.mark.parametrize(
    ("scores", "texts", "settings", "kept"),
    [
        ([0.5, 0.9, 0.4, 0.3, 0.2], TWICE, {"min_k": 4, "max_k": 4}, TWICE[1:]),
        ([0.9, 0.1, 0.1, 0.1], LONG, {"min_k": None}, LONG[:1]),
        ([0.9, 0.1, 0.1, 0.1], LONG, {"min_k": None, "empty_below": 0.95}, []),
        ([0.9, 0.85, 0.2, 0.1], TEXTS, {"min_k": 1, "rule": "gradient"}, TEXTS[:2]),
    ],
    ids=["equal texts count once", "one stock node is enough", "or none", "the paper's rule"],
)
def test_what_is_selected_on_scores_that_are_there(
    ranked: Any, scores: Any, texts: Any, settings: Any, kept: Any
) -> None:
    assert [t for t, _ in ranked(scores, texts, reranker=None, scale="probability", **settings)] == kept
    if "rule" in settings:
        assert [t for t, _ in ranked(scores, texts, reranker=None, **settings)] == kept


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.one_of(st.none(), st.just(math.nan), st.floats(0, 1)), max_size=20),
    st.sampled_from(["probability", "logit", "cosine", "unbounded"]),
    st.sampled_from([None, 1, 5]),
    st.sampled_from([None, 0.1, 0.9]),
    st.sampled_from([None, 5, 6]),
    st.sampled_from(["auto", "gradient", FixedK(3), Threshold(0.5)]),
)
def test_the_same_selection_as_in_the_core(scores, scale, min_k, gradient, max_k, rule) -> None:
    config = SelectionConfig(min_k=min_k, max_k=max_k, gradient=gradient, rule=rule)
    expected = config.select(scores, scale, [1] * len(scores))  # "0" is a token
    same = [(str(i), s) for i, s in zip(expected.indices, expected.scores, strict=True)]
    ours = SageCompressor(reranker=None, scale=scale, selection=config)
    documents = [Document(str(i), metadata={"relevance_score": s}) for i, s in enumerate(scores)]
    chosen = ours.compress_documents(documents, QUERY)
    assert [(d.page_content, d.metadata["relevance_score"]) for d in chosen] == same
    if any(s is not None and s == s for s in scores):  # without any score the postprocessor passes all on
        nodes = [NodeWithScore(node=TextNode(text=str(i)), score=s) for i, s in enumerate(scores)]
        post = SageNodePostprocessor(reranker=None, scale=scale, selection=config)
        kept = post.postprocess_nodes(nodes, query_str=QUERY)
        assert [(n.node.get_content(), n.score) for n in kept] == same
        json.dumps([n.to_dict() for n in kept], allow_nan=False)


def test_both_rerank_unless_told_not_to() -> None:
    assert SageNodePostprocessor().reranker == SageCompressor().reranker == "hybrid"
    assert SageNodePostprocessor(reranker=None).reranker is SageCompressor(reranker=None).reranker is None
    # After a reranker of LlamaIndex's the engine selects on its scores.
    for theirs, expected in (([LLMRerank(llm=ScriptedLLM.of([]), top_n=5)], None), ([], "hybrid")):
        engine = SageQueryEngine.from_args(
            FixedRetriever(0.9, 0.8), llm=ScriptedLLM.of([]), node_postprocessors=theirs
        )
        assert engine._node_postprocessors[-1].reranker == expected


class Looked:
    """Scores that are looked up."""

    name, scale = "looked up", "probability"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [SCORES[TEXTS.index(text)] for text in texts]


LINKED = dict(zip(TEXTS, vouch(SCORES[:4], link(PLACES), "probability"), strict=False))


@pytest.mark.parametrize("how", [{}, {"related": True}, None], ids=["places", "relationships", "documents"])
def test_neighbors_vouch_for_each_other(how: Any) -> None:
    assert LINKED[TEXTS[1]] > SCORES[1] and LINKED[TEXTS[2]] == SCORES[2]
    ranked = by_documents if how is None else by_nodes
    reranked = ranked(SCORES[:4], places=PLACES, reranker=Looked(), **(how or {}))
    assert dict(reranked) == pytest.approx(LINKED)
    kept = ranked(SCORES[:4], places=PLACES, reranker=None, scale="probability", **(how or {}))
    assert dict(kept) == pytest.approx(dict(zip(TEXTS, SCORES[:4], strict=False))), (
        "scores that were there stay"
    )


def test_documents_without_text_are_kept() -> None:
    empty = [Document("", metadata={"score": s}) for s in (0.9, 0.8)]
    two = SageCompressor(reranker=None, selection=SelectionConfig(rule=FixedK(2)))
    assert len(two.compress_documents(empty, QUERY)) == 2
