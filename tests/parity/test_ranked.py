"""Lists of somebody else's, ranked and selected: the same in the core, by nodes and by documents."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_text_splitters import RecursiveCharacterTextSplitter
from llama_index.core import Document as LlamaDocument
from llama_index.core import SummaryIndex
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.schema import QueryBundle

from sage_core.ranking import HybridReranker, Place, link, vouch
from sage_core.selection import FixedK, SelectionConfig, Threshold
from sage_langchain import SageCompressor
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine
from tests.core.test_passages import SENTENCES
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM
from tests.parity.asking import RANKING, Listed

QUERY = "When does the ferry leave?"
TEXTS = [
    "The boat goes at seven.",
    "The ferry leaves from pier two.",
    "Bees are kept.",
    "The mill spins wool.",
    "The lamp of the lighthouse is lit at dusk.",
]
SCORES = [0.83, 0.81, 0.72, 0.71, 0.7]
DOORS = pytest.mark.parametrize("ranked", RANKING.values(), ids=RANKING)


def hybrid(scores: Sequence[float] | None = None, n: int = 4) -> dict[str, float]:
    return dict(zip(TEXTS[:n], HybridReranker().score(QUERY, TEXTS[:n], scores), strict=True))


EXPECTED, WORDS_ONLY = hybrid(SCORES[:4]), hybrid()
ORDER = hybrid([-math.log(place) for place in (1, 2, 3, 4)])


def listed(scores: Sequence[Any], texts: Sequence[str] = TEXTS) -> list[Listed]:
    return [Listed(text, score) for text, score in zip(texts, scores, strict=False)]


@DOORS
@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (SCORES[:4], EXPECTED),
        ([0.5] * 4, WORDS_ONLY),
        ([None] * 4, ORDER),
        ([1 - s for s in SCORES], hybrid(SCORES, 5)),
    ],
    ids=["as they are", "equal ones say nothing", "the order stands for none", "distances"],
)
def test_the_scores_of_a_list_count(ranked: Any, awaited: bool, scores: Any, expected: Any) -> None:
    assert EXPECTED[TEXTS[0]] > WORDS_ONLY[TEXTS[0]], "scores matter"
    assert dict(ranked(listed(scores), QUERY, awaited=awaited, min_k=5)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([4.5, 2.0, 1.0, 5.0], WORDS_ONLY), (["A", "B", "C", "D"], WORDS_ONLY), ([math.nan] * 4, ORDER)],
    ids=["of something else", "no numbers", "not a number"],
)
def test_whose_score_a_document_has(scores: Any, expected: Any) -> None:
    assert dict(RANKING["documents"](listed(scores), QUERY, min_k=4)) == pytest.approx(expected)


@DOORS
def test_a_text_of_which_nobody_asked_the_search_is_in_the_middle(ranked: Any) -> None:
    found = listed([None if i % 2 == 0 else 0.9 - 0.08 * i for i in range(10)], SENTENCES)
    scores = dict(ranked(found, "Whither?", min_k=10))
    unasked = {scores[f.text] for f in found if f.score is None}
    assert scores[found[1].text] > max(unasked) >= min(unasked) > scores[found[9].text]


@DOORS
def test_without_a_reranker_the_nearest_of_distances_is_first(ranked: Any) -> None:
    (first, _), *_ = ranked(listed([1 - s for s in SCORES]), QUERY, reranker=None)
    assert first == TEXTS[0]


@pytest.mark.parametrize("ranked", [RANKING["nodes"], RANKING["documents"]])
def test_of_equal_texts_the_best_is_kept(ranked: Any) -> None:
    twice = ["At seven.", "At  seven.", "At nine.", "By boat.", "On foot."]
    found = listed([0.5, 0.9, 0.4, 0.3, 0.2], twice)
    kept = ranked(found, QUERY, reranker=None, scale="probability", min_k=4, max_k=4)
    assert [text for text, _ in kept] == twice[1:]


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
        numbered = listed(scores, [str(i) for i in range(len(scores))])
        assert RANKING["nodes"](numbered, QUERY, reranker=None, scale=scale, selection=config) == same


def test_after_a_reranker_of_llamaindex_s_the_engine_selects_on_its_scores() -> None:
    for theirs, expected in (([LLMRerank(llm=ScriptedLLM.of([]), top_n=5)], None), ([], "hybrid")):
        engine = SageQueryEngine.from_args(
            FixedRetriever(0.9, 0.8), llm=ScriptedLLM.of([]), node_postprocessors=theirs
        )
        assert engine._node_postprocessors[-1].reranker == expected


class Looked:
    """Scores that are looked up."""

    scale = "probability"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [SCORES[TEXTS.index(text)] for text in texts]


# Two documents of two chunks, one blank line between those of the first.
PLACES = [Place("a", 0, 23), Place("a", 25, 56), Place("b", 0, 14), Place("b", 500, 520)]
LINKED = dict(zip(TEXTS, vouch(SCORES[:4], link(PLACES), "probability"), strict=False))


@pytest.mark.parametrize(
    ("door", "how"),
    [("nodes", {}), ("nodes", {"related": True}), ("documents", {})],
    ids=["places", "relationships", "documents"],
)
def test_neighbors_vouch_for_each_other(door: str, how: Any) -> None:
    assert LINKED[TEXTS[1]] > SCORES[1] and LINKED[TEXTS[2]] == SCORES[2]
    found = [Listed(t, s, place) for t, s, place in zip(TEXTS, SCORES, PLACES, strict=False)]
    for given_, expected in (
        ({"reranker": Looked()}, LINKED),
        ({"reranker": None, "scale": "probability"}, {f.text: f.score for f in found}),  # they stay
    ):
        assert dict(RANKING[door](found, QUERY, min_k=4, **how, **given_)) == pytest.approx(expected)


def read_by_index(text: str) -> list[tuple[str, Any]]:
    size = SentenceSplitter(chunk_size=30, chunk_overlap=0)
    nodes = SummaryIndex(size.get_nodes_from_documents([LlamaDocument(text=text)])).as_retriever()
    ranked = SageNodePostprocessor().rerank(nodes.retrieve(QUERY), QueryBundle(QUERY))
    return [(n.node.get_content(), n.score) for n in ranked.nodes]


def read_by_splitter(text: str) -> list[tuple[str, Any]]:
    splitter = RecursiveCharacterTextSplitter(chunk_size=100, chunk_overlap=0, add_start_index=True)
    pieces = splitter.split_documents([Document(text, metadata={"source": "s"})])
    return [(d.page_content, d.metadata["relevance_score"]) for d in SageCompressor().rank(pieces, QUERY)]


@pytest.mark.parametrize("read", [read_by_index, read_by_splitter])
def test_the_order_of_reading_is_no_ranking(read: Any) -> None:
    answer = "The ferry leaves at nine at the weekend, and comes back in the evening at ten."
    found = []
    for place in (1, 10, 18):
        pieces = read("\n\n".join([*SENTENCES[:place], answer, *SENTENCES[place:]]))
        assert len(pieces) > 10
        found.append(next(score for text, score in pieces if answer in text))
    assert found == pytest.approx(found[:1] * 3, rel=0.05)


def vouched_by_name(door: str, titles: list[str]) -> dict[str, Any]:
    texts = ["the petrel was owned by Mara Holt who sold it", "born near Ulm", *SENTENCES[:4]]
    found = [Listed(text, None, None, title) for text, title in zip(texts, titles, strict=True)]
    return dict(RANKING[door](found, "who owned the petrel", min_k=6))


@pytest.mark.parametrize("door", ["nodes", "documents"])
def test_who_names_a_document_vouches_for_it(door: str) -> None:
    rules = [f"Rules {i}" for i in range(4)]
    without = vouched_by_name(door, ["Petrel", "Somebody else", *rules])
    vouched = vouched_by_name(door, ["Petrel", "Mara Holt (1820)", *rules])
    assert vouched["born near Ulm"] > without["born near Ulm"]
    assert vouched[SENTENCES[0]] == pytest.approx(without[SENTENCES[0]], rel=0.01)
