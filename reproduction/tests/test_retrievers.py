"""Indexes of pieces: BM25, dense, fusion, two stages, and what makes them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sage_eval.records import Piece, PieceIndex
from sage_eval.retrievers import (
    BM25Index,
    DenseIndex,
    HybridIndex,
    ModelPool,
    RerankedIndex,
    index_names,
    make_index,
    reciprocal_rank_fusion,
)
from sage_eval.retrievers.dense import best_positions

from sage_core.errors import InputError
from sage_core.text.spans import Span
from tests.fakes.models import HashEmbedder

SENTENCES = [
    "The ferry to the outer island leaves at seven in the morning.",
    "Tomatoes need warm nights and rich soil.",
    "The lighthouse keeper counted nineteen seals on the rocks.",
    "Bread is baked on the island every second day.",
    "A storm closed the harbour for a week in March.",
]


def pieces(texts=SENTENCES):
    starts = itertools.accumulate((len(t) + 1 for t in texts), initial=0)
    return [Piece(t, "doc", Span(s, s + len(t))) for t, s in zip(texts, starts, strict=False)]


class ByLength:
    """A reranker that prefers short texts: another order than any index gives."""

    name = "by-length"
    scale = "unbounded"

    def __init__(self):
        self.seen = []

    def score(self, query, texts):
        self.seen.append(list(texts))
        return [-float(len(t)) for t in texts]


def test_bm25_finds_by_words_and_leaves_out_what_shares_none():
    index = BM25Index()
    index.build(pieces())
    hits = index.search("When does the ferry leave for the island?", 5)
    assert [h.piece.text for h in hits] == [SENTENCES[0], SENTENCES[3]]
    assert hits[0].score > hits[1].score > 0
    assert hits[0].piece.span == Span(0, len(SENTENCES[0]))
    assert index.search("zebra", 3) == []
    assert index.search("of the and", 3) == []


def test_bm25_parameters_change_scores():
    texts = ["seal seal " + "rock wind tide moss " * 9, "seal rock"]
    for b, first in ((0.0, 0), (1.0, 1)):
        index = BM25Index(b=b)
        index.build(pieces(texts))
        assert index.search("seal", 2)[0].piece.text == texts[first]
    assert BM25Index(k1=0.9, b=0.4).name == "bm25(k1=0.9, b=0.4)"
    with pytest.raises(InputError, match="b from 0 to 1"):
        BM25Index(b=1.5)


def test_bm25_by_language():
    """Portuguese stems find other forms of a word, which plain words do not."""
    texts = ["As corujas voavam sobre as torres.", "O jantar foi servido no salão."]
    stems, plain = BM25Index(language="pt"), BM25Index(language="plain")
    for index in (stems, plain):
        index.build([Piece(text, "d") for text in texts])
    assert [hit.piece.text for hit in stems.search("Onde voa a coruja?", 2)][:1] == texts[:1]
    assert plain.search("Onde voava coruja?", 2) == []
    with pytest.raises(InputError, match="language"):
        BM25Index(language="xx")
    assert "pt stems" in make_index("bm25", models=ModelPool(language="pt")).name


def test_bm25_of_plain_words_knows_no_english():
    texts = ["Os barcos e as ilhas", "The islands of the north"]
    english, plain = BM25Index(), BM25Index(language="plain")
    for index in (english, plain):
        index.build(pieces(texts))
    assert [h.piece.text for h in english.search("which island?", 2)] == [texts[1]]
    assert plain.search("which island?", 2) == []
    assert [h.piece.text for h in plain.search("the ISLANDS", 2)] == [texts[1]]
    assert make_index({"kind": "bm25", "language": "plain"}).name == plain.name != english.name


@pytest.mark.parametrize("make", [BM25Index, lambda: DenseIndex(HashEmbedder())])
def test_empty_wordless_and_rebuilt(make):
    index = make()
    assert isinstance(index, PieceIndex)
    assert index.search("anything", 3) == []
    index.build([])
    assert index.search("anything", 3) == []
    index.build([Piece("...", "d", Span(0, 3)), Piece("", "d", Span(3, 3))])
    assert len(index.search("ferry", 3)) <= 2
    index.build(pieces())
    assert index.search("ferry", 1)[0].piece.text == SENTENCES[0]
    index.build(pieces(["Nothing of the kind."]))
    assert all(h.piece.text == "Nothing of the kind." for h in index.search("ferry", 3))
    for k in (0, -1, True, 1.5):
        with pytest.raises(InputError, match="k is a whole number"):
            index.search("ferry", k)


def test_dense_embeds_each_text_once():
    embedder = HashEmbedder()
    index = DenseIndex(embedder)
    twice = pieces(SENTENCES + SENTENCES)
    index.build(twice)
    assert embedder.texts_embedded == len(SENTENCES)
    hits = index.search(SENTENCES[2], 2)
    # Equal scores keep the order of the pieces.
    assert [h.piece.span.start for h in hits] == [twice[2].span.start, twice[7].span.start]
    assert hits[0].score == pytest.approx(1)


def test_dense_takes_text_no_tokenizer_would():
    index = DenseIndex(HashEmbedder())
    index.build([Piece("half a \ud800 pair", "d", Span(0, 13))])
    assert index.search("half \udfff", 1)[0].piece.text == "half a \ud800 pair"


@given(st.lists(st.floats(-2, 2, width=16), max_size=12), st.integers(1, 14))
def test_best_positions_are_a_stable_sort(scores, k):
    expected = sorted(range(len(scores)), key=lambda i: -scores[i])[:k]
    assert best_positions(np.array(scores, np.float64), k) == expected


def test_fusion_by_hand():
    """Figure 8 of the Chronicles, in its manner: k=1, four chunks, two searchers."""
    fused = reciprocal_rank_fusion([["a", "b", "c"], ["b", "d", "a"]], k=1)
    assert fused[0] == ("b", pytest.approx(1 / 3 + 1 / 2))
    assert fused[1] == ("a", pytest.approx(1 / 2 + 1 / 4))
    assert [item for item, _ in fused] == ["b", "a", "d", "c"]
    assert reciprocal_rank_fusion([]) == []
    with pytest.raises(InputError, match="at least 0"):
        reciprocal_rank_fusion([["a"]], k=-1)


RANKINGS = st.lists(st.lists(st.integers(0, 9), max_size=8, unique=True), min_size=1, max_size=4)


@given(RANKINGS, st.randoms(use_true_random=False), st.floats(0, 100))
def test_fusion_does_not_depend_on_the_order_of_the_rankings(rankings, random, k):
    order = {i: i for i in range(10)}
    shuffled = list(rankings)
    random.shuffle(shuffled)
    assert reciprocal_rank_fusion(rankings, k=k, order=order) == reciprocal_rank_fusion(
        shuffled, k=k, order=order
    )


@given(RANKINGS, st.floats(0, 100))
def test_fusion_keeps_every_item_and_what_all_agree_on(rankings, k):
    fused = reciprocal_rank_fusion(rankings, k=k)
    assert {item for item, _ in fused} == {item for ranking in rankings for item in ranking}
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)
    place = {item: i for i, (item, _) in enumerate(fused)}
    for a, b in itertools.permutations(place, 2):
        ahead = [
            r.index(a) < r.index(b) if a in r and b in r else a in r for r in rankings if a in r or b in r
        ]
        if all(ahead):
            assert place[a] < place[b]


@pytest.mark.slow
@given(st.lists(st.integers(0, 9), max_size=8, unique=True), st.floats(0, 100), st.integers(1, 3))
def test_fusion_of_equal_rankings_is_the_ranking(ranking, k, times):
    assert [item for item, _ in reciprocal_rank_fusion([ranking] * times, k=k)] == ranking


def test_fusion_tie_goes_to_the_better_single_rank():
    fused = reciprocal_rank_fusion([["a", "b"], ["b", "a"]], order={"a": 1, "b": 0})
    assert [item for item, _ in fused] == ["b", "a"]


def test_hybrid_joins_its_parts():
    parts = [BM25Index(), DenseIndex(HashEmbedder())]
    index = HybridIndex(parts)
    index.build(pieces())
    question = "When does the ferry leave for the island?"
    hits = index.search(question, 3)
    places = [[h.piece for h in part.search(question, 5)].index(hits[0].piece) + 1 for part in parts]
    assert hits[0].score == pytest.approx(sum(1 / (60 + place) for place in places))
    assert hits[0].piece.text == SENTENCES[0]
    assert len(index.search("ferry", 10)) == len(SENTENCES)
    assert index.name.startswith("rrf(bm25") and "dense(hash)" in index.name
    with pytest.raises(InputError, match="at least two"):
        HybridIndex([BM25Index()])


def test_two_stages_rerank_the_candidates_only():
    reranker = ByLength()
    index = RerankedIndex(BM25Index(), reranker, candidates=2)
    index.build(pieces())
    assert [h.piece.text for h in index.search("island ferry harbour storm", 1)]
    assert len(reranker.seen[0]) == 2
    hits = index.search("island ferry harbour storm", 3)
    assert len(reranker.seen[1]) == 3
    assert [len(h.piece.text) for h in hits] == sorted(len(h.piece.text) for h in hits)
    assert index.search("zebra", 3) == [] and len(reranker.seen) == 2


def test_make_index_from_configurations():
    embedder, reranker = HashEmbedder(), ByLength()
    for spec, start in {
        "bm25": "bm25(k1=1.5",
        "dense": "dense(hash)",
        "hybrid": "rrf(bm25",
        "reranked": "bm25(k1=1.5, b=0.75) > by-length(50)",
    }.items():
        index = make_index(spec, embedder=embedder, reranker=reranker)
        assert index.name.startswith(start)
        index.build(pieces())
        assert index.search("the ferry", 2)
    nested = {
        "kind": "reranked",
        "candidates": 4,
        "first": {"kind": "hybrid", "k": 1, "parts": [{"kind": "bm25", "k1": 1}, "dense"]},
        "reranker": "hybrid",
    }
    index = make_index(nested, embedder=embedder)
    assert index.name == "rrf(bm25(k1=1, b=0.75) + dense(hash), k=1) > hybrid(4)"
    assert set(index_names()) >= {"bm25", "dense", "sbert", "dpr", "openai", "hybrid", "reranked"}


def test_a_pool_makes_each_model_once():
    embedder = HashEmbedder()
    pool = ModelPool(embedder=embedder)
    assert pool.embedder() is pool.embedder() and pool.embedder().name == "hash"
    spec = {"kind": "dpr", "question_model": "a", "context_model": "b"}
    assert pool.embedder(spec) is pool.embedder(dict(reversed(spec.items())))
    assert pool.embedder(spec) is not pool.embedder({**spec, "device": "cpu"})
    assert pool.embedder("folder/a") is pool.embedder({"kind": "sbert", "model": "folder/a"})
    # The shared model is not loaded a second time under its own name.
    assert pool.embedder({"kind": "sbert", "model": "hash"}) is pool.embedder()
    assert pool.reranker() is pool.reranker("hybrid")
    for kind in ("dense", "hybrid"):
        index = make_index(kind, models=pool)
        index.build(pieces())
    assert embedder.texts_embedded == len(SENTENCES)
    with pytest.raises(InputError, match="JSON can hold"):
        pool.embedder({"kind": "sbert", "model": object()})


def test_scores_say_what_they_are():
    embedder, reranker = HashEmbedder(), ByLength()
    made = {
        k: make_index(k, embedder=embedder, reranker=reranker)
        for k in ("bm25", "dense", "hybrid", "reranked")
    }
    assert {k: index.scale for k, index in made.items()} == {
        "bm25": "unbounded",
        "dense": "cosine",
        "hybrid": "unbounded",
        "reranked": "unbounded",
    }


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("sparse", "unknown index 'sparse': one of bm25"),
        ({"k": 3}, "mapping with 'kind'"),
        ({"kind": "bm25", "depth": 3}, "'bm25' has no setting 'depth'"),
        ({"kind": "bm25", "k1": "much"}, "k1 is a float"),
        ({"kind": "bm25", "k1": True}, "k1 is a float"),
        ({"kind": "dense", "embedder": 3}, "embedder is a name or a mapping"),
        ({"kind": "hybrid", "parts": "bm25"}, "parts is a list"),
        ({"kind": "hybrid", "parts": ["bm25"]}, "at least two"),
        ({"kind": "sbert", "modle": "x"}, "'sbert' has no setting 'modle'"),
    ],
)  # fmt: skip
def test_make_index_says_what_is_wrong(spec, message):
    with pytest.raises(InputError, match=message):
        make_index(spec, embedder=HashEmbedder())


def test_make_embedder_and_reranker_say_what_is_wrong():
    with pytest.raises(InputError, match="unknown embedder 'w2v'"):
        ModelPool().embedder({"kind": "w2v"})
    with pytest.raises(InputError, match="unknown reranker"):
        ModelPool().reranker({"kind": "oracle"})
    with pytest.raises(InputError, match="needs 'model'"):
        ModelPool().reranker({"kind": "cross-encoder"})
    assert ModelPool().reranker("folder/of/a/model").name == "folder/of/a/model"


def test_a_real_embedding_model_finds_what_words_do_not():
    index = make_index("sbert")
    index.build(pieces())
    hits = index.search("vegetable gardening in a mild climate", 2)
    assert hits[0].piece.text == SENTENCES[1]
    assert index.name == "dense(all-MiniLM-L6-v2)"
